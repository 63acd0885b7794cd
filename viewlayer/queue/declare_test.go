package queue

import (
	"context"
	"strings"
	"testing"

	"polylog/viewlayer/message"
	"polylog/viewlayer/topic"
)

func TestDeclarations(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	ctx := context.Background()
	_, err := s.topics.Create(ctx, topic.Spec{Namespace: "/", Name: "kafka", Partitions: 4, AckPolicy: topic.Retain, Durable: true})
	s.check(err)
	declare := func(d Declaration) error {
		d.Namespace = "/"
		_, err := s.v.Declare(ctx, d)
		return err
	}
	ok := func(err error) bool { return err == nil }
	args := func(pairs ...any) message.Table { return table(pairs...) }
	for _, tc := range []struct {
		what string
		d    Declaration
		is   func(error) bool
	}{
		{"passive, unknown", Declaration{Name: "q", Passive: true}, is[*topic.UnknownError]},
		{"new", Declaration{Name: "q", Durable: true, Arguments: args("x-queue-type", "classic", "x-requeue", "tail")}, ok},
		{"the same", Declaration{Name: "q", Durable: true, Arguments: args("x-requeue", "tail", "x-queue-type", "classic")}, ok},
		{"passive", Declaration{Name: "q", Passive: true}, ok},
		{"not durable", Declaration{Name: "q", Arguments: args("x-queue-type", "classic", "x-requeue", "tail")}, is[*InequivalentError]},
		{"auto-delete", Declaration{Name: "q", Durable: true, AutoDelete: true, Arguments: args("x-requeue", "tail", "x-queue-type", "classic")}, is[*InequivalentError]},
		{"an argument less", Declaration{Name: "q", Durable: true, Arguments: args("x-requeue", "tail")}, is[*InequivalentError]},
		{"another argument", Declaration{Name: "q", Durable: true, Arguments: args("x-requeue", "original", "x-queue-type", "classic")}, is[*InequivalentError]},
		{"reserved", Declaration{Name: "amq.mine"}, is[*topic.NameError]},
		{"reserved, by the broker", Declaration{Name: "amq.gen-1", ServerNamed: true}, ok},
		{"internal", Declaration{Name: IndexTopic, Durable: true}, is[*InternalError]},
		{"made by Kafka", Declaration{Name: "kafka", Durable: true}, ok},
		{"made by Kafka, as another", Declaration{Name: "kafka"}, is[*InequivalentError]},
		{"wrong type of argument", Declaration{Name: "w", Arguments: args("x-consumer-timeout", "soon")}, is[*ArgumentError]},
		{"argument out of range", Declaration{Name: "w", Arguments: args("x-consumer-timeout", -1)}, is[*ArgumentError]},
		{"wrong word", Declaration{Name: "w", Arguments: args("x-queue-type", "marvellous")}, is[*ArgumentError]},
		{"not served", Declaration{Name: "w", Arguments: args("x-message-ttl", 1000)}, is[*ArgumentError]},
		{"unknown argument", Declaration{Name: "u", Arguments: args("x-mine", true)}, ok},
		{"unknown argument left out", Declaration{Name: "u"}, ok},
		{"quorum, not durable", Declaration{Name: "w", Arguments: args("x-queue-type", "quorum")}, is[*ArgumentError]},
		{"exclusive", Declaration{Name: "e", Exclusive: true, Owner: "a"}, ok},
		{"exclusive, again", Declaration{Name: "e", Exclusive: true, Owner: "a"}, ok},
		{"exclusive to another", Declaration{Name: "e", Exclusive: true, Owner: "b"}, is[*LockedError]},
		{"exclusive to another, passive", Declaration{Name: "e", Passive: true, Owner: "b"}, is[*LockedError]},
	} {
		if err := declare(tc.d); !tc.is(err) {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
	if _, err := s.v.Find("/", "e", "b"); !is[*LockedError](err) {
		t.Errorf("finding an exclusive queue of another: %v", err)
	}
	if err := declare(Declaration{Name: "w", Arguments: args("x-delivery-limit", true)}); err == nil || !strings.Contains(err.Error(), "x-delivery-limit") {
		t.Errorf("the error does not name the argument: %v", err)
	}
	s.check(s.v.OwnerGone(ctx, "a"))
	if _, err := s.v.Find("/", "e", "a"); !is[*topic.UnknownError](err) {
		t.Errorf("an exclusive queue outlived its connection: %v", err)
	}
	s.check(declare(Declaration{Name: "e", Exclusive: true, Owner: "b"}))
	s.check(declare(Declaration{Name: "e2", Exclusive: true, Owner: "b"}))
	if _, err := s.v.Delete(ctx, "/", "e2", "b", false, false); err != nil {
		t.Error(err)
	}
	// A new process: what belonged to connections and what was not durable is gone, the rest is there.
	_, v := s.open("n1")
	for name, there := range map[string]bool{"q": true, "kafka": true, "e": false, "u": false, "amq.gen-1": false} {
		_, err := v.Find("/", name, "b")
		if there != (err == nil) {
			t.Errorf("%s after a restart: %v", name, err)
		}
	}
}

func TestAutoDeleteQueueGoesWithItsLastConsumer(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	ctx := context.Background()
	_, err := s.v.Declare(ctx, Declaration{Namespace: "/", Name: "q", AutoDelete: true})
	s.check(err)
	h := s.holder("h")
	_, ok := s.tryGet("q", h)
	if ok {
		t.Fatal("a message in a new queue")
	}
	a, b := s.consume("q", h, newSink(1), false), s.consume("q", h, newSink(1), false)
	s.check(a.Cancel(ctx))
	if _, err := s.v.Find("/", "q", ""); err != nil {
		t.Fatalf("gone with a consumer left: %v", err)
	}
	s.check(b.Cancel(ctx))
	if _, err := s.v.Find("/", "q", ""); !is[*topic.UnknownError](err) {
		t.Fatalf("still there: %v", err)
	}
}

func TestExclusiveConsumerIsAlone(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	q, h, ctx := s.find("q"), s.holder("h"), context.Background()
	only, err := q.Consume(context.Background(), Subscription{Holder: h, Sink: newSink(1), Exclusive: true})
	s.check(err)
	if _, err := q.Consume(context.Background(), Subscription{Holder: h, Sink: newSink(1)}); !is[*ExclusiveError](err) {
		t.Errorf("a second consumer: %v", err)
	}
	s.check(only.Cancel(ctx))
	_, err = q.Consume(context.Background(), Subscription{Holder: h, Sink: newSink(1)})
	s.check(err)
	if _, err := q.Consume(context.Background(), Subscription{Holder: h, Sink: newSink(1), Exclusive: true}); !is[*ExclusiveError](err) {
		t.Errorf("exclusive beside another: %v", err)
	}
}

// After a crash, what may have been out although the log does not know it is delivered as redelivered; nothing else is, and after an orderly end nothing new.
func TestWhatMayHaveBeenOutIsRedelivered(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	ctx := context.Background()
	s.declare("q")
	s.declare("never taken from")
	s.publish("never taken from", "x")
	s.publish("q", "a")
	s.check(s.v.Close(ctx))
	s.topics, s.v = s.open("n1")
	s.publish("q", "b")
	if g := s.get("q", s.holder("h")); g.body != "a" || g.redelivered {
		t.Fatalf("after an orderly end: %+v", g)
	}
	s.topics, s.v = s.open("n1") // the process before it was killed
	s.publish("q", "c", "d")
	if g := s.get("never taken from", s.holder("h")); g.redelivered {
		t.Errorf("never taken from before the crash: %+v", g)
	}
	// What is in doubt stays so over an orderly end, and takes nothing along.
	if g := s.get("q", s.holder("h")); g.body != "a" || !g.redelivered {
		t.Errorf("after a crash: %+v", g)
	}
	s.declare("other")
	s.publish("other", "x", "y")
	s.get("other", s.holder("h"))
	s.check(s.v.Close(ctx))
	s.topics, s.v = s.open("n1")
	h := s.holder("h")
	for _, want := range []got{{body: "a", redelivered: true}, {body: "b", redelivered: true}, {body: "c"}} {
		if g := s.get("q", h); g.body != want.body || g.redelivered != want.redelivered {
			t.Errorf("after a crash and an orderly end: %+v, want %+v", g, want)
		}
	}
	s.get("other", h)
	if g := s.get("other", h); g.body != "y" || g.redelivered {
		t.Errorf("not there when it crashed: %+v", g)
	}
	left := 0
	s.store.Scan(doubtPrefix, func(string, []byte) bool { left++; return true })
	if left != 0 {
		t.Errorf("%d notes of doubt are left when nothing is in doubt", left)
	}
}

// A process that is alone with the log takes away what earlier ones left, whatever the node was called, but for the messages of durable queues.
func TestAStartTakesAwayWhatWentWithTheLastProcess(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	ctx := context.Background()
	for _, d := range []Declaration{
		{Name: "transient"}, {Name: "exclusive", Durable: true, Exclusive: true, Owner: "c"}, {Name: "auto", Durable: true, AutoDelete: true}, {Name: "durable", Durable: true},
	} {
		d.Namespace = "/"
		_, err := s.v.Declare(ctx, d)
		s.check(err)
	}
	s.publish("auto", "x")
	full := newSink(1)
	full.out = 1
	for _, q := range []string{"auto", "durable"} {
		_, err := s.find(q).Consume(ctx, Subscription{Holder: s.holder("h"), Sink: full, Exclusive: true})
		s.check(err)
	}
	_, v := s.open("another name")
	for name, stays := range map[string]bool{"transient": false, "exclusive": false, "auto": true, "durable": true} {
		q, err := v.Find("/", name, "c")
		if (err == nil) != stays {
			t.Errorf("queue %s: %v", name, err)
		}
		if err == nil && q.Consumers() != 0 {
			t.Errorf("queue %s has %d consumers of the last process", name, q.Consumers())
		}
	}
	q := findIn(t, v, "auto")
	if n, err := q.Ready(); n != 1 || err != nil {
		t.Errorf("%d messages are left, %v", n, err)
	}
	c, err := q.Consume(ctx, Subscription{Holder: v.NewHolder("h", nil), Sink: full, Exclusive: true})
	s.check(err)
	s.check(c.Cancel(ctx))
	if _, err := v.Find("/", "auto", ""); !is[*topic.UnknownError](err) {
		t.Errorf("the last consumer left the queue there: %v", err)
	}
}

// What comes and goes leaves no keys.
func TestConsumersLeaveNoKeys(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.declare("q")
	count := func() (n int) {
		s.store.Scan("", func(string, []byte) bool { n++; return true })
		return n
	}
	ctx := context.Background()
	for i := range 3 {
		before := count()
		for _, exclusive := range []bool{false, true} {
			c, err := s.find("q").Consume(ctx, Subscription{Holder: s.holder("h"), Sink: newSink(0), Exclusive: exclusive})
			s.check(err)
			s.check(c.Cancel(ctx))
		}
		if after := count(); i > 0 && after != before {
			t.Errorf("%d keys have become %d", before, after)
		}
	}
}
