package amqp

import (
	"testing"

	client "github.com/rabbitmq/amqp091-go"

	"polylog/protocols/amqp/wire"
)

func TestChannelErrorClosesOnlyThatChannelAndFreesItsNumber(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	r := b.login()
	r.channel(1)
	r.channel(2)
	for range 3 {
		r.send(1, &wire.QueueDeclare{Queue: []byte("nowhere"), Passive: true})
		// Frames between the error and its answer are dropped, content too.
		r.publish(1, "orders", "dropped")
		r.send(1, &wire.QueueDeclare{Queue: []byte("dropped"), Durable: true}, &wire.ChannelOpen{})
		m := r.channelClosed(1, wire.NotFound)
		if m.ClassID != wire.ClassQueue || m.MethodID != 10 || string(m.ReplyText) != "NOT_FOUND - no queue 'nowhere' in vhost '/'" {
			t.Errorf("closed with %q about method %d of class %d", m.ReplyText, m.MethodID, m.ClassID)
		}
		r.send(2, &wire.BasicQos{})
		expect[wire.BasicQosOk](r, 2)
		r.channel(1)
	}
	b.ready("orders", 0)
	r.send(2, &wire.QueueDeclare{Queue: []byte("dropped"), Passive: true})
	r.channelClosed(2, wire.NotFound)
}

func TestCloseOfAChannelThatCrossesAnErrorIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	r := b.login()
	r.channel(1)
	r.send(1, &wire.BasicAck{DeliveryTag: 1}, &wire.ChannelClose{})
	expect[wire.ChannelClose](r, 1)
	expect[wire.ChannelCloseOk](r, 1)
	r.send(1, &wire.ChannelCloseOk{})
	r.channel(1)
}

func TestChannelNumbersAreUsedAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	conn := b.dial()
	for range 100 {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if err := ch.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.server.Figures().Channels; n != 0 {
		t.Errorf("%d channels are open", n)
	}
}

func TestChannelFlowStopsDeliveriesAndLetsThemGoOn(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	r := b.login()
	r.channel(1)
	r.channel(2)
	r.send(1, &wire.QueueDeclare{Queue: []byte("orders"), Exclusive: true})
	expect[wire.QueueDeclareOk](r, 1)
	r.send(1, &wire.BasicConsume{Queue: []byte("orders"), NoAck: true})
	expect[wire.BasicConsumeOk](r, 1)
	r.send(1, &wire.ChannelFlow{Active: false})
	if expect[wire.ChannelFlowOk](r, 1).Active {
		t.Error("the answer says active")
	}
	r.publish(2, "orders", "held back")
	r.send(2, &wire.QueueDeclare{Queue: []byte("orders"), Passive: true})
	if m := expect[wire.QueueDeclareOk](r, 2); m.MessageCount != 1 || m.ConsumerCount != 1 {
		t.Errorf("%+v", m)
	}
	r.send(1, &wire.ChannelFlow{Active: true})
	// The answer and the delivery come in any order.
	for range 2 {
		f, err := r.frame()
		if err != nil {
			t.Fatal(err)
		}
		switch id, _, _ := wire.SplitMethod(f.Payload); id {
		case wire.ChannelFlowOkID:
		case wire.BasicDeliverID:
			if _, body := r.content(1); string(body) != "held back" {
				t.Errorf("%q came", body)
			}
		default:
			t.Fatalf("%v came", id)
		}
	}
}

func TestDeliveryTagsAscendOverAllConsumersAndGetsOfTheChannel(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "a")
	declare(t, ch, "b")
	put(t, ch, "a", "1")
	d1, ok, err := ch.Get("a", false)
	if err != nil || !ok || d1.DeliveryTag != 1 {
		t.Fatalf("%+v %v %v", d1, ok, err)
	}
	put(t, ch, "a", "2")
	d2, _, err := ch.Get("a", true) // without acknowledgement, and yet it has a tag
	if err != nil || d2.DeliveryTag != 2 {
		t.Fatalf("%+v %v", d2, err)
	}
	as, err := ch.Consume("a", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	bs, err := ch.Consume("b", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, ch, "a", "3")
	if d := next(t, as); d.DeliveryTag != 3 {
		t.Errorf("tag %d", d.DeliveryTag)
	}
	put(t, ch, "b", "4")
	d4 := next(t, bs)
	if d4.DeliveryTag != 4 {
		t.Errorf("tag %d", d4.DeliveryTag)
	}
	// One acknowledgement for all, over both queues.
	if err := d4.Ack(true); err != nil {
		t.Fatal(err)
	}
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	b.ready("a", 0)
	b.ready("b", 0)
}

func TestTagsOfOneChannelAreUnknownOnAnother(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	conn := b.dial()
	one, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	declare(t, one, "orders")
	put(t, one, "orders", "x")
	d, ok, err := one.Get("orders", false)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	other, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	closed := other.NotifyClose(make(chan *client.Error, 1))
	if err := other.Ack(d.DeliveryTag, false); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, <-closed, wire.PreconditionFailed)
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	b.ready("orders", 0)
}

func TestUnknownOrSettledTagClosesTheChannel(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for _, c := range []struct {
		name string
		do   func(r *raw)
	}{
		{"ack of an unknown tag", func(r *raw) { r.send(1, &wire.BasicAck{DeliveryTag: 4}) }},
		{"ack of an unknown tag, multiple", func(r *raw) { r.send(1, &wire.BasicAck{DeliveryTag: 4, Multiple: true}) }},
		{"nack of an unknown tag", func(r *raw) { r.send(1, &wire.BasicNack{DeliveryTag: 4}) }},
		{"reject of an unknown tag", func(r *raw) { r.send(1, &wire.BasicReject{DeliveryTag: 4}) }},
		{"tag 0 without multiple", func(r *raw) { r.send(1, &wire.BasicAck{}) }},
		{"reject of tag 0", func(r *raw) { r.send(1, &wire.BasicReject{}) }},
		{"a huge tag", func(r *raw) { r.send(1, &wire.BasicAck{DeliveryTag: 1<<64 - 1}) }},
		{"ack twice", func(r *raw) { r.send(1, &wire.BasicAck{DeliveryTag: 2}, &wire.BasicAck{DeliveryTag: 2}) }},
		{"ack after multiple", func(r *raw) {
			r.send(1, &wire.BasicAck{DeliveryTag: 2, Multiple: true}, &wire.BasicAck{DeliveryTag: 1})
		}},
		{"nack after ack", func(r *raw) {
			r.send(1, &wire.BasicAck{DeliveryTag: 3}, &wire.BasicNack{DeliveryTag: 3, Requeue: true})
		}},
		{"multiple up to a settled tag", func(r *raw) {
			r.send(1, &wire.BasicAck{DeliveryTag: 2}, &wire.BasicAck{DeliveryTag: 2, Multiple: true})
		}},
		{"ack after recover", func(r *raw) {
			r.send(1, &wire.BasicRecover{Requeue: true})
			expect[wire.BasicRecoverOk](r, 1)
			r.send(1, &wire.BasicAck{DeliveryTag: 1})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := b.login()
			r.t = t
			r.channel(1)
			r.send(1, &wire.QueueDeclare{Exclusive: true})
			name := expect[wire.QueueDeclareOk](r, 1).Queue
			for i := range 3 {
				r.publish(1, string(name), "x")
				r.send(1, &wire.BasicGet{Queue: name})
				if m := expect[wire.BasicGetOk](r, 1); m.DeliveryTag != uint64(i+1) {
					t.Fatalf("tag %d", m.DeliveryTag)
				}
				r.content(1)
			}
			c.do(r)
			r.channelClosed(1, wire.PreconditionFailed)
		})
	}
}

func TestMultipleWithTagZeroSettlesAllAndMayFindNothing(t *testing.T) {
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
	for range 3 {
		if err := ch.Ack(0, true); err != nil {
			t.Fatal(err)
		}
		if err := ch.Nack(0, true, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	b.ready("orders", 0)
}

func TestAccessRequestIsAnswered(t *testing.T) {
	t.Parallel()
	r := newBroker(t).login()
	r.channel(1)
	r.send(1, &wire.AccessRequest{Realm: []byte("/data"), Read: true})
	if expect[wire.AccessRequestOk](r, 1).Ticket != 1 {
		t.Error("there is no ticket")
	}
}
