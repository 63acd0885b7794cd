// Package topic says which topics there are. A topic has a name in a namespace, one or more partitions, each a shard of the log, an ack policy and a retention
// policy. The same name is the same topic for every protocol.
//
// It promises: a topic and its shards appear and disappear in one transaction; whoever looks a topic up sees every change that has its place in the order,
// whichever node made it; a topic that was deleted and made anew has another identity (Topic.ID), so what was kept for the old one does not apply to the new.
//
// It does not know what a queue or a consumer group is. Views that keep keys of their own for a topic say so (Catalog.Attach), and what they keep goes with it.
//
// The keys it owns, with the namespace's length in one byte before the namespace:
//
//	t/<namespace><name>          the topic, see encode.go
//	s/<id in hex>/<partition>    the number of a partition's shard, put by CreateShard
//	i/<id>                       the key of the topic with this id
//	k/<namespace><kafka name>    the name behind a Kafka name that is a digest, see name.go
//
// Start with catalog.go.
package topic

import (
	"slices"

	"polylog/logstore"
)

// DefaultNamespace is the one that clients are in who name none.
const DefaultNamespace = "/"

// PartitionsMax bounds the partitions of a topic. Each costs an operation of the transaction that makes the topic, and some 100 bytes of memory.
const PartitionsMax = 10_000

// AckPolicy says what becomes of a message that its queue's consumer has settled.
type AckPolicy uint8

const (
	// Delete takes it out of the log, for everyone. Topics made by declaring a queue have this policy.
	Delete AckPolicy = iota
	// Retain takes it out of the queue's view only; retention removes data. Topics made by Kafka have this policy.
	Retain
)

func (p AckPolicy) String() string {
	if p == Retain {
		return "retain"
	}
	return "delete"
}

// ID is a topic's identity, which no other topic has or had.
type ID [16]byte

// Topic is what there is to know of a topic. It is never changed: a change makes a new one.
type Topic struct {
	ID              ID
	Namespace, Name string
	Shards          []logstore.Shard // one for each partition
	AckPolicy       AckPolicy
	Internal        bool   // the broker's own: clients may read it, not write it
	Durable         bool   // is there after a restart
	AutoDelete      bool   // goes with its last consumer
	Owner           string // the connection that an exclusive queue belongs to; empty: it is not exclusive
	Hidden          bool   // not listed to protocols that did not make it
	Arguments       []byte // of its declaration: an AMQP field table as on the wire, with its length; nil if there are none
	Created         int64  // Unix milliseconds
	Config          map[string]string

	key string // of the topic in the store
	raw []byte // its value there
}

// Partition returns the shard of a partition; ok is false if there is no such partition.
func (t *Topic) Partition(p int32) (sh logstore.Shard, ok bool) {
	if p < 0 || int(p) >= len(t.Shards) {
		return 0, false
	}
	return t.Shards[p], true
}

// Unchanged is the condition that the topic is still as it is here.
func (t *Topic) Unchanged() logstore.Condition { return logstore.KeyIs(t.key, t.raw) }

// Exists is the condition that the topic is there, however its configuration has changed.
func (t *Topic) Exists() logstore.Condition {
	return logstore.KeyIs(idPrefix+string(t.ID[:]), []byte(t.key))
}

// Spec is what a topic shall be.
type Spec struct {
	Namespace, Name               string
	Partitions                    int // 1 to PartitionsMax
	AckPolicy                     AckPolicy
	Durable, AutoDelete, Internal bool
	Hidden                        bool
	Owner                         string
	Arguments                     []byte
	Config                        map[string]string // see policy.go
}

func (s *Spec) topic() *Topic {
	return &Topic{
		Namespace: s.Namespace, Name: s.Name, AckPolicy: s.AckPolicy, Internal: s.Internal, Durable: s.Durable, AutoDelete: s.AutoDelete, Owner: s.Owner,
		Hidden: s.Hidden, Arguments: slices.Clone(s.Arguments), Config: s.Config,
	}
}
