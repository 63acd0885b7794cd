package queue

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/message"
	"polylog/viewlayer/topic"
)

// BenchmarkConsumeAndSettle takes and settles messages of 1 KiB that wait, with a prefetch of 200 and settlements of what has come meanwhile: what a message costs the
// queue view. The log is on a real disk.
func BenchmarkConsumeAndSettle(b *testing.B) {
	ctx := context.Background()
	store, err := logstore.Open(logstore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // the benchmark is over
	id := byte(0)
	topics := topic.Open(topic.Options{Store: store, Now: time.Now, NewID: func() topic.ID { id++; return topic.ID{id} }})
	v, err := Open(ctx, Options{Store: store, Topics: topics, Node: "n", Now: time.Now, After: time.After, Go: func(f func()) { go f() }})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := v.Declare(ctx, Declaration{Namespace: "/", Name: "q", Durable: true}); err != nil {
		b.Fatal(err)
	}
	r := exchange.New(topics)
	g := r.NewGathering()
	to, err := r.Route("/", nil, []byte("q"), nil)
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 1024)
	for i := 0; i < b.N; {
		g.Reset()
		for ; i < b.N && g.Len() < 500; i++ {
			if err := g.Add(to, &message.Published{RoutingKey: []byte("q"), Properties: []byte{0x10, 0, 2}, Body: body}, 1); err != nil {
				b.Fatal(err)
			}
		}
		if err := g.Commit(ctx, logstore.Durable); err != nil {
			b.Fatal(err)
		}
	}
	q, err := v.Find("/", "q", "")
	if err != nil {
		b.Fatal(err)
	}
	h := v.NewHolder("h", nil)
	sink := &countingSink{prefetch: 200, leases: make(chan []Lease, 1000)}
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	c, err := q.Consume(context.Background(), Subscription{Holder: h, Sink: sink})
	if err != nil {
		b.Fatal(err)
	}
	txns := 0
	for left := b.N; left > 0; {
		ls := <-sink.leases
		for more := true; more; {
			select {
			case m := <-sink.leases:
				ls = append(ls, m...)
			default:
				more = false
			}
		}
		if err := h.Settle(ctx, ls); err != nil {
			b.Fatal(err)
		}
		left -= len(ls)
		txns++
		sink.settled(len(ls))
		c.Wake()
	}
	b.ReportMetric(float64(b.N)/float64(txns), "messages/settlement")
}

// countingSink has a prefetch and hands the leases on.
type countingSink struct {
	prefetch int
	mu       sync.Mutex
	out      int
	leases   chan []Lease
}

func (s *countingSink) Reserve(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.prefetch-s.out)
	s.out += n
	return n
}

func (s *countingSink) settled(n int) { s.Release(n) }

func (s *countingSink) Release(n int) {
	s.mu.Lock()
	s.out -= n
	s.mu.Unlock()
}

func (s *countingSink) Cancelled(string) {}

func (s *countingSink) Deliver(ds []Delivery) int {
	ls := make([]Lease, len(ds))
	for i := range ds {
		ls[i] = ds[i].Lease
	}
	s.leases <- ls
	return len(ds)
}

// BenchmarkConsumeAndCancel is what a client's coming and going costs.
func BenchmarkConsumeAndCancel(b *testing.B) {
	ctx := context.Background()
	store, err := logstore.Open(logstore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // the benchmark is over
	id := byte(0)
	topics := topic.Open(topic.Options{Store: store, Now: time.Now, NewID: func() topic.ID { id++; return topic.ID{id} }})
	v, err := Open(ctx, Options{Store: store, Topics: topics, Node: "n", Now: time.Now, After: time.After, Go: func(f func()) { go f() }})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := v.Declare(ctx, Declaration{Namespace: "/", Name: "q", Durable: true}); err != nil {
		b.Fatal(err)
	}
	q, err := v.Find("/", "q", "")
	if err != nil {
		b.Fatal(err)
	}
	h := v.NewHolder("h", nil)
	b.ReportAllocs()
	for b.Loop() {
		c, err := q.Consume(ctx, Subscription{Holder: h, Sink: &countingSink{}})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Cancel(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
