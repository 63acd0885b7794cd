package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// OffsetCommit (8): v2 to v10.
//
// v2 to v4 say how long the offsets are kept, v6 adds the leader epoch (KIP-320), v7 static members (KIP-345), v8 is flexible, v9 is for groups of the newer
// protocol too (KIP-848), v10 has topic ids instead of names (KIP-848). v0 and v1 kept offsets elsewhere.

// offsetCommit moves a group's bookmarks, those of the partitions that exist, and answers once that is durable.
func (c *call) offsetCommit() {
	req := c.req.(*kmsg.OffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	move := &group.CommitRequest{
		Namespace: c.conn.namespace, Group: req.Group, MemberID: req.MemberID, InstanceID: text(req.InstanceID), Generation: req.Generation, Retention: -1,
	}
	if req.Version <= 4 && req.RetentionTimeMillis >= 0 {
		move.Retention = time.Duration(min(req.RetentionTimeMillis, retentionMax)) * time.Millisecond
	}
	var out []*kmsg.OffsetCommitResponseTopicPartition // of each bookmark
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, to := &req.Topics[i], &resp.Topics[i]
		to.Topic, to.TopicID = in.Topic, in.TopicID
		t, err := c.namedTopic(in.Topic, in.TopicID, req.Version >= 10)
		to.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(in.Partitions))
		for j := range in.Partitions {
			p, answer := &in.Partitions[j], &to.Partitions[j]
			answer.Partition = p.Partition
			err := err
			if err == nil {
				_, err = partition(t, p.Partition)
			}
			if err != nil {
				answer.ErrorCode = code(err)
				continue
			}
			epoch := int32(-1)
			if req.Version >= 6 {
				epoch = p.LeaderEpoch
			}
			move.Bookmarks = append(move.Bookmarks, group.Bookmark{TopicPartition: group.TopicPartition{Topic: t.ID, Partition: p.Partition},
				Offset: p.Offset, LeaderEpoch: epoch, Metadata: text(p.Metadata)})
			out = append(out, answer)
		}
	}
	ctx, cancel := c.commitContext()
	refused, err := c.server.opts.Groups.Commit(ctx, move)
	cancel()
	if err != nil {
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				resp.Topics[i].Partitions[j].ErrorCode = code(err)
			}
		}
		c.respond(resp)
		return
	}
	for i, err := range refused {
		out[i].ErrorCode = code(err)
	}
	c.afterOrder(func(err error) {
		if err != nil {
			for _, o := range out {
				o.ErrorCode = code(err)
			}
		}
		c.respond(resp)
	})
}

// commitPatience is how long a commit may take where several nodes agree on it. It is shorter than any client waits, so that a commit is over before the client tries
// again or goes on.
const commitPatience = 5 * time.Second

func (c *call) commitContext() (context.Context, context.CancelFunc) {
	if c.server.isClustered() {
		return context.WithTimeout(c.conn.ctx, commitPatience)
	}
	return c.conn.ctx, func() {}
}

// retentionMax bounds what a client may ask for, in milliseconds: a hundred years.
const retentionMax = 100 * 365 * 24 * 3600 * 1000

// namedTopic finds the topic that a request names, by its id or its name.
func (c *call) namedTopic(name string, id topic.ID, byID bool) (*topic.Topic, error) {
	if byID {
		return c.conn.findID(id)
	}
	return c.conn.find(name)
}
