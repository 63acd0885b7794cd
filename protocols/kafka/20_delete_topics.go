package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/topic"
)

// DeleteTopics (20): v0 to v6.
//
// v4 is flexible, v5 says what is wrong, v6 names topics by name or id (KIP-516).

// deleteTopics deletes topics with their records, and with what consumers and queues keep for them.
func (c *call) deleteTopics() {
	req := c.req.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := req.Topics
	for i := range req.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
	}
	count := map[fetchKey]int{}
	key := func(rt *kmsg.DeleteTopicsRequestTopic) fetchKey {
		k := fetchKey{id: rt.TopicID}
		if rt.Topic != nil {
			k.name = *rt.Topic
		}
		return k
	}
	for i := range asked {
		count[key(&asked[i])]++
	}
	var topics []*topic.Topic
	for i := range asked {
		rt := &asked[i]
		n := count[key(rt)]
		if n == 0 {
			continue
		}
		count[key(rt)] = 0
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		t, err := c.toDelete(rt, n)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = code(err), errorMessage(err)
		} else {
			name := topic.KafkaName(t.Name)
			out.Topic, out.TopicID = &name, t.ID
		}
		topics = append(topics, t)
		resp.Topics = append(resp.Topics, out)
	}
	c.conn.work.Go(func() {
		c.server.inParallel(len(topics), func(i int) {
			if topics[i] == nil {
				return
			}
			if err := c.server.opts.Topics.Delete(c.conn.ctx, topics[i]); err != nil {
				out := &resp.Topics[i]
				out.ErrorCode, out.ErrorMessage = adminCode(err), errorMessage(err)
			}
		})
		c.respond(resp)
	})
}

// toDelete returns the topic to delete; n is how often the request has it.
func (c *call) toDelete(rt *kmsg.DeleteTopicsRequestTopic, n int) (t *topic.Topic, err error) {
	switch {
	case n > 1:
		return nil, &wishError{codeInvalidRequest, "the request has the topic more than once"}
	case rt.Topic != nil && rt.TopicID != [16]byte{}:
		return nil, &wishError{codeInvalidRequest, "a topic is named by its name or its id, not by both"}
	case rt.Topic != nil:
		t, err = c.conn.find(*rt.Topic)
		if _, illegal := errors.AsType[*topic.NameError](err); illegal {
			err = &topic.UnknownError{Namespace: c.conn.namespace, Name: *rt.Topic}
		}
	default:
		t, err = c.conn.findID(rt.TopicID)
	}
	if err == nil && t.Internal {
		return nil, &readOnlyError{t.Name}
	}
	return t, err
}
