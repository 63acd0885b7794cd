package gateway

import (
	"net"
	"strconv"

	"polylog/gateway/config"
	"polylog/protocols/kafka"
)

// kafkaOptions is what the configuration says of Kafka.
func kafkaOptions(c *config.Config) kafka.Options {
	return kafka.Options{
		Defaults: topicDefaults(c), NodeID: int32(c.Kafka.NodeID), AutoCreate: c.Kafka.AutoCreate, Partitions: c.Kafka.Partitions,
		Limits: kafka.Limits{
			RequestBytes: int(c.Kafka.RequestMax), SmallRequestBytes: int(c.Kafka.OtherMax), ResponseBytes: int(c.Kafka.ResponseMax), Inflight: c.Kafka.InFlight,
			ConnectionBytes: int(c.Kafka.Memory), DecodingBytes: int(c.Kafka.Decoding), IdleTimeout: orElse(c.Kafka.IdleTimeout, never),
			StallTimeout: c.Kafka.StallTime, FetchSessions: c.Kafka.Sessions,
		},
	}
}

// newKafka makes the Kafka front-end.
func (g *Gateway) newKafka() *kafka.Server {
	o := g.plan.kafka
	o.Store, o.Topics, o.Groups, o.Producers = g.store, g.views.topics, g.views.groups, g.views.producers
	o.ClusterID, o.Advertise, o.Now, o.Logf = g.views.cluster, advertise(g.plan.advertise), g.now, printer(g.log, "kafka")
	if g.node != nil {
		o.NodeID, o.Brokers = g.brokerID(), g.brokers
	}
	return kafka.New(o)
}

// advertise says what address a client is told: the configured one, else that which it has reached us by. The latter is right wherever no proxy or port mapping is in
// between, and whatever interface or port it came in by.
func advertise(configured string) func(conn net.Conn) (host string, port int32) {
	if configured != "" {
		host, port := split(configured)
		return func(net.Conn) (string, int32) { return host, port }
	}
	return func(conn net.Conn) (string, int32) { return split(conn.LocalAddr().String()) }
}

// split takes apart an address that was checked, or that a socket says of itself.
func split(addr string) (host string, port int32) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, 0
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return host, 0
	}
	return host, int32(n)
}
