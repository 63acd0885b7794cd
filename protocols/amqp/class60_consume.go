package amqp

import (
	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
	"polylog/viewlayer/queue"
	"polylog/viewlayer/topic"
)

// consume acts on basic.consume. no-local is taken and has no effect, as with RabbitMQ.
func (ch *channel) consume(m *wire.BasicConsume) error {
	c := ch.c
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	args, _, err := message.ParseTable(m.Arguments)
	if err != nil {
		return err
	}
	tag := string(m.ConsumerTag)
	if tag == "" {
		tag = drawName("amq.ctag-")
	}
	if _, used := ch.consumers[tag]; used {
		return raise(wire.NotAllowed, "attempt to reuse consumer tag '%s'", tag)
	}
	if err := c.settled(); err != nil {
		return err
	}
	q, err := c.s.o.Queues.Find(c.vhost, name, c.owner)
	if err != nil {
		return err
	}
	to := &consumer{
		ch: ch, tag: []byte(tag), noAck: m.NoAck, topic: q.Topic().Name, retained: q.Topic().AckPolicy == topic.Retain, counted: q.Counted(), limit: ch.prefetch,
	}
	of, err := q.Consume(c.waits, queue.Subscription{
		Holder: ch.holder, NoAck: m.NoAck, Exclusive: m.Exclusive, Arguments: args.Clone(), Sink: to,
	})
	if err != nil {
		return err
	}
	to.queue.Store(of)
	ch.consumers[tag] = to
	c.s.counts.consumers.Add(1)
	if m.NoWait {
		err = nil
	} else {
		err = ch.reply(&wire.BasicConsumeOk{ConsumerTag: to.tag})
	}
	ch.ledger.change(func() { to.ready = true }) // the client knows the tag, deliveries may begin
	to.wake()
	return err
}

// cancel acts on basic.cancel. What was delivered stays the channel's until it is settled; a tag that nobody has is no error.
func (ch *channel) cancel(m *wire.BasicCancel) error {
	tag := string(m.ConsumerTag)
	if to := ch.consumers[tag]; to != nil {
		if err := ch.drop(tag, to); isOutOfTouch(err) {
			return err
		}
	}
	if m.NoWait {
		return nil
	}
	return ch.reply(&wire.BasicCancelOk{ConsumerTag: m.ConsumerTag})
}

// got is a message on its way from a queue to the client.
type got struct {
	lease queue.Lease
	wire.BasicGetOk
	content []byte // header and body frames
}

// get acts on basic.get.
func (ch *channel) get(m *wire.BasicGet) error {
	c := ch.c
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	if err := c.settled(); err != nil {
		return err
	}
	q, err := c.s.o.Queues.Find(c.vhost, name, c.owner)
	if err != nil {
		return err
	}
	var g got
	left, ok, err := q.Get(c.waits, ch.holder, m.NoAck, func(d *queue.Delivery) {
		ch.out.Lock() // guards the converter
		defer ch.out.Unlock()
		ch.convert(d, message.Origin{Topic: q.Topic().Name, Retained: q.Topic().AckPolicy == topic.Retain, Counted: q.Counted()})
		g.lease, g.Redelivered = d.Lease, d.Redelivered
		g.content = append(append(g.content, ch.delivered.Exchange...), ch.delivered.RoutingKey...)
		names := len(g.content)
		g.content = wire.AppendContent(g.content, ch.id, ch.delivered.Properties, ch.delivered.Body, c.frameMax)
		g.Exchange, g.RoutingKey = g.content[:len(ch.delivered.Exchange)], g.content[len(ch.delivered.Exchange):names]
		g.content = g.content[names:]
	})
	if err != nil {
		return err
	}
	if !ok {
		c.s.counts.gotNothing.Add(1)
		return ch.reply(&wire.BasicGetEmpty{})
	}
	c.s.counts.got.Add(1)
	g.MessageCount = clamp(left)
	if err := ch.syncAcks(); err != nil {
		return err
	}
	ch.out.Lock()
	g.DeliveryTag = ch.ledger.enterGot(g.lease, m.NoAck)
	c.out.End(append(g.AppendFrame(c.out.Begin(), ch.id), g.content...))
	ch.out.Unlock()
	return c.out.Await()
}
