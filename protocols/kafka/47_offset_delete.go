package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// OffsetDelete (47): v0 (KIP-496).

// offsetDelete removes bookmarks of a group in topics that no member reads, and answers once that is durable.
func (c *call) offsetDelete() {
	req := c.req.(*kmsg.OffsetDeleteRequest)
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	var what []group.Removal
	var out []*kmsg.OffsetDeleteResponseTopicPartition // of each removal
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, to := &req.Topics[i], &resp.Topics[i]
		to.Topic = in.Topic
		t, err := c.conn.find(in.Topic)
		to.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(in.Partitions))
		for j, p := range in.Partitions {
			answer := &to.Partitions[j]
			answer.Partition = p.Partition
			err := err
			if err == nil {
				_, err = partition(t, p.Partition)
			}
			if err != nil {
				answer.ErrorCode = code(err)
				continue
			}
			what = append(what, group.Removal{TopicPartition: group.TopicPartition{Topic: t.ID, Partition: p.Partition}, TopicName: topic.KafkaName(t.Name)})
			out = append(out, answer)
		}
	}
	refused, err := c.server.opts.Groups.RemoveBookmarks(c.conn.namespace, req.Group, what)
	if err != nil {
		resp.ErrorCode, resp.Topics = code(err), nil
		c.respond(resp)
		return
	}
	for i, err := range refused {
		out[i].ErrorCode = code(err)
	}
	c.afterOrder(func(err error) {
		if err != nil {
			resp.ErrorCode, resp.Topics = code(err), nil
		}
		c.respond(resp)
	})
}
