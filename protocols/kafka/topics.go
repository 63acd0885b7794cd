package kafka

import (
	"errors"
	"fmt"
	"strings"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// leaderEpoch is the epoch of every partition: there is one log, its leader never changes.
const leaderEpoch int32 = 0

// find returns the topic that the client calls name: a *topic.UnknownError if there is none, a *topic.NameError if there can be none, a *privateError if it is
// somebody else's.
func (c *connection) find(name string) (*topic.Topic, error) {
	t, err := c.server.opts.Topics.FindKafka(c.namespace, name)
	return c.visible(t, err)
}

// findID is find by the topic's identity.
func (c *connection) findID(id [16]byte) (*topic.Topic, error) {
	t, err := c.server.opts.Topics.FindID(id)
	if err == nil && t.Namespace != c.namespace {
		return nil, &topic.UnknownIDError{ID: id}
	}
	return c.visible(t, err)
}

func (c *connection) visible(t *topic.Topic, err error) (*topic.Topic, error) {
	if err == nil && t.Owner != "" {
		return nil, &privateError{t.Name}
	}
	return t, err
}

// privateError means that a topic is an exclusive queue, for nobody but the connection that declared it.
type privateError struct{ name string }

func (e *privateError) Error() string {
	return "topic '" + e.name + "' is the exclusive queue of another connection; only that one can use it"
}

// readOnlyError means that a topic is the broker's own.
type readOnlyError struct{ name string }

func (e *readOnlyError) Error() string {
	return "topic '" + e.name + "' is the broker's own; clients can read it and not change it"
}

// partitionError means that a topic has no such partition.
type partitionError struct {
	name      string
	partition int32
	has       int
}

// partition returns the shard of a topic's partition.
func partition(t *topic.Topic, p int32) (logstore.Shard, error) {
	if sh, ok := t.Partition(p); ok {
		return sh, nil
	}
	return 0, &partitionError{t.Name, p, len(t.Shards)}
}

// checkEpoch compares the leader epoch that a client knows (-1: none, KIP-320) with the one there is.
func checkEpoch(known int32) int16 {
	switch {
	case known == -1 || known == leaderEpoch:
		return codeNone
	case known < leaderEpoch:
		return codeFencedLeaderEpoch
	}
	return codeUnknownLeaderEpoch
}

// bounds are the offsets of a partition as Kafka sees it.
type bounds struct {
	start int64 // log start: what lies below is out of range
	first int64 // the lowest record; reading from start begins here
	next  int64 // high watermark and last stable offset
}

// bounds returns the offsets of a partition.
//
// DEVIATES: a topic whose queue deletes what was acknowledged has log start 0, though the first records are gone: acknowledging is like compaction, which leaves
// holes, and not like retention, which moves the start. Else every acknowledgement would put a consumer that reads behind out of range. See docs/kafka.md. The log
// does not tell what took its first records, so a compacted topic has log start 0 too, though retention may have a part in it.
func (s *Server) bounds(t *topic.Topic, sh logstore.Shard) (bounds, error) {
	first, next, err := s.opts.Store.Bounds(sh)
	b := bounds{start: first, first: first, next: next}
	if t.AckPolicy == topic.Delete || strings.Contains(t.Config[topic.ConfigCleanupPolicy], "compact") {
		b.start = 0
	}
	return b, err
}

// errorMessage is what a client is told about an error besides its code.
func errorMessage(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	var unknown *topic.UnknownError
	if errors.As(err, &unknown) {
		s = "This broker has no such topic or partition."
	}
	return &s
}

func (e *partitionError) Error() string {
	return fmt.Sprintf("topic '%s' has partitions 0 to %d, not %d", e.name, e.has-1, e.partition)
}
