package queue

import (
	"encoding/binary"
	"fmt"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// A queue that is exclusive, or not durable, goes with the node on which it was declared, as with RabbitMQ. Which one that is, and which epoch of it, stands
// under a key that appears and disappears with the queue.

// origin is a node in one of its epochs.
type origin struct {
	node  string
	epoch uint64
}

// value is what an origin is in the log: version u8 (1), epoch u64, node.
func (o origin) value() []byte { return append(number(o.epoch), o.node...) }

func parseOrigin(raw []byte) (o origin, err error) {
	if len(raw) < 9 || raw[0] != numberVersion {
		return o, fmt.Errorf("the value %x is no node's epoch of version %d", raw, numberVersion)
	}
	return origin{string(raw[9:]), binary.BigEndian.Uint64(raw[1:])}, nil
}

func isBound(t *topic.Topic) bool { return !t.Durable || t.Owner != "" }

// Creating implements topic.Dependent: a queue that goes with this node says so.
func (v *View) Creating(t *topic.Topic) []logstore.Op {
	if !isBound(t) {
		return nil
	}
	return []logstore.Op{logstore.Put(ofTopic(boundPrefix, t.ID), origin{v.node, v.epoch}.value())}
}

// removedAtOnce bounds the consumers that go in the transaction that deletes their queue. Others go when they are told.
const removedAtOnce = 10_000

// Deleting implements topic.Dependent: the cursors go with the topic, and what says who consumes from it. Its index records go after it, as far as this node
// knows them.
func (v *View) Deleting(t *topic.Topic) []logstore.Op {
	ops := make([]logstore.Op, 0, 2*len(t.Shards)+3)
	for i := range t.Shards {
		ops = append(ops, logstore.Remove(newCursor(t.ID, i).key), logstore.Remove(doubtKey(t.ID, i)))
	}
	ops = append(ops, logstore.Remove(ofTopic(exclusivePrefix, t.ID)), logstore.Remove(ofTopic(latestPrefix, t.ID)))
	if isBound(t) {
		ops = append(ops, logstore.Remove(ofTopic(boundPrefix, t.ID)))
	}
	n := 0
	v.store.Scan(ofTopic(consumerPrefix, t.ID), func(key string, _ []byte) bool {
		ops = append(ops, logstore.Remove(key))
		n++
		return n < removedAtOnce
	})
	return ops
}
