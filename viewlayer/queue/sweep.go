package queue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// strand remembers a holder whose messages could not be given back.
func (v *View) strand(h *Holder, why Why) {
	v.mu.Lock()
	v.stranded[h] = why
	v.mu.Unlock()
}

// later has the sweep do something until it says that it is done.
func (v *View) later(f func(context.Context) (done bool, err error)) {
	v.mu.Lock()
	v.chores = append(v.chores, f)
	v.mu.Unlock()
}

// catchUp does what could not be done before.
func (v *View) catchUp(ctx context.Context) error {
	v.mu.Lock()
	stranded, chores := v.stranded, v.chores
	v.stranded, v.chores = map[*Holder]Why{}, nil
	v.mu.Unlock()
	var all error
	for h, why := range stranded {
		all = errors.Join(all, h.retry(ctx, why))
	}
	for _, f := range chores {
		done, err := f(ctx)
		if !done || err != nil {
			v.later(f)
		}
		all = errors.Join(all, err)
	}
	return all
}

// sweepEvery is how long it takes until the sweep is due again.
const sweepEvery = time.Second

// Sweep gives messages back that were held longer than their queue's consumer timeout, and does what could not be done before; it lets go of memory of queues at
// rest, and of what other nodes took. It returns when it is due again. Its cost follows the claims that are live. Without a majority of the cluster it changes
// nothing.
func (v *View) Sweep(ctx context.Context) (next time.Duration, err error) {
	v.mu.Lock()
	holders := slices.Collect(maps.Keys(v.holders))
	queues := slices.Collect(maps.Values(v.queues))
	v.mu.Unlock()
	if v.store.Available() == nil {
		err = v.catchUp(ctx)
		for _, h := range holders {
			err = errors.Join(err, h.expire(ctx))
		}
	}
	for _, q := range queues {
		for part := range q.parts {
			if v.shared {
				q.prune(part)
			}
		}
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
	if !h.acting.try() {
		return nil // the next sweep is soon enough
	}
	defer h.acting.pass()
	for _, c := range h.all() {
		if t := c.q.rules.timeout; t > 0 && now-c.at >= t.Milliseconds() {
			late = append(late, c)
		}
	}
	return late
}

// takeBack requeues those of the claims that still hold something, and returns them and how many messages they had.
func (h *Holder) takeBack(ctx context.Context, cs []*claim) (late []*claim, n int64, err error) {
	if err := h.acting.take(ctx, h.v); err != nil {
		return nil, 0, err
	}
	defer h.acting.pass()
	late = touchAll(cs)
	for _, c := range late {
		n += int64(len(c.touched))
	}
	return late, n, h.end(ctx, slices.Clone(late), &settlement{requeue: true, why: TimedOut})
}

// rest lets go of a queue that is not in use, or of its memory.
func (v *View) rest(q *Queue) {
	if !q.taking.try() {
		return
	}
	defer q.taking.pass()
	q.taker.rest()
	v.mu.Lock()
	defer v.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.consumers) > 0 || q.running || q.out.Load() > 0 || len(q.taker.ahead) > 0 {
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
