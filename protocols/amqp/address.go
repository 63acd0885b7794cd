package amqp

import (
	"slices"

	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
)

// The headers by which a publisher names further routing keys (RabbitMQ's sender-selected distribution). The second is not shown to those who get the message.
const (
	headerCC  = "CC"
	headerBCC = "BCC"
)

// routeByProperties acts on the properties that say something to the broker: the user, who must be the one that logged in, and further routing keys, whose queues are added to
// c.routes. It changes m's properties if they have something to hide.
func (ch *channel) routeByProperties(m *message.Published) error {
	c, p := ch.c, &ch.c.properties
	if err := p.Parse(m.Properties); err != nil {
		return err
	}
	if p.Has(message.FlagUserID) && string(p.UserID) != c.user {
		return raise(wire.PreconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", p.UserID, c.user)
	}
	if !p.Has(message.FlagHeaders) {
		return nil
	}
	hidden := false
	for it := p.Headers.Fields(); it.Next(); {
		f := it.Field()
		name := string(f.Name)
		if name != headerCC && name != headerBCC {
			continue
		}
		hidden = hidden || name == headerBCC
		keys, ok := f.Value.Array()
		if !ok {
			return raise(wire.PreconditionFailed, "header '%s' is of type '%c'; it is an array of routing keys", name, f.Value.Type())
		}
		for ks := keys.Values(); ks.Next(); {
			key, ok := ks.Value().Text()
			if !ok {
				return raise(wire.PreconditionFailed, "header '%s' has a value of type '%c'; routing keys are texts", name, ks.Value().Type())
			}
			if err := ch.routeTo(m, key); err != nil {
				return err
			}
		}
	}
	if !hidden {
		return nil
	}
	return ch.hide(m)
}

// routeTo adds the queues of one more routing key, each once.
func (ch *channel) routeTo(m *message.Published, key []byte) error {
	c := ch.c
	n := len(c.routes)
	var err error
	if c.routes, err = c.s.o.Router.Route(c.vhost, m.Exchange, key, c.routes); err != nil {
		return err
	}
	kept := c.routes[:n]
	for _, t := range c.routes[n:] {
		if !slices.Contains(kept, t) {
			kept = append(kept, t)
		}
	}
	c.routes = kept
	return nil
}

// hide takes BCC out of the message's headers.
func (ch *channel) hide(m *message.Published) error {
	p := &ch.c.properties
	var shown message.TableBuilder
	for it := p.Headers.Fields(); it.Next(); {
		if f := it.Field(); string(f.Name) != headerBCC {
			shown.Value(string(f.Name), f.Value)
		}
	}
	var err error
	if p.Headers, err = shown.Table(); err != nil {
		return err
	}
	m.Properties, err = p.AppendTo(nil)
	m.Addressed = true
	return err
}
