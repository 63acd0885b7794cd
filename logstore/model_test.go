package logstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"polylog/logstore/record"
)

// model is what a store should be, as plainly as it can be said: maps, no files.
type model struct {
	nextShard Shard
	shards    map[Shard]*modelShard
	keys      map[string]string
}

type modelShard struct {
	next int64
	live map[int64]string // value of each record that is not deleted
}

func newModel() *model {
	return &model{nextShard: 1, shards: map[Shard]*modelShard{}, keys: map[string]string{}}
}

func (m *model) clone() *model {
	c := &model{nextShard: m.nextShard, shards: map[Shard]*modelShard{}, keys: maps.Clone(m.keys)}
	for id, sh := range m.shards {
		c.shards[id] = &modelShard{sh.next, maps.Clone(sh.live)}
	}
	return c
}

func (sh *modelShard) first() int64 {
	first := sh.next
	for o := range sh.live {
		first = min(first, o)
	}
	return first
}

// condition reports whether c holds.
func (m *model) condition(c Condition) bool {
	sh := m.shards[c.shard]
	v, has := m.keys[c.key]
	switch c.kind {
	case condKeyIs:
		return has && v == string(c.value)
	case condKeyAbsent:
		return !has
	case condLive:
		if sh == nil {
			return false
		}
		_, live := sh.live[c.offset]
		return live
	case condNext:
		return sh != nil && sh.next == c.offset
	}
	panic("unknown condition")
}

// commit applies t and returns the offsets and shards that it should give, or which kind of error.
func (m *model) commit(t Txn) (bases []int64, shards []Shard, refused string) {
	for _, c := range t.If {
		if !m.condition(c) {
			return nil, nil, "conflict"
		}
	}
	before := m.clone()
	for _, o := range t.Do {
		was := before.shards[o.shard]
		switch o.kind {
		case opAppend, opDelete, opTrimBefore, opDropShard:
			if was == nil {
				return m.undo(before, "unknown shard")
			}
		}
		sh := m.shards[o.shard]
		switch o.kind {
		case opAppend:
			bases = append(bases, sh.next)
			it := o.batch.Iter(nil)
			records := map[int64]string{}
			for it.Next() {
				records[int64(it.Record().OffsetDelta)] = string(it.Record().Value)
			}
			for d := range int64(o.batch.LastOffsetDelta()) + 1 {
				v, has := records[d]
				if !has {
					v = noRecord
				}
				sh.live[sh.next+d] = v
			}
			sh.next += int64(o.batch.LastOffsetDelta()) + 1
		case opDelete:
			for _, r := range o.ranges {
				if r.To > was.next {
					return m.undo(before, "offset range")
				}
				for x := r.From; x < r.To; x++ {
					delete(sh.live, x)
				}
			}
		case opTrimBefore:
			if o.offset > was.next {
				return m.undo(before, "offset range")
			}
			for x := range sh.live {
				if x < o.offset {
					delete(sh.live, x)
				}
			}
		case opPut:
			m.keys[o.key] = string(o.value)
		case opRemove:
			delete(m.keys, o.key)
		case opCreateShard:
			if _, taken := m.keys[o.key]; taken {
				return m.undo(before, "conflict")
			}
			m.shards[m.nextShard] = &modelShard{live: map[int64]string{}}
			m.keys[o.key] = string(ShardValue(m.nextShard))
			shards = append(shards, m.nextShard)
			m.nextShard++
		case opDropShard:
			delete(m.shards, o.shard)
		}
	}
	return bases, shards, ""
}

// noRecord stands for an offset that a batch covers without a record, as compaction leaves them.
const noRecord = "\x00no record"

func (m *model) undo(before *model, why string) ([]int64, []Shard, string) {
	*m = *before
	return nil, nil, why
}

// txns makes random transactions that suit the model's state, most of them.
type txns struct {
	r       *rand.Rand
	builder *record.Builder
	big     bool // records of some kilobytes
}

func (g *txns) txn(m *model) Txn {
	t := Txn{Wait: Durability(g.r.IntN(2))}
	for g.r.IntN(3) == 0 {
		t.If = append(t.If, g.condition(m))
	}
	used, dropped := map[Shard]bool{}, map[Shard]bool{}
	for range 1 + g.r.IntN(4) {
		o := g.op(m)
		isShardOp := o.kind == opAppend || o.kind == opDelete || o.kind == opTrimBefore
		if isShardOp && dropped[o.shard] || o.kind == opDropShard && (used[o.shard] || dropped[o.shard]) {
			continue // refused whatever the state: another test's
		}
		used[o.shard] = used[o.shard] || isShardOp
		dropped[o.shard] = dropped[o.shard] || o.kind == opDropShard
		t.Do = append(t.Do, o)
	}
	return t
}

func (g *txns) shard(m *model) Shard {
	if len(m.shards) == 0 || g.r.IntN(50) == 0 {
		return Shard(g.r.IntN(int(m.nextShard) + 2))
	}
	ids := slices.Sorted(maps.Keys(m.shards))
	return ids[g.r.IntN(len(ids))]
}

func (g *txns) key() string { return fmt.Sprintf("key/%d", g.r.IntN(30)) }

// offset is mostly one that the shard has.
func (g *txns) offset(m *model, id Shard) int64 {
	sh := m.shards[id]
	if sh == nil {
		return int64(g.r.IntN(5))
	}
	return g.r.Int64N(sh.next + 1)
}

func (g *txns) condition(m *model) Condition {
	id := g.shard(m)
	switch g.r.IntN(5) {
	case 0:
		k := g.key()
		return KeyIs(k, []byte(m.keys[k]))
	case 1:
		return KeyAbsent(g.key())
	case 2:
		return Live(id, g.offset(m, id))
	default:
		if sh := m.shards[id]; sh != nil {
			return NextIs(id, sh.next-int64(g.r.IntN(8)/7))
		}
		return NextIs(id, 0)
	}
}

func (g *txns) op(m *model) Op {
	id := g.shard(m)
	switch n := g.r.IntN(20); {
	case n < 10:
		return AppendBatch(id, g.batch())
	case n < 13:
		var rs []Range
		for range 1 + g.r.IntN(3) {
			from := g.offset(m, id)
			rs = append(rs, Range{from, from + 1 + int64(g.r.IntN(6))})
		}
		if sh := m.shards[id]; sh != nil && g.r.IntN(10) > 0 {
			for i := range rs {
				rs[i].To = max(min(rs[i].To, sh.next), rs[i].From+1)
			}
		}
		return Delete(id, rs...)
	case n < 14:
		return TrimBefore(id, g.offset(m, id))
	case n < 17:
		return Put(g.key(), []byte(strings.Repeat("v", g.r.IntN(40))))
	case n < 18:
		return Remove(g.key())
	case n < 19 && len(m.shards) < 12 || len(m.shards) == 0:
		return CreateShard(fmt.Sprintf("shard/%d", g.r.IntN(40)))
	}
	if g.r.IntN(4) > 0 {
		return Put(g.key(), nil)
	}
	return DropShard(id)
}

func (g *txns) batch() record.Batch {
	b := g.builder
	b.Reset()
	b.SetCodec([]record.Codec{record.None, record.None, record.None, record.LZ4, record.Zstd}[g.r.IntN(5)])
	delta, n := int32(0), 1+g.r.IntN(6)
	for range n {
		size := g.r.IntN(100)
		if g.big && g.r.IntN(4) == 0 {
			size = g.r.IntN(8000)
		}
		v := make([]byte, size)
		for i := range v {
			v[i] = byte('a' + g.r.IntN(26))
		}
		b.AppendAt(delta, 1000+int64(g.r.IntN(1000)), []byte(g.key()), v, nil)
		delta++
		if g.r.IntN(10) == 0 {
			delta += int32(g.r.IntN(3)) // as compaction leaves batches
		}
	}
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return copyBatch(batch)
}

func copyBatch(b record.Batch) record.Batch {
	c, _, err := record.Parse(slices.Clone(b.Bytes()))
	if err != nil {
		panic(err)
	}
	return c
}

// compare says how the store differs from the model, or nothing.
func (m *model) compare(s *Store, r *rand.Rand) error {
	keys := map[string]string{}
	s.Scan("", func(k string, v []byte) bool { keys[k] = string(v); return true })
	if !maps.Equal(keys, m.keys) {
		return fmt.Errorf("keys are\n%q, want\n%q", keys, m.keys)
	}
	for id := Shard(0); id < m.nextShard+2; id++ {
		if err := m.compareShard(s, id, r); err != nil {
			return fmt.Errorf("shard %d: %w", id, err)
		}
	}
	return nil
}

func (m *model) compareShard(s *Store, id Shard, r *rand.Rand) error {
	first, next, err := s.Bounds(id)
	sh := m.shards[id]
	if sh == nil {
		if _, unknown := err.(*UnknownShardError); !unknown {
			return fmt.Errorf("Bounds gave %v, want an unknown shard", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if first != sh.first() || next != sh.next {
		return fmt.Errorf("bounds are %d to %d, want %d to %d", first, next, sh.first(), sh.next)
	}
	if n, err := s.Live(id); err != nil || n != int64(len(sh.live)) {
		return fmt.Errorf("%d live (%v), want %d", n, err, len(sh.live))
	}
	a, b := r.Int64N(next+2)-1, r.Int64N(next+2)
	between := int64(0)
	for o := range sh.live {
		if a <= o && o < b {
			between++
		}
	}
	if n, err := s.LiveBetween(id, a, b); err != nil || n != between {
		return fmt.Errorf("%d live from %d to %d (%v), want %d", n, a, b, err, between)
	}
	from := first + r.Int64N(next-first+1)
	got, err := readAll(s, id, from, 1+r.IntN(5000))
	if err != nil {
		return err
	}
	want := map[int64]string{}
	for o, v := range sh.live {
		if o >= from && v != noRecord {
			want[o] = v
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("records from %d on are %v, want %v", from, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// readAll returns the values of the live records from offset from on, read in pieces of max bytes, and sees that offsets ascend.
func readAll(s *Store, sh Shard, from int64, max int) (map[int64]string, error) {
	got := map[int64]string{}
	var buf Buffer
	last := int64(-1)
	for at := from; ; {
		c, err := s.Read(sh, at, max, &buf)
		if err != nil {
			return nil, err
		}
		for _, b := range c.Batches {
			it := b.Iter(nil)
			for it.Next() {
				if it.Offset() <= last {
					return nil, fmt.Errorf("offset %d follows %d", it.Offset(), last)
				}
				last = it.Offset()
				if last >= from {
					got[last] = string(it.Record().Value)
				}
			}
			if it.Err() != nil {
				return nil, it.Err()
			}
		}
		if c.Next <= at {
			return got, nil
		}
		at = c.Next
	}
}
