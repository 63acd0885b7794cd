package logstore

import (
	"bytes"
	"math"
)

// outcome is what applying a transaction decided, beside the changed state. It is reused from one transaction to the next.
type outcome struct {
	bases  []int64 // base offset of each append
	shards []Shard // number of each new shard
	freed  []freedRange
}

func (o *outcome) reset() {
	o.bases, o.shards, o.freed = o.bases[:0], o.shards[:0], o.freed[:0]
}

// freedRange is a run of offsets that were live before the transaction and are not any more.
type freedRange struct {
	shard Shard
	Range
}

// check judges the conditions and the operations of a validated transaction against the state, and changes nothing. After nil,
// apply cannot fail.
func (st *state) check(t *Txn) error {
	for i := range t.If {
		c := &t.If[i]
		ok := false
		switch c.kind {
		case condKeyIs:
			v, has := st.kv.get(c.key)
			ok = has && bytes.Equal(v, c.value)
		case condKeyAbsent:
			_, has := st.kv.get(c.key)
			ok = !has
		case condLive:
			sh := st.shards.get(c.shard)
			ok = sh != nil && sh.isLive(c.offset)
		case condNext:
			sh := st.shards.get(c.shard)
			ok = sh != nil && sh.next == c.offset
		}
		if !ok {
			return &ConflictError{Condition: i, What: c.String()}
		}
	}
	var changed keyChanges
	for i := range t.Do {
		o := &t.Do[i]
		switch o.kind {
		case opPut, opRemove:
			changed.note(o)
			continue
		case opCreateShard:
			if changed.taken(st, t.Do[:i], o.key) {
				return &ConflictError{Condition: -1, What: KeyAbsent(o.key).String()}
			}
			continue
		}
		sh := st.shards.get(o.shard)
		if sh == nil {
			return &UnknownShardError{o.shard}
		}
		switch o.kind {
		case opAppend:
			// 2^62 offsets are never reached; refusing there keeps every sum below in range whatever a transaction holds.
			if sh.next > math.MaxInt64/2 {
				return &OffsetRangeError{o.shard, sh.next, sh.first, sh.next}
			}
		case opDelete:
			for _, r := range o.ranges {
				if r.To > sh.next {
					return &OffsetRangeError{o.shard, r.To - 1, sh.first, sh.next}
				}
			}
		case opTrimBefore:
			if o.offset > sh.next {
				return &OffsetRangeError{o.shard, o.offset, sh.first, sh.next}
			}
		}
	}
	return nil
}

// keyChanges is which keys the operations of a transaction so far have given a value or taken one from. It is kept from the first new shard on, whose key must be free
// at that point; nil until then.
type keyChanges map[string]bool

func (c keyChanges) note(o *Op) {
	if c == nil {
		return
	}
	switch o.kind {
	case opPut, opCreateShard:
		c[o.key] = true
	case opRemove:
		c[o.key] = false
	}
}

// taken reports whether the key of a new shard has a value, in the state or from one of the operations before, and notes that it has one now.
func (c *keyChanges) taken(st *state, before []Op, key string) bool {
	if *c == nil {
		*c = keyChanges{}
		for i := range before {
			c.note(&before[i])
		}
	}
	has, changed := (*c)[key]
	if !changed {
		_, has = st.kv.get(key)
	}
	(*c)[key] = true
	return has
}

// apply executes a transaction that check found good.
func (st *state) apply(t *Txn, out *outcome) {
	for i := range t.Do {
		o := &t.Do[i]
		switch o.kind {
		case opAppend:
			sh := st.shards.own(o.shard)
			out.bases = append(out.bases, sh.next)
			sh.digest = chainDigest(sh.digest, sh.next, o.batch)
			sh.next += int64(o.batch.LastOffsetDelta()) + 1
		case opDelete:
			st.delete(o.shard, o.ranges, out)
		case opTrimBefore:
			st.trim(o.shard, o.offset, out)
		case opPut:
			st.kv.put(o.key, append(make([]byte, 0, len(o.value)), o.value...))
		case opRemove:
			st.kv.remove(o.key)
		case opCreateShard:
			id := st.nextShard
			st.createShard(id, o.key)
			out.shards = append(out.shards, id)
		case opDropShard:
			st.drop(o.shard, out)
		}
	}
}

func (st *state) createShard(id Shard, key string) {
	st.nextShard = id + 1
	st.shards.add(id, shard{})
	st.kv.put(key, ShardValue(id))
}

// delete marks the ranges deleted and moves the shard's first offset over what is deleted there.
func (st *state) delete(id Shard, ranges []Range, out *outcome) {
	sh := st.shards.own(id)
	for _, r := range ranges {
		from := max(r.From, sh.first)
		if from >= r.To {
			continue
		}
		sh.deleted.absent(from, r.To, func(f Range) { out.freed = append(out.freed, freedRange{id, f}) })
		if from > sh.first {
			st.ownDeleted(sh).add(from, r.To)
			continue
		}
		st.raiseFirst(sh, r.To)
	}
}

// trim deletes everything before offset.
func (st *state) trim(id Shard, offset int64, out *outcome) {
	sh := st.shards.own(id)
	if offset <= sh.first {
		return
	}
	sh.deleted.absent(sh.first, offset, func(f Range) { out.freed = append(out.freed, freedRange{id, f}) })
	st.raiseFirst(sh, offset)
}

// raiseFirst moves the shard's first offset to where it is or over what is deleted there, and out of the set what is not above it any more.
func (st *state) raiseFirst(sh *shard, to int64) {
	was := sh.first
	sh.first = sh.deleted.nextAbsent(to)
	if sh.deleted == nil {
		return
	}
	set := st.ownDeleted(sh)
	set.remove(was, sh.first)
	if set.bm.IsEmpty() {
		sh.deleted = nil
	}
}

func (st *state) drop(id Shard, out *outcome) {
	sh := st.shards.get(id)
	sh.deleted.absent(sh.first, sh.next, func(f Range) { out.freed = append(out.freed, freedRange{id, f}) })
	st.shards.remove(id)
}
