package amqp

import (
	"polylog/protocols/amqp/wire"
)

func (ch *channel) classBasic(id wire.MethodID, args []byte) error {
	switch id {
	case wire.BasicAckID:
		var m wire.BasicAck
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.settle(m.DeliveryTag, m.Multiple, acknowledged)
	case wire.BasicNackID:
		var m wire.BasicNack
		if err := m.Decode(args); err != nil {
			return err
		}
		how := rejected
		if m.Requeue {
			how = nacked
		}
		return ch.settle(m.DeliveryTag, m.Multiple, how)
	case wire.BasicRejectID:
		var m wire.BasicReject
		if err := m.Decode(args); err != nil {
			return err
		}
		how := rejected
		if m.Requeue {
			how = refused
		}
		return ch.settle(m.DeliveryTag, false, how)
	case wire.BasicGetID:
		var m wire.BasicGet
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.get(&m)
	case wire.BasicConsumeID:
		var m wire.BasicConsume
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.consume(&m)
	case wire.BasicCancelID:
		var m wire.BasicCancel
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.cancel(&m)
	case wire.BasicQosID:
		var m wire.BasicQos
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.qos(&m)
	case wire.BasicRecoverID:
		var m wire.BasicRecover
		if err := m.Decode(args); err != nil {
			return err
		}
		if err := ch.recover(m.Requeue); err != nil {
			return err
		}
		if err := ch.c.settler.flush(); err != nil {
			return err
		}
		return ch.reply(&wire.BasicRecoverOk{})
	case wire.BasicRecoverAsyncID:
		var m wire.BasicRecoverAsync
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.recover(m.Requeue)
	}
	return ch.unknown(id)
}

// settle ends one message or, with multiple, all up to it.
func (ch *channel) settle(tag uint64, multiple bool, how settlement) error {
	c := ch.c
	var ok bool
	if c.taken, ok = ch.ledger.take(tag, multiple, c.taken[:0]); !ok {
		return raise(wire.PreconditionFailed, "unknown delivery tag %d", tag)
	}
	ch.unsynced = true
	ch.hand(how)
	return nil
}

// recover gives back all that the channel has not settled.
func (ch *channel) recover(requeue bool) error {
	if !requeue {
		return raise(wire.NotImplemented, "requeue=false")
	}
	c := ch.c
	c.taken = ch.ledger.takeAll(c.taken[:0])
	ch.unsynced = ch.unsynced || len(c.taken) > 0
	ch.hand(recovered)
	return nil
}

// hand gives what was taken out of the ledger to the settler.
func (ch *channel) hand(how settlement) {
	c := ch.c
	c.settler.add(ch, how, c.taken)
	clear(c.taken)
	if cap(c.taken) > entriesKept {
		c.taken = nil
	}
}

func (ch *channel) qos(m *wire.BasicQos) error {
	if m.PrefetchSize != 0 {
		return raise(wire.NotImplemented, "prefetch_size!=0 (%d)", m.PrefetchSize)
	}
	if m.Global { // for the channel as a whole, at once
		ch.ledger.change(func() { ch.ledger.limit = int(m.PrefetchCount) })
	} else { // for each consumer to come
		ch.prefetch = int(m.PrefetchCount)
	}
	return ch.reply(&wire.BasicQosOk{})
}
