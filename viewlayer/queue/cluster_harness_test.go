package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/viewlayer/queue/sameorder"
	"polylog/viewlayer/topic"
)

// crowd is several nodes, each with its own store, that follow one order.
type crowd struct {
	t     *testing.T
	order *sameorder.Order
	clock *atomic.Int64
	ids   *atomic.Int64
	epoch uint64
	nodes map[string]*stand
	ends  map[string]func() // of what runs beside a node
}

func newCrowd(t *testing.T, names ...string) *crowd {
	c := &crowd{t: t, order: sameorder.New(), clock: &atomic.Int64{}, ids: &atomic.Int64{}, nodes: map[string]*stand{}, ends: map[string]func(){}}
	c.clock.Store(1_700_000_000_000)
	for _, n := range names {
		c.start(n)
	}
	return c
}

// start starts a node with an empty disk, which takes in the whole order, and gives it the next epoch.
func (c *crowd) start(name string) *stand {
	c.t.Helper()
	store, err := logstore.Open(logstore.Options{Dir: "log", FS: vfs.NewMem(), SegmentBytes: 1 << 20, Sequencer: c.order})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { store.Close() }) //nolint:errcheck // the test is over
	s := &stand{t: c.t, store: store}
	c.epoch++
	epoch := c.epoch
	s.clock.Store(c.clock.Load())
	s.topics = topic.Open(topic.Options{Store: store, Now: s.now, NewID: func() topic.ID { return topic.ID([]byte(fmt.Sprintf("%016d", c.ids.Add(1)))) }})
	c.passed(s)
	if s.v, err = Open(context.Background(), Options{
		Store: store, Topics: s.topics, Node: name, Epoch: epoch, Shared: true, Now: s.now, After: time.After, Go: func(f func()) { go f() }, Logf: c.t.Logf,
	}); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.v.Follow(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, logstore.ErrClosed) {
			c.t.Errorf("following on node %s: %v", name, err)
		}
	}()
	c.ends[name] = func() { cancel(); <-done }
	c.t.Cleanup(c.ends[name])
	c.nodes[name] = s
	return s
}

// kill ends a node without a word: its store takes part in nothing more.
func (c *crowd) kill(name string) (node string, epoch uint64) {
	c.t.Helper()
	s := c.nodes[name]
	c.ends[name]()
	s.store.Close() //nolint:errcheck // nobody looks at it any more
	delete(c.nodes, name)
	return s.v.node, s.v.epoch
}

// passed waits until a node has applied what is in the order now.
func (c *crowd) passed(s *stand) {
	c.t.Helper()
	_, err := s.store.Commit(context.Background(), logstore.Txn{If: []logstore.Condition{logstore.KeyAbsent("there is none")}})
	c.t.Helper()
	s.check(err)
}

// dead tells that an epoch has ended, which every node has heard by now.
func (c *crowd) dead(node string, epoch uint64) func(string, uint64) bool {
	for _, s := range c.nodes {
		c.passed(s)
	}
	return func(n string, e uint64) bool { return n == node && e == epoch }
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// quickly fails the test if f takes long.
func quickly(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not return", what)
		return nil
	}
}

// body takes the message that must come with this body, which may take a moment to be known here.
func (s *stand) body(queue string, h *Holder, body string) (g got) {
	s.t.Helper()
	until(s.t, "message "+body, func() (ok bool) { g, ok = s.tryGet(queue, h); return ok })
	if g.body != body {
		s.t.Fatalf("got %+v, want %s", g, body)
	}
	return g
}
