package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"polylog/logstore"
	"polylog/logstore/seed"
	"polylog/viewlayer/topic"
)

// Consumers on three nodes take from one queue, and give some back. Each message is settled once, and nothing is left, in no node's log or memory.
func TestEachMessageIsSettledOnceWhicheverNodesTake(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2", "n3")
	r := seed.Rand(t)
	ctx := context.Background()
	const each, perNode = 300, 2
	c.nodes["n1"].declare("q")
	var mu sync.Mutex
	settled := map[string]int{}
	stop := make(chan struct{})
	var takers, publishers sync.WaitGroup
	for _, s := range c.nodes {
		c.passed(s)
		for range perNode {
			mine := rand.New(rand.NewPCG(r.Uint64(), 0)) //nolint:gosec // a test's
			takers.Go(func() {
				h, to := s.holder("h"), newSink(20)
				consumer, err := s.find("q").Consume(ctx, Subscription{Holder: h, Sink: to})
				if err != nil {
					t.Error(err)
					return
				}
				for {
					select {
					case <-stop:
						if err := consumer.Cancel(ctx); err != nil {
							t.Error(err)
						}
						return
					case <-to.arrived:
					}
					gs := to.take()
					for _, g := range gs {
						if mine.IntN(4) == 0 {
							if err := h.Requeue(ctx, []Lease{g.lease}, Nacked); err != nil {
								t.Error(err)
							}
							continue
						}
						if err := h.Settle(ctx, []Lease{g.lease}); err != nil {
							t.Error(err)
						}
						mu.Lock()
						settled[g.body]++
						mu.Unlock()
					}
					to.settled(len(gs))
					consumer.Wake()
				}
			})
		}
	}
	for name, s := range c.nodes {
		publishers.Go(func() {
			for i := range each {
				s.publish("q", fmt.Sprint(name, " ", i))
			}
		})
	}
	publishers.Wait()
	until(t, "all messages settled", func() bool { mu.Lock(); defer mu.Unlock(); return len(settled) == 3*each })
	close(stop)
	takers.Wait()
	for body, n := range settled {
		if n != 1 {
			t.Errorf("%s was settled %d times", body, n)
		}
	}
	c.leftNothing("q")
}

// leftNothing sees that all nodes have the same, and nothing of a queue.
func (c *crowd) leftNothing(queue string) {
	c.t.Helper()
	hashes := map[uint64]bool{}
	for name, s := range c.nodes {
		c.passed(s)
		_, hash := s.store.Hash()
		hashes[hash] = true
		until(c.t, "no messages are ready on "+name, func() bool {
			_, err := s.v.Sweep(context.Background()) // which forgets what others took
			s.check(err)
			return s.ready(queue) == 0
		})
		if es := s.indexRecords(); len(es) != 0 {
			c.t.Errorf("on %s the index topic has %d records, the first %+v", name, len(es), es[0])
		}
		until(c.t, "what has come back is forgotten on "+name, func() bool {
			_, err := s.v.Sweep(context.Background())
			s.check(err)
			q := s.find(queue)
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.returned[0].isEmpty() && q.returned[0].size() == 0 && len(q.returned[0].recs) == 0
		})
		if n := s.find(queue).Consumers(); n != 0 {
			c.t.Errorf("on %s the queue has %d consumers", name, n)
		}
	}
	if len(hashes) != 1 {
		c.t.Error("the nodes differ")
	}
}

func TestWhatComesBackOnOneNodeIsDeliveredOnAnother(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2")
	a, b := c.nodes["n1"], c.nodes["n2"]
	ctx := context.Background()
	a.declare("q")
	c.passed(b)
	to := newSink(0)
	h := a.holder("a")
	a.publish("q", "x", "y")
	x, y := a.get("q", h), a.get("q", h)
	b.consume("q", b.holder("b"), to, false)
	if n := b.ready("q"); n != 0 {
		t.Fatalf("%d messages are ready on the other node though both are out", n)
	}
	a.check(h.Requeue(ctx, []Lease{y.lease}, Rejected))
	to.await(t, "the message that was rejected elsewhere", func() bool { return len(to.got) == 1 })
	if g := to.take()[0]; g.body != "y" || !g.redelivered || g.failed != 1 || g.offset != y.offset {
		t.Fatalf("got %+v", g)
	}
	a.check(h.Close(ctx, ConnectionLost))
	to.await(t, "what the other node's holder had", func() bool { return len(to.got) == 1 })
	if g := to.take()[0]; g.body != "x" || g.offset != x.offset {
		t.Fatalf("got %+v", g)
	}
	// The first node still has them in mind, and neither counts nor delivers them.
	c.passed(a)
	if n := a.ready("q"); n != 0 {
		t.Fatalf("%d messages are ready where they came back, though they are out again", n)
	}
	if g, ok := a.tryGet("q", a.holder("again")); ok {
		t.Fatalf("%+v was delivered twice", g)
	}
}

func TestReadyIsTheSameOnAllNodes(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2")
	a, b := c.nodes["n1"], c.nodes["n2"]
	ctx := context.Background()
	a.declare("q")
	a.publish("q", "1", "2", "3", "4", "5", "6")
	c.passed(b)
	ha, hb := a.holder("a"), b.holder("b")
	gs := a.takeSome("q", ha, 3)
	x := b.body("q", hb, "4")
	b.check(hb.Requeue(ctx, []Lease{x.lease}, Nacked))
	a.check(ha.Settle(ctx, []Lease{gs[0].lease}))
	for _, s := range c.nodes {
		c.passed(s)
		until(t, "4, 5 and 6 are ready", func() bool { return s.ready("q") == 3 })
	}
	// A claim that comes back has a message that was settled.
	node, epoch := c.kill("n1")
	b.check(b.v.Reap(ctx, c.dead(node, epoch)))
	if n := b.ready("q"); n != 5 {
		t.Fatalf("%d messages are ready, want 5", n)
	}
	if n, err := b.v.Purge(ctx, "/", "q", ""); err != nil || n != 5 {
		t.Fatalf("purged %d, %v; want 5", n, err)
	}
}

// What a killed node held comes back once, though two nodes see to it.
func TestTwoReapsBringBackOnce(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2", "n3")
	ctx := context.Background()
	const n = 3000
	for _, q := range []string{"p", "q"} {
		c.nodes["n1"].declare(q)
	}
	var want []string
	for i := range n {
		q := []string{"p", "q"}[i%2]
		body := fmt.Sprint(i)
		want = append(want, body)
		c.nodes["n1"].publish(q, body)
	}
	h := c.nodes["n1"].holder("h")
	held := map[int64]bool{}
	for range n / 2 {
		for _, q := range []string{"p", "q"} {
			held[c.nodes["n1"].get(q, h).offset] = true
		}
	}
	node, epoch := c.kill("n1")
	dead := c.dead(node, epoch)
	var wg sync.WaitGroup
	for range 2 {
		for _, s := range c.nodes {
			wg.Go(func() { s.check(s.v.Reap(ctx, dead)) })
		}
	}
	wg.Wait()
	var got []string
	var mu sync.Mutex
	for _, s := range c.nodes {
		wg.Go(func() {
			h := s.holder("after")
			for _, q := range []string{"p", "q"} {
				for {
					g, ok := s.tryGet(q, h)
					if !ok {
						mu.Lock()
						all := len(got) == n
						mu.Unlock()
						if c.passed(s); all || s.ready(q) == 0 {
							break
						}
						continue
					}
					if !g.redelivered || g.acquired != 1 || g.failed != 0 {
						t.Errorf("got %+v", g)
					}
					mu.Lock()
					got = append(got, g.body)
					mu.Unlock()
					s.check(h.Settle(ctx, []Lease{g.lease}))
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%d messages came back, want each of %d once", len(got), n)
	}
	c.leftNothing("p")
}

// A node that comes again has a new epoch, and brings back what its last one held. What other nodes hold it leaves alone.
func TestANodeThatComesAgainBringsBackItsOwn(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2")
	a, b := c.nodes["n1"], c.nodes["n2"]
	a.declare("q")
	a.publish("q", "1", "2", "3")
	c.passed(b)
	a.get("q", a.holder("a"))
	b.body("q", b.holder("b"), "2")
	c.kill("n1")
	a = c.start("n1")
	h := a.holder("again")
	if g := a.get("q", h); g.body != "1" || !g.redelivered {
		t.Fatalf("got %+v", g)
	}
	if g := a.get("q", h); g.body != "3" || g.redelivered {
		t.Fatalf("got %+v", g)
	}
	if g, ok := a.tryGet("q", h); ok {
		t.Fatalf("%+v was given away, which another node holds", g)
	}
}

func TestQueuesGoWithTheirNode(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2")
	a, b := c.nodes["n1"], c.nodes["n2"]
	ctx := context.Background()
	declare := func(s *stand, d Declaration) {
		t.Helper()
		d.Namespace = "/"
		_, err := s.v.Declare(ctx, d)
		s.check(err)
	}
	for _, s := range []*stand{a, b} {
		n := s.v.node
		declare(s, Declaration{Name: "transient " + n})
		declare(s, Declaration{Name: "exclusive " + n, Durable: true, Exclusive: true, Owner: "connection of " + n})
		declare(s, Declaration{Name: "durable " + n, Durable: true})
		declare(s, Declaration{Name: "auto " + n, Durable: true, AutoDelete: true})
		declare(s, Declaration{Name: "unused " + n, Durable: true, AutoDelete: true})
		s.consume("auto "+n, s.holder("h"), newSink(0), false)
	}
	exists := func(s *stand, name string) bool {
		_, err := s.topics.Find("/", name)
		return err == nil
	}
	// Another node that starts takes nothing away.
	d := c.start("n3")
	for _, kind := range []string{"transient", "exclusive", "durable", "auto", "unused"} {
		if !exists(d, kind+" n1") || !exists(d, kind+" n2") {
			t.Fatalf("a start deleted the %s queues of other nodes", kind)
		}
	}
	node, epoch := c.kill("n1")
	dead := c.dead(node, epoch)
	d.check(d.v.Reap(ctx, dead))
	d.check(b.v.Reap(ctx, dead))
	for kind, stays := range map[string]bool{"transient": false, "exclusive": false, "durable": true, "auto": false, "unused": true} {
		if got := exists(d, kind+" n1"); got != stays {
			t.Errorf("of the dead node: %s queue there: %v", kind, got)
		}
		if !exists(d, kind+" n2") {
			t.Errorf("the %s queue of a living node is gone", kind)
		}
	}
	keys := 0
	d.store.Scan(boundPrefix, func(string, []byte) bool { keys++; return true })
	if keys != 2 {
		t.Errorf("%d queues are bound to nodes, want 2", keys)
	}
}

func TestConsumersCountOnAllNodes(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2")
	a, b := c.nodes["n1"], c.nodes["n2"]
	ctx := context.Background()
	a.declare("q")
	c.passed(b)
	count := func(s *stand, want int64) {
		t.Helper()
		c.passed(s)
		st, err := s.v.Declare(ctx, Declaration{Namespace: "/", Name: "q", Passive: true})
		if err != nil || st.Consumers != want {
			t.Fatalf("%d consumers, %v; want %d", st.Consumers, err, want)
		}
	}
	exclusive := func(s *stand) (*Consumer, error) {
		return s.find("q").Consume(ctx, Subscription{Holder: s.holder("h"), Sink: newSink(0), Exclusive: true})
	}
	ca, cb := a.consume("q", a.holder("a"), newSink(0), false), b.consume("q", b.holder("b"), newSink(0), false)
	count(a, 2)
	count(b, 2)
	if _, err := exclusive(a); !is[*ExclusiveError](err) {
		t.Fatalf("exclusive beside another: %v", err)
	}
	a.check(ca.Cancel(ctx))
	a.check(ca.Cancel(ctx)) // a second one changes nothing
	count(b, 1)
	c.passed(a)
	if _, err := exclusive(a); !is[*ExclusiveError](err) {
		t.Fatalf("exclusive beside one on another node: %v", err)
	}
	if _, err := a.v.Delete(ctx, "/", "q", "", true, false); !is[*InUseError](err) {
		t.Fatalf("deleting a queue that is used on another node: %v", err)
	}
	b.check(cb.Cancel(ctx))
	count(a, 0)
	only, err := exclusive(a)
	a.check(err)
	c.passed(b)
	if _, err := b.find("q").Consume(ctx, Subscription{Holder: b.holder("h"), Sink: newSink(0)}); !is[*ExclusiveError](err) {
		t.Fatalf("beside an exclusive one on another node: %v", err)
	}
	// It goes with its node, and leaves room for others.
	node, epoch := c.kill("n1")
	b.check(b.v.Reap(ctx, c.dead(node, epoch)))
	count(b, 0)
	if _, err := exclusive(b); err != nil {
		t.Fatal(err)
	}
	_ = only
	c.start("n1")
	count(c.nodes["n1"], 1)
}

// Many that want to be the only one try at once, on two nodes.
func TestOneExclusiveConsumerWins(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2")
	c.nodes["n1"].declare("q")
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for _, s := range c.nodes {
		c.passed(s)
		for range 8 {
			wg.Go(func() {
				_, err := s.find("q").Consume(context.Background(), Subscription{Holder: s.holder("h"), Sink: newSink(0), Exclusive: true})
				if err == nil {
					mu.Lock()
					won++
					mu.Unlock()
				} else if !is[*ExclusiveError](err) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if won != 1 {
		t.Fatalf("%d consumers are exclusive", won)
	}
}

// The last consumer takes an auto-delete queue with it, wherever the others were. That both leave at once does not matter.
func TestAutoDeleteQueueGoesWithItsLastConsumerOfAllNodes(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2")
	a, b := c.nodes["n1"], c.nodes["n2"]
	ctx := context.Background()
	for i := range 20 {
		name := fmt.Sprint("q", i)
		_, err := a.v.Declare(ctx, Declaration{Namespace: "/", Name: name, AutoDelete: true})
		a.check(err)
		c.passed(b)
		ca, cb := a.consume(name, a.holder("a"), newSink(0), false), b.consume(name, b.holder("b"), newSink(0), false)
		if i == 0 {
			a.check(ca.Cancel(ctx))
			if _, err := a.v.Find("/", name, ""); err != nil {
				t.Fatalf("it went while there was a consumer on another node: %v", err)
			}
			a.check(cb.Cancel(ctx))
		} else {
			var wg sync.WaitGroup
			for _, x := range []*Consumer{ca, cb} {
				wg.Go(func() { a.check(x.Cancel(ctx)) })
			}
			wg.Wait()
		}
		for _, s := range c.nodes {
			c.passed(s)
			if _, err := s.v.Find("/", name, ""); !is[*topic.UnknownError](err) {
				t.Fatalf("queue %s is left: %v", name, err)
			}
		}
	}
}

func TestDeletingAQueueCancelsConsumersOnOtherNodes(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2")
	a, b := c.nodes["n1"], c.nodes["n2"]
	ctx := context.Background()
	a.declare("q")
	a.publish("q", "1", "2")
	c.passed(b)
	h, to := a.holder("a"), newSink(1)
	consumer := a.consume("q", h, to, false)
	to.await(t, "a message", func() bool { return len(to.got) == 1 })
	c.passed(b)
	if n, err := b.v.Delete(ctx, "/", "q", "", false, false); err != nil || n != 1 {
		t.Fatalf("%d messages, %v", n, err)
	}
	to.await(t, "the cancellation", func() bool { return len(to.cancelled) == 1 })
	a.check(h.Settle(ctx, []Lease{to.take()[0].lease}))
	a.check(consumer.Cancel(ctx))
	until(t, "nothing is left", func() bool {
		n := 0
		for _, prefix := range []string{cursorPrefix, consumerPrefix, latestPrefix, exclusivePrefix, boundPrefix} {
			a.store.Scan(prefix, func(string, []byte) bool { n++; return true })
		}
		a.v.mu.Lock()
		defer a.v.mu.Unlock()
		return n == 0 && len(a.v.queues) == 0 && len(a.indexRecords()) == 0
	})
	b.declare("q")
	c.passed(a)
	if n := a.ready("q"); n != 0 {
		t.Fatalf("a new queue has %d messages of the old", n)
	}
}

// While there is no majority whoever asks hears so soon, though others wait for what is on its way. Nothing is lost by it.
func TestWithoutAMajorityNobodyWaits(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1", "n2")
	a := c.nodes["n1"]
	ctx := context.Background()
	a.declare("q")
	a.declare("other")
	h, to, other := a.holder("h"), newSink(1), a.holder("other")
	a.publish("q", "1", "2", "3")
	held := a.get("q", h)
	full := newSink(1)
	full.out = 1
	idle := a.consume("other", other, newSink(0), false)
	consumer := a.consume("q", h, full, false)

	proposed := c.order.Len()
	c.order.Hold()
	full.settled(1)
	consumer.Wake() // its take is on its way
	until(t, "the take is proposed", func() bool { return c.order.Len() > proposed })
	settling := make(chan error, 1)
	go func() { settling <- h.Settle(ctx, []Lease{held.lease}) }()
	until(t, "the settlement is proposed", func() bool { return c.order.Len() > proposed+1 })
	c.order.Cut()
	for what, f := range map[string]func() error{
		"get": func() error {
			_, _, err := a.find("q").Get(ctx, other, false, func(*Delivery) { t.Error("something came") })
			return err
		},
		"purge":   func() error { _, err := a.v.Purge(ctx, "/", "q", ""); return err },
		"delete":  func() error { _, err := a.v.Delete(ctx, "/", "q", "", false, false); return err },
		"ready":   func() error { _, err := a.find("q").Ready(); return err },
		"declare": func() error { _, err := a.v.Declare(ctx, Declaration{Namespace: "/", Name: "new"}); return err },
		"consume": func() error {
			_, err := a.find("q").Consume(ctx, Subscription{Holder: other, Sink: to})
			return err
		},
		"cancel":      func() error { return consumer.Cancel(ctx) },
		"cancel idle": func() error { return idle.Cancel(ctx) },
		"requeue":     func() error { return h.Requeue(ctx, []Lease{held.lease}, Nacked) },
		"close":       func() error { return h.Close(ctx, ConnectionLost) },
	} {
		if err := quickly(t, what, f); !is[*logstore.UnavailableError](err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := quickly(t, "sweep", func() error { _, err := a.v.Sweep(ctx); return err }); err != nil {
		t.Errorf("a sweep: %v", err)
	}

	c.order.Mend()
	if err := <-settling; err != nil {
		t.Errorf("the settlement that was on its way: %v", err)
	}
	until(t, "what could not be done is done", func() bool {
		_, err := a.v.Sweep(ctx)
		a.check(err)
		return a.find("q").Consumers() == 0 && a.find("other").Consumers() == 0 && a.ready("q") == 2
	})
	last := a.holder("last")
	for _, body := range []string{"2", "3"} {
		g := a.get("q", last)
		if g.body != body {
			t.Fatalf("got %+v, want %s", g, body)
		}
		a.check(last.Settle(ctx, []Lease{g.lease}))
	}
	c.leftNothing("q")
}

// A Get that its caller leaves while the order stands still takes nothing away.
func TestAGetThatIsCalledOffGivesBack(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1")
	a := c.nodes["n1"]
	a.declare("q")
	a.publish("q", "x")
	h := a.holder("h")
	ctx, cancel := context.WithCancel(context.Background())
	n := c.order.Len()
	c.order.Hold()
	done := make(chan error, 1)
	go func() {
		_, _, err := a.find("q").Get(ctx, h, false, func(*Delivery) { t.Error("delivered to one who has left") })
		done <- err
	}()
	until(t, "the take is proposed", func() bool { return c.order.Len() > n })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.order.Mend()
	if g := a.body("q", a.holder("next"), "x"); g.redelivered {
		t.Fatalf("got %+v", g)
	}
}

// A requeue whose outcome nobody knows brings the message back all the same, on its own node too.
func TestARequeueOfUnknownOutcomeIsTakenIn(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "n1")
	a := c.nodes["n1"]
	a.declare("q")
	a.publish("q", "x", "y")
	h := a.holder("h")
	x, y := a.get("q", h), a.get("q", h)
	a.check(h.Requeue(context.Background(), []Lease{y.lease}, Nacked))
	ctx, cancel := context.WithCancel(context.Background())
	n := c.order.Len()
	c.order.Hold()
	done := make(chan error, 1)
	go func() { done <- h.Requeue(ctx, []Lease{x.lease}, Nacked) }()
	until(t, "it is proposed", func() bool { return c.order.Len() > n })
	cancel()
	if err := <-done; !is[*logstore.UnknownOutcomeError](err) {
		t.Fatal(err)
	}
	c.order.Mend()
	next := a.holder("next")
	until(t, "both are ready", func() bool { return a.ready("q") == 2 })
	a.body("q", next, "x")
	a.body("q", next, "y")
	if g, ok := a.tryGet("q", next); ok {
		t.Fatalf("%+v came twice", g)
	}
	a.check(h.Close(context.Background(), ChannelClosed))
	if g, ok := a.tryGet("q", next); ok {
		t.Fatalf("%+v came twice", g)
	}
}

// Reap is called now and then for nothing. It finds all claims of the dead still, whatever the names of nodes, of queues and of holders look like.
func TestTheOriginOfAClaimIsReadFromItsEnd(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"n1", "", `a "node":"x","epoch":1`, `back\slash`, "<é>", `,"node":"n2","epoch":7,"time":`} {
		at := stamp(node, 12345)
		value := append([]byte(`{"kind":"claim","queue":"q,\"node\":\"x\"","topic":"`+fmt.Sprintf("%032x", 1)+`","partition":0,"ranges":[[0,1]]`), suffix(`h,"node":"y","epoch":3`, at)...)
		value = append(append(value, timeField...), "17}"...)
		if o, ok := originOf(value); !ok || o != (origin{node, 12345}) {
			t.Errorf("node %q is read as %+v, %v", node, o, ok)
		}
	}
	if o, ok := originOf([]byte(`no record`)); ok {
		t.Errorf("got %+v", o)
	}
}
