package amqp

import (
	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/queue"
)

// openChannel opens a channel that is not open.
func (c *connection) openChannel(id uint16, args []byte) error {
	var m wire.ChannelOpen
	if err := m.Decode(args); err != nil {
		return err
	}
	if id > c.channelMax {
		return raise(wire.ChannelError, "channel %d is over the agreed channel-max of %d", id, c.channelMax)
	}
	ch := newChannel(c, id)
	c.channels[id] = ch
	return ch.reply(&wire.ChannelOpenOk{})
}

// method acts on a method of an open channel, other than basic.publish.
func (ch *channel) method(id wire.MethodID, args []byte) error {
	switch id.Class() {
	case wire.ClassChannel:
		return ch.classChannel(id, args)
	case wire.ClassBasic:
		return ch.classBasic(id, args)
	case wire.ClassQueue:
		return ch.classQueue(id, args)
	case wire.ClassConfirm:
		return ch.classConfirm(id, args)
	case wire.ClassExchange:
		return ch.classExchange(id, args)
	case wire.ClassTx:
		return ch.classTx(id)
	case wire.ClassAccess:
		return ch.classAccess(id, args)
	case wire.ClassConnection:
		return raise(wire.CommandInvalid, "%v on channel %d; it belongs on channel 0", id, ch.id)
	}
	return ch.unknown(id)
}

// unknown is the answer to a method that is not one, or not one that clients send.
func (ch *channel) unknown(id wire.MethodID) error {
	if wire.New(id) == nil {
		return raise(wire.NotImplemented, "there is no %v", id)
	}
	return raise(wire.CommandInvalid, "%v is not expected from a client", id)
}

func (ch *channel) classChannel(id wire.MethodID, args []byte) error {
	switch id {
	case wire.ChannelOpenID:
		return raise(wire.ChannelError, "second 'channel.open' seen on channel %d", ch.id)
	case wire.ChannelFlowID:
		var m wire.ChannelFlow
		if err := m.Decode(args); err != nil {
			return err
		}
		// Deliveries that are under way may still come before the answer, none after it (1.5.2.6).
		if err := ch.ledger.stop(!m.Active, ch.c.s.o.Store.Available); err != nil {
			return err
		}
		return ch.reply(&wire.ChannelFlowOk{Active: m.Active})
	case wire.ChannelCloseID:
		var m wire.ChannelClose
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.close()
	}
	return ch.unknown(id)
}

// close ends the channel in order: what it published is confirmed, what it acknowledged is on the disk, and what it still holds has gone back when close-ok is written.
func (ch *channel) close() error {
	ch.c.cancelConsumers(ch)
	if err := ch.c.settled(); err != nil {
		return err
	}
	ch.silence()
	ch.release(queue.ChannelClosed)
	if err := ch.syncAcks(); err != nil {
		return err
	}
	ch.forget()
	ch.c.out.End((&wire.ChannelCloseOk{}).AppendFrame(ch.c.out.Begin(), ch.id))
	return ch.c.out.Await()
}

// classAccess answers what clients of AMQP 0-8 ask for, as RabbitMQ does: there are no realms, and every ticket is taken.
func (ch *channel) classAccess(id wire.MethodID, args []byte) error {
	if id != wire.AccessRequestID {
		return ch.unknown(id)
	}
	var m wire.AccessRequest
	if err := m.Decode(args); err != nil {
		return err
	}
	return ch.reply(&wire.AccessRequestOk{Ticket: 1})
}
