package logstore

import (
	"fmt"

	"polylog/logstore/segment"
)

// replay applies an entry that was read back, by the code that applied it first, and sees that the outcome is the same.
func (r *recovery) replay(g *foundSegment, e *segment.Entry) error {
	st := r.st
	t := Txn{Do: make([]Op, len(r.ops))}
	for i := range r.ops {
		t.Do[i] = r.ops[i].Op
	}
	if r.repair {
		st.prepareRepair(r.ops)
	}
	// A shard's creation was judged by its key when it was ordered; here the number must be right.
	if err := st.check(&t); err != nil && !r.repair {
		return &CorruptError{File: g.name, Pos: int64(e.Pos), What: fmt.Sprintf("entry %d cannot be applied: %v", e.Seq, err)}
	}
	var out outcome
	st.apply(&t, &out)
	appends, creates := 0, 0
	for i := range r.ops {
		o := &r.ops[i]
		switch {
		case o.kind == opAppend:
			if out.bases[appends] != o.base {
				return &CorruptError{File: g.name, Pos: int64(o.pos), What: fmt.Sprintf("entry %d appends at offset %d of shard %d, which is at %d", e.Seq, o.base, o.shard, out.bases[appends])}
			}
			appends++
		case o.kind == opCreateShard:
			if out.shards[creates] != o.shard {
				return &CorruptError{File: g.name, Pos: int64(e.Pos), What: fmt.Sprintf("entry %d makes shard %d, the next number is %d", e.Seq, o.shard, out.shards[creates])}
			}
			creates++
		}
	}
	st.seq = e.Seq
	r.ReplayedEntries++
	r.ReplayedBytes += int64(e.Size())
	return nil
}
