package amqp

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"polylog/protocols/amqp/wire"
)

func TestConsumerTags(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	r := b.login()
	r.channel(1)
	r.channel(2)
	r.send(1, &wire.QueueDeclare{Queue: []byte("orders"), Exclusive: true})
	expect[wire.QueueDeclareOk](r, 1)
	seen := map[string]bool{}
	for range 3 {
		r.send(1, &wire.BasicConsume{Queue: []byte("orders")})
		tag := string(expect[wire.BasicConsumeOk](r, 1).ConsumerTag)
		if seen[tag] || !strings.HasPrefix(tag, "amq.ctag-") {
			t.Errorf("tag %q", tag)
		}
		seen[tag] = true
	}
	for _, ch := range []uint16{1, 2} { // a tag is a channel's
		r.send(ch, &wire.BasicConsume{Queue: []byte("orders"), ConsumerTag: []byte("me")})
		expect[wire.BasicConsumeOk](r, ch)
	}
	r.send(1, &wire.BasicCancel{ConsumerTag: []byte("unheard-of")})
	if m := expect[wire.BasicCancelOk](r, 1); string(m.ConsumerTag) != "unheard-of" {
		t.Errorf("%q was cancelled", m.ConsumerTag)
	}
	r.send(1, &wire.BasicCancel{ConsumerTag: []byte("me")})
	expect[wire.BasicCancelOk](r, 1)
	r.send(1, &wire.BasicConsume{Queue: []byte("orders"), ConsumerTag: []byte("me")})
	expect[wire.BasicConsumeOk](r, 1)
	r.send(1, &wire.BasicConsume{Queue: []byte("orders"), ConsumerTag: []byte("me")})
	r.closed(wire.NotAllowed)
}

func TestExclusiveConsumer(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	if _, err := ch.Consume("orders", "first", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err := b.open().Consume("orders", "", false, true, false, false, nil)
	refusedWith(t, err, wire.AccessRefused)
	if err := ch.Cancel("first", false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("orders", "alone", false, true, true /* no-local, which has no effect */, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err = b.open().Consume("orders", "", false, false, false, false, nil)
	refusedWith(t, err, wire.AccessRefused)
}

func TestConsumingFromNowhere(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	_, err := b.open().Consume("nowhere", "", false, false, false, false, nil)
	refusedWith(t, err, wire.NotFound)
	_, _, err = b.open().Get("nowhere", false)
	refusedWith(t, err, wire.NotFound)
	_, err = b.open().Consume("__claims", "", false, false, false, false, nil)
	refusedWith(t, err, wire.AccessRefused)
}

func TestPrefetchOfConsumersAndOfTheChannel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		each, all        int // prefetch
		noAck            bool
		consumers, comes int
	}{
		{"no limit", 0, 0, false, 1, 1000}, {"each consumer", 10, 0, false, 2, 20}, {"the channel", 0, 15, false, 2, 15}, {"both, the channel lower", 10, 15, false, 2, 15},
		{"both, the consumers lower", 5, 15, false, 2, 10}, {"without acknowledgement there is none", 5, 5, true, 2, 1000}, {"one", 1, 0, false, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			ch := b.open()
			declare(t, ch, "orders")
			for i := range 1000 {
				put(t, ch, "orders", fmt.Sprint(i))
			}
			b.ready("orders", 1000)
			if err := ch.Qos(c.each, 0, false); err != nil {
				t.Fatal(err)
			}
			if err := ch.Qos(c.all, 0, true); err != nil {
				t.Fatal(err)
			}
			var lock sync.Mutex
			var got []client.Delivery
			for range c.consumers {
				ds, err := ch.Consume("orders", "", c.noAck, false, false, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					for d := range ds {
						lock.Lock()
						got = append(got, d)
						lock.Unlock()
					}
				}()
			}
			count := func() int {
				lock.Lock()
				defer lock.Unlock()
				return len(got)
			}
			until(t, "the prefetch is used", func() bool { return count() == c.comes })
			if _, err := ch.QueueDeclarePassive("orders", true, false, false, false, nil); err != nil { // a round trip, after which one too many would be there
				t.Fatal(err)
			}
			if n := count(); n != c.comes {
				t.Fatalf("%d came, expected %d", n, c.comes)
			}
			if c.comes == 1000 {
				return
			}
			// Each acknowledgement brings as many as it settles.
			last := uint64(0)
			for _, d := range got {
				last = max(last, d.DeliveryTag)
			}
			if err := ch.Ack(last, true); err != nil {
				t.Fatal(err)
			}
			until(t, "the prefetch is used again", func() bool { return count() == 2*c.comes })
			until(t, "all are acknowledged", func() bool { return b.server.Figures().Acknowledged == int64(c.comes) })
		})
	}
}

func TestPrefetchOfTheChannelChangesAtOnceAndThatOfConsumersForNewOnes(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	for i := range 100 {
		put(t, ch, "orders", fmt.Sprint(i))
	}
	if err := ch.Qos(3, 0, true); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("orders", "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	until(t, "three come", func() bool { return b.server.Figures().Delivered == 3 })
	if err := ch.Qos(10, 0, true); err != nil {
		t.Fatal(err)
	}
	until(t, "ten come", func() bool { return b.server.Figures().Delivered == 10 })
	if err := ch.Qos(1, 0, false); err != nil { // for consumers to come
		t.Fatal(err)
	}
	if err := ch.Qos(0, 0, true); err != nil {
		t.Fatal(err)
	}
	until(t, "all come", func() bool { return b.server.Figures().Delivered == 100 })
}

func TestConsumersShareByTurns(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	pub := b.open()
	declare(t, pub, "orders")
	var counts [3]int
	var lock sync.Mutex
	for i := range counts {
		ch := b.open()
		if err := ch.Qos(1, 0, false); err != nil {
			t.Fatal(err)
		}
		ds, err := ch.Consume("orders", "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for d := range ds {
				lock.Lock()
				counts[i]++
				lock.Unlock()
				d.Ack(false) //nolint:errcheck // the test sees that something is missing
			}
		}()
	}
	for i := range 600 {
		put(t, pub, "orders", fmt.Sprint(i))
	}
	until(t, "all are acknowledged", func() bool { return b.server.Figures().Acknowledged == 600 })
	lock.Lock()
	defer lock.Unlock()
	for i, n := range counts {
		if n < 60 {
			t.Errorf("consumer %d got %d of 600", i, n)
		}
	}
}

func TestSlowConsumerDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	pub := b.open()
	declare(t, pub, "orders")
	slow := b.open()
	if err := slow.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	stuck, err := slow.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, pub, "orders", "stuck")
	next(t, stuck)
	ds, err := b.open().Consume("orders", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		put(t, pub, "orders", fmt.Sprint(i))
	}
	for i := range 100 {
		if d := next(t, ds); string(d.Body) != fmt.Sprint(i) {
			t.Fatalf("%q came where %d was due", d.Body, i)
		}
	}
}

func TestGetSaysWhatRemains(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	put(t, ch, "orders", "a", "b", "c")
	for left := 2; left >= 0; left-- {
		d, ok, err := ch.Get("orders", false)
		if err != nil || !ok || int(d.MessageCount) != left || d.Redelivered {
			t.Fatalf("%v %v %+v", ok, err, d)
		}
	}
	if _, ok, err := ch.Get("orders", false); ok || err != nil {
		t.Errorf("one more, %v", err)
	}
	if f := b.server.Figures(); f.Got != 3 || f.GotNothing != 1 {
		t.Errorf("figures %+v", f)
	}
}

func TestGetAndConsumeDeliverEachMessageToOneOnly(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	pub := b.open()
	declare(t, pub, "orders")
	const n = 2000
	for i := range n {
		put(t, pub, "orders", fmt.Sprint(i))
	}
	b.ready("orders", n)
	var lock sync.Mutex
	seen := map[string]int{}
	take := func(d client.Delivery) {
		lock.Lock()
		seen[string(d.Body)]++
		lock.Unlock()
		d.Ack(false) //nolint:errcheck // the test sees that something is missing
	}
	var wg sync.WaitGroup
	for range 3 {
		ch := b.open()
		wg.Go(func() {
			for {
				d, ok, err := ch.Get("orders", false)
				if err != nil || !ok {
					return
				}
				take(d)
			}
		})
		other := b.open()
		if err := other.Qos(20, 0, false); err != nil {
			t.Fatal(err)
		}
		ds, err := other.Consume("orders", "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for d := range ds {
				take(d)
			}
		}()
	}
	wg.Wait()
	until(t, "all are acknowledged", func() bool { return b.server.Figures().Acknowledged == n })
	lock.Lock()
	defer lock.Unlock()
	for body, times := range seen {
		if times != 1 {
			t.Errorf("message %s came %d times", body, times)
		}
	}
	if len(seen) != n {
		t.Errorf("%d messages came", len(seen))
	}
}

func TestNackRejectAndRecoverBringMessagesBack(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for name, back := range map[string]func(*client.Channel) error{
		"nack": func(ch *client.Channel) error { return ch.Nack(3, true, true) },
		"reject": func(ch *client.Channel) error {
			for tag := range uint64(3) {
				if err := ch.Reject(tag+1, true); err != nil {
					return err
				}
			}
			return nil
		},
		"recover": func(ch *client.Channel) error {
			//lint:ignore SA1019 clients that are old may use it
			return ch.Recover(true)
		},
		"channel close": func(ch *client.Channel) error { return ch.Close() },
	} {
		ch := b.open()
		declare(t, ch, name)
		put(t, ch, name, "a", "b", "c", "d")
		for range 3 {
			if d, ok, err := ch.Get(name, false); err != nil || !ok || d.Redelivered {
				t.Fatal(name, ok, err)
			}
		}
		if err := back(ch); err != nil {
			t.Fatal(name, err)
		}
		b.ready(name, 4)
		other := b.open()
		for i, want := range []string{"a", "b", "c", "d"} { // at their place
			d, ok, err := other.Get(name, true)
			if err != nil || !ok || string(d.Body) != want || d.Redelivered != (i < 3) {
				t.Errorf("%s: %v %v %q redelivered %v, expected %s", name, ok, err, d.Body, d.Redelivered, want)
			}
		}
	}
}

func TestRejectedForGoodIsGone(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	put(t, ch, "orders", "a", "b", "c")
	for range 3 {
		if _, ok, err := ch.Get("orders", false); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	if err := ch.Reject(1, false); err != nil {
		t.Fatal(err)
	}
	if err := ch.Nack(3, true, false); err != nil {
		t.Fatal(err)
	}
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	b.ready("orders", 0)
	if n := b.server.Figures().Rejected; n != 3 {
		t.Errorf("%d were rejected", n)
	}
}

func TestRecoverAsyncHasNoAnswer(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	r := b.login()
	r.channel(1)
	r.send(1, &wire.QueueDeclare{Queue: []byte("orders"), Exclusive: true})
	expect[wire.QueueDeclareOk](r, 1)
	r.publish(1, "orders", "x")
	r.send(1, &wire.BasicGet{Queue: []byte("orders")})
	expect[wire.BasicGetOk](r, 1)
	r.content(1)
	r.send(1, &wire.BasicRecoverAsync{Requeue: true}, &wire.BasicGet{Queue: []byte("orders")})
	if m := expect[wire.BasicGetOk](r, 1); !m.Redelivered || m.DeliveryTag != 2 {
		t.Errorf("%+v", m)
	}
}

func TestRecoveredMessagesComeToTheConsumerAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	put(t, ch, "orders", "a", "b")
	ds, err := ch.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	next(t, ds)
	next(t, ds)
	//lint:ignore SA1019 clients that are old may use it
	if err := ch.Recover(true); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a", "b"} {
		if d := next(t, ds); string(d.Body) != want || !d.Redelivered || d.DeliveryTag != uint64(3+i) {
			t.Errorf("%q redelivered %v tag %d", d.Body, d.Redelivered, d.DeliveryTag)
		}
	}
}

func TestDroppedSocketGivesBackAtOnceInOrder(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	pub := b.open()
	declare(t, pub, "orders")
	if _, err := pub.QueueDeclare("quorum", true, false, false, false, client.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		put(t, pub, "orders", fmt.Sprint(i))
	}
	put(t, pub, "quorum", "x")
	r := b.login()
	r.channel(1)
	r.send(1, &wire.BasicConsume{Queue: []byte("orders")})
	expect[wire.BasicConsumeOk](r, 1)
	for range 100 {
		expect[wire.BasicDeliver](r, 1)
		r.content(1)
	}
	r.send(1, &wire.BasicAck{DeliveryTag: 50}, &wire.BasicConsume{Queue: []byte("quorum")})
	expect[wire.BasicConsumeOk](r, 1)
	expect[wire.BasicDeliver](r, 1)
	r.content(1)
	b.ready("orders", 0)
	r.sock.Close()
	ch := b.open()
	ds, err := ch.Consume("orders", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if i == 49 {
			continue // it was acknowledged
		}
		if d := next(t, ds); string(d.Body) != fmt.Sprint(i) || !d.Redelivered {
			t.Fatalf("%q redelivered %v came where %d was due", d.Body, d.Redelivered, i)
		}
	}
	b.ready("orders", 0)
	// A lost connection speaks against the message, and a quorum queue says how often.
	var d client.Delivery
	until(t, "the message is back", func() bool {
		var ok bool
		if d, ok, err = ch.Get("quorum", false); err != nil {
			t.Fatal(err)
		}
		return ok
	})
	if d.Headers["x-delivery-count"] != int64(1) || d.Headers["x-acquired-count"] != int64(1) {
		t.Errorf("headers %v", d.Headers)
	}
}

func TestCancelLeavesWhatWasDeliveredToTheChannel(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	put(t, ch, "orders", "a", "b")
	b.ready("orders", 2)
	ds, err := ch.Consume("orders", "me", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := next(t, ds)
	next(t, ds)
	if err := ch.Cancel("me", false); err != nil {
		t.Fatal(err)
	}
	b.ready("orders", 0)
	put(t, ch, "orders", "c") // not delivered any more
	b.ready("orders", 1)
	if err := a.Ack(false); err != nil { // still valid
		t.Fatal(err)
	}
	if err := ch.Close(); err != nil { // b goes back
		t.Fatal(err)
	}
	b.ready("orders", 2)
	if d, _, err := b.open().Get("orders", true); err != nil || string(d.Body) != "b" || !d.Redelivered {
		t.Errorf("%q redelivered %v, %v", d.Body, d.Redelivered, err)
	}
}

func TestConsumerTimeoutCancelsTheConsumerOrClosesTheChannel(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	pub := b.open()
	args := client.Table{"x-consumer-timeout": int32(50)}
	if _, err := pub.QueueDeclare("orders", true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	sweep := func() {
		t.Helper()
		if _, err := b.queues.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// A client that understands it is told that its consumer is cancelled.
	ch := b.open()
	told := ch.NotifyCancel(make(chan string, 1))
	ds, err := ch.Consume("orders", "me", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, pub, "orders", "x")
	next(t, ds)
	until(t, "the message goes back", func() bool {
		sweep()
		return len(told) > 0
	})
	until(t, "the message waits", func() bool { // it may have come to the consumer once more before that was cancelled
		sweep()
		q, err := pub.QueueDeclarePassive("orders", true, false, false, false, nil)
		return err == nil && q.Messages == 1
	})
	// Another's channel is closed.
	r := b.login()
	r.channel(1)
	r.send(1, &wire.BasicGet{Queue: []byte("orders")})
	if !expect[wire.BasicGetOk](r, 1).Redelivered {
		t.Error("it is not marked redelivered")
	}
	r.content(1)
	until(t, "the channel is closed", func() bool {
		sweep()
		return b.server.Figures().ChannelErrors == 1
	})
	r.channelClosed(1, wire.PreconditionFailed)
	b.ready("orders", 1)
}

func TestUnacknowledgedAreBoundedWithoutAPrefetch(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options) { o.Limits.UnackedMax = 50 })
	ch := b.open()
	declare(t, ch, "orders")
	for i := range 120 {
		put(t, ch, "orders", fmt.Sprint(i))
	}
	ds, err := ch.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var last client.Delivery
	for range 50 {
		last = next(t, ds)
	}
	if q, err := ch.QueueDeclarePassive("orders", true, false, false, false, nil); err != nil || q.Messages != 70 {
		t.Fatalf("%+v %v", q, err)
	}
	nothing(t, ds)
	if err := last.Ack(true); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		next(t, ds)
	}
}

// Deliveries, acknowledgements, requeues and closes from all sides at once: every message ends settled, once.
func TestEveryMessageIsSettledOnceWhateverItsConsumersDo(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	pub := b.open()
	declare(t, pub, "orders")
	const n = 3000
	var lock sync.Mutex
	acked := map[string]int{}
	done := func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(acked)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := client.Dial("amqp://guest:guest@" + b.addr + "/")
				if err != nil {
					t.Error(err)
					return
				}
				ch, err := conn.Channel()
				if err != nil {
					t.Error(err)
					return
				}
				ch.Qos(30, 0, false) //nolint:errcheck // the next call fails too
				ds, err := ch.Consume("orders", "", false, false, false, false, nil)
				if err != nil {
					t.Error(err)
					return
				}
				timeout := time.After(200 * time.Millisecond)
				k := 0
			serving:
				for {
					select {
					case d := <-ds:
						k++
						switch {
						case k%7 == w:
							d.Nack(false, true) //nolint:errcheck // as below
						case k%11 == w:
							d.Reject(true) //nolint:errcheck // as below
						default:
							lock.Lock()
							acked[string(d.Body)]++
							lock.Unlock()
							d.Ack(false) //nolint:errcheck // the test sees that something is missing
						}
					case <-timeout:
						break serving
					case <-stop:
						break serving
					}
				}
				// An acknowledgement may be lost with the connection, unless a synchronous method comes after it.
				if err := ch.Qos(1, 0, false); err != nil {
					t.Error(err)
				}
				if round%2 == 0 {
					ch.Close()
				}
				conn.Close()
			}
		})
	}
	for i := range n {
		put(t, pub, "orders", fmt.Sprint(i))
	}
	until(t, "all are acknowledged", func() bool { return done() == n })
	close(stop)
	wg.Wait()
	b.ready("orders", 0)
	lock.Lock()
	defer lock.Unlock()
	for body, times := range acked {
		if times != 1 {
			t.Errorf("message %s was acknowledged %d times", body, times)
		}
	}
}

func TestMessageThatWasGivenBackComesBeforeThoseBehindIt(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	for i := range 10 {
		put(t, ch, "orders", fmt.Sprint(i))
	}
	b.ready("orders", 10)
	if err := ch.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	ds, err := ch.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		for try := range 3 {
			d := next(t, ds)
			if string(d.Body) != fmt.Sprint(i) || d.Redelivered != (try > 0) {
				t.Fatalf("%q redelivered %v came where %d was due for the %d. time", d.Body, d.Redelivered, i, try+1)
			}
			switch try {
			case 0:
				err = d.Nack(false, true)
			case 1:
				err = d.Reject(true)
			case 2:
				err = d.Ack(false)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
