package queue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"polylog/logstore"
	"polylog/logstore/record"
)

const (
	// readBytes is how much is read from the log at a time. It bounds what a queue that is being read keeps in memory.
	readBytes = 256 << 10
	// takeMax bounds the messages of one take. More would not make a claim noticeably cheaper, and lets other takers wait longer.
	takeMax = 1024
)

// Delivery is a message that was taken. What it points to is valid during the call that it is passed to.
type Delivery struct {
	Lease       Lease // zero without acknowledgement
	Queue       *Queue
	Record      record.Record
	Timestamp   int64 // Unix ms
	Offset      int64
	Partition   int32
	Acquired    uint32 // how often it came back to the queue
	Failed      uint32 // how often because of a rejection or a lost client
	Redelivered bool
}

// item is a message that was read and not taken yet.
type item struct {
	rec              record.Record
	ts, offset       int64
	acquired, failed uint32
}

// taker is the memory of a queue's takers. Queue.taking guards it.
type taker struct {
	buf     logstore.Buffer
	scratch []*record.Scratch // one for each compressed batch in ahead
	ahead   []item            // read from partition part, behind its cursor; the end of space
	space   []item
	part    int

	back struct { // for what has come back, so that ahead stays
		buf     logstore.Buffer
		scratch record.Scratch
		items   []item
	}

	grants     []grant
	w          entryWriter
	spans      []span
	ranges     []logstore.Range
	deliveries []Delivery

	used bool // since the last call of rest
}

// rest lets go of the memory of a queue in which nothing was taken since the last call.
func (t *taker) rest() {
	if !t.used && len(t.ahead) == 0 {
		*t = taker{}
	}
	t.used = false
}

// grant is who gets messages of a take: a consumer with credit, or a Get.
type grant struct {
	h     *Holder
	c     *Consumer // nil for Get
	sink  Sink
	noAck bool
	n     int   // for how many messages there is credit
	items []int // which of the taken messages are for it
	claim *claim
}

// hasSome reports whether there is, or may be, a message to take.
func (q *Queue) hasSome() (bool, error) {
	if len(q.taker.ahead) > 0 {
		return true, nil
	}
	q.mu.Lock()
	for i := range q.returned {
		if !q.returned[i].isEmpty() {
			q.mu.Unlock()
			return true, nil
		}
	}
	q.mu.Unlock()
	for i := range q.parts {
		p := &q.parts[i]
		if err := q.load(i); err != nil {
			return false, err
		}
		first, next, err := q.v.store.Bounds(p.shard)
		if err != nil {
			return false, q.goneOr(err)
		}
		if max(first, p.from) < next {
			return true, nil
		}
	}
	return false, nil
}

// load reads a partition's cursor, unless it is as it was read. What others have taken meanwhile of what was read ahead is passed over.
func (q *Queue) load(part int) error {
	p, t := &q.parts[part], &q.taker
	if raw, _ := q.v.store.Get(p.cursor.key); p.read && bytes.Equal(raw, p.cursor.raw) {
		return nil
	}
	p.read = false
	if err := p.cursor.read(q.v.store); err != nil {
		return err
	}
	p.read, p.from = true, max(p.from, p.cursor.at)
	if t.part == part {
		for len(t.ahead) > 0 && t.ahead[0].offset < p.cursor.at {
			t.ahead = t.ahead[1:]
		}
	}
	return nil
}

// take gives messages to those who have q.taker.grants, and reports how many. It does not return an error and messages. The taking lock is held.
func (q *Queue) take(ctx context.Context) (int, error) {
	want := 0
	for i := range q.taker.grants {
		want += q.taker.grants[i].n
	}
	want = min(want, takeMax)
	for i := range q.parts {
		part := (q.turn + i) % len(q.parts)
		if n, err := q.takeReturned(ctx, part, want); n > 0 || err != nil {
			return n, err
		}
	}
	for i := range q.parts {
		part := (q.turn + i) % len(q.parts)
		if len(q.taker.ahead) > 0 {
			part = q.taker.part // what was read is served before another partition is read
		}
		if n, err := q.takeFresh(ctx, part, want); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// takeFresh takes from behind the cursor.
func (q *Queue) takeFresh(ctx context.Context, part, want int) (int, error) {
	p, t := &q.parts[part], &q.taker
	for {
		if err := q.load(part); err != nil {
			return 0, err
		}
		if err := q.fill(part); err != nil {
			return 0, q.goneOr(err)
		}
		items := t.ahead[:min(want, len(t.ahead))]
		if len(items) == 0 {
			return 0, nil
		}
		q.deal(len(items))
		move, moved := p.cursor.move(items[len(items)-1].offset + 1)
		// The message's condition holds off a take from a queue that was deleted, cursor and all, since it was read.
		txn := logstore.Txn{
			If:   []logstore.Condition{p.cursor.unchanged(), logstore.Live(p.shard, items[0].offset)},
			Do:   p.passing([]logstore.Op{move}, q, part, moved.at),
			Wait: logstore.Relaxed,
		}
		if p.cursor.raw == nil && !q.v.shared {
			txn.Wait = logstore.Durable // see doubt.go
		}
		t.w.reset()
		_, err := q.commitTake(ctx, txn, part, items, true)
		var conflict *logstore.ConflictError
		if errors.As(err, &conflict) {
			// Another node was quicker, or the messages were deleted by retention, and what was read with them may be too.
			q.v.counts.conflicts.Add(1)
			if p.read = false; conflict.Condition != 0 {
				t.ahead = t.ahead[:0]
			}
			continue
		}
		if err != nil {
			return 0, q.goneOr(err)
		}
		p.cursor, p.from = moved, moved.at
		n := q.hand(part, items)
		t.ahead = t.ahead[len(items):]
		return n, nil
	}
}

// fill reads what lies behind the cursor, unless something was read that has not been taken.
func (q *Queue) fill(part int) error {
	p, t := &q.parts[part], &q.taker
	if len(t.ahead) > 0 {
		return nil
	}
	t.part, t.ahead = part, t.space[:0]
	for len(t.ahead) == 0 {
		chunk, more, err := readFrom(q.v.store, p.shard, p.from, readBytes, &t.buf)
		if err != nil {
			return fmt.Errorf("reading queue '%s': %w", q.t.Name, err)
		}
		if !more {
			break
		}
		compressed, size := 0, 0
		for _, b := range chunk.Batches {
			s := (*record.Scratch)(nil)
			if b.Codec() != record.None {
				if size > readBytes {
					break // a small batch can hold much: read it with the next piece
				}
				if compressed == len(t.scratch) {
					t.scratch = append(t.scratch, &record.Scratch{})
				}
				s = t.scratch[compressed]
				compressed++
			}
			it := b.Iter(s)
			for it.Next() {
				size += len(it.Record().Value)
				if it.Offset() >= p.from && !b.Control() {
					t.ahead = append(t.ahead, newItem(&it))
				}
			}
			if err := it.Err(); err != nil {
				return fmt.Errorf("reading queue '%s': %w", q.t.Name, err)
			}
		}
		if len(t.ahead) == 0 {
			p.from = chunk.Next
		}
	}
	t.space = t.ahead
	return nil
}

// readFrom reads live records from offset from on; more is false if there are none. What lies before the shard's first offset is passed over, also when the first
// moves on between looking and reading, as it does when another node settles.
func readFrom(s *logstore.Store, sh logstore.Shard, from int64, bytes int, buf *logstore.Buffer) (chunk logstore.Chunk, more bool, err error) {
	for {
		first, next, err := s.Bounds(sh)
		if err != nil {
			return chunk, false, err
		}
		if from = max(from, first); from >= next {
			return logstore.Chunk{Next: from}, false, nil
		}
		chunk, err = s.Read(sh, from, bytes, buf)
		var moved *logstore.OffsetRangeError
		if errors.As(err, &moved) {
			continue
		}
		return chunk, true, err
	}
}

// newItem reads a message's counters along: one that went to the tail brought them.
func newItem(it *record.Iter) item {
	i := item{rec: it.Record(), ts: it.Timestamp(), offset: it.Offset()}
	i.acquired, i.failed = movedCounters(i.rec, i.offset)
	return i
}

// commitTake puts a take into the order, with the claims of those who have grants, whose records follow what is in taker.w. fresh says that the items were neighbours
// behind the cursor. base is the index topic's offset of the first record of taker.w.
func (q *Queue) commitTake(ctx context.Context, txn logstore.Txn, part int, items []item, fresh bool) (base int64, err error) {
	t, at := &q.taker, q.v.now().UnixMilli()
	t.ranges = t.ranges[:0]
	for i := range t.grants {
		g := &t.grants[i]
		g.claim = nil
		if len(g.items) == 0 {
			continue
		}
		if g.noAck {
			for _, k := range g.items {
				t.ranges = append(t.ranges, one(items[k].offset))
			}
			continue
		}
		c := &claim{q: q, part: part, h: g.h, c: g.c, at: at, held: make([]held, 0, len(g.items)), left: len(g.items)}
		t.spans = t.spans[:0]
		for j, k := range g.items {
			it := &items[k]
			c.held = append(c.held, held{offset: it.offset, acquired: it.acquired, failed: it.failed})
			t.spans = appendSpan(t.spans, it.offset, it.acquired, it.failed, fresh && j > 0 && g.items[j-1] == k-1)
		}
		c.rec = int64(t.w.len())
		t.w.claim(q, part, t.spans, g.h, at)
		g.claim = c
	}
	if len(t.ranges) > 0 && !q.retains() {
		txn.Do = append(txn.Do, logstore.Delete(q.parts[part].shard, mergeRanges(t.ranges)...))
	}
	if t.w.len() > 0 {
		op, err := t.w.op(q.v.index)
		if err != nil {
			return 0, err
		}
		txn.Do = append(txn.Do, op)
	}
	txn.MakesRoom = true // a message can leave a full disk only if it can be taken
	res, err := q.v.commit(ctx, txn)
	if err != nil {
		return 0, err
	}
	if t.w.len() > 0 {
		base = res.Base(0)
	}
	for i := range t.grants {
		if c := t.grants[i].claim; c != nil {
			c.rec += base
			q.out.Add(int64(c.left))
		}
	}
	return base, nil
}

// one is the range of a single offset.
func one(offset int64) logstore.Range { return logstore.Range{From: offset, To: offset + 1} }

// mergeRanges joins neighbours, in place.
func mergeRanges(rs []logstore.Range) []logstore.Range {
	if len(rs) == 0 {
		return rs
	}
	slices.SortFunc(rs, func(a, b logstore.Range) int { return cmp.Compare(a.From, b.From) })
	merged := rs[:1]
	for _, r := range rs[1:] {
		if last := &merged[len(merged)-1]; last.To == r.From {
			last.To = r.To
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}
