package amqp

import (
	"slices"
	"sync/atomic"

	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
	"polylog/viewlayer/queue"
)

// consumer is one consumer of a channel: the sink of its queue's messages. The queue's goroutine calls it.
type consumer struct {
	ch       *channel
	tag      []byte
	noAck    bool
	topic    string
	retained bool
	counted  bool
	queue    atomic.Pointer[queue.Consumer] // nil until Consume has returned

	starved bool // it is in the connection's list, whose lock guards it

	// The channel's ledger guards these.
	ready  bool // consume-ok is written
	limit  int  // its prefetch, 0: none
	used   int  // of it: reserved and unacknowledged
	hungry bool // it was refused, and is in the ledger's list
}

const (
	sizeAtFirst = 4 << 10 // what a delivery is thought to take before the first
	sizeLeast   = 128     // what it takes at least
	framesAbout = 512     // what method, header and frames of most take beside the body
)

// wake makes the queue ask again.
func (c *consumer) wake() {
	if q := c.queue.Load(); q != nil {
		q.Wake()
	}
}

// Reserve sets aside credit for messages, as far as there is room for them in the writer.
func (c *consumer) Reserve(n int) int {
	ch := c.ch
	room := ch.c.out.Room()
	if room <= 0 {
		ch.c.starve(c)
		// Room may have come between the two, and nobody would tell.
		if room = ch.c.out.Room(); room <= 0 {
			return 0
		}
	}
	return ch.ledger.reserve(c, min(n, 1+room/int(ch.size.Load())))
}

// cancel ends it at the queue, and logs what fails.
func (c *consumer) cancel() error {
	err := c.queue.Load().Cancel(c.ch.c.waits)
	if err != nil {
		c.ch.c.s.o.Logf("connection %s: cancelling consumer '%s': %v", c.ch.c.name, c.tag, err)
	}
	return err
}

// Release gives credit back.
func (c *consumer) Release(n int) { c.ch.ledger.release(c, n) }

// Deliver writes messages to the client. Each is in the ledger before its first byte is written.
func (c *consumer) Deliver(ds []queue.Delivery) int {
	ch := c.ch
	ch.out.Lock()
	defer ch.out.Unlock()
	tag, ok := ch.ledger.enter(c, ds)
	if !ok {
		return 0
	}
	estimate := 0
	for i := range ds {
		estimate += len(ds[i].Record.Value) + framesAbout
	}
	b := slices.Grow(ch.c.out.Begin(), estimate)
	before := len(b)
	for i := range ds {
		b = c.appendDelivery(b, &ds[i], tag+uint64(i))
	}
	size := int64((len(b) - before) / len(ds))
	ch.size.Store(max(sizeLeast, size, (3*ch.size.Load()+size)/4))
	ch.c.out.End(b)
	ch.c.s.counts.delivered.Add(int64(len(ds)))
	return len(ds)
}

// appendDelivery appends the frames of one delivery. The channel's out is held.
func (c *consumer) appendDelivery(b []byte, d *queue.Delivery, tag uint64) []byte {
	ch := c.ch
	ch.convert(d, message.Origin{Topic: c.topic, Retained: c.retained, Counted: c.counted})
	m := wire.BasicDeliver{
		ConsumerTag: c.tag, DeliveryTag: tag, Redelivered: d.Redelivered, Exchange: ch.delivered.Exchange, RoutingKey: ch.delivered.RoutingKey,
	}
	return wire.AppendContent(m.AppendFrame(b, ch.id), ch.id, ch.delivered.Properties, ch.delivered.Body, ch.c.frameMax)
}

// convert makes ch.delivered what the client gets of a message. The channel's out is held.
func (ch *channel) convert(d *queue.Delivery, o message.Origin) {
	o.Partition, o.Offset, o.Acquired, o.Failed = d.Partition, d.Offset, d.Acquired, d.Failed
	if err := ch.converter.ToAMQP(d.Record, d.Timestamp, o, &ch.delivered); err != nil {
		panic("amqp: a queue's name is no routing key: " + err.Error()) // names are short strings: they came in as such, or Kafka bounds them
	}
}

// Cancelled tells the client that its queue was deleted, if it understands that.
func (c *consumer) Cancelled(string) {
	ch := c.ch
	ch.c.post(func() error {
		tag := string(c.tag)
		if ch.consumers[tag] != c {
			return nil
		}
		ch.drop(tag, c) //nolint:errcheck // the queue is gone
		if ch.c.can.consumerCancel {
			ch.write(&wire.BasicCancel{ConsumerTag: c.tag, NoWait: true})
		}
		return nil
	})
}
