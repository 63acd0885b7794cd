package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/message"
	"polylog/viewlayer/topic"
)

// stand is a store with the queues of one or more nodes on it, and a clock that tests move.
type stand struct {
	t      *testing.T
	store  *logstore.Store
	topics *topic.Catalog
	v      *View
	clock  atomic.Int64 // Unix ms
	ids    atomic.Int64
}

// newStand opens a store in memory-backed files and the queues of node "n1" on it.
func newStand(t *testing.T, change ...func(*Options)) *stand {
	t.Helper()
	s := &stand{t: t}
	s.clock.Store(1_700_000_000_000)
	store, err := logstore.Open(logstore.Options{Dir: "log", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // the test is over
	s.store = store
	s.topics, s.v = s.open("n1", change...)
	return s
}

func (s *stand) now() time.Time { return time.UnixMilli(s.clock.Load()) }

// open opens the queues once more, as a process of the node does that starts.
func (s *stand) open(node string, change ...func(*Options)) (*topic.Catalog, *View) {
	s.t.Helper()
	topics := topic.Open(topic.Options{Store: s.store, Now: s.now, NewID: func() topic.ID {
		return topic.ID([]byte(fmt.Sprintf("%s-%013d", node[:2], s.ids.Add(1))))
	}})
	o := Options{
		Store: s.store, Topics: topics, Node: node, Now: s.now, After: time.After, Go: func(f func()) { go f() }, Logf: s.t.Logf,
	}
	for _, f := range change {
		f(&o)
	}
	v, err := Open(context.Background(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return topics, v
}

func (s *stand) declare(name string, args ...any) {
	s.t.Helper()
	if _, err := s.v.Declare(context.Background(), Declaration{Namespace: "/", Name: name, Durable: true, Arguments: table(args...)}); err != nil {
		s.t.Fatal(err)
	}
}

// publish appends messages with these bodies, in one transaction each.
func (s *stand) publish(queue string, bodies ...string) {
	s.t.Helper()
	r := exchange.New(s.topics)
	g := r.NewGathering()
	for _, b := range bodies {
		to, err := r.Route("/", nil, []byte(queue), nil)
		if err != nil {
			s.t.Fatal(err)
		}
		g.Reset()
		if err := g.Add(to, &message.Published{RoutingKey: []byte(queue), Body: []byte(b)}, s.clock.Load()); err != nil {
			s.t.Fatal(err)
		}
		if err := g.Commit(context.Background(), logstore.Durable); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stand) find(queue string) *Queue { return findIn(s.t, s.v, queue) }

func findIn(t *testing.T, v *View, queue string) *Queue {
	t.Helper()
	q, err := v.Find("/", queue, "")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// got is a delivery that outlives its call.
type got struct {
	body             string
	lease            Lease
	offset           int64
	acquired, failed uint32
	redelivered      bool
}

func copyOf(d *Delivery) got {
	return got{string(d.Record.Value), d.Lease, d.Offset, d.Acquired, d.Failed, d.Redelivered}
}

// get takes one message, or fails the test.
func (s *stand) get(queue string, h *Holder) got {
	s.t.Helper()
	g, ok := s.tryGet(queue, h)
	if !ok {
		s.t.Fatalf("queue %s is empty", queue)
	}
	return g
}

func (s *stand) tryGet(queue string, h *Holder) (g got, ok bool) {
	s.t.Helper()
	_, ok, err := s.find(queue).Get(context.Background(), h, false, func(d *Delivery) { g = copyOf(d) })
	if err != nil {
		s.t.Fatal(err)
	}
	return g, ok
}

func (s *stand) holder(name string) *Holder { return s.v.NewHolder(name, nil) }

// check fails the test if err is one.
func (s *stand) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) ready(queue string) int64 {
	s.t.Helper()
	n, err := s.find(queue).Ready()
	s.check(err)
	return n
}

// indexRecords returns the live records of the index topic, by offset.
func (s *stand) indexRecords() []entry {
	s.t.Helper()
	var es []entry
	s.eachIndexRecord(func(_ int64, e entry) { es = append(es, e) })
	return es
}

func (s *stand) eachIndexRecord(f func(offset int64, e entry)) {
	s.t.Helper()
	s.check(s.store.Sync(context.Background()))
	s.check(commitDurable(s.store))
	from, next, err := s.store.Bounds(s.v.index)
	s.check(err)
	for from < next {
		chunk, err := s.store.Read(s.v.index, from, 1<<20, nil)
		s.check(err)
		for _, b := range chunk.Batches {
			it := b.Iter(nil)
			for it.Next() {
				e, _, _, err := parseEntry(it.Record().Value)
				s.check(err)
				f(it.Offset(), e)
			}
			s.check(it.Err())
		}
		from = chunk.Next
	}
}

func commitDurable(s *logstore.Store) error {
	_, err := s.Commit(context.Background(), logstore.Txn{})
	return err
}

// sink is a consumer with a prefetch. Its methods are safe to call from the test.
type sink struct {
	mu        sync.Mutex
	prefetch  int // 0: no limit
	out       int
	got       []got
	closed    bool
	cancelled []string
	arrived   chan struct{} // holds one token
}

func newSink(prefetch int) *sink { return &sink{prefetch: prefetch, arrived: make(chan struct{}, 1)} }

func (s *sink) Reserve(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0
	}
	if s.prefetch > 0 {
		n = min(n, s.prefetch-s.out)
	}
	s.out += n
	return n
}

func (s *sink) Release(n int) {
	s.mu.Lock()
	s.out -= n
	s.mu.Unlock()
}

func (s *sink) Deliver(ds []Delivery) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.out -= len(ds)
		return 0
	}
	for i := range ds {
		s.got = append(s.got, copyOf(&ds[i]))
	}
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	return len(ds)
}

func (s *sink) Cancelled(reason string) {
	s.mu.Lock()
	s.cancelled = append(s.cancelled, reason)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// settled gives credit back.
func (s *sink) settled(n int) {
	s.mu.Lock()
	s.out -= n
	s.mu.Unlock()
}

// await waits until f, called with the sink locked, is true.
func (s *sink) await(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		ok := f()
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.arrived:
		case <-deadline:
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Fatalf("waited in vain for %s; got %d messages", what, len(s.got))
		}
	}
}

// take returns what has arrived and forgets it.
func (s *sink) take() []got {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.got
	s.got = nil
	return g
}

func (s *stand) consume(queue string, h *Holder, to *sink, noAck bool) *Consumer {
	s.t.Helper()
	c, err := s.find(queue).Consume(context.Background(), Subscription{Holder: h, Sink: to, NoAck: noAck})
	s.check(err)
	return c
}

// table makes an AMQP table of names and values.
func table(pairs ...any) message.Table {
	if len(pairs) == 0 {
		return message.Table{}
	}
	var b message.TableBuilder
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case string:
			b.Text(name, v)
		case int:
			b.Int64(name, int64(v))
		case bool:
			b.Bool(name, v)
		}
	}
	t, err := b.Table()
	if err != nil {
		panic(err)
	}
	return t
}

// takeSome takes up to n messages in one go, as a consumer with that much credit does; it may be fewer than there are.
func (s *stand) takeSome(queue string, h *Holder, n int) []got {
	s.t.Helper()
	q, err := s.find(queue).lock(context.Background())
	s.check(err)
	defer q.taking.pass()
	to := newSink(n)
	q.taker.grants = q.taker.grants[:0]
	q.taker.grant(h, nil, to, false, to.Reserve(n))
	k, err := q.take(context.Background())
	s.check(err)
	if k != len(to.got) {
		s.t.Fatalf("%d messages were taken and %d delivered", k, len(to.got))
	}
	return to.got
}
