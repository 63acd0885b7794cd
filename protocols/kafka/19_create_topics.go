package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/topic"
)

// CreateTopics (19): v0 to v7.
//
// v1 can validate only and says what is wrong, v4 leaves the number of partitions to the broker (KIP-464), v5 is flexible and tells what was made (KIP-525), v6 may
// be throttled (KIP-599), v7 tells the topic's id (KIP-516).

// topicWish is what a client wants a topic to be.
type topicWish struct {
	name       string // as Kafka knows it
	partitions int
	config     map[string]string
}

// wishError is a wish that this broker cannot fulfil.
type wishError struct {
	code int16
	what string
}

func (e *wishError) Error() string { return e.what }

// createTopics makes topics, all at once: each has to reach the disk, and together they need it once.
func (c *call) createTopics() {
	req := c.req.(*kmsg.CreateTopicsRequest)
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	count := map[string]int{}
	for i := range req.Topics {
		count[req.Topics[i].Topic]++
	}
	var asked []*kmsg.CreateTopicsRequestTopic
	for i := range req.Topics {
		rt := &req.Topics[i]
		n := count[rt.Topic]
		if n == 0 {
			continue // its error is in the answer already
		}
		count[rt.Topic] = 0
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = rt.Topic
		if n > 1 {
			setCreateError(&out, &wishError{codeInvalidRequest, "the request has the topic more than once"})
			rt = nil
		}
		asked = append(asked, rt)
		resp.Topics = append(resp.Topics, out)
	}
	ids := c.server.layout(c.conn.net).ids
	c.conn.work.Go(func() {
		c.server.inParallel(len(asked), func(i int) {
			if asked[i] != nil {
				c.createTopic(asked[i], &resp.Topics[i], ids, req.ValidateOnly)
			}
		})
		c.respond(resp)
	})
}

func setCreateError(out *kmsg.CreateTopicsResponseTopic, err error) {
	out.ErrorCode, out.ErrorMessage = adminCode(err), errorMessage(err)
	out.Configs = nil
}

func (c *call) createTopic(rt *kmsg.CreateTopicsRequestTopic, out *kmsg.CreateTopicsResponseTopic, ids []int32, validateOnly bool) {
	wish, err := c.server.wish(rt, ids)
	var t *topic.Topic
	switch {
	case err != nil:
	case validateOnly:
		err = c.conn.mayCreate(wish)
	default:
		t, err = c.conn.create(c.conn.ctx, wish)
	}
	if err != nil {
		setCreateError(out, err)
		return
	}
	if t != nil {
		out.TopicID = t.ID
	}
	out.NumPartitions, out.ReplicationFactor = int32(wish.partitions), int16(len(ids))
	for _, cf := range c.server.topicConfigs(&topic.Topic{AckPolicy: topic.Retain, Config: wish.config}) {
		source := sourceDefault
		if cf.set {
			source = sourceTopic
		}
		out.Configs = append(out.Configs, kmsg.CreateTopicsResponseTopicConfig{Name: cf.name, Value: &cf.value, ReadOnly: true, Source: int8(source)})
	}
}

// wish reads a request for one topic, at the brokers that there are. All of them have all topics, however many were asked for.
func (s *Server) wish(rt *kmsg.CreateTopicsRequestTopic, ids []int32) (topicWish, error) {
	w := topicWish{name: rt.Topic, partitions: int(rt.NumPartitions), config: map[string]string{}}
	for _, rc := range rt.Configs {
		if rc.Value == nil {
			return w, &wishError{codeInvalidConfig, "configuration " + rc.Name + " has a null value"}
		}
		w.config[rc.Name] = *rc.Value
	}
	if len(rt.ReplicaAssignment) > 0 {
		return w, assigned(rt, ids, &w)
	}
	switch {
	case rt.NumPartitions == -1:
		w.partitions = s.opts.Partitions
	case rt.NumPartitions <= 0:
		return w, &wishError{codeInvalidPartitions, "number of partitions must be larger than 0, or -1 for the broker's default"}
	}
	if n := int(rt.ReplicationFactor); n != -1 && (n < 1 || n > len(ids)) {
		return w, &wishError{codeInvalidReplicationFactor, fmt.Sprintf("replication factor %d; there are brokers: %d, so it is 1 to %[2]d, or -1 for the broker's default", n, len(ids))}
	}
	return w, nil
}

// assigned checks an assignment of partitions to brokers by hand: all partitions from 0 on, each to brokers that there are, none twice.
func assigned(rt *kmsg.CreateTopicsRequestTopic, ids []int32, w *topicWish) error {
	if rt.NumPartitions != -1 || rt.ReplicationFactor != -1 {
		return &wishError{codeInvalidRequest, "with an assignment by hand, the number of partitions and the replication factor must be -1"}
	}
	w.partitions = len(rt.ReplicaAssignment)
	seen := make([]bool, w.partitions)
	for _, a := range rt.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= w.partitions || seen[a.Partition] {
			return &wishError{codeInvalidReplicaAssignment, "partitions must be numbered from 0 on, each once"}
		}
		seen[a.Partition] = true
		for i, id := range a.Replicas {
			if !slices.Contains(ids, id) || slices.Contains(a.Replicas[:i], id) {
				return &wishError{codeInvalidReplicaAssignment, fmt.Sprintf("partition %d is assigned to %v; the brokers are %v", a.Partition, a.Replicas, ids)}
			}
		}
		if len(a.Replicas) == 0 {
			return &wishError{codeInvalidReplicaAssignment, fmt.Sprintf("partition %d is assigned to nobody; the brokers are %v", a.Partition, ids)}
		}
	}
	return nil
}

// spec is the wish in the words of the catalog.
func (c *connection) spec(w topicWish) (topic.Spec, error) {
	name, err := topic.FromKafkaName(w.name)
	return topic.Spec{
		Namespace: c.namespace, Name: name, Partitions: w.partitions, AckPolicy: topic.Retain, Durable: true, Config: w.config,
	}, err
}

// mayCreate returns the error that create would, as far as it can be told before.
func (c *connection) mayCreate(w topicWish) error {
	if _, err := c.spec(w); err != nil {
		return err
	}
	if w.partitions > topic.PartitionsMax {
		return &topic.PartitionsError{Got: w.partitions}
	}
	if err := topic.CheckConfig(w.config); err != nil {
		return err
	}
	t, err := c.server.opts.Topics.FindKafka(c.namespace, w.name)
	if _, unknown := errors.AsType[*topic.UnknownError](err); unknown {
		return nil
	}
	if err != nil {
		return err
	}
	return &topic.ExistsError{Topic: t}
}

// create makes a topic that keeps what is read from it. It waits for the disk.
func (c *connection) create(ctx context.Context, w topicWish) (*topic.Topic, error) {
	spec, err := c.spec(w)
	if err != nil {
		return nil, err
	}
	c.warnOfCollision(w.name)
	return c.server.opts.Topics.Create(ctx, spec)
}

// warnOfCollision says so when a name differs from that of another topic only by '.' and '_', which Kafka's own tools then cannot tell apart in their metrics.
// DEVIATES: Kafka refuses the name. Queues have such names side by side, so it is allowed here.
func (c *connection) warnOfCollision(name string) {
	topics, err := c.server.opts.Topics.List(c.namespace)
	if err != nil {
		return // whoever creates the topic is told
	}
	for _, t := range topics {
		if other := topic.KafkaName(t.Name); topic.Collide(name, other) {
			c.server.opts.Logf("kafka: the new topic '%s' and topic '%s' have the same name in metrics, where '.' and '_' are one", name, other)
		}
	}
}

// mostParallel bounds the transactions that one request has under way at a time.
const mostParallel = 64

// inParallel calls f with 0 to n-1, many at a time, so that they share a sync of the log.
func (s *Server) inParallel(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, mostParallel)
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			f(i)
			<-places
		})
	}
	wg.Wait()
}
