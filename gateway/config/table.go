package config

import (
	"math"
	"strings"
	"time"

	"polylog/logstore/record"
)

// setting is one row of the table: a key and all that is known of it.
type setting struct {
	key  string // as in the file, sections joined by dots
	to   value
	help string // what it does, for operators; ends with a full stop
}

// env is the environment variable that overrides the key.
func (s setting) env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

const century = 100 * 365 * day

// settings is the table, bound to the fields of c. Keys of one section stand together: what is printed follows this order.
func (c *Config) settings() []setting {
	return []setting{
		{"data", text{&c.Data, "a directory"},
			"The directory that holds the log. It is made if it does not exist. One process at a time uses it."},
		{"node", text{&c.Node, "a name"},
			"The name of this node, as it shows in the index topic and to clients. In a cluster every node has its own, and must be given it."},

		{"cluster.listen", address{&c.Cluster.Listen},
			"Where the other nodes of the cluster reach this one. Without it this node is alone."},
		{"cluster.advertise", optional{&c.Cluster.Advertise, "HOST:PORT, or \"\": that of cluster.listen"},
			"The address that the other nodes are told instead of cluster.listen, when that is not one they can use. Its host is also where Kafka clients are told to find this node, unless kafka.advertise says otherwise."},
		{"cluster.seeds", words{&c.Cluster.Seeds, "addresses (HOST:PORT), separated by commas"},
			"The addresses (cluster.listen) of all nodes that the cluster begins with, this one too, in one word with commas between. A node that joins later needs some of them."},
		{"cluster.name", text{&c.Cluster.Name, "a name of letters, digits, - and _"},
			"The name of the cluster: the same on all of its nodes."},
		{"cluster.secret", secret{&c.Cluster.Secret},
			"What a node must know to be one of the cluster: the same on all of its nodes. It must be given."},
		{"cluster.nats", words{&c.Cluster.NATS, "URLs (nats://USER:PASSWORD@HOST:PORT), separated by commas"},
			"A NATS cluster with JetStream that is operated elsewhere and carries the order, instead of the server in each node. Its servers must run with sync_interval: always."},
		{"cluster.replicas", number{&c.Cluster.Replicas, 1, 5},
			"How many nodes hold a copy of the order. A majority of them must have an entry on the disk before it is confirmed. It is decided when the cluster begins."},
		{"cluster.stream_bytes", size{to: &c.Cluster.StreamBytes, min: 64 << 20, max: 1 << 42},
			"How large the order may be on each node's disk. It is trimmed as soon as all nodes have applied it; when it is full, writes wait."},
		{"cluster.backlog_bytes", size{to: &c.Cluster.BacklogBytes, min: 1 << 20, max: 1 << 42},
			"How much of the order is kept for a node that is away. One that was away for longer begins with a copy of another node's log."},
		{"cluster.gone_after", duration{to: &c.Cluster.GoneAfter, min: time.Second, max: time.Hour},
			"After how much silence a node is declared gone: what its consumers held comes back, its exclusive and auto-delete queues go."},

		{"log.level", choice{&c.Log.Level, []string{"debug", "info", "warn", "error"}},
			"What is logged: this level and all that are more serious."},
		{"log.format", choice{&c.Log.Format, []string{"auto", "console", "json"}},
			"How it is logged, on stderr. auto is console on a terminal and json elsewhere."},

		{"sync.policy", syncPolicy{&c.Sync.Policy},
			"When what was written is forced to the disk. always: before a producer is told that its message is stored. interval: every sync.interval, so a power loss may take confirmed messages of that time. os: when the operating system likes. A killed process loses nothing confirmed in any of them."},
		{"sync.interval", duration{to: &c.Sync.Interval, min: time.Millisecond, max: time.Minute},
			"The time between two syncs when sync.policy is interval."},

		{"storage.segment_bytes", size{to: &c.Storage.SegmentBytes, min: 64 << 10, max: 1 << 30},
			"The size of a segment file of the log."},
		{"storage.checkpoint_bytes", size{to: &c.Storage.CheckpointBytes, min: 1 << 20, max: 1 << 40},
			"How much is written to the log between two checkpoints. A start after a crash reads that much again."},
		{"storage.clean_rate", size{to: &c.Storage.CleanRate, min: 64 << 10, max: 1 << 40, zero: "no limit"},
			"Bytes a second that may be copied to bring back the space of deleted messages."},
		{"storage.open_files", number{&c.Storage.OpenFiles, 16, 1 << 20},
			"How many sealed segment files are held open for reading."},

		{"amqp.listen", address{&c.AMQP.Listen},
			"Where AMQP 0-9-1 is served."},
		{"amqp.connections", number{&c.AMQP.Connections, 1, 1 << 20},
			"How many AMQP connections there may be. Further ones are closed at once."},
		{"amqp.frame_max", size{to: &c.AMQP.FrameMax, min: 4 << 10, max: 16 << 20},
			"The largest frame, offered to clients when they connect."},
		{"amqp.channel_max", number{&c.AMQP.ChannelMax, 1, math.MaxUint16},
			"The highest channel number on a connection, offered to clients when they connect."},
		{"amqp.heartbeat", duration{to: &c.AMQP.Heartbeat, min: time.Second, max: math.MaxUint16 * time.Second, step: time.Second, zero: "none"},
			"The heartbeat interval suggested to clients. A connection of which nothing was heard for two intervals is closed."},
		{"amqp.message_max", size{to: &c.AMQP.MessageMax, min: 1 << 10, max: messageMax},
			"The largest body of a message that may be published with AMQP."},
		{"amqp.publish_buffer", size{to: &c.AMQP.PublishBuffer, min: 64 << 10, max: 64 << 20},
			"How many bytes of a connection's published messages may wait to be stored. No more is read from the connection before some are. A larger message is taken all the same."},
		{"amqp.delivery_buffer", size{to: &c.AMQP.DeliveryBuffer, min: 64 << 10, max: 64 << 20},
			"How many bytes may wait to be sent on a connection. Nothing more is delivered to it before some are. A larger message is delivered all the same."},
		{"amqp.unacked_max", number{&c.AMQP.UnackedMax, 1, 1 << 24},
			"How many messages a channel that has set no prefetch may hold unacknowledged."},
		{"amqp.handshake_timeout", duration{to: &c.AMQP.HandshakeTimeout, min: 100 * time.Millisecond, max: 10 * time.Minute},
			"How long a new connection may take until it is open."},
		{"amqp.write_timeout", duration{to: &c.AMQP.WriteTimeout, min: 100 * time.Millisecond, max: day},
			"How long a client may take to receive the next 256 KiB. A slower one is cut off."},
		{"amqp.close_timeout", duration{to: &c.AMQP.CloseTimeout, min: 10 * time.Millisecond, max: time.Hour},
			"How long a client may take to answer when its connection is closed by the broker."},

		{"kafka.listen", address{&c.Kafka.Listen},
			"Where Kafka is served. Kafka clients do not log in in this version: whoever reaches this address may read and write everything in the vhost /. That is why it is this machine only unless you say otherwise."},
		{"kafka.advertise", advertised{&c.Kafka.Advertise},
			"The address told to Kafka clients as the broker's. Set it when they reach the broker through a proxy or a port mapping."},
		{"kafka.node_id", number{&c.Kafka.NodeID, 0, math.MaxInt32},
			"The broker's number in the Kafka protocol. In a cluster 0 is a number that the cluster chooses, and so is the default; one that another node has is not used."},
		{"kafka.connections", number{&c.Kafka.Connections, 1, 1 << 20},
			"How many Kafka connections there may be. Further ones are closed at once."},
		{"kafka.auto_create_topics", yes{&c.Kafka.AutoCreate},
			"Whether a topic is made when a Kafka client that allows it asks for one that does not exist."},
		{"kafka.partitions", number{&c.Kafka.Partitions, 1, 10_000},
			"How many partitions a topic gets that is made without saying how many."},
		{"kafka.request_max", size{to: &c.Kafka.RequestMax, min: 64 << 10, max: 1 << 30},
			"The largest produce request. A connection that announces a larger one is closed."},
		{"kafka.other_request_max", size{to: &c.Kafka.OtherMax, min: 64 << 10, max: 1 << 30},
			"The largest request of any other kind."},
		{"kafka.response_max", size{to: &c.Kafka.ResponseMax, min: 64 << 10, max: 1 << 30},
			"How many bytes of records one answer to a fetch may have, whatever the client asks for. One batch is always given whole."},
		{"kafka.message_max", size{to: &c.Kafka.MessageMax, min: 1 << 10, max: messageMax},
			"The largest record batch of a topic that has no max.message.bytes of its own."},
		{"kafka.in_flight", number{&c.Kafka.InFlight, 1, 10_000},
			"How many requests of one connection may be under way. No more are read before one is answered."},
		{"kafka.connection_memory", size{to: &c.Kafka.Memory, min: 256 << 10, max: 1 << 40},
			"How many bytes of requests and answers a connection may have under way. No more is read from it before some are answered. A larger request is held whole all the same."},
		{"kafka.decoding_memory", size{to: &c.Kafka.Decoding, min: 16 << 20, max: 1 << 40},
			"How much memory the requests that are being decoded may take, at the worst that they can claim, of all connections together. Further ones wait."},
		{"kafka.fetch_sessions", number{&c.Kafka.Sessions, 1, 1 << 20},
			"How many fetch sessions are held, of all connections together. The oldest make room."},
		{"kafka.idle_timeout", duration{to: &c.Kafka.IdleTimeout, min: time.Second, max: century, zero: "never"},
			"After how long without a request a connection is closed."},
		{"kafka.stall_timeout", duration{to: &c.Kafka.StallTime, min: 100 * time.Millisecond, max: day},
			"After how long in the middle of a request, or with an answer that is not read, a connection is closed."},
		{"kafka.producer_retention", duration{to: &c.Kafka.Producers, min: time.Minute, max: century},
			"How long an idempotent producer that writes nothing to a partition is remembered there. A batch that it sends twice after that is stored twice."},
		{"kafka.producer_batches", number{&c.Kafka.Batches, 1, 1 << 24},
			"How many recent batches of idempotent producers are kept in mind, so that one that comes twice is answered without reading the log."},

		{"mqtt.listen", unserved{&c.MQTT.Listen, "MQTT"},
			"Where MQTT is served. This version does not serve it, so it must be empty."},

		{"http.listen", address{&c.HTTP.Listen},
			"Where /metrics, /healthz and /readyz are served, to everybody who reaches this address."},
		{"http.pprof", yes{&c.HTTP.Pprof},
			"Whether profiles of the process are served too, under /debug/pprof/."},

		{"limits.connections", number{&c.Limits.Connections, 1, 1 << 20},
			"How many connections of all protocols there may be. Further ones are closed at once."},

		{"queue.requeue", choice{&c.Queue.Requeue, []string{"original", "tail"}},
			"Where a returned message goes: before those that have not been delivered yet (original), or behind all (tail)."},

		{"group.session_timeout_min", duration{to: &c.Group.SessionTimeoutMin, min: 10 * time.Millisecond, max: day},
			"The shortest session timeout that a member of a consumer group may ask for."},
		{"group.session_timeout_max", duration{to: &c.Group.SessionTimeoutMax, min: 10 * time.Millisecond, max: 30 * day},
			"The longest one."},
		{"group.initial_delay", duration{to: &c.Group.InitialDelay, min: 0, max: time.Hour},
			"How long the first member of an empty consumer group waits for others before partitions are assigned."},
		{"group.groups_max", number{&c.Group.GroupsMax, 1, 1 << 24},
			"How many consumer groups may have members at a time."},
		{"group.members_max", number{&c.Group.MembersMax, 1, 1 << 20},
			"How many members a consumer group may have."},
		{"group.metadata_max", size{to: &c.Group.MetadataMax, min: 1, max: 64 << 10},
			"How many bytes of text a consumer group may keep with a committed offset."},
		{"group.offsets_retention", duration{to: &c.Group.Offsets, min: time.Minute, max: century, zero: "for ever"},
			"How long the committed offsets of a consumer group without members are kept."},

		{"retention.time", duration{to: &c.Retain.Time, min: time.Second, max: century, zero: "for ever"},
			"How long a topic without a retention.ms of its own keeps its records. AMQP queues keep theirs until they are acknowledged."},
		{"retention.bytes", size{to: &c.Retain.Bytes, min: 1 << 10, max: 1 << 50, zero: "no limit"},
			"How many bytes a partition of a topic without a retention.bytes of its own keeps."},
		{"retention.tombstones", duration{to: &c.Retain.Tombstones, min: 0, max: century},
			"How long the last record of a key stays in a compacted topic without delete.retention.ms when its value is null."},
		{"retention.interval", duration{to: &c.Retain.Interval, min: 100 * time.Millisecond, max: day},
			"How often it is looked what is to be removed."},

		{"shutdown.timeout", duration{to: &c.Shutdown.Timeout, min: 100 * time.Millisecond, max: time.Hour},
			"How long an orderly end waits for clients before it cuts them off. What was confirmed is safe in any case."},

		{"vhosts", vhosts{&c.Vhosts},
			"The vhosts that AMQP clients may open. Kafka sees the one named /."},
		{"users", users{&c.Users},
			"Who may log in with AMQP: name; password or password_hash (bcrypt); vhosts, the list of those the user may open ([\"*\"], the default: all); loopback_only, whether only from this machine (the default for guest, and for nobody else)."},
	}
}

// messageMax leaves room in a batch, which is the largest thing the log takes, for what surrounds a body.
const messageMax = record.MaxBatchSize - 1<<20

// Row describes a key, for documents.
type Row struct {
	Key, Env, Default, Allowed, Help string
}

// Table describes all keys, in the order in which they are documented.
func Table() []Row {
	var list []Row
	for _, s := range Default().settings() {
		list = append(list, Row{s.key, s.env(), s.to.text(), s.to.allowed(), s.help})
	}
	return list
}

// find returns the row of a key.
func find(rows []setting, key string) (setting, bool) {
	for _, s := range rows {
		if s.key == key {
			return s, true
		}
	}
	return setting{}, false
}
