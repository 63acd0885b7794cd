package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/topic"
)

// Metadata (3): v0 to v13.
//
// v1 has the controller and distinguishes all topics (null) from none (empty), which v0 cannot; v2 the cluster id, v4 whether topics may be made, v7 the leader
// epoch, v8 the operations that are allowed (KIP-430), v9 is flexible, v10 has topic ids (KIP-516), v12 looks topics up by them, v13 has an error for all.

// Operations that anybody may do, as bits numbered by their ACL codes (KIP-430).
const (
	topicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<8 // read, write, create, delete, describe
	clusterOperations = 1<<5 | 1<<8 | 1<<12              // create, describe, idempotent write
)

// metadata answers with the brokers and their topics. Topics that are missing are made when the request and the broker allow it, which waits for the disk, elsewhere.
func (c *call) metadata() {
	req := c.req.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	c.nodes = c.server.layout(c.conn.net)
	for _, b := range c.nodes.brokers {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: b.ID, Host: b.Host, Port: b.Port, Rack: textOrNull(b.Rack)})
	}
	resp.ClusterID = &c.server.opts.ClusterID
	resp.ControllerID = c.nodes.ids[0] // any node does what only a controller does in Kafka
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	if req.Topics == nil || c.version == 0 && len(req.Topics) == 0 {
		if err := c.listTopics(req, resp); err != nil {
			c.hangUp(err)
			return
		}
		c.respond(resp)
		return
	}
	mayCreate := c.server.opts.AutoCreate && (c.version < 4 || req.AllowAutoTopicCreation)
	var missing []int // in resp.Topics
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(req.Topics))
	seen := make(map[fetchKey]bool, len(req.Topics))
	for i := range req.Topics {
		rt := &req.Topics[i]
		name := ""
		if rt.Topic != nil {
			name = *rt.Topic
		}
		byID := rt.TopicID != [16]byte{}
		if key := (fetchKey{name: name, id: rt.TopicID}); (byID || rt.Topic != nil) && !seen[key] {
			seen[key] = true
			if c.addMetadata(req, resp, name, rt.TopicID, byID) && mayCreate {
				missing = append(missing, len(resp.Topics)-1)
			}
		}
	}
	if len(missing) == 0 {
		c.respond(resp)
		return
	}
	c.conn.work.Go(func() {
		c.createMissing(req, resp, missing)
		c.respond(resp)
	})
}

// listTopics adds all topics that are listed.
func (c *call) listTopics(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) error {
	topics, err := c.server.opts.Topics.List(c.conn.namespace)
	if err != nil {
		return err
	}
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(topics))
	for _, t := range topics {
		if !t.Hidden {
			resp.Topics = append(resp.Topics, c.describeTopic(req, topic.KafkaName(t.Name), t))
		}
	}
	return nil
}

// addMetadata adds a topic that was asked for, and reports whether it could be made.
func (c *call) addMetadata(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse, name string, id [16]byte, byID bool) (missing bool) {
	var t *topic.Topic
	var err error
	if byID {
		t, err = c.conn.findID(id)
	} else {
		t, err = c.conn.find(name)
	}
	if err != nil {
		out := kmsg.NewMetadataResponseTopic()
		out.ErrorCode, out.TopicID = code(err), id
		if !byID {
			out.Topic = &name
		}
		resp.Topics = append(resp.Topics, out)
		_, unknown := errors.AsType[*topic.UnknownError](err)
		return unknown && !byID
	}
	if byID {
		name = topic.KafkaName(t.Name)
	}
	resp.Topics = append(resp.Topics, c.describeTopic(req, name, t))
	return false
}

func (c *call) describeTopic(req *kmsg.MetadataRequest, name string, t *topic.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &name, t.ID, t.Internal
	if req.IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = topicOperations
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Shards))
	for i := range out.Partitions {
		leader := c.nodes.leader(t.ID, int32(i))
		replicas := c.nodes.replicas[leader]
		out.Partitions[i] = kmsg.MetadataResponseTopicPartition{
			Partition: int32(i), Leader: leader, LeaderEpoch: leaderEpoch, Replicas: replicas, ISR: replicas, OfflineReplicas: []int32{},
		}
	}
	return out
}

// createMissing makes topics and puts them where their error was.
func (c *call) createMissing(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse, missing []int) {
	c.server.inParallel(len(missing), func(i int) {
		out := &resp.Topics[missing[i]]
		t, err := c.conn.create(c.conn.ctx, topicWish{name: *out.Topic, partitions: c.server.opts.Partitions})
		if exists, ok := errors.AsType[*topic.ExistsError](err); ok {
			t, err = c.conn.visible(exists.Topic, nil)
		}
		if err != nil {
			if out.ErrorCode = code(err); out.ErrorCode == codeNotEnoughReplicas {
				out.ErrorCode = codeLeaderNotAvailable // what asking for metadata may be answered, and is asked again after
			}
			return
		}
		*out = c.describeTopic(req, *out.Topic, t)
	})
}
