package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/message"
)

// Sink is where a consumer's messages go. Its methods are called by the queue's dispatching goroutine, with the queue's taking lock held (Cancelled: by who deletes the
// queue, with no lock): they do not block, and of the queue they call nothing but Consumer.Wake.
type Sink interface {
	// Reserve sets room and credit for up to n messages aside and returns for how many.
	Reserve(n int) int
	// Release gives back what was reserved and is not needed.
	Release(n int)
	// Deliver takes messages, in order, on what was reserved, and returns how many it took. Fewer than there are: the channel is closing, and the rest goes back.
	Deliver(ds []Delivery) int
	// Cancelled tells that there will be no more, because the queue was deleted.
	Cancelled(reason string)
}

// Subscription is what a consumer is.
type Subscription struct {
	Holder           *Holder
	NoAck, Exclusive bool
	Arguments        message.Table
	Sink             Sink
}

// Consumer is one who gets a queue's messages as they come.
type Consumer struct {
	q   *Queue
	sub Subscription
	reg registration
	// leaving says that it was cancelled. Queue.mu guards it.
	leaving bool
}

// Queue returns the consumer's queue.
func (c *Consumer) Queue() *Queue { return c.q }

// Wake tells that the consumer's credit or room has grown.
func (c *Consumer) Wake() { c.q.nudge() }

// Consume adds a consumer, to which messages may be delivered before it returns. It returns an *ExclusiveError, *ArgumentError or *GoneError, or the store's error.
func (q *Queue) Consume(ctx context.Context, s Subscription) (*Consumer, error) {
	if err := checkConsumerArguments(q.t.Name, s.Arguments); err != nil {
		return nil, err
	}
	reg, err := q.v.register(ctx, q.t, s.Exclusive)
	if err != nil {
		return nil, err
	}
	c := &Consumer{sub: s, reg: reg}
	q.mu.Lock()
	for q.retired {
		q.mu.Unlock()
		q = q.successor()
		q.mu.Lock()
	}
	if q.gone {
		q.mu.Unlock()
		return nil, errors.Join(&GoneError{q.t.Namespace, q.t.Name}, q.v.leave(ctx, reg))
	}
	c.q = q
	q.consumers = append(q.consumers[:len(q.consumers):len(q.consumers)], c)
	start := !q.running
	q.running = true
	q.mu.Unlock()
	if start {
		q.v.spawn(q.serve)
	}
	q.nudge()
	return c, nil
}

// Cancel takes the consumer away. When it returns nil, nothing more is delivered to it; what it holds stays its holder's. An auto-delete queue goes with its last
// consumer. It waits for a delivery that is under way, so whoever calls it holds no lock that the sink needs. After an error, which is usually the store's
// *logstore.UnavailableError, one more delivery may come, and the sweep does what is left to do.
func (c *Consumer) Cancel(ctx context.Context) error {
	q := c.q
	q.mu.Lock()
	first := !c.leaving
	c.leaving = true
	if i := slices.Index(q.consumers, c); i >= 0 {
		q.consumers = without(q.consumers, i)
	}
	q.mu.Unlock()
	err := q.taking.take(ctx, q.v)
	if err == nil {
		q.taking.pass()
	}
	q.nudge()
	if first {
		err = errors.Join(err, q.v.leave(ctx, c.reg))
	}
	return err
}

// fullRetry is how long consumers wait when a claim cannot be written: the disk is full, or no majority of the cluster is in reach.
const fullRetry = 200 * time.Millisecond

// serve is the dispatching goroutine: it hands messages to consumers with credit for as long as there are consumers.
func (q *Queue) serve() {
	var cancels []func()
	for i := range q.parts {
		cancels = append(cancels, q.v.store.NotifyGrowth(q.parts[i].shard, q.wake))
	}
	defer func() {
		for _, cancel := range cancels {
			cancel()
		}
	}()
	failing := false
	for {
		n, err := q.dispatch()
		var gone *GoneError
		switch {
		case err == nil:
			failing = false
		case errors.As(err, &gone):
			q.stop()
			q.v.Deleted(q.t) // whoever deleted it, here or elsewhere
			return
		case errors.Is(err, logstore.ErrClosed):
			q.stop()
			return
		default:
			if !failing {
				q.v.logf("queue '%s' in vhost '%s' cannot deliver, trying again: %v", q.t.Name, q.t.Namespace, err)
			}
			failing = true
			<-q.v.after(fullRetry)
			continue
		}
		if n > 0 {
			continue
		}
		q.mu.Lock()
		if len(q.consumers) == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		<-q.wake
	}
}

// stop ends serving for good.
func (q *Queue) stop() {
	q.mu.Lock()
	q.running, q.gone = false, true
	q.mu.Unlock()
}

// dispatch hands out what there is to those who have credit, once, and returns how many messages that was.
func (q *Queue) dispatch() (int, error) {
	if err := q.taking.take(context.Background(), q.v); err != nil {
		return 0, err
	}
	defer q.taking.pass()
	some, err := q.hasSome()
	if err != nil || !some {
		return 0, err
	}
	t := &q.taker
	t.grants = t.grants[:0]
	q.mu.Lock()
	consumers := q.consumers // never changed in place
	q.mu.Unlock()
	if len(consumers) == 0 {
		return 0, nil
	}
	q.turn++
	t.used = true
	for i := range consumers {
		c := consumers[(q.turn+i)%len(consumers)]
		n := c.sub.Sink.Reserve(takeMax)
		if n > 0 {
			t.grant(c.sub.Holder, c, c.sub.Sink, c.sub.NoAck, n)
		}
	}
	if len(t.grants) == 0 {
		return 0, nil
	}
	n, err := q.take(context.Background())
	for i := range t.grants {
		g := &t.grants[i]
		if n == 0 {
			g.items = g.items[:0]
		}
		if unused := g.n - len(g.items); unused > 0 {
			g.sink.Release(unused)
		}
	}
	return n, err
}

// grant adds one who gets messages of the take that comes.
func (t *taker) grant(h *Holder, c *Consumer, to Sink, noAck bool, n int) {
	if len(t.grants) < cap(t.grants) {
		t.grants = t.grants[:len(t.grants)+1]
	} else {
		t.grants = append(t.grants, grant{})
	}
	g := &t.grants[len(t.grants)-1]
	*g = grant{h: h, c: c, sink: to, noAck: noAck, n: n, items: g.items[:0]}
}

// deal says who gets which of n messages: by turns, of one message while there are few and of more when there are many, so that consumers share evenly and a
// claim is still a few ranges.
func (q *Queue) deal(n int) {
	gs := q.taker.grants
	for i := range gs {
		gs[i].items = gs[i].items[:0]
	}
	stride := max(1, n/(8*len(gs)))
	for k := 0; k < n; {
		before := k
		for i := range gs {
			for j := 0; j < stride && k < n && len(gs[i].items) < gs[i].n; j++ {
				gs[i].items = append(gs[i].items, k)
				k++
			}
		}
		if k == before {
			panic("more messages were taken than there was credit for")
		}
	}
}

// hand gives the messages of a take to those who were granted them, and returns how many there were. Its claims are in the order.
func (q *Queue) hand(part int, items []item) int {
	t := &q.taker
	n := 0
	for i := range t.grants {
		g := &t.grants[i]
		if len(g.items) == 0 {
			continue
		}
		n += len(g.items)
		t.deliveries = t.deliveries[:0]
		for j, k := range g.items {
			it := &items[k]
			d := Delivery{
				Queue: q, Record: it.rec, Timestamp: it.ts, Offset: it.offset, Partition: int32(part), Acquired: it.acquired, Failed: it.failed,
				Redelivered: it.acquired > 0 || it.offset < q.parts[part].doubt,
			}
			if g.claim != nil {
				d.Lease = Lease{g.claim, int32(j)}
			}
			t.deliveries = append(t.deliveries, d)
		}
		took := 0
		if g.claim == nil || g.h.add(g.claim) {
			took = g.sink.Deliver(t.deliveries)
		}
		q.v.counts.taken.Add(int64(took))
		if g.claim == nil {
			q.v.counts.settled.Add(int64(took))
		}
		if took < len(t.deliveries) && g.claim != nil {
			q.giveBack(g.claim, t.deliveries[took:])
		}
	}
	clear(t.deliveries)
	return n
}

// giveBack returns messages that no consumer took.
func (q *Queue) giveBack(c *claim, ds []Delivery) {
	ls := make([]Lease, len(ds))
	for i := range ds {
		ls[i] = ds[i].Lease
	}
	h := c.h
	if err := h.Requeue(context.Background(), ls, Undelivered); err != nil {
		h.v.strand(h, Undelivered)
	}
}
