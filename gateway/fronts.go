package gateway

import "polylog/gateway/metrics"

// makeFronts makes the front-ends that are to be served.
func (g *Gateway) makeFronts() (err error) {
	for _, l := range g.plan.listeners {
		f := front{protocol: l.protocol}
		switch l.protocol {
		case "amqp":
			g.amqp, err = g.newAMQP()
			f.frontEnd = g.amqp
		case "kafka":
			g.kafka = g.newKafka()
			f.frontEnd = g.kafka
		}
		if err != nil {
			return err
		}
		for _, at := range g.listeners {
			if at.name == l.protocol {
				at.serve = f.frontEnd
			}
		}
		g.fronts = append(g.fronts, f)
	}
	return nil
}

// snapshot reads all figures.
func (g *Gateway) snapshot() *metrics.Snapshot {
	s := &metrics.Snapshot{
		Version: g.opts.Version, Ready: g.ready() == nil, Failed: g.store.Failure() != nil, Store: g.store.Stats(), Queues: g.views.queues.Figures(),
		Groups: g.views.groups.Figures(),
	}
	for _, l := range g.listeners {
		s.Listeners = append(s.Listeners, metrics.Listener{
			Protocol: l.name, Open: l.own.used.Load(), Accepted: l.accepted.Load(), Refused: l.refused.Load(), Failed: l.failed.Load(),
		})
	}
	if g.amqp != nil {
		f := g.amqp.Figures()
		s.AMQP = &f
	}
	if g.kafka != nil {
		f := g.kafka.Figures()
		s.Kafka = &f
	}
	if g.node != nil {
		f := g.node.Figures()
		s.Cluster = &f
	}
	return s
}
