package config

import (
	"maps"
	"time"

	"polylog/logstore"
)

// Config is the configuration of one broker process. Default and Load make one; it is not changed after that. The meaning of each field, its range and its
// default are in its row of the table (table.go) and in example.yaml.
type Config struct {
	Data string
	Node string

	Cluster  Cluster
	Log      Log
	Sync     Sync
	Storage  Storage
	AMQP     AMQP
	Kafka    Kafka
	MQTT     MQTT
	HTTP     HTTP
	Limits   Limits
	Queue    Queue
	Group    Group
	Retain   Retain
	Shutdown Shutdown

	Vhosts []string
	Users  []User

	// sources says where the value of a key came from, if not from the defaults.
	sources map[string]string
	// Warnings are things that were accepted and are probably not what was meant. The gateway logs them.
	Warnings []string
}

// Cluster says with which other nodes this one is one broker.
type Cluster struct {
	Listen       string // empty, and no NATS: this node is alone
	Advertise    string
	Seeds        []string
	Name         string
	Secret       string
	NATS         []string // URLs, instead of Listen
	Replicas     int
	StreamBytes  int64
	BacklogBytes int64
	GoneAfter    time.Duration
}

// Clustered reports whether this node is one of several.
func (c *Config) Clustered() bool { return c.Cluster.Listen != "" || len(c.Cluster.NATS) > 0 }

// Log says what is logged and how.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // auto, console, json
}

// Sync says when what was written is forced to the disk.
type Sync struct {
	Policy   logstore.SyncPolicy
	Interval time.Duration
}

// Storage are the sizes and rates of the log. Sizes are in bytes.
type Storage struct {
	SegmentBytes    int64
	CheckpointBytes int64
	CleanRate       int64 // bytes a second; 0: no limit
	OpenFiles       int
}

// AMQP configures the AMQP front-end.
type AMQP struct {
	Listen           string // empty: off
	Connections      int
	FrameMax         int64
	ChannelMax       int
	Heartbeat        time.Duration
	MessageMax       int64
	PublishBuffer    int64 // of a connection
	DeliveryBuffer   int64 // of a connection
	UnackedMax       int   // of a channel
	HandshakeTimeout time.Duration
	WriteTimeout     time.Duration
	CloseTimeout     time.Duration
}

// Kafka configures the Kafka front-end.
type Kafka struct {
	Listen      string // empty: off
	Advertise   string // empty: the address that the client has connected to
	NodeID      int
	Connections int
	AutoCreate  bool
	Partitions  int
	RequestMax  int64 // of a produce request
	OtherMax    int64 // of any other request
	ResponseMax int64
	MessageMax  int64
	InFlight    int
	Memory      int64 // of a connection
	Decoding    int64 // of all connections
	Sessions    int
	IdleTimeout time.Duration
	StallTime   time.Duration
	Producers   time.Duration // how long an idempotent producer is remembered
	Batches     int           // of them in memory
}

// MQTT configures the MQTT front-end, of which there is nothing yet: Listen is always empty.
type MQTT struct {
	Listen string
}

// HTTP configures the administration listener.
type HTTP struct {
	Listen string // empty: off
	Pprof  bool
}

// Limits bound what clients together may take.
type Limits struct {
	Connections int
}

// Queue are the defaults of AMQP queues.
type Queue struct {
	Requeue string // original, tail
}

// Group are the bounds of Kafka consumer groups.
type Group struct {
	SessionTimeoutMin time.Duration
	SessionTimeoutMax time.Duration
	InitialDelay      time.Duration
	GroupsMax         int // that have members
	MembersMax        int // of a group
	MetadataMax       int64
	Offsets           time.Duration // 0: kept for ever
}

// Retain is what topics keep that do not say it themselves. It holds for topics whose messages stay when they were read, not for AMQP queues.
type Retain struct {
	Time       time.Duration // 0: for ever
	Bytes      int64         // of each partition; 0: no limit
	Tombstones time.Duration
	Interval   time.Duration // between two looks at all topics
}

// Shutdown bounds the orderly end.
type Shutdown struct {
	Timeout time.Duration
}

// User may log in. Exactly one of Password and PasswordHash is set.
type User struct {
	Name         string
	Password     string
	PasswordHash string // bcrypt, in its usual text form
	Vhosts       []string
	LoopbackOnly bool
}

// AnyVhost in User.Vhosts stands for all vhosts.
const AnyVhost = "*"

// GuestUser is the one user there is by default. As in RabbitMQ it may log in from this machine only, unless the configuration says otherwise.
const GuestUser = "guest"

// Default is the configuration of a broker that was told nothing.
func Default() *Config {
	return &Config{
		Data:    "data",
		Node:    "polylog",
		Cluster: Cluster{Name: "polylog", Replicas: 3, StreamBytes: 8 << 30, BacklogBytes: 1 << 30, GoneAfter: 10 * time.Second},
		Log:     Log{Level: "info", Format: "auto"},
		Sync:    Sync{Policy: logstore.SyncAlways, Interval: 100 * time.Millisecond},
		Storage: Storage{SegmentBytes: 128 << 20, CheckpointBytes: 32 << 20, CleanRate: 64 << 20, OpenFiles: 256},
		AMQP: AMQP{
			Listen: ":5672", Connections: 10_000, FrameMax: 128 << 10, ChannelMax: 2047, Heartbeat: time.Minute, MessageMax: 16 << 20,
			PublishBuffer: 4 << 20, DeliveryBuffer: 1 << 20, UnackedMax: 1 << 18, HandshakeTimeout: 10 * time.Second, WriteTimeout: time.Minute,
			CloseTimeout: 5 * time.Second,
		},
		Kafka: Kafka{
			Listen: "127.0.0.1:9092", NodeID: 1, Connections: 10_000, AutoCreate: true, Partitions: 1, RequestMax: 100 << 20, OtherMax: 4 << 20,
			ResponseMax: 55 << 20, MessageMax: 1<<20 + 12, InFlight: 1000, Memory: 128 << 20, Decoding: 1 << 30, Sessions: 1000, IdleTimeout: 10 * time.Minute,
			StallTime: time.Minute, Producers: day, Batches: 16 << 10,
		},
		HTTP:   HTTP{Listen: "127.0.0.1:15672"},
		Limits: Limits{Connections: 10_000},
		Queue:  Queue{Requeue: "original"},
		Group: Group{
			SessionTimeoutMin: 6 * time.Second, SessionTimeoutMax: 30 * time.Minute, InitialDelay: 3 * time.Second, GroupsMax: 100_000, MembersMax: 10_000, MetadataMax: 4 << 10,
			Offsets: 7 * day,
		},
		Retain:   Retain{Time: 7 * day, Tombstones: day, Interval: 5 * time.Minute},
		Shutdown: Shutdown{Timeout: 30 * time.Second},
		Vhosts:   []string{"/"},
		Users:    []User{{Name: GuestUser, Password: "guest", Vhosts: []string{AnyVhost}, LoopbackOnly: true}},
		sources:  map[string]string{},
	}
}

// Source says where the value of a key came from: "the default", "polylog.yaml:12", "POLYLOG_DATA", "--data".
func (c *Config) Source(key string) string {
	if s, set := c.sources[key]; set {
		return s
	}
	return "the default"
}

// Set says which keys do not come from the defaults, and where each comes from.
func (c *Config) Set() map[string]string { return maps.Clone(c.sources) }
