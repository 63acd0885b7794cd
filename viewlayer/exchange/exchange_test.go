package exchange

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/viewlayer/message"
	"polylog/viewlayer/topic"
)

// open returns a log with some topics: names and how many partitions they have.
func open(t *testing.T, partitions map[string]int) (*topic.Catalog, *Router) {
	t.Helper()
	s, err := logstore.Open(logstore.Options{Dir: "log", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // the test is over
	id := byte(0)
	c := topic.Open(topic.Options{Store: s, Now: time.Now, NewID: func() topic.ID { id++; return topic.ID{id} }})
	for name, n := range partitions {
		if _, err := c.Create(context.Background(), topic.Spec{Namespace: "/", Name: name, Partitions: n, Internal: name == "__own"}); err != nil {
			t.Fatal(err)
		}
	}
	return c, New(c)
}

func TestDefaultExchangeLeadsToTheQueueOfTheKey(t *testing.T) {
	t.Parallel()
	_, r := open(t, map[string]int{"orders": 1, "__own": 1})
	to, err := r.Route("/", nil, []byte("orders"), nil)
	if err != nil || len(to) != 1 || to[0].Name != "orders" {
		t.Fatalf("%v, %v", to, err)
	}
	for _, where := range [][2]string{{"/", "nowhere"}, {"v", "orders"}} {
		if to, err := r.Route(where[0], nil, []byte(where[1]), nil); err != nil || len(to) != 0 {
			t.Errorf("%v: %v, %v", where, to, err)
		}
	}
	var unknown *UnknownError
	if _, err := r.Route("/", []byte("amq.direct"), []byte("orders"), nil); !errors.As(err, &unknown) {
		t.Errorf("an exchange that is not there: %v", err)
	}
	var internal *InternalTopicError
	if _, err := r.Route("/", nil, []byte("__own"), nil); !errors.As(err, &internal) {
		t.Errorf("the broker's own topic: %v", err)
	}
}

func TestGatheringIsOneTransaction(t *testing.T) {
	t.Parallel()
	c, r := open(t, map[string]int{"a": 1, "b": 1, "gone": 1})
	s, ctx := c.Store(), context.Background()
	find := func(name string) *topic.Topic {
		x, err := c.Find("/", name)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	g := r.NewGathering()
	for i := range 10 {
		to := []*topic.Topic{find("a")}
		if i%2 == 1 {
			to = append(to, find("b"))
		}
		if i == 5 {
			to = append(to, find("gone"))
		}
		if err := g.Add(to, &message.Published{RoutingKey: []byte("k"), Body: []byte(fmt.Sprint(i))}, 7); err != nil {
			t.Fatal(err)
		}
	}
	if g.Len() != 10 || g.Bytes() < 10 {
		t.Fatalf("%d messages of %d bytes", g.Len(), g.Bytes())
	}
	a, b := find("a").Shards[0], find("b").Shards[0]
	if err := c.Delete(ctx, find("gone")); err != nil {
		t.Fatal(err)
	}
	before := s.Stats().Entries
	if err := g.Commit(ctx, logstore.Durable); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Entries - before; n != 1 {
		t.Errorf("%d transactions, want 1", n)
	}
	for sh, want := range map[logstore.Shard]string{a: "0123456789", b: "13579"} {
		chunk, err := s.Read(sh, 0, 1<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, batch := range chunk.Batches {
			for it := batch.Iter(nil); it.Next(); {
				got += string(it.Record().Value)
			}
		}
		if got != want || len(chunk.Batches) != 1 {
			t.Errorf("%d batches with %s, want one with %s", len(chunk.Batches), got, want)
		}
	}
	g.Reset()
	if g.Len() != 0 || g.Bytes() != 0 {
		t.Errorf("%d messages after a reset", g.Len())
	}
}

func TestKeyPicksThePartition(t *testing.T) {
	t.Parallel()
	c, r := open(t, map[string]int{"t": 5})
	x, err := c.Find("/", "t")
	if err != nil {
		t.Fatal(err)
	}
	var table message.TableBuilder
	table.Text(message.HeaderRecordKey, "foobar")
	headers, err := table.Table()
	if err != nil {
		t.Fatal(err)
	}
	keyed := append([]byte{0x20, 0}, headers.Bytes()...) // the flag of the headers property
	g := r.NewGathering()
	for range 10 {
		for _, props := range [][]byte{keyed, nil} {
			if err := g.Add([]*topic.Topic{x}, &message.Published{RoutingKey: []byte("t"), Properties: props, Body: []byte("m")}, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := g.Commit(context.Background(), logstore.Durable); err != nil {
		t.Fatal(err)
	}
	for p, sh := range x.Shards {
		want := int64(2)
		if p == topic.PartitionOf([]byte("foobar"), 5) {
			want += 10
		}
		if n, err := c.Store().Live(sh); err != nil || n != want {
			t.Errorf("partition %d has %d messages, want %d", p, n, want)
		}
	}
}

// What a plain message costs until it is handed to the log: nothing is allocated for it.
func TestAllocGathering(t *testing.T) {
	_, r := open(t, map[string]int{"orders": 1})
	g := r.NewGathering()
	body, props, key := make([]byte, 1024), []byte{0x10, 0, 2}, []byte("orders")
	var to []*topic.Topic
	n := testing.AllocsPerRun(100, func() {
		for range 100 {
			var err error
			if to, err = r.Route("/", nil, key, to[:0]); err != nil {
				t.Fatal(err)
			}
			if err := g.Add(to, &message.Published{RoutingKey: key, Properties: props, Body: body}, 1); err != nil {
				t.Fatal(err)
			}
		}
		g.Reset()
	})
	if n > 2 {
		t.Errorf("100 messages cost %v allocations", n)
	}
}
