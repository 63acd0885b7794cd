package amqp

import (
	"errors"
	"strings"
	"testing"

	client "github.com/rabbitmq/amqp091-go"

	"polylog/protocols/amqp/wire"
)

func TestDeclareSaysHowManyMessagesAndConsumersThereAre(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	put(t, ch, "orders", "a", "b", "c")
	other := b.open()
	if _, ok, err := ch.Get("orders", false); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, err := other.Consume("orders", "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	until(t, "both others are delivered", func() bool { return b.server.Figures().Delivered == 2 })
	q, err := ch.QueueDeclare("orders", true, false, false, false, nil)
	if err != nil || q.Messages != 0 || q.Consumers != 1 || q.Name != "orders" {
		t.Errorf("%+v %v", q, err)
	}
}

func TestDeclareOfAQueueThatIsOtherwise(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	if _, err := b.open().QueueDeclare("lazy", true, false, false, false, client.Table{"x-queue-mode": "lazy"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, queue                    string
		durable, autoDelete, exclusive bool
		args                           client.Table
		says                           string
	}{
		{"not durable", "orders", false, false, false, nil, "inequivalent arg 'durable' for queue 'orders' in vhost '/': received 'false' but current is 'true'"},
		{"auto-delete", "orders", true, true, false, nil, "auto_delete"},
		{"exclusive", "orders", true, false, true, nil, "exclusive"},
		{"with an argument", "orders", true, false, false, client.Table{"x-queue-mode": "lazy"}, "x-queue-mode"},
		{"without an argument", "lazy", true, false, false, nil, "x-queue-mode"},
	} {
		ch := b.open()
		_, err := ch.QueueDeclare(c.queue, c.durable, c.autoDelete, c.exclusive, false, c.args)
		refusedWith(t, err, wire.PreconditionFailed)
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: it says %v", c.name, err)
		}
	}
	if _, err := b.open().QueueDeclare("lazy", true, false, false, false, client.Table{"x-queue-mode": "lazy"}); err != nil {
		t.Errorf("an equal declaration: %v", err)
	}
	if _, err := b.open().QueueDeclarePassive("lazy", false, true, true, false, nil); err != nil {
		t.Errorf("a passive declaration looks at the name alone: %v", err)
	}
}

func TestArgumentsOfADeclarationAreChecked(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for name, value := range map[string]any{
		"x-queue-type": "unheard-of", "x-consumer-timeout": -1, "x-delivery-limit": "three", "x-message-ttl": -1, "x-max-length": 1.5, "x-requeue": int32(1),
	} {
		_, err := b.open().QueueDeclare("q", true, false, false, false, client.Table{name: value})
		refusedWith(t, err, wire.PreconditionFailed)
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: it says %v", name, err)
		}
	}
}

func TestReservedNamesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	_, err := b.open().QueueDeclare("amq.mine", true, false, false, false, nil)
	refusedWith(t, err, wire.AccessRefused)
	_, err = b.open().QueueDeclarePassive("amq.mine", true, false, false, false, nil)
	refusedWith(t, err, wire.NotFound)
}

func TestServerNamedQueueAndTheQueueDeclaredLast(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil || !strings.HasPrefix(q.Name, "amq.gen-") {
		t.Fatalf("%+v %v", q, err)
	}
	put(t, ch, q.Name, "a", "b")
	// An empty name is the queue declared last.
	if d, ok, err := ch.Get("", true); err != nil || !ok || string(d.Body) != "a" {
		t.Errorf("get: %+v %v %v", d, ok, err)
	}
	if n, err := ch.QueuePurge("", false); err != nil || n != 1 {
		t.Errorf("purge: %d %v", n, err)
	}
	put(t, ch, q.Name, "c")
	ds, err := ch.Consume("", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	next(t, ds)
	if again, err := ch.QueueDeclarePassive("", false, false, false, false, nil); err != nil || again.Name != q.Name {
		t.Errorf("passive: %+v %v", again, err)
	}
	_, _, err = b.open().Get("", true)
	refusedWith(t, err, wire.NotFound)
}

func TestExclusiveQueueBelongsToItsConnection(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	conn := b.dial()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("mine", false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	sibling, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sibling.QueueDeclare("mine", false, false, true, false, nil); err != nil {
		t.Errorf("its own connection: %v", err)
	}
	for what, do := range map[string]func(*client.Channel) error{
		"declare": func(o *client.Channel) error {
			_, err := o.QueueDeclare("mine", false, false, true, false, nil)
			return err
		},
		"passive": func(o *client.Channel) error {
			_, err := o.QueueDeclarePassive("mine", false, false, true, false, nil)
			return err
		},
		"consume": func(o *client.Channel) error {
			_, err := o.Consume("mine", "", true, false, false, false, nil)
			return err
		},
		"get": func(o *client.Channel) error {
			_, _, err := o.Get("mine", true)
			return err
		},
		"purge": func(o *client.Channel) error {
			_, err := o.QueuePurge("mine", false)
			return err
		},
		"delete": func(o *client.Channel) error {
			_, err := o.QueueDelete("mine", false, false, false)
			return err
		},
	} {
		t.Log(what)
		refusedWith(t, do(b.open()), wire.ResourceLocked)
	}
	conn.Close()
	gone := func() bool {
		_, err := b.open().QueueDeclarePassive("mine", false, false, false, false, nil)
		var e *client.Error
		return errors.As(err, &e) && e.Code == int(wire.NotFound)
	}
	until(t, "the queue goes with its connection", gone)

	// Also when the socket drops.
	r := b.login()
	r.channel(1)
	r.send(1, &wire.QueueDeclare{Queue: []byte("mine"), Exclusive: true})
	expect[wire.QueueDeclareOk](r, 1)
	r.sock.Close()
	until(t, "the queue goes with its socket", gone)
}

func TestAutoDeleteQueueGoesWithItsLastConsumer(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	there := func(name string) bool {
		_, err := b.open().QueueDeclarePassive(name, false, true, false, false, nil)
		return err == nil
	}
	for name, end := range map[string]func(*client.Connection, *client.Channel){
		"cancel":     func(_ *client.Connection, ch *client.Channel) { ch.Cancel("me", false) }, //nolint:errcheck // the queue tells
		"channel":    func(_ *client.Connection, ch *client.Channel) { ch.Close() },
		"connection": func(c *client.Connection, _ *client.Channel) { c.Close() },
	} {
		conn := b.dial()
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDeclare(name, false, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
		put(t, ch, name, "x")
		if _, _, err := ch.Get(name, true); err != nil || !there(name) {
			t.Fatalf("%s: it went without ever having had a consumer, %v", name, err)
		}
		if _, err := ch.Consume(name, "me", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		second := b.open()
		if _, err := second.Consume(name, "other", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := second.Cancel("other", false); err != nil || !there(name) {
			t.Fatalf("%s: it went with a consumer that was not the last, %v", name, err)
		}
		end(conn, ch)
		until(t, name, func() bool { return !there(name) })
	}
}

func TestDeleteIfUnusedAndIfEmpty(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	put(t, ch, "orders", "a", "b")
	_, err := b.open().QueueDelete("orders", false, true, false)
	refusedWith(t, err, wire.PreconditionFailed)
	if _, ok, err := ch.Get("orders", false); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if n, err := ch.QueuePurge("orders", false); err != nil || n != 1 {
		t.Errorf("%d were purged, %v; the unacknowledged one stays", n, err)
	}
	if _, err := ch.Consume("orders", "me", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err = b.open().QueueDelete("orders", true, false, false)
	refusedWith(t, err, wire.PreconditionFailed)
	if err := ch.Cancel("me", false); err != nil {
		t.Fatal(err)
	}
	if err := ch.Nack(0, true, true); err != nil {
		t.Fatal(err)
	}
	if n, err := ch.QueueDelete("orders", true, false, false); err != nil || n != 1 {
		t.Errorf("%d were in it, %v", n, err)
	}
	if n, err := ch.QueueDelete("orders", true, true, false); err != nil || n != 0 {
		t.Errorf("deleting what is not there: %d, %v", n, err)
	}
	_, err = ch.QueuePurge("orders", false)
	refusedWith(t, err, wire.NotFound)
}

func TestConsumersOfADeletedQueueAreTold(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	told := ch.NotifyCancel(make(chan string, 1))
	ds, err := ch.Consume("orders", "me", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, ch, "orders", "x")
	d := next(t, ds)
	if _, err := b.open().QueueDelete("orders", false, false, false); err != nil {
		t.Fatal(err)
	}
	if tag := <-told; tag != "me" {
		t.Errorf("%q was cancelled", tag)
	}
	// What was delivered can be acknowledged, without effect.
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	// The tag is free, and the same connection can be told of its own deletion.
	declare(t, ch, "orders")
	if _, err := ch.Consume("orders", "me", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	told = ch.NotifyCancel(make(chan string, 1))
	if _, err := ch.QueueDelete("orders", false, false, false); err != nil {
		t.Fatal(err)
	}
	if tag := <-told; tag != "me" {
		t.Errorf("%q was cancelled", tag)
	}
}

func TestConsumersThatDoNotUnderstandCancelAreNotTold(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	r := b.login()
	r.channel(1)
	r.send(1, &wire.BasicConsume{Queue: []byte("orders"), ConsumerTag: []byte("me")})
	expect[wire.BasicConsumeOk](r, 1)
	if _, err := b.open().QueueDelete("orders", false, false, false); err != nil {
		t.Fatal(err)
	}
	until(t, "the consumer is gone", func() bool { return b.server.Figures().Consumers == 0 })
	r.send(1, &wire.BasicQos{})
	expect[wire.BasicQosOk](r, 1)
}

func TestNothingCanBeDoneToTheDefaultExchange(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	for what, m := range map[string]wire.Method{
		"queue.bind": &wire.QueueBind{Queue: []byte("orders"), RoutingKey: []byte("x")}, "queue.unbind": &wire.QueueUnbind{Queue: []byte("orders")},
		"declare": &wire.ExchangeDeclare{Type: []byte("direct")}, "delete": &wire.ExchangeDelete{}, "bind": &wire.ExchangeBind{Destination: []byte("x")},
		"unbind": &wire.ExchangeUnbind{Source: []byte("x")},
	} {
		t.Log(what)
		r := b.login()
		r.channel(1)
		r.send(1, m)
		r.channelClosed(1, wire.AccessRefused)
	}
}

func TestNoWaitFormsSendNothing(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	r := b.login()
	r.channel(1)
	q := []byte("orders")
	r.send(1, &wire.QueueDeclare{Queue: q, Durable: true, NoWait: true}, &wire.ConfirmSelect{NoWait: true}, &wire.QueuePurge{Queue: q, NoWait: true},
		&wire.BasicConsume{Queue: q, ConsumerTag: []byte("me"), NoWait: true}, &wire.BasicCancel{ConsumerTag: []byte("me"), NoWait: true},
		&wire.QueueDelete{Queue: q, NoWait: true}, &wire.BasicQos{})
	expect[wire.BasicQosOk](r, 1)
	r.send(1, &wire.QueueDeclare{Queue: q, Passive: true, NoWait: true})
	r.channelClosed(1, wire.NotFound) // errors are told
}
