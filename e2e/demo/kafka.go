package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readGroup reads the topic with the group, commits the bookmark, and leaves.
func (s *scene) readGroup(ctx context.Context) ([]*kgo.Record, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.kafka), kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.queue), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var read []*kgo.Record
	for int64(len(read)) < s.all() {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			return nil, fmt.Errorf("the group got %d records: %w", len(read), err)
		}
		read = append(read, f.Records()...)
	}
	at := read[s.bookmark()-1]
	var refused error
	cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{s.queue: {0: {Epoch: -1, Offset: at.Offset + 1}}},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
			refused = err
		})
	if refused != nil {
		return nil, fmt.Errorf("committing: %w", refused)
	}
	return read, nil
}

// bounds asks Kafka for a topic's first and next offset.
func (s *scene) bounds(ctx context.Context, topic string) (first, next int64, err error) {
	starts, err := s.kadm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("asking for the first offset of %s: %w", topic, err)
	}
	ends, err := s.kadm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("asking for the end of %s: %w", topic, err)
	}
	from, _ := starts.Lookup(topic, 0)
	to, _ := ends.Lookup(topic, 0)
	return from.Offset, to.Offset, nil
}

// readAll reads what is in partition 0 of a topic now. It asks for it itself, since a consumer does not tell that there is no more.
func (s *scene) readAll(ctx context.Context, topic string) ([]*kgo.Record, error) {
	at, next, err := s.bounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	topics, err := s.kadm.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("asking for the id of %s: %w", topic, err)
	}
	var read []*kgo.Record
	for at < next {
		part := kmsg.NewFetchRequestTopicPartition()
		part.FetchOffset, part.PartitionMaxBytes = at, 1<<20
		from := kmsg.NewFetchRequestTopic()
		from.Topic, from.TopicID, from.Partitions = topic, topics[topic].ID, []kmsg.FetchRequestTopicPartition{part}
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MinBytes, req.Topics = 0, 1, []kmsg.FetchRequestTopic{from}
		res, err := req.RequestWith(ctx, s.kcl)
		if err != nil {
			return nil, fmt.Errorf("fetching %s from %d: %w", topic, at, err)
		}
		if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
			return nil, fmt.Errorf("fetching %s from %d: the answer is for %d topics", topic, at, len(res.Topics))
		}
		got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: topic, Offset: at}, &res.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
		if got.Err != nil {
			return nil, fmt.Errorf("fetching %s from %d: %w", topic, at, got.Err)
		}
		if len(got.Records) == 0 {
			break // what comes behind is deleted
		}
		read, at = append(read, got.Records...), got.Records[len(got.Records)-1].Offset+1
	}
	return read, nil
}
