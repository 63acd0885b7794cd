package amqp

import (
	"context"
	"encoding/binary"

	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
)

// content is the message that is being received on a channel: method, header, then as much body as was announced.
type content struct {
	state      contentState
	mandatory  bool
	names      []byte // exchange and routing key, copied: the frames that bring them are gone when the body comes
	exchange   int    // length of the exchange's name in names
	properties []byte
	left       uint64 // of the body
	body       []byte // what has come of a body of several frames
}

type contentState uint8

const (
	contentNone   contentState = iota
	contentHeader              // the header is due
	contentBody                // body is due
)

const (
	bodyKept       = 64 << 10 // the memory for a body of several frames is kept for the next one up to this size
	propertiesKept = 4 << 10  // likewise
	// unfinishedMax is how many messages of the largest size, counted in bytes, the channels of a connection may have half received.
	unfinishedMax = 8
)

// reset forgets the message.
func (t *content) reset() {
	t.state = contentNone
	if cap(t.body) > bodyKept {
		t.body = nil
	}
	t.body = t.body[:0]
	if cap(t.properties) > propertiesKept {
		t.properties = nil
	}
}

// forgetContent forgets the message that is being received.
func (ch *channel) forgetContent() {
	ch.c.unfinished -= len(ch.content.body)
	ch.content.reset()
}

// publish acts on basic.publish.
func (ch *channel) publish(args []byte) error {
	var m wire.BasicPublish
	if err := m.Decode(args); err != nil {
		return err
	}
	if m.Immediate {
		return raise(wire.NotImplemented, "immediate=true")
	}
	t := &ch.content
	t.names = append(append(t.names[:0], m.Exchange...), m.RoutingKey...)
	t.exchange, t.mandatory, t.state = len(m.Exchange), m.Mandatory, contentHeader
	return nil
}

// contentHeader acts on a header frame.
func (ch *channel) contentHeader(payload []byte) error {
	t := &ch.content
	if t.state != contentHeader {
		return raise(wire.UnexpectedFrame, "a content header came where a %s was due", t.due())
	}
	h, err := wire.ParseHeader(payload)
	switch {
	case err != nil:
		return err
	case h.Class != wire.ClassBasic:
		return raise(wire.UnexpectedFrame, "expected a content header for class %d, got one for class %d instead", wire.ClassBasic, h.Class)
	case h.Weight != 0:
		return raise(wire.FrameErrorCode, "a content header of weight %d; it is always 0", h.Weight)
	case h.BodySize > uint64(ch.c.s.limits.MessageMax):
		return raise(wire.PreconditionFailed, "message size %d is larger than configured max size %d", h.BodySize, ch.c.s.limits.MessageMax)
	}
	t.left = h.BodySize
	if t.left == 0 {
		t.state = contentNone
		return ch.published(h.Properties, nil)
	}
	t.properties = append(t.properties[:0], h.Properties...)
	t.state = contentBody
	return nil
}

// due names what must come next.
func (t *content) due() string {
	if t.state == contentBody {
		return "body frame"
	}
	return "method"
}

// contentBody acts on a body frame. A body that comes in one frame is not copied before it is stored.
func (ch *channel) contentBody(payload []byte) error {
	t := &ch.content
	switch {
	case t.state == contentHeader:
		return raise(wire.UnexpectedFrame, "a body frame came where a content header was due")
	case t.state != contentBody:
		return raise(wire.UnexpectedFrame, "a body frame came where a method was due")
	case uint64(len(payload)) > t.left:
		return raise(wire.FrameErrorCode, "a body frame has %d bytes where %d of the body were left", len(payload), t.left)
	}
	t.left -= uint64(len(payload))
	body := payload
	if t.left > 0 || len(t.body) > 0 {
		if l := unfinishedMax * ch.c.s.limits.MessageMax; ch.c.unfinished+len(payload) > l {
			return raise(wire.ResourceError, "the channels of the connection have more than %d bytes of messages half sent; send fewer large ones at once", l)
		}
		ch.c.unfinished += len(payload)
		t.body = append(t.body, payload...)
		body = t.body
	}
	if t.left > 0 {
		return nil
	}
	err := ch.published(t.properties, body)
	ch.forgetContent()
	return err
}

// published takes a message that is complete.
func (ch *channel) published(properties, body []byte) error {
	c, t := ch.c, &ch.content
	m := message.Published{Exchange: t.names[:t.exchange], RoutingKey: t.names[t.exchange:], Properties: properties, Body: body}
	if err := ch.route(&m); err != nil {
		return err
	}
	if len(c.routes) == 0 && c.s.o.Store.IsFollowing() {
		// Another node may have just answered that the queue is there.
		if err := c.s.o.Store.CatchUp(context.Background()); err != nil {
			return err
		}
		m.Properties = properties
		if err := ch.route(&m); err != nil {
			return err
		}
	}
	c.s.counts.published.Add(1)
	if len(c.routes) == 0 {
		c.s.counts.unroutable.Add(1)
		if t.mandatory {
			ch.sendBack(&m)
			if err := c.out.Await(); err != nil { // a client that does not take what it gets back is not read on
				return err
			}
		}
	}
	return c.publisher.add(ch, &m)
}

// route finds the queues for a message.
func (ch *channel) route(m *message.Published) (err error) {
	c := ch.c
	if c.routes, err = c.s.o.Router.Route(c.vhost, m.Exchange, m.RoutingKey, c.routes[:0]); err != nil {
		return err
	}
	if p := m.Properties; len(p) >= 2 && binary.BigEndian.Uint16(p)&(message.FlagUserID|message.FlagHeaders) != 0 {
		return ch.routeByProperties(m)
	}
	return nil
}

// sendBack returns a mandatory message that no queue is for. Its confirm, if one is due, comes later.
func (ch *channel) sendBack(m *message.Published) {
	ch.c.s.counts.returned.Add(1)
	r := wire.BasicReturn{ReplyCode: uint16(wire.NoRoute), ReplyText: []byte(wire.NoRoute.String()), Exchange: m.Exchange, RoutingKey: m.RoutingKey}
	ch.out.Lock()
	b := r.AppendFrame(ch.c.out.Begin(), ch.id)
	ch.c.out.End(wire.AppendContent(b, ch.id, m.Properties, m.Body, ch.c.frameMax))
	ch.out.Unlock()
}
