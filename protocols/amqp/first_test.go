package amqp

import (
	"fmt"
	"testing"

	client "github.com/rabbitmq/amqp091-go"
)

func TestPublishedMessagesAreConfirmedDeliveredAndGoneWhenAcknowledged(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirms := ch.NotifyPublish(make(chan client.Confirmation, 1000))
	const n = 500
	for i := range n {
		put(t, ch, "orders", fmt.Sprint(i))
	}
	for i := range n {
		if c := <-confirms; !c.Ack || c.DeliveryTag != uint64(i+1) {
			t.Fatalf("confirm %d: %+v", i, c)
		}
	}
	b.ready("orders", n)
	if err := ch.Qos(50, 0, false); err != nil {
		t.Fatal(err)
	}
	ds, err := ch.Consume("orders", "me", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d := next(t, ds)
		if string(d.Body) != fmt.Sprint(i) || d.DeliveryTag != uint64(i+1) || d.Redelivered || d.ConsumerTag != "me" || d.RoutingKey != "orders" || d.Exchange != "" {
			t.Fatalf("delivery %d: %+v", i, d)
		}
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := ch.Cancel("me", false); err != nil {
		t.Fatal(err)
	}
	b.ready("orders", 0)
	f := b.server.Figures()
	if f.Published != n || f.Confirmed != n || f.Delivered != n || f.Acknowledged != n {
		t.Errorf("figures %+v", f)
	}
}
