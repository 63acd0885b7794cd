package amqp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
	"polylog/viewlayer/queue"
)

// channel is one channel. The connection's reader owns it, but for what says otherwise.
type channel struct {
	c      *connection
	id     uint16
	holder *queue.Holder
	ledger ledger

	closing bool // channel.close was sent: frames are dropped until it is answered
	content content

	confirming bool   // confirm.select
	sequence   uint64 // of the last message published since
	lastQueue  string // declared last: what an empty name stands for
	prefetch   int    // of consumers to come, 0: no limit
	consumers  map[string]*consumer
	unsynced   bool // it acknowledged something since its last durable reply

	// out orders what is written for the channel: the order of delivery tags is that of their frames, and nothing follows a close.
	out       sync.Mutex
	silent    bool              // nothing more is written but the close; out guards it, and what follows
	converter message.Converter //
	delivered message.Delivered
	size      atomic.Int64 // of the deliveries' frames lately, on average, in bytes

	run run // of confirms in the gathering that is being filled; the publisher guards it
}

func newChannel(c *connection, id uint16) *channel {
	ch := &channel{c: c, id: id, consumers: map[string]*consumer{}}
	ch.size.Store(sizeAtFirst)
	ch.ledger.init(c.s.limits.UnackedMax)
	ch.converter.PropertiesMax = c.frameMax - propertiesRoom
	ch.holder = c.s.o.Queues.NewHolder(fmt.Sprintf("amqp %v channel %d", c.sock.RemoteAddr(), id), ch.expired)
	c.s.counts.channels.Add(1)
	return ch
}

// propertiesRoom is what a header frame has besides the properties: frame, class, weight and size of the body.
const propertiesRoom = wire.FrameOverhead + 12

// take acts on one frame.
func (ch *channel) take(f wire.Frame) error {
	switch f.Type {
	case wire.FrameMethod:
		id, args, err := wire.SplitMethod(f.Payload)
		if err != nil {
			return err
		}
		if ch.closing {
			return ch.takeClosing(id, args)
		}
		if ch.content.state != contentNone {
			return explainIf(raise(wire.UnexpectedFrame, "%v came where the content of basic.publish should go on", id), id)
		}
		if id == wire.BasicPublishID { // the usual one first, and without what explainIf costs
			if err := ch.publish(args); err != nil {
				return explainIf(err, id)
			}
			return nil
		}
		return explainIf(ch.method(id, args), id)
	case wire.FrameHeader:
		if ch.closing {
			return nil
		}
		return explainIf(ch.contentHeader(f.Payload), wire.BasicPublishID)
	case wire.FrameBody:
		if ch.closing {
			return nil
		}
		return explainIf(ch.contentBody(f.Payload), wire.BasicPublishID)
	case wire.FrameHeartbeat:
		return raise(wire.FrameErrorCode, "a heartbeat on channel %d; it belongs on channel 0", f.Channel)
	}
	return raise(wire.FrameErrorCode, "there is no frame of type %d", f.Type)
}

// takeClosing acts on a method that comes after channel.close was sent.
func (ch *channel) takeClosing(id wire.MethodID, args []byte) error {
	switch id {
	case wire.ChannelCloseOkID:
		ch.forget()
	case wire.ChannelCloseID: // it crossed ours; ours is still to be answered
		ch.c.out.End((&wire.ChannelCloseOk{}).AppendFrame(ch.c.out.Begin(), ch.id))
		return ch.c.out.Await()
	}
	return nil
}

// write appends a method, unless the channel is silent.
func (ch *channel) write(m wire.Method) {
	ch.out.Lock()
	if !ch.silent {
		ch.c.out.End(m.AppendFrame(ch.c.out.Begin(), ch.id))
	}
	ch.out.Unlock()
}

// reply answers a synchronous method: what the channel acknowledged before it is on the disk then. A client whose answers pile up is not read on.
func (ch *channel) reply(m wire.Method) error {
	if err := ch.syncAcks(); err != nil {
		return err
	}
	ch.write(m)
	return ch.c.out.Await()
}

// syncAcks waits until what the channel acknowledged so far is on the disk.
func (ch *channel) syncAcks() error {
	if !ch.unsynced {
		return nil
	}
	if err := ch.c.settler.flush(); err != nil {
		return err
	}
	ch.unsynced = false
	return ch.c.makeDurable()
}

// silence makes sure that nothing more is delivered or confirmed.
func (ch *channel) silence() {
	ch.ledger.close()
	ch.out.Lock()
	ch.silent = true
	ch.out.Unlock()
}

// fail ends the channel for an error: channel.close, after the confirms that are due.
func (ch *channel) fail(e *exception) error {
	ch.c.s.counts.channelErrors.Add(1)
	ch.c.s.o.Logf("connection %s: closing channel %d: %v", ch.c.name, ch.id, e)
	if err := ch.c.publisher.flush(); err != nil {
		return explain(err)
	}
	ch.closing = true
	ch.forgetContent()
	ch.silence()
	ch.c.out.End((&wire.ChannelClose{
		ReplyCode: uint16(e.code), ReplyText: e.replyText(), ClassID: e.method.Class(), MethodID: e.method.Method(),
	}).AppendFrame(ch.c.out.Begin(), ch.id))
	ch.c.cancelConsumers(ch)
	if err := ch.c.settler.flush(); err != nil {
		return explain(err)
	}
	ch.release(queue.ChannelClosed)
	return ch.c.out.Await()
}

// drop takes a consumer away. The error is logged.
func (ch *channel) drop(tag string, c *consumer) error {
	ch.remove(tag)
	return c.cancel()
}

// remove forgets a consumer.
func (ch *channel) remove(tag string) {
	delete(ch.consumers, tag)
	ch.c.s.counts.consumers.Add(-1)
}

// release gives back what the channel holds unsettled.
func (ch *channel) release(why queue.Why) {
	if ch.holder == nil {
		return
	}
	if err := ch.holder.Close(ch.c.waits, why); err != nil {
		ch.c.s.o.Logf("connection %s: messages of channel %d go back later: %v", ch.c.name, ch.id, err)
	}
	ch.holder = nil
}

// forget frees the channel's number.
func (ch *channel) forget() {
	delete(ch.c.channels, ch.id)
	ch.c.last = nil
	ch.c.s.counts.channels.Add(-1)
}

// expired is told by the queue that a message was held longer than its consumer timeout, and went back.
func (ch *channel) expired(q *queue.Queue, from *queue.Consumer) {
	ch.c.post(func() error {
		if ch.closing || ch.c.channels[ch.id] != ch {
			return nil
		}
		if from != nil && ch.c.can.consumerCancel {
			for tag, c := range ch.consumers {
				if c.queue.Load() == from {
					ch.drop(tag, c) //nolint:errcheck // the client is told anyway
					ch.write(&wire.BasicCancel{ConsumerTag: []byte(tag), NoWait: true})
				}
			}
			return nil // if it was cancelled before, there is nothing more to tell
		}
		return ch.c.onChannel(ch, raise(wire.PreconditionFailed,
			"a delivery of queue '%s' on channel %d was not acknowledged within the queue's consumer timeout", q.Topic().Name, ch.id))
	})
}
