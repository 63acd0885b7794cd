package kafka

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// oneOrder is an order outside the stores, that all of them follow.
type oneOrder struct {
	mu        sync.Mutex
	proposals [][]byte
	changed   chan struct{} // closed and replaced when something has changed
}

func (o *oneOrder) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.changed)
	o.changed = make(chan struct{})
}

// seat is a store's access to the order.
type seat struct {
	*oneOrder
	held bool // nothing is delivered
	down error
}

var errNoMajority = &logstore.UnavailableError{Err: errors.New("no majority")}

// hold keeps the store from seeing more of the order, until it is let go.
func (s *seat) hold()  { s.change(func() { s.held = true }) }
func (s *seat) letGo() { s.change(func() { s.held = false }) }

func (s *seat) cutOff(down error) { s.change(func() { s.down = down }) }

func (s *seat) Attach(*logstore.Store) error { return nil }

func (s *seat) Available() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *seat) Propose(_ context.Context, p []byte) (err error) {
	s.change(func() {
		if err = s.down; err == nil {
			s.proposals = append(s.proposals, slices.Clone(p))
		}
	})
	return err
}

func (s *seat) Follow(ctx context.Context, after uint64, deliver func(uint64, []byte) error) error {
	for i := int(after); ; {
		s.mu.Lock()
		list, changed := s.proposals, s.changed
		if s.held || s.down != nil {
			list = nil
		}
		s.mu.Unlock()
		for ; i < len(list); i++ {
			if err := deliver(uint64(i+1), slices.Clone(list[i])); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// proposed is how much the order has.
func (s *seat) proposed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.proposals)
}

// cluster is several brokers on stores that follow one order.
type cluster struct {
	t     testing.TB
	nodes []*node
	mu    sync.Mutex
	live  []*node
}

// node is a broker of a cluster. Its id is its place, from 0 on.
type node struct {
	*broker
	seat  *seat
	store *logstore.Store
	id    int32
}

func startCluster(t testing.TB, n int) *cluster {
	c := &cluster{t: t}
	order := &oneOrder{changed: make(chan struct{})}
	for i := range n {
		nd := &node{seat: &seat{oneOrder: order}, id: int32(i)}
		c.open(nd)
		c.nodes = append(c.nodes, nd)
	}
	c.live = slices.Clone(c.nodes)
	for _, nd := range c.nodes {
		nd.listen()
	}
	t.Cleanup(func() {
		for _, nd := range c.nodes {
			nd.seat.change(func() { nd.seat.held, nd.seat.down = false, nil })
		}
		for _, nd := range c.alive() {
			nd.stop()
		}
	})
	return c
}

func randomID() string {
	var id [8]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// open makes all of a node but its door.
func (c *cluster) open(nd *node) {
	t := c.t
	var err error
	if nd.store, err = logstore.Open(logstore.Options{Dir: "log", FS: vfs.NewMem(), SegmentBytes: 8 << 20, Sequencer: nd.seat}); err != nil {
		t.Fatal(err)
	}
	wake := make(chan struct{}, 1)
	groups, err := group.Open(group.Options{
		Store: nd.store, Now: time.Now, After: time.After, InitialDelay: 50 * time.Millisecond, SessionMin: 100 * time.Millisecond, NewID: randomID,
		Wake: func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		},
		Mine: func(namespace, name string) bool { return group.CoordinatorOf(c.ids(), namespace, name) == nd.id },
	})
	if err != nil {
		t.Fatal(err)
	}
	producers, err := group.NewProducers(group.ProducerOptions{Store: nd.store, Now: time.Now, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	nd.broker = &broker{t: t}
	nd.opts = Options{
		Store: nd.store, Groups: groups, Producers: producers, ClusterID: "polylog-test", NodeID: nd.id, AutoCreate: true, Partitions: 1,
		Topics: topic.Open(topic.Options{Store: nd.store, Now: time.Now, NewID: func() (id topic.ID) {
			rand.Read(id[:])
			return id
		}}),
		Advertise: func(conn net.Conn) (string, int32) { return "127.0.0.1", int32(conn.LocalAddr().(*net.TCPAddr).Port) },
		Brokers:   func(net.Conn) []Broker { return c.brokers() },
	}
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		timer := time.NewTimer(0)
		for {
			select {
			case <-done:
				return
			case <-wake:
			case <-timer.C:
			}
			if next := groups.Tick(time.Now()); !next.IsZero() {
				timer.Reset(time.Until(next))
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		groups.Close()
		ticking.Wait()
		nd.store.Close()
	})
}

func (c *cluster) alive() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.live)
}

func (c *cluster) ids() (ids []int32) {
	for _, nd := range c.alive() {
		ids = append(ids, nd.id)
	}
	return ids
}

func (c *cluster) brokers() (all []Broker) {
	for _, nd := range c.alive() {
		addr := nd.ln.Addr().(*net.TCPAddr)
		all = append(all, Broker{ID: nd.id, Host: "127.0.0.1", Port: int32(addr.Port), Rack: fmt.Sprint("rack ", nd.id)})
	}
	return all
}

// lose ends a node, and tells the others.
func (c *cluster) lose(id int32) {
	c.mu.Lock()
	c.live = slices.DeleteFunc(slices.Clone(c.live), func(nd *node) bool { return nd.id == id })
	c.mu.Unlock()
	gone := c.nodes[id]
	gone.opts.Groups.Reassigned()
	gone.stop()
	for _, nd := range c.alive() {
		nd.opts.Groups.Reassigned()
	}
}

// back lets clients in at a node again that was lost.
func (c *cluster) back(id int32) {
	nd := c.nodes[id]
	nd.listen()
	c.mu.Lock()
	c.live = append(slices.Clone(c.live), nd)
	slices.SortFunc(c.live, func(a, b *node) int { return int(a.id - b.id) })
	c.mu.Unlock()
	for _, nd := range c.alive() {
		nd.opts.Groups.Reassigned()
	}
}

// topic makes a topic and waits until all nodes know it.
func (c *cluster) topic(name string, partitions int) *topic.Topic {
	c.t.Helper()
	tp := c.nodes[0].topic(name, func(s *topic.Spec) { s.Partitions = partitions })
	for _, nd := range c.nodes {
		c.caughtUp(nd)
	}
	return tp
}

// caughtUp waits until the node has all that was ordered before.
func (c *cluster) caughtUp(nd *node) {
	c.t.Helper()
	if err := nd.server.catchUp(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// client returns a franz-go client of the cluster.
func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, nd := range c.alive() {
		seeds = append(seeds, nd.addr)
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.RetryTimeout(20 * time.Second), kgo.MetadataMinAge(50 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// coordinator returns the node that coordinates a group, and one that does not.
func (c *cluster) coordinator(name string) (is, isNot *node) {
	id := group.CoordinatorOf(c.ids(), "/", name)
	return c.nodes[id], c.nodes[(int(id)+1)%len(c.nodes)]
}
