package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore"
)

// OffsetForLeaderEpoch (23): v0 to v4.
//
// v1 answers with the epoch, v2 has the epoch that the client knows (KIP-320), v3 the replica that asks, v4 is flexible. Consumers ask it after a change of leader, to
// see whether records that they have read were taken back.

// offsetForLeaderEpoch answers where an epoch ends. There is one epoch, and it goes on.
func (c *call) offsetForLeaderEpoch() {
	req := c.req.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	c.whenCaughtUp(func(err error) {
		c.fillEpochEnds(req, resp, err)
		c.respond(resp)
	})
}

// fillEpochEnds fills in the answer; unsure is why it is not known whether this node has all that there is. An end that is too low would tell the consumer that
// records were taken back.
func (c *call) fillEpochEnds(req *kmsg.OffsetForLeaderEpochRequest, resp *kmsg.OffsetForLeaderEpochResponse, unsure error) {
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, out := &req.Topics[i], &resp.Topics[i]
		out.Topic = rt.Topic
		out.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			po := &out.Partitions[j]
			po.Default()
			po.Partition = rt.Partitions[j].Partition
			if unsure != nil {
				po.ErrorCode = codeNotLeaderOrFollower
				continue
			}
			c.fillEpochEnd(rt.Topic, &rt.Partitions[j], po)
		}
	}
}

func (c *call) fillEpochEnd(name string, rp *kmsg.OffsetForLeaderEpochRequestTopicPartition, out *kmsg.OffsetForLeaderEpochResponseTopicPartition) {
	t, err := c.conn.find(name)
	var sh logstore.Shard
	if err == nil {
		sh, err = partition(t, rp.Partition)
	}
	var b bounds
	if err == nil {
		b, err = c.server.bounds(t, sh)
	}
	if err != nil {
		out.ErrorCode = code(err)
		return
	}
	if out.ErrorCode = checkEpoch(rp.CurrentLeaderEpoch); out.ErrorCode != codeNone {
		return
	}
	if rp.LeaderEpoch == leaderEpoch {
		out.LeaderEpoch, out.EndOffset = leaderEpoch, b.next
	}
}
