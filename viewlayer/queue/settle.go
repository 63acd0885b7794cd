package queue

import (
	"context"
	"errors"
	"slices"

	"polylog/logstore"
)

// settleMax bounds the claims of one transaction; each is a condition.
const settleMax = 1024

// Settle ends the leases: their messages leave the queue. Leases that are settled already, or were taken away, have no effect and are no error.
// It returns when the settlement has its place in the order; whoever needs it on the disk commits an empty durable transaction after it. On an error nothing was settled of
// what the error is about, and Settle may be called again with the same leases.
func (h *Holder) Settle(ctx context.Context, ls []Lease) error {
	if err := h.acting.take(ctx, h.v); err != nil {
		return err
	}
	defer h.acting.pass()
	return h.end(ctx, touch(ls), &settlement{})
}

// Discard ends the leases of messages that their consumer rejected for good.
func (h *Holder) Discard(ctx context.Context, ls []Lease) error {
	if err := h.acting.take(ctx, h.v); err != nil {
		return err
	}
	defer h.acting.pass()
	return h.end(ctx, touch(ls), &settlement{discard: true})
}

// settlement is how leases end.
type settlement struct {
	requeue bool
	discard bool
	why     Why // of a requeue
}

// end ends what is touched of the claims. The acting lock is held. Whatever happens, nothing is touched when it returns.
func (h *Holder) end(ctx context.Context, claims []*claim, how *settlement) error {
	for _, c := range claims {
		c.order()
	}
	for len(claims) > 0 {
		n := min(len(claims), settleMax)
		if err := h.endSome(ctx, claims[:n], how); err != nil {
			for _, c := range claims {
				c.untouch()
			}
			return err
		}
		claims = claims[n:]
	}
	return nil
}

// endSome ends what is touched of a few claims in one transaction, or in several if the messages are large and go to the tail. A claim that is no longer there, or whose queue is gone, is left out.
func (h *Holder) endSome(ctx context.Context, claims []*claim, how *settlement) error {
	for len(claims) > 0 {
		e, err := h.plan(claims, how)
		if err != nil {
			return err
		}
		res, err := h.v.commit(ctx, e.txn)
		if err == nil {
			e.done(&res)
			claims = slices.DeleteFunc(slices.Clone(claims), func(c *claim) bool { return len(c.touched) == 0 })
			continue
		}
		var conflict *logstore.ConflictError
		var unknown *logstore.UnknownShardError
		switch {
		case errors.As(err, &conflict):
			claims[conflict.Condition].lose()
			claims = without(claims, conflict.Condition)
		case errors.As(err, &unknown) && unknown.Shard != h.v.index:
			// Its queue was deleted: its messages went with it, and only the claim is to be taken away.
			for _, c := range claims {
				if c.q.parts[c.part].shard == unknown.Shard {
					c.q.stop()
				}
			}
		default:
			return err
		}
	}
	return nil
}

// without returns s without its i-th element, leaving s as it is.
func without[T any](s []T, i int) []T { return append(s[:i:i], s[i+1:]...) }

// ending is a transaction that ends leases, and what is to be remembered once it has gone through.
type ending struct {
	h        *Holder
	how      *settlement
	txn      logstore.Txn
	ends     []claimEnd
	appended bool // to the index topic, as the transaction's first append
}

// claimEnd is what happens to one claim.
type claimEnd struct {
	c        *claim
	narrowed int // place among the index records, -1: it is not narrowed
	// What has come back, and where its records are.
	returned []*returnedRecord
	dropped  int // messages over the delivery limit
}

// plan makes the transaction that ends what is touched of the claims.
func (h *Holder) plan(claims []*claim, how *settlement) (*ending, error) {
	e := &ending{h: h, how: how, txn: logstore.Txn{Wait: logstore.Relaxed, MakesRoom: true}, ends: make([]claimEnd, 0, len(claims))}
	h.w.reset()
	h.mover.reset()
	var records []logstore.Range // of the index topic, to be deleted
	for _, c := range claims {
		c.touched, c.later = append(c.touched, c.later...), nil
		e.txn.If = append(e.txn.If, logstore.Live(h.v.index, c.rec))
		end := claimEnd{c: c, narrowed: -1}
		gone := c.q.isGone()
		var deleted []logstore.Range // of the queue's shard
		switch {
		case gone: // nothing is left to settle but the claim itself
		case how.requeue:
			if err := h.planRequeue(&end, how.why, &deleted); err != nil {
				return nil, err
			}
		case !c.q.retains():
			deleted = c.ranges(nil)
		}
		if len(c.touched) == 0 {
			e.ends = append(e.ends, end)
			continue
		}
		if len(deleted) > 0 {
			e.txn.Do = append(e.txn.Do, logstore.Delete(c.q.parts[c.part].shard, deleted...))
		}
		// What a queue that deletes has settled can be told from its offsets. Elsewhere the claim says what is still held.
		stays := !gone && len(c.touched) < c.left
		if stays && (how.requeue || c.q.retains()) {
			end.narrowed = h.w.len()
			h.w.claim(c.q, c.part, c.rest(nil), h, c.at)
		}
		if !stays || end.narrowed >= 0 {
			records = append(records, one(c.rec))
		}
		e.ends = append(e.ends, end)
	}
	if len(records) > 0 {
		e.txn.Do = append(e.txn.Do, logstore.Delete(h.v.index, mergeRanges(records)...))
	}
	if h.w.len() > 0 {
		op, err := h.w.op(h.v.index)
		if err != nil {
			return nil, err
		}
		e.txn.Do, e.appended = append(e.txn.Do, op), true
	}
	return e, h.mover.ops(&e.txn)
}

// done remembers what the transaction did.
func (e *ending) done(res *logstore.Result) {
	var base int64
	if e.appended {
		base = res.Base(0)
	}
	counts := &e.h.v.counts
	for i := range e.ends {
		end := &e.ends[i]
		c, q := end.c, end.c.q
		if q.isGone() {
			// Nobody asks for the rest of it any more.
			q.out.Add(-int64(c.left))
			c.lose()
			continue
		}
		n := int64(len(c.touched))
		if end.narrowed >= 0 {
			c.rec = base + int64(end.narrowed)
		}
		for _, r := range end.returned {
			r.rec += base
		}
		c.finish()
		switch {
		case e.how.requeue:
			q.comeBack(c.part, end.returned)
			counts.returned.Add(n - int64(end.dropped))
			counts.overLimit.Add(int64(end.dropped))
		case e.how.discard:
			counts.discarded.Add(n)
		default:
			counts.settled.Add(n)
		}
		q.out.Add(-n)
		if e.how.requeue {
			q.nudge()
		}
	}
}

func (q *Queue) isGone() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.gone
}

// comeBack takes returned records in, and returns the Queue that has them now.
func (q *Queue) comeBack(part int, rs []*returnedRecord) *Queue {
	for {
		q.mu.Lock()
		if !q.retired {
			for _, r := range rs {
				q.returned[part].add(r)
			}
			q.mu.Unlock()
			return q
		}
		q.mu.Unlock()
		q = q.successor()
	}
}
