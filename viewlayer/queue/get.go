package queue

import "context"

// getter is a Get in the eyes of a take.
type getter struct {
	f    func(*Delivery)
	took bool
}

func (g *getter) Reserve(int) int  { return 1 }
func (g *getter) Release(int)      {}
func (g *getter) Cancelled(string) {}

func (g *getter) Deliver(ds []Delivery) int {
	g.f(&ds[0])
	g.took = true
	return 1
}

// Get takes the first message that waits, for h, and passes it to f. It uses the cursor and the claims that consumers use. Without a message ok is false and f is not
// called. left is how many messages wait after that.
func (q *Queue) Get(ctx context.Context, h *Holder, noAck bool, f func(*Delivery)) (left int64, ok bool, err error) {
	q = q.lock()
	defer q.taking.Unlock()
	some, err := q.hasSome()
	if err != nil || !some {
		return 0, false, err
	}
	g := getter{f: f}
	t := &q.taker
	t.used, t.grants = true, t.grants[:0]
	t.grant(h, nil, &g, noAck, 1)
	if _, err := q.take(ctx); err != nil {
		return 0, false, err
	}
	left, err = q.ready()
	return left, g.took, err
}
