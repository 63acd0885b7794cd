package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// OffsetFetch (9): v1 to v10.
//
// v2 takes null for all topics and has an error for the group, v5 has leader epochs (KIP-320), v6 is flexible, v7 can ask for stable offsets (KIP-447), v8 has
// several groups (KIP-709), v9 members of the newer protocol (KIP-848), v10 topic ids instead of names (KIP-848). v0 kept offsets elsewhere.
//
// An offset is stable when no transaction is about to move it; there are none, so that all are.

// offsetFetch tells how far groups have read, once what it tells is durable.
func (c *call) offsetFetch() {
	req := c.req.(*kmsg.OffsetFetchRequest)
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	asked := req.Groups
	if req.Version < 8 {
		g := kmsg.OffsetFetchRequestGroup{Group: req.Group}
		if req.Topics != nil {
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
		}
		for _, t := range req.Topics {
			g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
		asked = []kmsg.OffsetFetchRequestGroup{g}
	}
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(asked))
	answer := func(err error) {
		if err != nil {
			for i := range resp.Groups {
				g := &resp.Groups[i]
				g.ErrorCode, g.Topics = code(&group.UnavailableError{Err: err}), refusedOffsets(req.Version, &asked[i])
			}
		}
		if req.Version < 8 {
			flattenOffsets(req.Version, resp)
		}
		c.respond(resp)
	}
	c.whenCaughtUp(func(err error) {
		for i := range asked {
			c.fetchOffsets(&asked[i], &resp.Groups[i], err)
		}
		if err != nil {
			answer(nil)
			return
		}
		c.server.durable.awaitAll(answer)
	})
}

// flattenOffsets makes the answer of its only group that of all, as versions before 8 have it.
func flattenOffsets(version int16, resp *kmsg.OffsetFetchResponse) {
	g := resp.Groups[0]
	resp.Groups, resp.ErrorCode = nil, g.ErrorCode
	for _, t := range g.Topics {
		out := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			if version < 2 && g.ErrorCode != codeNone { // there is no place for it above
				p.ErrorCode = g.ErrorCode
			}
			out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseTopicPartition{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
				Metadata: p.Metadata, ErrorCode: p.ErrorCode})
		}
		resp.Topics = append(resp.Topics, out)
	}
}

// fetchOffsets fills in the answer for a group; unsure is why it is not known whether what this node has is what there is.
func (c *call) fetchOffsets(asked *kmsg.OffsetFetchRequestGroup, out *kmsg.OffsetFetchResponseGroup, unsure error) {
	out.Group = asked.Group
	var err error
	switch {
	case unsure != nil:
		err = &group.UnavailableError{Group: asked.Group, Err: unsure}
	case asked.Topics == nil:
		out.Topics, err = c.allOffsets(asked.Group)
	default:
		out.Topics, err = c.theseOffsets(asked)
	}
	if err != nil {
		out.ErrorCode = code(err)
		out.Topics = refusedOffsets(c.version, asked)
	}
}

// refusedOffsets names the partitions that were asked for, in a version that has no other place for an error.
func refusedOffsets(version int16, asked *kmsg.OffsetFetchRequestGroup) (topics []kmsg.OffsetFetchResponseGroupTopic) {
	if version >= 2 {
		return nil
	}
	for _, in := range asked.Topics {
		out := kmsg.OffsetFetchResponseGroupTopic{Topic: in.Topic}
		for _, p := range in.Partitions {
			out.Partitions = append(out.Partitions, fetchedOffset(group.Bookmark{TopicPartition: group.TopicPartition{Partition: p}}, false))
		}
		topics = append(topics, out)
	}
	return topics
}

// allOffsets are the bookmarks of the group in topics that are there.
func (c *call) allOffsets(name string) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	all, err := c.server.opts.Groups.FetchAll(c.conn.namespace, name)
	if err != nil {
		return nil, err
	}
	var topics []kmsg.OffsetFetchResponseGroupTopic
	var current *topic.Topic
	for _, b := range all {
		if current == nil || current.ID != b.Topic {
			if current, err = c.conn.findID(b.Topic); err != nil {
				current = nil
				continue // it is gone; the bookmark is forgotten at the next sweep
			}
			topics = append(topics, kmsg.OffsetFetchResponseGroupTopic{Topic: topic.KafkaName(current.Name), TopicID: current.ID})
		}
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, fetchedOffset(b, true))
	}
	return topics, nil
}

// theseOffsets are the bookmarks that are asked for.
func (c *call) theseOffsets(asked *kmsg.OffsetFetchRequestGroup) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	topics := make([]kmsg.OffsetFetchResponseGroupTopic, len(asked.Topics))
	for i := range asked.Topics {
		in, out := &asked.Topics[i], &topics[i]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		t, err := c.namedTopic(in.Topic, in.TopicID, c.version >= 10)
		out.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(in.Partitions))
		for j, p := range in.Partitions {
			b := group.Bookmark{TopicPartition: group.TopicPartition{Partition: p}}
			found := false
			if err == nil {
				b.Topic = t.ID
				var e error
				if b, found, e = c.server.opts.Groups.Fetch(c.conn.namespace, asked.Group, b.TopicPartition); e != nil {
					return nil, e
				}
				b.Partition = p
			}
			out.Partitions[j] = fetchedOffset(b, found)
			if err != nil && c.version >= 10 { // by name, a topic that is not there just has no offsets
				out.Partitions[j].ErrorCode = code(err)
			}
		}
	}
	return topics, nil
}

// fetchedOffset is a bookmark as it is answered; one that is not there has the offset -1.
func fetchedOffset(b group.Bookmark, found bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.OffsetFetchResponseGroupTopicPartition{Partition: b.Partition, Offset: -1, LeaderEpoch: -1, Metadata: new(string)}
	if found {
		p.Offset, p.LeaderEpoch, *p.Metadata = b.Offset, b.LeaderEpoch, b.Metadata
	}
	return p
}
