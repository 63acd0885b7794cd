package queue

import (
	"context"
	"sync"
)

// getter is a Get in the eyes of a take.
type getter struct {
	f    func(*Delivery)
	took bool

	mu   sync.Mutex
	gone bool // he has stopped waiting: what comes goes back
}

func (g *getter) Reserve(int) int  { return 1 }
func (g *getter) Release(int)      {}
func (g *getter) Cancelled(string) {}

func (g *getter) Deliver(ds []Delivery) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return 0
	}
	g.f(&ds[0])
	g.took = true
	return 1
}

// Get takes the first message that waits, for h, and passes it to f. It uses the cursor and the claims that consumers use. Without a message ok is false and f is not
// called. left is how many messages wait after that.
func (q *Queue) Get(ctx context.Context, h *Holder, noAck bool, f func(*Delivery)) (left int64, ok bool, err error) {
	g := &getter{f: f}
	if !q.v.shared || ctx.Done() == nil {
		left, err = q.get(ctx, h, noAck, g)
		return left, g.took, err
	}
	// What becomes of the take must be known, however long that takes, so it goes on when nobody waits for it any more.
	var n int64
	var failed error
	done := make(chan struct{})
	q.v.spawn(func() {
		defer close(done)
		n, failed = q.get(context.WithoutCancel(ctx), h, noAck, g)
	})
	select {
	case <-done:
		return n, g.took, failed
	case <-ctx.Done():
		g.mu.Lock()
		g.gone = true
		g.mu.Unlock()
		return 0, false, ctx.Err()
	}
}

func (q *Queue) get(ctx context.Context, h *Holder, noAck bool, g *getter) (left int64, err error) {
	if q, err = q.lock(ctx); err != nil {
		return 0, err
	}
	defer q.taking.pass()
	n, err := q.takeFor(ctx, h, noAck, g)
	if err == nil && n == 0 && q.v.shared {
		// To who asks, what another node has confirmed is there.
		if err = q.v.comeUp(ctx); err == nil {
			n, err = q.takeFor(ctx, h, noAck, g)
		}
	}
	if err != nil || n == 0 {
		return 0, err
	}
	return q.ready()
}

// takeFor takes a message for a Get, if there is one. The taking lock is held.
func (q *Queue) takeFor(ctx context.Context, h *Holder, noAck bool, g *getter) (int, error) {
	some, err := q.hasSome()
	if err != nil || !some {
		return 0, err
	}
	t := &q.taker
	t.used, t.grants = true, t.grants[:0]
	t.grant(h, nil, g, noAck, 1)
	return q.take(ctx)
}
