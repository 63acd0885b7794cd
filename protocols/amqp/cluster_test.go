package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/queue"
	"polylog/viewlayer/queue/sameorder"
)

// newCluster starts brokers that follow one order, each with a log of its own.
func newCluster(t *testing.T, nodes int) (*sameorder.Order, []*broker) {
	order := sameorder.New()
	var bs []*broker
	for i := range nodes {
		b := startNode(t, logstore.Options{FS: vfs.NewMem(), Sequencer: order}, queue.Options{Node: fmt.Sprint("n", i+1), Epoch: uint64(i + 1), Shared: true})
		ctx, cancel := context.WithCancel(context.Background())
		var beside sync.WaitGroup
		beside.Go(func() {
			if err := b.queues.Follow(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, logstore.ErrClosed) {
				t.Errorf("following: %v", err)
			}
		})
		beside.Go(func() {
			for ctx.Err() == nil {
				b.queues.Sweep(ctx) //nolint:errcheck // what fails it does again
				select {
				case <-time.After(10 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
		t.Cleanup(func() { cancel(); beside.Wait() })
		bs = append(bs, b)
	}
	t.Cleanup(order.Mend)
	return order, bs
}

func TestMessagesAndAcknowledgementsCrossNodes(t *testing.T) {
	t.Parallel()
	_, nodes := newCluster(t, 2)
	a, b := nodes[0].open(), nodes[1].open()
	declare(t, a, "q")
	nodes[1].knows("q")
	ds, err := b.Consume("q", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := a.QueueDeclarePassive("q", true, false, false, false, nil); err != nil || st.Consumers > 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	put(t, a, "q", "x")
	d := next(t, ds)
	if string(d.Body) != "x" || d.Redelivered {
		t.Fatalf("got %+v", d)
	}
	here, err := a.Consume("q", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Cancel(d.ConsumerTag, false); err != nil {
		t.Fatal(err)
	}
	if err := d.Nack(false, true); err != nil {
		t.Fatal(err)
	}
	if d = next(t, here); string(d.Body) != "x" || !d.Redelivered {
		t.Fatalf("got %+v", d)
	}
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	nodes[1].ready("q", 0)
}

// knows waits until the node has heard of a queue.
func (b *broker) knows(name string) {
	b.t.Helper()
	until(b.t, "the queue is known", func() bool { _, err := b.queues.Find("/", name, ""); return err == nil })
}

// A queue that is deleted through one node ends consumers of another, and exclusive queues are locked on all.
func TestWhatOneNodeDoesToAQueueOthersSee(t *testing.T) {
	t.Parallel()
	_, nodes := newCluster(t, 2)
	a, b := nodes[0].open(), nodes[1].open()
	declare(t, a, "q")
	nodes[1].knows("q")
	cancelled := b.NotifyCancel(make(chan string, 1))
	if _, err := b.Consume("q", "mine", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.QueueDelete("q", false, false, false); err != nil {
		t.Fatal(err)
	}
	select {
	case tag := <-cancelled:
		if tag != "mine" {
			t.Fatalf("%q was cancelled", tag)
		}
	case <-time.After(patience):
		t.Fatal("the consumer was not cancelled")
	}
	if _, err := a.QueueDeclare("own", false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	until(t, "the queue is known to be locked", func() bool {
		_, err := nodes[1].queues.Find("/", "own", "")
		return is[*queue.LockedError](err)
	})
	_, err := b.QueueDeclarePassive("own", false, false, true, false, nil)
	refusedWith(t, err, wire.ResourceLocked)
}

// Without a majority, what was published with confirms is refused at once, and the connection goes on.
func TestConfirmsWithoutAMajorityAreNegative(t *testing.T) {
	t.Parallel()
	order, nodes := newCluster(t, 1)
	ch := nodes[0].open()
	declare(t, ch, "q")
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	publish := func(body string) *client.DeferredConfirmation {
		t.Helper()
		c, err := ch.PublishWithDeferredConfirm("", "q", false, false, client.Publishing{Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	answer := func(c *client.DeferredConfirmation, want bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if got, err := c.WaitContext(ctx); err != nil || got != want {
			t.Fatalf("confirmed %v, %v; want %v", got, err, want)
		}
	}
	answer(publish("before"), true)
	order.Cut()
	answer(publish("during"), false)
	answer(publish("still"), false)
	order.Mend()
	answer(publish("after"), true)
	nodes[0].ready("q", 2)
	// One that is on its way has an outcome that nobody knows.
	n := order.Len()
	order.Hold()
	c := publish("underway")
	until(t, "it is on its way", func() bool { return order.Len() > n })
	order.Cut()
	answer(c, false)
	order.Mend()
	answer(publish("last"), true)
	nodes[0].ready("q", 4)
}

// What is published without confirms waits for the majority, and its client knows.
func TestPublishingWithoutConfirmsWaitsForTheMajority(t *testing.T) {
	t.Parallel()
	order, nodes := newCluster(t, 1)
	conn := nodes[0].dial()
	blocked := conn.NotifyBlocked(make(chan client.Blocking, 2))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	declare(t, ch, "q")
	order.Cut()
	put(t, ch, "q", "1", "2")
	if b := <-blocked; !b.Active || b.Reason != "no majority of the cluster" {
		t.Fatalf("got %+v", b)
	}
	order.Mend()
	if b := <-blocked; b.Active {
		t.Fatalf("got %+v", b)
	}
	nodes[0].ready("q", 2)
	if _, err := ch.QueueDeclarePassive("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
}

func TestSynchronousMethodsWithoutAMajorityEndTheConnection(t *testing.T) {
	t.Parallel()
	order, nodes := newCluster(t, 1)
	ch := nodes[0].open()
	declare(t, ch, "q")
	declare(t, ch, "empty")
	declare(t, ch, "sent")
	put(t, ch, "q", "x")
	nodes[0].ready("q", 1)
	for name, m := range map[string]wire.Method{
		"declare":             &wire.QueueDeclare{Queue: []byte("new")},
		"get":                 &wire.BasicGet{Queue: []byte("q")},
		"purge":               &wire.QueuePurge{Queue: []byte("q")},
		"delete":              &wire.QueueDelete{Queue: []byte("q")},
		"consume":             &wire.BasicConsume{Queue: []byte("q")},
		"cancel":              &wire.BasicCancel{ConsumerTag: []byte("tag")},
		"get after a publish": &wire.BasicGet{Queue: []byte("empty")},
	} {
		r := nodes[0].login()
		r.channel(1)
		r.send(1, &wire.BasicConsume{Queue: []byte("empty"), ConsumerTag: []byte("tag")})
		expect[wire.BasicConsumeOk](r, 1)
		order.Cut()
		if name == "get after a publish" {
			r.publish(1, "sent", "y")
		}
		r.send(1, m)
		if c := r.closing(wire.ConnectionForced); c.ClassID != m.ID().Class() {
			t.Errorf("%s: %+v", name, c)
		}
		order.Mend()
		r.ended()
	}
	until(t, "no consumers are left", func() bool {
		q, err := nodes[0].queues.Find("/", "empty", "")
		return err == nil && q.Consumers() == 0
	})
	nodes[0].ready("q", 1)
	nodes[0].ready("sent", 1)
}

// closing sees that the broker closes the connection for an error of this code, and answers. What still had to be done may keep the socket open.
func (r *raw) closing(code wire.Code) *wire.ConnectionClose {
	r.t.Helper()
	m := expect[wire.ConnectionClose](r, 0)
	if wire.Code(m.ReplyCode) != code {
		r.t.Fatalf("closed with %d %s, expected %d", m.ReplyCode, m.ReplyText, code)
	}
	r.send(0, &wire.ConnectionCloseOk{})
	return m
}

// What a client acknowledges while there is no majority is settled when there is one, and its connection stays open.
func TestAcknowledgementsWaitForTheMajority(t *testing.T) {
	t.Parallel()
	order, nodes := newCluster(t, 1)
	ch := nodes[0].open()
	declare(t, ch, "q")
	ds, err := ch.Consume("q", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, ch, "q", "1", "2", "3")
	got := []client.Delivery{next(t, ds), next(t, ds), next(t, ds)}
	order.Cut()
	for i, f := range []func() error{
		func() error { return got[0].Ack(false) }, func() error { return got[1].Nack(false, true) }, func() error { return got[2].Reject(false) },
	} {
		if err := f(); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	nothing(t, ds)
	order.Mend()
	if d := next(t, ds); string(d.Body) != "2" || !d.Redelivered {
		t.Fatalf("got %+v", d)
	} else if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclarePassive("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	q, err := nodes[0].topics.Find("/", "q")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := nodes[0].store.Live(q.Shards[0]); err != nil || n != 0 {
		t.Fatalf("%d messages are left, %v", n, err)
	}
}

// Connections that wait for the outcome of something end when the broker shuts down, also while there is no majority.
func TestABrokerWithoutAMajorityShutsDown(t *testing.T) {
	t.Parallel()
	order, nodes := newCluster(t, 1)
	b := nodes[0]
	ch := b.open()
	declare(t, ch, "q")
	put(t, ch, "q", "1", "2", "3")
	b.ready("q", 3)
	r := b.login()
	r.channel(1)
	r.send(1, &wire.BasicGet{Queue: []byte("q")})
	g := expect[wire.BasicGetOk](r, 1)
	r.content(1)
	getting := b.login()
	getting.channel(1)

	n := order.Len()
	order.Hold()
	r.send(1, &wire.BasicAck{DeliveryTag: g.DeliveryTag})
	getting.send(1, &wire.BasicGet{Queue: []byte("q")})
	until(t, "both are on their way", func() bool { return order.Len() == n+2 })
	order.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.server.Drain(ctx) }()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it waited for nobody: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	order.Mend()
}
