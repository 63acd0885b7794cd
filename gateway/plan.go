package gateway

import (
	"time"

	"polylog/cluster"
	"polylog/gateway/config"
	"polylog/logstore"
	"polylog/protocols/amqp"
	"polylog/protocols/kafka"
	"polylog/viewlayer/group"
	"polylog/viewlayer/queue"
	"polylog/viewlayer/topic"
)

// plan is what a configuration decides, in the words of the code that does it. What only the running process knows (the open log, clocks, connections) is filled in later.
type plan struct {
	store     logstore.Options
	topics    topic.Defaults
	retention time.Duration // between two sweeps
	queues    queue.Options
	listeners []listenerPlan
	http      httpPlan
	most      int64 // connections of all listeners
	groups    group.Options
	producers group.ProducerOptions
	amqp      amqp.Options
	kafka     kafka.Options
	advertise string
	users     []config.User
	vhosts    []string
	drain     time.Duration
	cluster   cluster.Options // of no meaning for a node that is alone
}

// listenerPlan is a socket of a front-end.
type listenerPlan struct {
	protocol, addr, source string
	most                   int64 // connections
}

type httpPlan struct {
	addr, source string
	pprof        bool
}

// newPlan decides.
func newPlan(c *config.Config) *plan {
	p := &plan{
		store: logstore.Options{
			Dir: c.Data, Sync: c.Sync.Policy, SyncInterval: c.Sync.Interval, SegmentBytes: c.Storage.SegmentBytes, CheckpointBytes: c.Storage.CheckpointBytes,
			CleanRate: orElse(c.Storage.CleanRate, -1), OpenFiles: c.Storage.OpenFiles,
		},
		topics:    topicDefaults(c),
		retention: c.Retain.Interval,
		queues:    queueOptions(c),
		groups:    groupOptions(c),
		producers: group.ProducerOptions{Expiry: c.Kafka.Producers, OffsetsKept: c.Kafka.Batches},
		http:      httpPlan{c.HTTP.Listen, c.Source("http.listen"), c.HTTP.Pprof},
		most:      int64(c.Limits.Connections),
		amqp:      amqpOptions(c),
		kafka:     kafkaOptions(c),
		advertise: c.Kafka.Advertise,
		users:     c.Users,
		vhosts:    c.Vhosts,
		drain:     c.Shutdown.Timeout,
		cluster:   clusterOptions(c),
	}
	for _, l := range []listenerPlan{
		{"amqp", c.AMQP.Listen, c.Source("amqp.listen"), int64(c.AMQP.Connections)},
		{"kafka", c.Kafka.Listen, c.Source("kafka.listen"), int64(c.Kafka.Connections)},
	} {
		if l.addr != "" {
			p.listeners = append(p.listeners, l)
		}
	}
	return p
}

// orElse gives what 0 stands for.
func orElse[T int64 | time.Duration](v, zero T) T {
	if v == 0 {
		return zero
	}
	return v
}

// never is a time that nobody lives to see, for code that takes a time and knows no never.
const never = 100 * 365 * 24 * time.Hour

func topicDefaults(c *config.Config) topic.Defaults {
	return topic.Defaults{
		Retention: orElse(c.Retain.Time, -1), RetentionBytes: orElse(c.Retain.Bytes, -1), MaxMessageBytes: c.Kafka.MessageMax, DeleteRetention: c.Retain.Tombstones,
	}
}

func queueOptions(c *config.Config) queue.Options {
	o := queue.Options{Node: c.Node, Requeue: queue.Original}
	if c.Queue.Requeue == "tail" {
		o.Requeue = queue.Tail
	}
	return o
}

func groupOptions(c *config.Config) group.Options {
	return group.Options{
		InitialDelay: orElse(c.Group.InitialDelay, -1), SessionMin: c.Group.SessionTimeoutMin, SessionMax: c.Group.SessionTimeoutMax, GroupsMax: c.Group.GroupsMax, MembersMax: c.Group.MembersMax,
		MetadataMax: int(c.Group.MetadataMax), OffsetsRetention: orElse(c.Group.Offsets, -1),
	}
}
