package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

func TestGetTakesInOrderAndAckRemoves(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("orders")
	s.publish("orders", "a", "b", "c")
	h := s.holder("h")
	a, b := s.get("orders", h), s.get("orders", h)
	if a.body != "a" || b.body != "b" || a.redelivered || b.redelivered {
		t.Fatalf("got %+v, %+v", a, b)
	}
	if n := s.ready("orders"); n != 1 {
		t.Fatalf("%d messages ready, want 1", n)
	}
	if es := s.indexRecords(); len(es) != 2 || es[0].Kind != "claim" || es[0].Queue != "orders" || es[0].Holder != "h" {
		t.Fatalf("index records %+v", es)
	}
	s.check(h.Settle(context.Background(), []Lease{b.lease, a.lease}))
	c := s.get("orders", h)
	s.check(h.Settle(context.Background(), []Lease{c.lease}))
	if _, ok := s.tryGet("orders", h); ok {
		t.Fatal("a message came out of an empty queue")
	}
	if es := s.indexRecords(); len(es) != 0 {
		t.Fatalf("index records are left behind: %+v", es)
	}
	sh := s.find("orders").parts[0].shard
	if live, err := s.store.Live(sh); err != nil || live != 0 {
		t.Fatalf("%d records are left, %v", live, err)
	}
}

func TestReturnedMessagesKeepTheirPlaceAndCount(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	s.publish("q", "a", "b", "c", "d")
	h := s.holder("h")
	var ls []Lease
	for range 3 {
		ls = append(ls, s.get("q", h).lease)
	}
	ctx := context.Background()
	s.check(h.Requeue(ctx, ls[2:], Nacked))
	s.check(h.Requeue(ctx, ls[:1], Rejected))
	if n := s.ready("q"); n != 3 {
		t.Fatalf("%d ready, want 3", n)
	}
	want := []got{{body: "a", offset: 0, acquired: 1, failed: 1, redelivered: true}, {body: "c", offset: 2, acquired: 1, redelivered: true}, {body: "d", offset: 3}}
	for _, w := range want {
		g := s.get("q", h)
		l := g.lease
		g.lease = Lease{}
		if g != w {
			t.Fatalf("got %+v, want %+v", g, w)
		}
		s.check(h.Settle(ctx, []Lease{l}))
	}
	s.check(h.Settle(ctx, ls)) // two of them are others' by now, and have no effect
	if es := s.indexRecords(); len(es) != 0 {
		t.Fatalf("left behind: %+v", es)
	}
}

func TestTailPlacementLetsOthersPass(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q", "x-requeue", "tail")
	s.publish("q", "a", "b")
	h, ctx := s.holder("h"), context.Background()
	s.check(h.Requeue(ctx, []Lease{s.get("q", h).lease}, Rejected))
	s.check(commitDurable(s.store))
	b, a := s.get("q", h), s.get("q", h)
	if b.body != "b" || a.body != "a" || a.offset != 2 || !a.redelivered || a.failed != 1 || a.acquired != 1 {
		t.Fatalf("got %+v, %+v", b, a)
	}
	s.check(h.Requeue(ctx, []Lease{a.lease}, Nacked))
	s.check(commitDurable(s.store))
	if a = s.get("q", h); a.acquired != 2 || a.failed != 1 || a.offset != 3 {
		t.Fatalf("got %+v", a)
	}
	s.check(h.Settle(ctx, []Lease{a.lease, b.lease}))
	if n := s.ready("q"); n != 0 || len(s.indexRecords()) != 0 {
		t.Fatalf("%d ready, index %+v", n, s.indexRecords())
	}
}

// A claim that is partly settled or given back says exactly what is still held.
func TestOneClaimAtMostCoversAnOffset(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	for i := range 10 {
		s.publish("q", fmt.Sprint(i))
	}
	h, to := s.holder("h"), newSink(10)
	s.consume("q", h, to, false)
	to.await(t, "ten messages", func() bool { return len(to.got) == 10 })
	ds := to.take()
	ctx := context.Background()
	s.check(h.Requeue(ctx, []Lease{ds[3].lease, ds[4].lease, ds[8].lease}, Nacked)) // the sink has no credit
	s.check(h.Settle(ctx, []Lease{ds[0].lease, ds[9].lease}))
	owners := map[int64]string{}
	for _, e := range s.indexRecords() {
		for _, r := range e.Ranges {
			for o := r[0]; o < r[0]+r[1]; o++ {
				if owners[o] != "" {
					t.Errorf("offset %d is in a %s and in a %s", o, owners[o], e.Kind)
				}
				owners[o] = e.Kind
			}
		}
	}
	for _, o := range []int64{3, 4, 8} {
		if owners[o] != kindReturned {
			t.Errorf("offset %d is %q", o, owners[o])
		}
	}
	for _, o := range []int64{1, 2, 5, 6, 7} {
		if owners[o] != kindClaim {
			t.Errorf("offset %d is %q", o, owners[o])
		}
	}
}

// Many takers, by Get and by Consume, from two nodes: every message is settled once.
func TestEveryMessageIsSettledOnce(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	_, other := s.open("n2")
	s.declare("q")
	const n = 3000
	ctx := context.Background()
	var mu sync.Mutex
	settled := map[string]int{}
	count := func(g got) {
		mu.Lock()
		settled[g.body]++
		mu.Unlock()
	}
	total := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(settled)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 8 {
		v := s.v
		if i%2 == 1 {
			v = other
		}
		h := v.NewHolder(fmt.Sprint("holder ", i), nil)
		wg.Go(func() {
			if i < 4 {
				q := findIn(t, v, "q")
				for total() < n {
					var g got
					_, ok, err := q.Get(ctx, h, false, func(d *Delivery) { g = copyOf(d) })
					if err != nil {
						t.Error(err)
						return
					}
					if !ok {
						time.Sleep(time.Millisecond) // a poll, not a wait: the loop ends by its condition
						continue
					}
					if g.offset%7 == 0 && !g.redelivered {
						err = h.Requeue(ctx, []Lease{g.lease}, Nacked)
					} else {
						count(g)
						err = h.Settle(ctx, []Lease{g.lease})
					}
					if err != nil {
						t.Error(err)
					}
				}
				return
			}
			to := newSink(20)
			c, err := findIn(t, v, "q").Consume(context.Background(), Subscription{Holder: h, Sink: to})
			if err != nil {
				t.Error(err)
				return
			}
			for {
				select {
				case <-stop:
					if err := c.Cancel(ctx); err != nil {
						t.Error(err)
					}
					return
				case <-to.arrived:
				}
				gs := to.take()
				for _, g := range gs {
					count(g)
					if err := h.Settle(ctx, []Lease{g.lease}); err != nil {
						t.Error(err)
					}
				}
				to.settled(len(gs))
				c.Wake()
			}
		})
	}
	for i := range n {
		s.publish("q", fmt.Sprint("message ", i))
	}
	deadline := time.Now().Add(60 * time.Second)
	for total() < n {
		if time.Now().After(deadline) {
			t.Errorf("only %d of %d messages were settled", total(), n)
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(stop)
	wg.Wait()
	for body, times := range settled {
		if times != 1 {
			t.Errorf("%s was settled %d times", body, times)
		}
	}
	if es := s.indexRecords(); len(es) != 0 {
		t.Errorf("the index topic is not empty after a drain: %d records, the first %+v", len(es), es[0])
	}
}

func TestWhatADeadProcessHeldComesBack(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	s.publish("q", "a", "b", "c", "d")
	h, ctx := s.holder("h"), context.Background()
	a, _, c := s.get("q", h), s.get("q", h), s.get("q", h)
	s.check(h.Requeue(ctx, []Lease{c.lease}, Rejected))
	s.check(h.Settle(ctx, []Lease{a.lease}))
	s.check(commitDurable(s.store))
	_, v := s.open("n1") // the same node, another epoch
	q := findIn(t, v, "q")
	h2 := v.NewHolder("h2", nil)
	var bodies []got
	for {
		_, ok, err := q.Get(ctx, h2, false, func(d *Delivery) { bodies = append(bodies, copyOf(d)) })
		s.check(err)
		if !ok {
			break
		}
	}
	want := []got{{body: "b", offset: 1, acquired: 1, redelivered: true}, {body: "c", offset: 2, acquired: 1, failed: 1, redelivered: true}, {body: "d", offset: 3, redelivered: true}}
	var ls []Lease
	for i := range bodies {
		ls = append(ls, bodies[i].lease)
		bodies[i].lease = Lease{}
	}
	if !slices.Equal(bodies, want) {
		t.Fatalf("got %+v, want %+v", bodies, want)
	}
	// A late settlement of the dead process has no effect on what others hold.
	s.check(h.Close(ctx, ChannelClosed))
	s.check(h2.Settle(ctx, ls))
	if es := s.indexRecords(); len(es) != 0 {
		t.Fatalf("left behind: %+v", es)
	}
}

func TestCancelledConsumersDeliveriesStayValid(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	s.publish("q", "a", "b", "c")
	h, to, ctx := s.holder("h"), newSink(2), context.Background()
	c := s.consume("q", h, to, false)
	to.await(t, "two messages", func() bool { return len(to.got) == 2 })
	s.check(c.Cancel(ctx))
	ds := to.take()
	h2 := s.holder("h2")
	if g := s.get("q", h2); g.body != "c" {
		t.Fatalf("%q was given away early", g.body)
	}
	s.check(h.Settle(ctx, []Lease{ds[0].lease}))
	if _, ok := s.tryGet("q", h2); ok {
		t.Fatal("a message that a cancelled consumer holds was given away")
	}
	s.check(h.Close(ctx, ChannelClosed))
	if g := s.get("q", h2); g.body != "b" || !g.redelivered || g.failed != 0 {
		t.Fatalf("got %+v", g)
	}
}

func TestNoAckDeliveriesAreDeleted(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	h, to := s.holder("h"), newSink(0)
	s.consume("q", h, to, true)
	s.publish("q", "a", "b", "c")
	to.await(t, "three messages", func() bool { return len(to.got) == 3 })
	if live, err := s.store.Live(s.find("q").parts[0].shard); err != nil || live != 0 {
		t.Fatalf("%d records are left, %v", live, err)
	}
	if es := s.indexRecords(); len(es) != 0 {
		t.Fatalf("claims for messages without acknowledgement: %+v", es)
	}
}

// Nothing is claimed before there is a consumer with credit, and what a closing consumer does not take goes back unharmed.
func TestNothingIsClaimedWithoutCredit(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	s.publish("q", "a", "b")
	full := newSink(1)
	full.out = 1
	c := s.consume("q", s.holder("full"), full, false)
	c.Wake()
	if es := s.indexRecords(); len(es) != 0 {
		t.Fatalf("claimed without credit: %+v", es)
	}
	closing := &closingSink{reserved: make(chan struct{}, 1)}
	if _, err := s.find("q").Consume(context.Background(), Subscription{Holder: s.holder("closing"), Sink: closing}); err != nil {
		t.Fatal(err)
	}
	<-closing.reserved
	h := s.holder("h")
	a, b := s.get("q", h), s.get("q", h)
	if a.body != "a" || b.body != "b" || a.redelivered || b.redelivered || a.acquired != 0 {
		t.Fatalf("got %+v, %+v", a, b)
	}
}

// closingSink has credit once and takes nothing.
type closingSink struct {
	once     sync.Once
	reserved chan struct{}
}

func (s *closingSink) Reserve(n int) (m int) {
	s.once.Do(func() { m = n })
	return m
}
func (s *closingSink) Release(int)      {}
func (s *closingSink) Cancelled(string) {}
func (s *closingSink) Deliver([]Delivery) int {
	s.reserved <- struct{}{}
	return 0
}

func TestConsumerTimeoutGivesBack(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q", "x-consumer-timeout", 1000)
	s.declare("patient")
	s.publish("q", "a", "b")
	s.publish("patient", "x")
	var expired []string
	h := s.v.NewHolder("h", func(q *Queue, c *Consumer) { expired = append(expired, q.Topic().Name) })
	a, ctx := s.get("q", h), context.Background()
	s.get("patient", h)
	s.clock.Add(900)
	b := s.get("q", h)
	if _, err := s.v.Sweep(ctx); err != nil || len(expired) != 0 {
		t.Fatalf("expired early: %v, %v", expired, err)
	}
	s.clock.Add(100)
	if _, err := s.v.Sweep(ctx); err != nil || !slices.Equal(expired, []string{"q"}) {
		t.Fatalf("expired %v, %v", expired, err)
	}
	s.check(h.Settle(ctx, []Lease{a.lease, b.lease})) // too late for one of them
	if g := s.get("q", s.holder("h2")); g.body != "a" || g.acquired != 1 || g.failed != 0 {
		t.Fatalf("got %+v", g)
	}
}

// A consumer that let its time run out does not get the message again: it is cancelled before the message goes back.
func TestConsumerThatTimedOutGetsNothingMore(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q", "x-consumer-timeout", 1000)
	to, ctx := newSink(0), context.Background()
	h := s.v.NewHolder("h", nil)
	s.consume("q", h, to, false)
	s.publish("q", "a")
	to.await(t, "the message", func() bool { return len(to.got) == 1 })
	to.take()
	s.clock.Add(1000)
	_, err := s.v.Sweep(ctx)
	s.check(err)
	if g := s.get("q", s.holder("h2")); g.body != "a" || !g.redelivered {
		t.Fatalf("got %+v", g)
	}
	s.publish("q", "b")
	if g := s.get("q", s.holder("h2")); g.body != "b" || len(to.take()) != 0 {
		t.Fatalf("got %+v", g)
	}
}

func TestMessageOverTheDeliveryLimitIsDropped(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q", "x-queue-type", "quorum", "x-delivery-limit", 3)
	s.publish("q", "poison", "good")
	h, ctx := s.holder("h"), context.Background()
	for i := range 4 {
		g := s.get("q", h)
		if g.body != "poison" || int(g.failed) != i {
			t.Fatalf("delivery %d: %+v", i+1, g)
		}
		s.check(h.Requeue(ctx, []Lease{g.lease}, ConnectionLost))
	}
	if g := s.get("q", h); g.body != "good" {
		t.Fatalf("got %+v", g)
	}
	if f := s.v.Figures(); f.OverLimit != 1 {
		t.Fatalf("figures %+v", f)
	}
}

func TestRetainedTopicKeepsWhatTheQueueSettled(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	ctx := context.Background()
	_, err := s.topics.Create(ctx, topic.Spec{Namespace: "/", Name: "log", Partitions: 3, AckPolicy: topic.Retain, Durable: true})
	s.check(err)
	for i := range 9 {
		s.publish("log", fmt.Sprint(i))
	}
	h, to := s.holder("h"), newSink(0)
	c := s.consume("log", h, to, false)
	to.await(t, "nine messages", func() bool { return len(to.got) == 9 })
	s.check(c.Cancel(ctx))
	ds := to.take()
	s.check(h.Settle(ctx, []Lease{ds[0].lease, ds[4].lease, ds[8].lease}))
	s.check(commitDurable(s.store))
	_, v := s.open("n1")
	h2, back := v.NewHolder("h2", nil), 0
	for {
		_, ok, err := findIn(t, v, "log").Get(ctx, h2, false, func(d *Delivery) { back++ })
		s.check(err)
		if !ok {
			break
		}
	}
	if back != 6 {
		t.Fatalf("%d messages came back after the restart, want the 6 that were not settled", back)
	}
	live := int64(0)
	for _, sh := range findIn(t, v, "log").t.Shards {
		n, err := s.store.Live(sh)
		s.check(err)
		live += n
	}
	if live != 9 {
		t.Fatalf("%d records are left in the topic, want all 9", live)
	}
}

func TestDeletedQueueLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	s.publish("q", "a", "b", "c", "d")
	h, to, ctx := s.holder("h"), newSink(1), context.Background()
	a, b := s.get("q", h), s.get("q", h)
	s.check(h.Requeue(ctx, []Lease{b.lease}, Nacked))
	s.consume("q", h, to, false)
	to.await(t, "a message", func() bool { return len(to.got) == 1 })
	if _, err := s.v.Delete(ctx, "/", "q", "", true, false); !is[*InUseError](err) {
		t.Fatalf("deleting a queue in use: %v", err)
	}
	n, err := s.v.Delete(ctx, "/", "q", "", false, false)
	if err != nil || n != 2 {
		t.Fatalf("%d messages, %v", n, err)
	}
	to.await(t, "the cancellation", func() bool { return len(to.cancelled) == 1 })
	s.check(h.Settle(ctx, []Lease{a.lease}))
	if es := s.indexRecords(); len(es) != 0 {
		t.Fatalf("left behind: %+v", es)
	}
	if _, err := s.v.Find("/", "q", ""); !is[*topic.UnknownError](err) {
		t.Fatal(err)
	}
	keys := 0
	s.store.Scan(cursorPrefix, func(string, []byte) bool { keys++; return true })
	if keys != 0 {
		t.Fatalf("%d cursors are left", keys)
	}
	s.declare("q")
	if n := s.ready("q"); n != 0 {
		t.Fatalf("a new queue has %d messages of the old", n)
	}
}

// is reports whether err is of a type.
func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

func TestPurgeTakesWhatWaits(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	s.publish("q", "a", "b", "c", "d", "e")
	h, ctx := s.holder("h"), context.Background()
	a, b := s.get("q", h), s.get("q", h)
	s.check(h.Requeue(ctx, []Lease{b.lease}, Nacked))
	n, err := s.v.Purge(ctx, "/", "q", "")
	if err != nil || n != 4 {
		t.Fatalf("purged %d, %v", n, err)
	}
	if _, ok := s.tryGet("q", h); ok {
		t.Fatal("a purged message was delivered")
	}
	s.check(h.Requeue(ctx, []Lease{a.lease}, Nacked))
	if g := s.get("q", h); g.body != "a" {
		t.Fatalf("got %+v", g)
	}
	s.publish("q", "f")
	if g := s.get("q", h); g.body != "f" {
		t.Fatalf("got %+v", g)
	}
}

// More records have come back than one transaction has conditions for.
func TestPurgeTakesWhatCameBackInManyParts(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	const n = logstore.MaxConditions + 10
	s.publish("q", make([]string, n)...)
	h, ctx := s.holder("h"), context.Background()
	leases := make([]Lease, n)
	for i := range leases {
		leases[i] = s.get("q", h).lease
	}
	for _, l := range leases {
		s.check(h.Requeue(ctx, []Lease{l}, Nacked))
	}
	s.publish("q", "fresh")
	if purged, err := s.v.Purge(ctx, "/", "q", ""); err != nil || purged != n+1 {
		t.Fatalf("purged %d, %v; want %d", purged, err, n+1)
	}
	if _, ok := s.tryGet("q", h); ok {
		t.Fatal("a purged message was delivered")
	}
	if rs := s.indexRecords(); len(rs) != 0 {
		t.Fatalf("%d records are left in the index topic", len(rs))
	}
}

func TestAPurgeThatFailsLosesNothing(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	s.publish("q", "a", "b")
	h := s.holder("h")
	s.check(h.Requeue(context.Background(), []Lease{s.get("q", h).lease}, Nacked))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if n, err := s.v.Purge(ctx, "/", "q", ""); err == nil {
		t.Fatalf("a purge that was called off deleted %d messages", n)
	}
	if g := s.get("q", h); g.body != "a" || !g.redelivered {
		t.Fatalf("got %+v, want the message that had come back", g)
	}
	if g := s.get("q", h); g.body != "b" {
		t.Fatalf("got %+v", g)
	}
}

// Another node can take what has come back here, which this one's memory still has.
func TestPurgePassesOverWhatAnotherNodeTook(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	s.publish("q", "a", "b", "c")
	h, ctx := s.holder("h"), context.Background()
	a, b := s.get("q", h), s.get("q", h)
	s.check(h.Requeue(ctx, []Lease{a.lease}, Nacked))
	s.check(h.Requeue(ctx, []Lease{b.lease}, Nacked))
	_, other := s.open("n2")
	if _, ok, err := findIn(t, other, "q").Get(ctx, other.NewHolder("h2", nil), false, func(*Delivery) {}); !ok || err != nil {
		t.Fatalf("the other node got nothing: %v", err)
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if n, err := s.v.Purge(limited, "/", "q", ""); err != nil || n != 2 {
		t.Fatalf("purged %d, %v; want the two that the other node had not taken", n, err)
	}
}

func TestMessagesThatAStartBringsBackAreCounted(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	s.publish("q", "a", "b", "c", "d")
	s.takeSome("q", s.holder("h"), 3)
	_, again := s.open("n1")
	if n := again.Figures().Returned; n != 3 {
		t.Fatalf("%d messages came back, want 3", n)
	}
}

func TestTakerWithAStaleCursorChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	_, other := s.open("n2")
	s.declare("q")
	s.publish("q", "a", "b", "c")
	h2, ctx := other.NewHolder("h2", nil), context.Background()
	var b got
	s.get("q", s.holder("h1"))
	if _, ok, err := findIn(t, other, "q").Get(ctx, h2, false, func(d *Delivery) { b = copyOf(d) }); !ok || err != nil || b.body != "b" {
		t.Fatalf("the second node got %+v, %v", b, err)
	}
	if g := s.get("q", s.holder("h3")); g.body != "c" {
		t.Fatalf("got %+v", g)
	}
	// What the view relies on: a condition on a cursor that has moved fails.
	q := s.find("q")
	stale := newCursor(q.t.ID, 0)
	move, _ := stale.move(99)
	_, err := s.store.Commit(ctx, logstore.Txn{If: []logstore.Condition{stale.unchanged()}, Do: []logstore.Op{move}})
	if !errors.Is(err, logstore.ErrConflict) {
		t.Fatalf("a stale conditional write: %v", err)
	}
}

func TestConsumersShareByTurns(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	var bodies []string
	for i := range 10 {
		bodies = append(bodies, fmt.Sprint(i))
	}
	a, b := newSink(5), newSink(5)
	a.out, b.out = 5, 5
	ca := s.consume("q", s.holder("a"), a, false)
	s.consume("q", s.holder("b"), b, false)
	s.publish("q", bodies...)
	a.settled(5)
	b.settled(5)
	ca.Wake()
	a.await(t, "its half", func() bool { return len(a.got) == 5 })
	b.await(t, "its half", func() bool { return len(b.got) == 5 })
}

// The sweep looks at claims while their holder settles them. (Meant for the race detector.)
func TestSweepBesideSettlements(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q", "x-consumer-timeout", 60_000)
	h, ctx := s.holder("h"), context.Background()
	const n = 200
	for i := range n {
		s.publish("q", fmt.Sprint(i))
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if _, err := s.v.Sweep(ctx); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for s.ready("q") > 0 {
		gs := s.takeSome("q", h, 5)
		s.check(h.Requeue(ctx, []Lease{gs[len(gs)-1].lease}, Nacked))
		for _, g := range gs[:len(gs)-1] {
			s.check(h.Settle(ctx, []Lease{g.lease}))
		}
		if len(gs) == 1 {
			s.check(h.Settle(ctx, []Lease{s.get("q", h).lease}))
		}
	}
	close(done)
	wg.Wait()
}
