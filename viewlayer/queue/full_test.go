package queue

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/message"
	"polylog/viewlayer/topic"
)

// A full disk refuses what is published and can be emptied: messages are taken, claimed, given back and settled one by one until there is room.
func TestFullDiskCanBeDrained(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	mem := vfs.NewMem()
	const segment = 64 << 10
	store, err := logstore.Open(logstore.Options{Dir: "log", FS: mem, SegmentBytes: segment, CheckpointBytes: segment})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // the test is over
	id := byte(0)
	topics := topic.Open(topic.Options{Store: store, Now: time.Now, NewID: func() topic.ID { id++; return topic.ID{id} }})
	v, err := Open(ctx, Options{Store: store, Topics: topics, Node: "n1", Now: time.Now, After: time.After, Go: func(f func()) { go f() }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Declare(ctx, Declaration{Namespace: "/", Name: "q", Durable: true}); err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(16 * segment)
	r := exchange.New(topics)
	to, err := r.Route("/", nil, []byte("q"), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := r.NewGathering()
	publish := func() error {
		g.Reset()
		if err := g.Add(to, &message.Published{RoutingKey: []byte("q"), Body: bytes.Repeat([]byte("x"), 1000)}, 1); err != nil {
			t.Fatal(err)
		}
		return g.Commit(ctx, logstore.Durable)
	}
	n := 0
	var full *logstore.DiskFullError
	for {
		if err := publish(); err != nil {
			if !errors.As(err, &full) {
				t.Fatal(err)
			}
			break
		}
		n++
	}
	q, h := findIn(t, v, "q"), v.NewHolder("h", nil)
	deadline := time.Now().Add(30 * time.Second)
	// Now and then something is refused until a checkpoint has let a file go.
	insist := func(what string, f func() error) {
		for {
			err := f()
			if err == nil {
				return
			}
			if !errors.As(err, &full) || time.Now().After(deadline) {
				t.Fatalf("%s on a full disk: %v", what, err)
			}
			time.Sleep(time.Millisecond) // a poll: the loop ends by its condition
		}
	}
	for i := range n {
		var l Lease
		take := func() error {
			_, ok, err := q.Get(ctx, h, false, func(d *Delivery) { l = d.Lease })
			if err == nil && !ok {
				t.Fatalf("the queue is empty after %d of %d messages", i, n)
			}
			return err
		}
		insist("taking", take)
		if i%10 == 0 {
			insist("giving back", func() error { return h.Requeue(ctx, []Lease{l}, Nacked) })
			insist("taking again", take)
		}
		insist("settling", func() error { return h.Settle(ctx, []Lease{l}) })
	}
	insist("publishing when there is room again", publish)
}
