package gateway

import (
	"fmt"

	"polylog/gateway/auth"
	"polylog/gateway/config"
	"polylog/protocols/amqp"
)

// amqpOptions is what the configuration says of AMQP.
func amqpOptions(c *config.Config) amqp.Options {
	return amqp.Options{
		Node: c.Node,
		Limits: amqp.Limits{
			FrameMax: int(c.AMQP.FrameMax), ChannelMax: c.AMQP.ChannelMax, Heartbeat: orElse(c.AMQP.Heartbeat, -1), MessageMax: int(c.AMQP.MessageMax),
			PublishBytes: int(c.AMQP.PublishBuffer), WriteBytes: int(c.AMQP.DeliveryBuffer), UnackedMax: c.AMQP.UnackedMax,
			HandshakeTimeout: c.AMQP.HandshakeTimeout, WriteTimeout: c.AMQP.WriteTimeout, CloseTimeout: c.AMQP.CloseTimeout,
		},
	}
}

// newAMQP makes the AMQP front-end.
func (g *Gateway) newAMQP() (*amqp.Server, error) {
	o := g.plan.amqp
	o.Store, o.Router, o.Queues, o.Auth = g.store, g.views.router, g.views.queues, auth.New(g.plan.users, g.plan.vhosts)
	o.Version, o.Now, o.Logf = g.opts.Version, g.now, printer(g.log, "amqp")
	if g.node != nil {
		o.Epoch = g.node.Epoch()
	}
	s, err := amqp.New(o)
	if err != nil {
		return nil, fmt.Errorf("AMQP cannot be served: %w", err)
	}
	return s, nil
}
