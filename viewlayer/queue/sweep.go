package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/topic"
)

// recover reads the index topic when the view is opened: it keeps what has come back in mind, and brings back what earlier epochs of this node had out.
// Its cost follows what is out, not what was ever delivered, since the records of settled claims are deleted.
func (v *View) recover(ctx context.Context) error {
	var buf logstore.Buffer
	var scratch record.Scratch
	from, next, err := v.store.Bounds(v.index)
	if err != nil {
		return err
	}
	r := recovery{v: v}
	for from < next {
		chunk, err := v.store.Read(v.index, from, readBytes, &buf)
		if err != nil {
			return fmt.Errorf("reading the index topic: %w", err)
		}
		for _, b := range chunk.Batches {
			it := b.Iter(&scratch)
			for it.Next() {
				if err := r.record(it.Offset(), it.Record().Value); err != nil {
					return fmt.Errorf("reading the index topic at offset %d: %w", it.Offset(), err)
				}
			}
			if err := it.Err(); err != nil {
				return fmt.Errorf("reading the index topic: %w", err)
			}
		}
		if err := r.flush(ctx); err != nil {
			return err
		}
		from = chunk.Next
	}
	if r.claims > 0 {
		v.logf("%d messages of %d claims that the last process had out are available again", r.messages, r.claims)
	}
	return nil
}

// recovery is a walk over the index topic.
type recovery struct {
	v        *View
	w        entryWriter
	gone     []logstore.Range // records to delete
	back     []recovered
	claims   int
	messages int64
}

// recovered is what comes back of one queue's partition.
type recovered struct {
	q       *Queue
	part    int
	records []*returnedRecord
}

// record looks at one index record.
func (r *recovery) record(offset int64, value []byte) error {
	e, id, spans, err := parseEntry(value)
	if err != nil {
		return err
	}
	if e.Kind == kindClaim && (e.Node != r.v.node || e.Epoch >= r.v.epoch) {
		return nil // another node's
	}
	q, err := r.v.queueByID(id)
	var unknown *topic.UnknownIDError
	if errors.As(err, &unknown) || err == nil && e.Partition >= len(q.parts) {
		r.gone = append(r.gone, one(offset)) // the queue was deleted
		return nil
	}
	if err != nil {
		return err
	}
	if e.Kind == kindReturned {
		q.comeBack(e.Partition, []*returnedRecord{{rec: offset, spans: spans}})
		return nil
	}
	if r.w.b == nil {
		r.w.reset()
	}
	for i := range spans {
		spans[i].acquired, spans[i].failed = NodeLost.counters(spans[i].acquired, spans[i].failed)
	}
	r.claims++
	r.messages += size(spans)
	r.gone = append(r.gone, one(offset))
	r.back = append(r.back, recovered{q, e.Partition, r.w.returnedRecords(q, e.Partition, spans, r.v.now().UnixMilli())})
	return nil
}

// flush puts what was found into the order.
func (r *recovery) flush(ctx context.Context) error {
	if len(r.gone) == 0 {
		return nil
	}
	txn := logstore.Txn{Do: []logstore.Op{logstore.Delete(r.v.index, mergeRanges(r.gone)...)}}
	if len(r.back) > 0 {
		op, err := r.w.op(r.v.index)
		if err != nil {
			return err
		}
		txn.Do = append(txn.Do, op)
	}
	res, err := r.v.store.Commit(ctx, txn)
	if err != nil {
		return fmt.Errorf("bringing back what the last process had out: %w", err)
	}
	for _, b := range r.back {
		for _, rr := range b.records {
			rr.rec += res.Base(0)
			r.v.counts.returned.Add(size(rr.spans))
		}
		b.q.comeBack(b.part, b.records)
	}
	r.gone, r.back = r.gone[:0], r.back[:0]
	r.w.reset()
	return nil
}

func (v *View) queueByID(id topic.ID) (*Queue, error) {
	t, err := v.topics.FindID(id)
	if err != nil {
		return nil, err
	}
	return v.queue(t)
}

// strand remembers a holder whose messages could not be given back.
func (v *View) strand(h *Holder, why Why) {
	v.mu.Lock()
	v.stranded[h] = why
	v.mu.Unlock()
}

// sweepEvery is how long it takes until the sweep is due again.
const sweepEvery = time.Second

// Sweep gives messages back that were held longer than their queue's consumer timeout, and those that could not be given back before; it lets go of memory of queues at
// rest. It returns when it is due again. Its cost follows the claims that are live.
func (v *View) Sweep(ctx context.Context) (next time.Duration, err error) {
	v.mu.Lock()
	stranded := v.stranded
	v.stranded = map[*Holder]Why{}
	holders := slices.Collect(maps.Keys(v.holders))
	queues := slices.Collect(maps.Values(v.queues))
	v.mu.Unlock()
	for h, why := range stranded {
		err = errors.Join(err, h.retry(ctx, why))
	}
	for _, h := range holders {
		err = errors.Join(err, h.expire(ctx))
	}
	for _, q := range queues {
		v.rest(q)
	}
	return sweepEvery, err
}

// retry gives back what a closed holder still has, or what nobody took.
func (h *Holder) retry(ctx context.Context, why Why) error {
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return h.Close(ctx, why)
	}
	// Only claims of which a consumer did not take a part get here, and such a consumer's channel is closing: its messages come back when it has closed.
	h.v.strand(h, why)
	return nil
}

// expire gives back what the holder has had for too long. A consumer that had it is cancelled first, or it might get it once more.
func (h *Holder) expire(ctx context.Context) error {
	late := h.overdue(h.v.now().UnixMilli())
	for _, c := range late {
		if c.c != nil {
			if err := c.c.Cancel(ctx); err != nil {
				return err
			}
		}
	}
	late, n, err := h.takeBack(ctx, late)
	if err != nil {
		return err
	}
	h.v.counts.timedOut.Add(n)
	for _, c := range late {
		h.v.logf("queue '%s' in vhost '%s': '%s' held messages longer than the consumer timeout of %v; they are available again",
			c.q.t.Name, c.q.t.Namespace, h.name, c.q.rules.timeout)
		if h.expired != nil {
			h.expired(c.q, c.c)
		}
	}
	return nil
}

// overdue returns the claims that are older than their queue's consumer timeout.
func (h *Holder) overdue(now int64) (late []*claim) {
	h.acting.Lock()
	defer h.acting.Unlock()
	for _, c := range h.all() {
		if t := c.q.rules.timeout; t > 0 && now-c.at >= t.Milliseconds() {
			late = append(late, c)
		}
	}
	return late
}

// takeBack requeues those of the claims that still hold something, and returns them and how many messages they had.
func (h *Holder) takeBack(ctx context.Context, cs []*claim) (late []*claim, n int64, err error) {
	h.acting.Lock()
	defer h.acting.Unlock()
	late = touchAll(cs)
	for _, c := range late {
		n += int64(len(c.touched))
	}
	return late, n, h.end(ctx, slices.Clone(late), &settlement{requeue: true, why: TimedOut})
}

// rest lets go of a queue that is not in use, or of its memory.
func (v *View) rest(q *Queue) {
	if !q.taking.TryLock() {
		return
	}
	defer q.taking.Unlock()
	q.taker.rest()
	v.mu.Lock()
	defer v.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.consumers) > 0 || q.running || q.out.Load() > 0 || len(q.taker.ahead) > 0 || q.had && q.t.AutoDelete && !q.gone {
		return
	}
	for i := range q.returned {
		if !q.returned[i].isEmpty() && !q.gone {
			return
		}
	}
	// Nobody has the queue but those who are about to use it, and for them it works as well as a new one.
	q.retired = true
	delete(v.queues, q.t.ID)
}
