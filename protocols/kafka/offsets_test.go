package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/topic"
)

// listRequest asks for the offset of a time in partition 0.
func listRequest(version int16, name string, ts int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = version, -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = ts
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return req
}

// timed makes a batch with a record for each time.
func timed(t *testing.T, times ...int64) []byte {
	t.Helper()
	b := record.NewBuilder()
	for _, ts := range times {
		b.Append(ts, nil, []byte("v"), nil)
	}
	raw, err := b.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Offsets are found by time, whatever order the times are in, and by the special times.
func TestListOffsets(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	r := b.dial()
	b.topic("empty", nil)
	tp := b.topic("full", nil)
	for _, times := range [][]int64{{10, 20}, {30, 50, 40}, {45}, {60, 60}, {5}} { // offsets 0 1, 2 3 4, 5, 6 7, 8
		if p := r.produce(tp, 0, timed(t, times...)); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	trimmed := b.topic("trimmed", nil)
	for range 3 {
		r.produce(trimmed, 0, timed(t, 10, 20))
	}
	b.trim(trimmed, 2)
	queue := b.topic("queue", func(s *topic.Spec) { s.AckPolicy = topic.Delete })
	for range 3 {
		r.produce(queue, 0, timed(t, 10, 20))
	}
	b.remove(queue, logstore.Range{From: 0, To: 3}, logstore.Range{From: 5, To: 6})
	drained := b.topic("drained", func(s *topic.Spec) { s.AckPolicy = topic.Delete })
	r.produce(drained, 0, timed(t, 10, 20))
	b.remove(drained, logstore.Range{From: 0, To: 2})

	for _, c := range []struct {
		topic      string
		ts         int64
		offset, at int64
	}{
		{"empty", -1, 0, -1}, {"empty", -2, 0, -1}, {"empty", -3, -1, -1}, {"empty", -4, 0, -1}, {"empty", -5, -1, -1}, {"empty", -6, -1, -1}, {"empty", 0, -1, -1},
		{"full", -1, 9, -1}, {"full", -2, 0, -1}, {"full", -3, 6, 60}, {"full", -4, 0, -1}, {"full", -5, -1, -1}, {"full", -6, -1, -1},
		{"full", 0, 0, 10}, {"full", 10, 0, 10}, {"full", 11, 1, 20}, {"full", 20, 1, 20}, {"full", 25, 2, 30}, {"full", 31, 3, 50}, {"full", 50, 3, 50},
		{"full", 51, 6, 60}, {"full", 60, 6, 60}, {"full", 61, -1, -1},
		{"trimmed", -1, 6, -1}, {"trimmed", -2, 2, -1}, {"trimmed", -3, 3, 20}, {"trimmed", 0, 2, 10}, {"trimmed", 20, 3, 20},
		{"queue", -1, 6, -1}, {"queue", -2, 3, -1}, {"queue", -3, 3, 20}, {"queue", 0, 3, 20},
		{"drained", -1, 2, -1}, {"drained", -2, 2, -1}, {"drained", -3, -1, -1}, {"drained", 0, -1, -1},
	} {
		p := r.ask(listRequest(11, c.topic, c.ts)).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.Offset != c.offset || p.Timestamp != c.at || (c.offset >= 0) != (p.LeaderEpoch == 0) {
			t.Errorf("%s, time %d: error %d, offset %d, time %d, epoch %d; want offset %d, time %d", c.topic, c.ts, p.ErrorCode, p.Offset, p.Timestamp, p.LeaderEpoch, c.offset, c.at)
		}
	}
}

// A special time is for the versions that know it, and a partition for one time in a request.
func TestListOffsetsRefusals(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	b.topic("example", nil)
	r := b.dial()
	since := map[int64]int16{-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 99, -1 << 60: 99}
	for version := int16(1); version <= 11; version++ {
		for ts, from := range since {
			want := codeNone
			if version < from {
				want = codeUnsupportedVersion
			}
			if p := r.ask(listRequest(version, "example", ts)).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != want {
				t.Errorf("v%d, time %d: error %d, want %d", version, ts, p.ErrorCode, want)
			}
		}
	}
	req := listRequest(7, "example", -1)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, req.Topics[0].Partitions[0])
	for _, p := range r.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		if p.ErrorCode != codeInvalidRequest {
			t.Errorf("a partition twice: %+v", p)
		}
	}
	for name, partition := range map[string]int32{"none": 0, "example": 1} {
		req := listRequest(7, name, -1)
		req.Topics[0].Partitions[0].Partition = partition
		if p := r.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != codeUnknownTopicOrPartition || p.Offset != -1 {
			t.Errorf("%s/%d: %+v", name, partition, p)
		}
	}
}

// The largest time is found among many, wherever it is.
func TestMaxTimestampAmongMany(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	r := b.dial()
	for i, largest := range []int{0, 1, 17, 98, 99} {
		tp := b.topic("example"+string(rune('0'+i)), nil)
		for j := range 100 {
			ts := int64(1_700_000_000_000) + int64(j*37%100)*1000
			if j == largest {
				ts = 1_900_000_000_000
			}
			if p := r.produce(tp, 0, timed(t, ts)); p.ErrorCode != 0 {
				t.Fatalf("%+v", p)
			}
		}
		p := r.ask(listRequest(7, tp.Name, -3)).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.Offset != int64(largest) || p.Timestamp != 1_900_000_000_000 {
			t.Errorf("%+v, want offset %d", p, largest)
		}
	}
}
