package queue

import (
	"context"
	"errors"
	"fmt"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/message"
)

// Why says why a message comes back to its queue.
type Why uint8

const (
	Nacked         Why = iota // its consumer gave it back
	Rejected                  // its consumer rejected it, to be delivered again
	Recovered                 // its consumer asked for all of its messages again
	ChannelClosed             // in order
	ConnectionLost            // the client crashed, or its connection broke
	TimedOut                  // it was held longer than the queue's consumer timeout
	NodeLost                  // the node that had delivered it, or an earlier process of it, is gone
	Undelivered               // it never left the broker
)

// counters returns a message's counters after it has come back: every return counts as acquired, and those that speak against the message count as failed.
func (w Why) counters(acquired, failed uint32) (uint32, uint32) {
	switch w {
	case Undelivered:
	case Rejected, ConnectionLost:
		return acquired + 1, failed + 1
	default:
		return acquired + 1, failed
	}
	return acquired, failed
}

// Requeue ends the leases and makes their messages available again, with their counters raised as why says, at the place that the queue's rules name. A message that
// has failed more often than its queue's delivery limit is dropped. Whatever brings a message back, it comes back by this function, or for the claims of earlier
// processes by its like in reap.go. Leases that are settled already, or were taken away, have no effect and are no error.
func (h *Holder) Requeue(ctx context.Context, ls []Lease, why Why) error {
	if err := h.acting.take(ctx, h.v); err != nil {
		return err
	}
	defer h.acting.pass()
	return h.end(ctx, touch(ls), &settlement{requeue: true, why: why})
}

// Close requeues all that the holder has, and ends it: nothing is delivered to it any more. If the log cannot take it now, the error says why, and the sweep tries again.
func (h *Holder) Close(ctx context.Context, why Why) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	if err := h.requeueAll(ctx, why); err != nil {
		h.v.strand(h, why)
		return err
	}
	h.v.mu.Lock()
	delete(h.v.holders, h)
	h.v.mu.Unlock()
	return nil
}

func (h *Holder) requeueAll(ctx context.Context, why Why) error {
	if err := h.acting.take(ctx, h.v); err != nil {
		return err
	}
	defer h.acting.pass()
	return h.end(ctx, touchAll(h.all()), &settlement{requeue: true, why: why})
}

// returnedSpansMax bounds the spans of one returned record: whoever takes some of them writes the rest anew.
const returnedSpansMax = 128

// planRequeue plans how what is touched of a claim comes back. Offsets that leave the queue are added to deleted.
func (h *Holder) planRequeue(end *claimEnd, why Why, deleted *[]logstore.Range) error {
	c := end.c
	tail := c.q.rules.placement == Tail && !c.q.retains()
	var back []span
	for k, i := range c.touched {
		if h.mover.size > moveBytes {
			c.later = append(c.later, c.touched[k:]...)
			c.touched = c.touched[:k]
			break
		}
		m := &c.held[i]
		acquired, failed := why.counters(m.acquired, m.failed)
		switch {
		case c.q.rules.limit >= 0 && int64(failed) > c.q.rules.limit:
			end.dropped++
			*deleted = append(*deleted, one(m.offset))
			h.v.logf("queue '%s' in vhost '%s': the message at offset %d was dropped: it failed %d times and the queue's delivery limit is %d",
				c.q.t.Name, c.q.t.Namespace, m.offset, failed, c.q.rules.limit)
		case tail:
			if err := h.mover.move(c.q.parts[c.part].shard, h.v.store, m.offset, acquired, failed); err != nil {
				return fmt.Errorf("moving a message of queue '%s' to its tail: %w", c.q.t.Name, err)
			}
			*deleted = append(*deleted, one(m.offset))
		default:
			back = appendSpan(back, m.offset, acquired, failed, false)
		}
	}
	*deleted = mergeRanges(*deleted)
	end.returned = h.w.returnedRecords(c.q, c.part, back, h.v.now().UnixMilli())
	return nil
}

// returnedRecords adds the records of what has come back, and returns them with their places in the batch as offsets.
func (w *entryWriter) returnedRecords(q *Queue, part int, back []span, at int64) (rs []*returnedRecord) {
	for len(back) > 0 {
		n := min(len(back), returnedSpansMax)
		rs = append(rs, &returnedRecord{rec: int64(w.len()), spans: back[:n:n]})
		w.returned(q, part, back[:n], at)
		back = back[n:]
	}
	return rs
}

// mover copies records to the tail of their shard. It belongs to a holder.
type mover struct {
	buf       logstore.Buffer
	scratch   record.Scratch
	converter message.Converter
	builders  []*record.Builder // one for each shard, in the order of first use
	shards    []logstore.Shard
	size      int // bytes moved since the last reset
}

// moveBytes is how many bytes one transaction moves to the tail before the rest is left to the next: far less than a transaction may have.
const moveBytes = 4 << 20

func (m *mover) reset() { m.shards, m.size = m.shards[:0], 0 }

// errNotThere means that the log has no record at the offset, though its claim is live: somebody deleted it, which is no reason to bring another one back.
var errNotThere = errors.New("the record was deleted")

// move adds a copy of the record at exactly this offset.
func (m *mover) move(sh logstore.Shard, s *logstore.Store, offset int64, acquired, failed uint32) error {
	rec, ts, err := m.find(sh, s, offset)
	if errors.Is(err, errNotThere) {
		return nil
	}
	if err != nil {
		return err
	}
	b := m.builder(sh)
	before := b.Size()
	defer func() { m.size += b.Size() - before }()
	moved, ok := message.MovedOf(rec)
	if !ok || moved.First >= offset {
		moved.First = offset
	}
	moved.Acquired, moved.Failed = acquired, failed
	return m.converter.AppendMoved(b, rec, ts, moved)
}

func (m *mover) find(sh logstore.Shard, s *logstore.Store, offset int64) (rec record.Record, ts int64, err error) {
	chunk, _, err := readFrom(s, sh, offset, 1, &m.buf)
	if err != nil {
		return rec, 0, err
	}
	for _, b := range chunk.Batches {
		it := b.Iter(&m.scratch)
		for it.Next() {
			if it.Offset() == offset {
				return it.Record(), it.Timestamp(), nil
			}
		}
		if err := it.Err(); err != nil {
			return rec, 0, err
		}
	}
	return rec, 0, errNotThere
}

// builder returns the batch for a shard.
func (m *mover) builder(sh logstore.Shard) *record.Builder {
	for i, s := range m.shards {
		if s == sh {
			return m.builders[i]
		}
	}
	m.shards = append(m.shards, sh)
	if len(m.shards) > len(m.builders) {
		m.builders = append(m.builders, record.NewBuilder())
	}
	b := m.builders[len(m.shards)-1]
	b.Reset()
	return b
}

// ops adds the appends of what was moved.
func (m *mover) ops(txn *logstore.Txn) error {
	for i, sh := range m.shards {
		if m.builders[i].Len() == 0 {
			continue
		}
		batch, err := m.builders[i].Build()
		if err != nil {
			return fmt.Errorf("moving messages to the tail: %w", err)
		}
		txn.Do = append(txn.Do, logstore.AppendBatch(sh, batch))
	}
	return nil
}

// movedCounters returns the counters that a message brought along which was moved to the tail.
func movedCounters(rec record.Record, offset int64) (acquired, failed uint32) {
	if rec.HeaderCount() == 0 {
		return 0, 0
	}
	m, ok := message.MovedOf(rec)
	if !ok || m.First >= offset {
		return 0, 0 // a client of Kafka wrote the mark
	}
	return m.Acquired, m.Failed
}
