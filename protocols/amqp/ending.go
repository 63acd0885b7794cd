package amqp

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/queue"
)

// sayGoodbye ends the connection for an error: connection.close, then frames are dropped until the client answers.
func (c *connection) sayGoodbye(e *exception) {
	if e.code != wire.ConnectionForced {
		c.s.counts.connectionErrors.Add(1)
	}
	c.s.o.Logf("connection %s: closing: %v", c.name, e)
	c.publisher.flush() //nolint:errcheck // it has told the publisher's channels
	for _, ch := range c.channels {
		ch.silence()
	}
	c.write(&wire.ConnectionClose{ReplyCode: uint16(e.code), ReplyText: e.replyText(), ClassID: e.method.Class(), MethodID: e.method.Method()})
	if e.desynced {
		return
	}
	deadline := time.Now().Add(c.s.limits.CloseTimeout)
	for {
		c.mu.Lock()
		c.events, c.silence = nil, 0     // what others have to tell is no news any more
		c.sock.SetReadDeadline(deadline) //nolint:errcheck // the read fails too
		c.mu.Unlock()
		f, err := c.frames.Next()
		if errors.Is(err, errEvents) {
			continue
		}
		if err != nil {
			return
		}
		if f.Type != wire.FrameMethod || f.Channel != 0 {
			continue
		}
		switch id, _, _ := wire.SplitMethod(f.Payload); id {
		case wire.ConnectionCloseOkID:
			return
		case wire.ConnectionCloseID: // it crossed ours
			c.write(&wire.ConnectionCloseOk{})
		}
	}
}

// takeDown gives back all that the connection has. Nothing is delivered to it any more when it returns.
func (c *connection) takeDown(why queue.Why) {
	for _, ch := range c.channels {
		ch.silence()
	}
	c.cancelConsumers(slices.Collect(maps.Values(c.channels))...)
	if c.pulse != nil {
		c.pulse.stop()
	}
	c.settler.finish()
	unsynced := false
	for _, ch := range c.channels {
		ch.release(why)
		unsynced = unsynced || ch.unsynced
	}
	// After what the channels held has gone back: on a full disk this takes long, and what has gone back can make room.
	if why == queue.ConnectionLost {
		c.giveUp()
	}
	if err := c.publisher.finish(); err != nil {
		c.s.o.Logf("connection %s: messages published at the end, which were not confirmed, are lost: %v", c.name, err)
	}
	if c.hasOwn {
		if err := c.s.o.Queues.OwnerGone(c.waits, c.owner); err != nil {
			c.s.o.Logf("connection %s: its exclusive queues could not be deleted: %v", c.name, err)
		}
	}
	if unsynced && why == queue.ChannelClosed {
		if err := c.makeDurable(); err != nil {
			c.s.o.Logf("connection %s: acknowledgements at the end may be lost: %v", c.name, err)
		}
	}
	c.s.counts.channels.Add(-int64(len(c.channels)))
	c.channels = nil
}

// cancelConsumers takes all consumers of some channels away, many at a time: each has to hear from the other nodes. Nothing is delivered any more to those that
// could be cancelled.
func (c *connection) cancelConsumers(chs ...*channel) {
	var all sync.WaitGroup
	room := make(chan struct{}, cancelledAtOnce)
	for _, ch := range chs {
		for tag, to := range ch.consumers {
			ch.remove(tag)
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				to.cancel() //nolint:errcheck // it is logged, and what is left of it is done later
			})
		}
	}
	all.Wait()
}

// cancelledAtOnce bounds the goroutines that cancel consumers.
const cancelledAtOnce = 64
