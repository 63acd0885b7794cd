package amqp

import (
	"crypto/rand"
	"encoding/base64"

	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
	"polylog/viewlayer/queue"
)

func (ch *channel) classQueue(id wire.MethodID, args []byte) error {
	switch id {
	case wire.QueueDeclareID:
		var m wire.QueueDeclare
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.declare(&m)
	case wire.QueuePurgeID:
		var m wire.QueuePurge
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.purge(&m)
	case wire.QueueDeleteID:
		var m wire.QueueDelete
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.deleteQueue(&m)
	case wire.QueueBindID:
		var m wire.QueueBind
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.refuseBinding(id, m.Exchange)
	case wire.QueueUnbindID:
		var m wire.QueueUnbind
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.refuseBinding(id, m.Exchange)
	}
	return ch.unknown(id)
}

func (ch *channel) refuseBinding(id wire.MethodID, exchange []byte) error {
	if len(exchange) == 0 {
		return errDefaultExchange()
	}
	return errNoExchanges(id)
}

// queueName returns the queue that a method is about: an empty name is the queue that was declared last on the channel (1.7.2.1).
func (ch *channel) queueName(name []byte) (string, error) {
	if len(name) > 0 {
		return string(name), nil
	}
	if ch.lastQueue == "" {
		return "", raise(wire.NotFound, "no previously declared queue")
	}
	return ch.lastQueue, nil
}

// drawName draws a name that nobody has.
func drawName(prefix string) string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // crypto/rand does not fail
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

func (ch *channel) declare(m *wire.QueueDeclare) error {
	c := ch.c
	args, _, err := message.ParseTable(m.Arguments)
	if err != nil {
		return err
	}
	d := queue.Declaration{
		Namespace: c.vhost, Name: string(m.Queue), Passive: m.Passive, Durable: m.Durable, Exclusive: m.Exclusive, AutoDelete: m.AutoDelete, Arguments: args, Owner: c.owner,
	}
	if d.Name == "" && m.Passive {
		if d.Name, err = ch.queueName(nil); err != nil {
			return err
		}
	}
	if d.Name == "" {
		d.Name, d.ServerNamed = drawName("amq.gen-"), true
	}
	if err := c.settled(); err != nil {
		return err
	}
	c.hasOwn = c.hasOwn || m.Exclusive && !m.Passive
	st, err := c.s.o.Queues.Declare(c.waits, d)
	if err != nil {
		return err
	}
	ch.lastQueue = st.Name
	if m.NoWait {
		return nil
	}
	return ch.reply(&wire.QueueDeclareOk{Queue: []byte(st.Name), MessageCount: clamp(st.Ready), ConsumerCount: clamp(st.Consumers)})
}

// clamp brings a count into the four bytes that it has on the wire.
func clamp(n int64) uint32 { return uint32(min(max(n, 0), 1<<32-1)) }

func (ch *channel) purge(m *wire.QueuePurge) error {
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	if err := ch.c.settled(); err != nil {
		return err
	}
	n, err := ch.c.s.o.Queues.Purge(ch.c.waits, ch.c.vhost, name, ch.c.owner)
	if err != nil || m.NoWait {
		return err
	}
	return ch.reply(&wire.QueuePurgeOk{MessageCount: clamp(n)})
}

func (ch *channel) deleteQueue(m *wire.QueueDelete) error {
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	if err := ch.c.settled(); err != nil {
		return err
	}
	n, err := ch.c.s.o.Queues.Delete(ch.c.waits, ch.c.vhost, name, ch.c.owner, m.IfUnused, m.IfEmpty)
	if err != nil || m.NoWait {
		return err
	}
	return ch.reply(&wire.QueueDeleteOk{MessageCount: clamp(n)})
}
