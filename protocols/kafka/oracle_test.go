package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore/record"
)

// scene is what one broker was asked, and knows, in the course of a play.
type scene struct {
	*rawConn
	ids     map[string][16]byte // of topics
	session int32
	pid     int64
}

// act asks one thing and returns the answer in words that do not depend on the broker's ids and order.
type act struct {
	what    string
	ask     func(s *scene) string
	differs string // why the oracle's answer is another one; empty: it is the same
}

// produceTo appends records to partitions of topics.
func produceTo(version, acks int16, topicName string, partitions map[int32][]byte) func(*scene) string {
	return func(s *scene) string {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = version, acks, 1000
		rt := kmsg.ProduceRequestTopic{Topic: topicName, TopicID: s.ids[topicName]}
		for p, records := range partitions {
			rt.Partitions = append(rt.Partitions, kmsg.ProduceRequestTopicPartition{Partition: p, Records: records})
		}
		req.Topics = append(req.Topics, rt)
		var out []string
		for _, t := range s.ask(req).(*kmsg.ProduceResponse).Topics {
			for _, p := range t.Partitions {
				at := fmt.Sprint(" at ", p.BaseOffset, " time ", p.LogAppendTime, " start ", p.LogStartOffset)
				if p.ErrorCode != 0 {
					at = ""
				}
				out = append(out, fmt.Sprintf("%s/%d: error %d%s", t.Topic, p.Partition, p.ErrorCode, at))
			}
		}
		slices.Sort(out)
		return strings.Join(out, "; ")
	}
}

// produceSequenced appends a batch of the scene's idempotent producer.
func produceSequenced(t *testing.T, topicName string, epoch int16, first int32, n int) func(*scene) string {
	return func(s *scene) string {
		return produceTo(9, -1, topicName, map[int32][]byte{0: sequenced(t, s.pid, epoch, first, slices.Repeat([]string{"s"}, n)...)})(s)
	}
}

// fetchFrom reads partitions from offsets.
func fetchFrom(version int16, topicName string, offsets map[int32]int64, change func(*scene, *kmsg.FetchRequest)) func(*scene) string {
	return func(s *scene) string {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxBytes, req.SessionEpoch = version, 1<<20, -1
		rt := kmsg.FetchRequestTopic{Topic: topicName, TopicID: s.ids[topicName]}
		for p, offset := range offsets {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, 1<<20
			rt.Partitions = append(rt.Partitions, rp)
		}
		if len(offsets) > 0 {
			req.Topics = append(req.Topics, rt)
		}
		if change != nil {
			change(s, req)
		}
		resp := s.ask(req).(*kmsg.FetchResponse)
		if resp.SessionID != 0 {
			s.session = resp.SessionID
		}
		var out []string
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				line := fmt.Sprintf("%s/%d: error %d", topicName, p.Partition, p.ErrorCode)
				if p.ErrorCode == 0 {
					line += fmt.Sprintf(" end %d stable %d start %d: %v", p.HighWatermark, p.LastStableOffset, p.LogStartOffset, recordsOf(s.t, p.RecordBatches))
				}
				out = append(out, line)
			}
		}
		slices.Sort(out)
		return fmt.Sprintf("error %d, session %t; %s", resp.ErrorCode, resp.SessionID != 0, strings.Join(out, "; "))
	}
}

// inSession makes a fetch part of the scene's session.
func inSession(epoch int32) func(*scene, *kmsg.FetchRequest) {
	return func(s *scene, req *kmsg.FetchRequest) {
		req.SessionEpoch = epoch
		if epoch != 0 {
			req.SessionID = s.session
		}
	}
}

// listAt asks for offsets of times.
func listAt(version int16, topicName string, partition int32, times ...int64) func(*scene) string {
	return func(s *scene) string {
		var out []string
		for _, ts := range times {
			req := listRequest(version, topicName, ts)
			req.Topics[0].Partitions[0].Partition = partition
			p := s.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
			out = append(out, fmt.Sprintf("%d: error %d offset %d time %d epoch %d", ts, p.ErrorCode, p.Offset, p.Timestamp, p.LeaderEpoch))
		}
		return strings.Join(out, "; ")
	}
}

// askMetadata asks for topics by name.
func askMetadata(version int16, all bool, create bool, names ...string) func(*scene) string {
	return func(s *scene) string {
		req := metadataRequest(version, all, names...)
		req.AllowAutoTopicCreation = create
		resp := s.ask(req).(*kmsg.MetadataResponse)
		for _, t := range resp.Topics {
			if t.Topic != nil && version >= 10 {
				s.ids[*t.Topic] = t.TopicID
			}
		}
		out := describe(resp)
		slices.Sort(out)
		return fmt.Sprintf("%d brokers, %t; %s", len(resp.Brokers), resp.ControllerID == resp.Brokers[0].NodeID || version == 0, strings.Join(out, "; "))
	}
}

func create(version int16, validate bool, topics ...kmsg.CreateTopicsRequestTopic) func(*scene) string {
	return func(s *scene) string {
		req := createRequest(version, topics...)
		req.ValidateOnly = validate
		var out []string
		for _, t := range s.ask(req).(*kmsg.CreateTopicsResponse).Topics {
			line := fmt.Sprintf("%s: error %d", t.Topic, t.ErrorCode)
			if t.ErrorCode == 0 {
				line += fmt.Sprintf(", %d partitions, %d replicas, id %t", t.NumPartitions, t.ReplicationFactor, t.TopicID != [16]byte{})
				s.ids[t.Topic] = t.TopicID
			}
			out = append(out, line)
		}
		return strings.Join(out, "; ")
	}
}

func remove(version int16, names ...string) func(*scene) string {
	return func(s *scene) string {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TopicNames = version, names
		if version >= 6 {
			for _, n := range names {
				if id, byID := strings.CutPrefix(n, "id of "); byID {
					req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{TopicID: s.ids[id]})
				} else {
					req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &n})
				}
			}
		}
		var out []string
		for _, t := range s.ask(req).(*kmsg.DeleteTopicsResponse).Topics {
			out = append(out, fmt.Sprintf("%s: error %d", text(t.Topic), t.ErrorCode))
		}
		return strings.Join(out, "; ")
	}
}

func epochEnd(current, asked int32) func(*scene) string {
	return func(s *scene) string {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version, req.ReplicaID = 4, -1
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.CurrentLeaderEpoch, rp.LeaderEpoch = current, asked
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "one", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{rp}}}
		p := s.ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
		return fmt.Sprintf("error %d epoch %d end %d", p.ErrorCode, p.LeaderEpoch, p.EndOffset)
	}
}

func newProducer(s *scene) string {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 4
	resp := s.ask(req).(*kmsg.InitProducerIDResponse)
	s.pid = resp.ProducerID
	return fmt.Sprintf("error %d id %t epoch %d", resp.ErrorCode, resp.ProducerID >= 0, resp.ProducerEpoch)
}

// The same play, of all requests but those of groups, at franz-go's fake broker and here: the same answers, or the reason why not.
func TestPlayIsAsAtTheOracle(t *testing.T) {
	t.Parallel()
	one := func(values ...string) map[int32][]byte { return map[int32][]byte{0: batchOf(t, nil, values...)} }
	raw := batchOf(t, nil, "v")
	control := batchOf(t, func(b *record.Builder) { b.SetControl(true) }, "x")
	zstd := batchOf(t, func(b *record.Builder) { b.SetCodec(record.Zstd) }, "z")
	lz4 := batchOf(t, func(b *record.Builder) { b.SetCodec(record.LZ4) }, "l")
	play := []act{
		{what: "no topics", ask: askMetadata(12, true, false)},
		{what: "create", ask: create(7, false, wished("one", 2, 1), wished("two", 1, 1), wished("spare", 1, 1))},
		{what: "create again", ask: create(7, false, wished("one", 2, 1))},
		{what: "create, validate", ask: create(7, true, wished("three", 4, 1))},
		{what: "create with too many replicas", ask: create(7, false, wished("three", 1, 4))},
		{what: "create with no partitions", ask: create(7, false, wished("three", 0, 1))},
		{what: "create by hand", ask: create(7, false, assignedTo("hand", []int32{1, 0}, 0))},
		{what: "create by hand, with a gap", ask: create(7, false, assignedTo("gap", []int32{0, 2}, 0))},
		{what: "create a colliding name", ask: create(7, false, wished("a.b", 1, 1), wished("a_b", 1, 1)), differs: "queues have such names side by side; it is said in the log"},
		{what: "create an illegal name", ask: create(7, false, wished("a b", 1, 1)), differs: "the oracle takes any name; Kafka answers 17"},
		{what: "create twice", ask: create(7, false, wished("twice", 1, 1), wished("twice", 1, 1))},
		{what: "delete them", ask: remove(6, "hand", "a.b", "a b"), differs: "what was made differs"},
		{what: "metadata by name", ask: askMetadata(12, false, false, "one", "none")},
		{what: "metadata, no creation wanted", ask: askMetadata(12, false, false, "auto")},
		{what: "metadata, creation wanted", ask: askMetadata(12, false, true, "auto")},
		{what: "metadata v0", ask: askMetadata(0, false, false, "one")},
		{what: "metadata v1 of none", ask: askMetadata(1, false, false)},
		{what: "delete one and one that is not there", ask: remove(5, "auto", "none")},
		{what: "delete by id", ask: func(s *scene) string { return create(7, false, wished("auto", 1, 1))(s) + remove(6, "id of auto")(s) }},
		{what: "delete by the id of what is gone", ask: remove(6, "id of auto")},

		{what: "fetch of an empty partition", ask: fetchFrom(12, "one", map[int32]int64{0: 0}, nil)},
		{what: "list of an empty partition", ask: listAt(7, "one", 0, -1, -2, -3, 0)},
		{what: "produce", ask: produceTo(9, -1, "one", one("a", "b", "c"))},
		{what: "produce with acks 1", ask: produceTo(9, 1, "one", one("d"))},
		{what: "produce with acks 2", ask: produceTo(9, 2, "one", one("x"))},
		{what: "produce v3", ask: produceTo(3, -1, "one", one("e"))},
		{what: "produce v13", ask: produceTo(13, -1, "one", one("f"))},
		{what: "produce to several", ask: produceTo(9, -1, "one", map[int32][]byte{0: batchOf(t, nil, "g"), 1: batchOf(t, nil, "A"), 2: batchOf(t, nil, "x")})},
		{what: "produce to an unknown topic", ask: produceTo(9, -1, "none", one("x"))},
		{what: "produce lz4", ask: produceTo(9, -1, "one", map[int32][]byte{0: lz4})},
		{what: "produce zstd", ask: produceTo(9, -1, "one", map[int32][]byte{0: zstd})},
		{what: "produce zstd, v6", ask: produceTo(6, -1, "spare", map[int32][]byte{0: zstd}), differs: "Kafka answers 76 (KIP-110); the oracle takes it"},
		{what: "produce a wrong CRC", ask: produceTo(9, -1, "one", map[int32][]byte{0: damaged(raw, 18, raw[18]+1)})},
		{what: "produce a part", ask: produceTo(9, -1, "one", map[int32][]byte{0: raw[:len(raw)-1]})},
		{what: "produce magic 1", ask: produceTo(9, -1, "one", map[int32][]byte{0: damaged(raw, 16, 1)}), differs: "Kafka answers 87 for other formats; the oracle 2"},
		{what: "produce two batches", ask: produceTo(9, -1, "one", map[int32][]byte{0: append(slices.Clone(raw), raw...)}), differs: "Kafka answers 87 for more than one batch; the oracle 2"},
		{what: "produce base offset 1", ask: produceTo(9, -1, "one", map[int32][]byte{0: damaged(raw, 7, 1)}), differs: "Kafka answers 87 for a base offset; the oracle 2"},
		{what: "produce a control batch", ask: produceTo(9, -1, "one", map[int32][]byte{0: control})},
		{what: "produce too much", ask: produceTo(9, -1, "one", one(string(make([]byte, 2<<20))))},

		{what: "fetch all", ask: fetchFrom(12, "one", map[int32]int64{0: 0, 1: 0}, nil)},
		{what: "fetch v4", ask: fetchFrom(4, "one", map[int32]int64{1: 0}, nil)},
		{what: "fetch v10", ask: fetchFrom(10, "one", map[int32]int64{0: 0}, nil)},
		{what: "fetch v13", ask: fetchFrom(13, "one", map[int32]int64{0: 3}, nil)},
		{what: "fetch from the middle of a batch", ask: fetchFrom(12, "one", map[int32]int64{0: 1}, nil)},
		{what: "fetch at the end", ask: fetchFrom(12, "one", map[int32]int64{1: 1}, nil)},
		{what: "fetch behind the end", ask: fetchFrom(12, "one", map[int32]int64{1: 2}, nil)},
		{what: "fetch before the start", ask: fetchFrom(12, "one", map[int32]int64{1: -1}, nil)},
		{what: "fetch of a partition that is not there", ask: fetchFrom(12, "one", map[int32]int64{7: 0}, nil)},
		{what: "fetch of a topic that is not there", ask: fetchFrom(12, "none", map[int32]int64{0: 0}, nil)},
		{what: "fetch of an id that is not there", ask: fetchFrom(13, "auto", map[int32]int64{0: 0}, nil)},
		{what: "fetch of one batch", ask: fetchFrom(12, "one", map[int32]int64{0: 0}, func(_ *scene, req *kmsg.FetchRequest) { req.MaxBytes = 1 })},
		{what: "fetch with epoch 0", ask: fetchFrom(12, "one", map[int32]int64{1: 0}, func(_ *scene, req *kmsg.FetchRequest) { req.Topics[0].Partitions[0].CurrentLeaderEpoch = 0 })},
		{what: "fetch with epoch 5", ask: fetchFrom(12, "one", map[int32]int64{1: 0}, func(_ *scene, req *kmsg.FetchRequest) { req.Topics[0].Partitions[0].CurrentLeaderEpoch = 5 })},

		{what: "session begins", ask: fetchFrom(12, "one", map[int32]int64{0: 9, 1: 1}, inSession(0))},
		{what: "session, nothing new", ask: fetchFrom(12, "one", nil, inSession(1))},
		{what: "session, a record", ask: func(s *scene) string {
			return produceTo(9, -1, "one", one("h"))(s) + fetchFrom(12, "one", nil, inSession(2))(s)
		}},
		{what: "session, wrong epoch", ask: fetchFrom(12, "one", nil, inSession(2))},
		{what: "session, unknown", ask: fetchFrom(12, "one", nil, func(s *scene, req *kmsg.FetchRequest) { req.SessionID, req.SessionEpoch = s.session+1000, 3 })},
		{what: "session, forgotten", ask: fetchFrom(12, "one", nil, func(s *scene, req *kmsg.FetchRequest) {
			inSession(3)(s, req)
			req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "one", Partitions: []int32{0}}}
		})},
		{what: "session ends", ask: fetchFrom(12, "one", map[int32]int64{1: 0}, inSession(-1))},
		{what: "session is over", ask: fetchFrom(12, "one", nil, inSession(4))},

		{what: "list", ask: listAt(7, "one", 0, -1, -2, -3, 0, 1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_002, 1_700_000_000_003, -9)},
		{what: "list v1", ask: listAt(1, "one", 0, -1, -2, -3, 1_700_000_000_001)},
		{what: "list v10", ask: listAt(10, "one", 0, -4, -5, -6)},
		{what: "list what is not there", ask: listAt(7, "none", 0, -1)},
		{what: "list a partition that is not there", ask: listAt(7, "one", 9, -1)},
		{what: "end of epoch 0", ask: epochEnd(-1, 0)},
		{what: "end of epoch 0, known", ask: epochEnd(0, 0)},
		{what: "end of epoch 1", ask: epochEnd(-1, 1)},
		{what: "end of epoch 0, from epoch 3", ask: epochEnd(3, 0)},

		{what: "a producer", ask: newProducer},
		{what: "sequence 0", ask: produceSequenced(t, "two", 0, 0, 2)},
		{what: "sequence 0 again", ask: produceSequenced(t, "two", 0, 0, 2), differs: "the oracle does not tell the start for a duplicate"},
		{what: "sequence 3, a gap", ask: produceSequenced(t, "two", 0, 3, 1)},
		{what: "sequence 2", ask: produceSequenced(t, "two", 0, 2, 1)},
		{what: "an old epoch's successor", ask: produceSequenced(t, "two", 1, 0, 1)},
		{what: "the old epoch", ask: produceSequenced(t, "two", 0, 3, 1)},
		{what: "the new epoch with a gap", ask: produceSequenced(t, "two", 1, 2, 1)},
		{what: "what was stored", ask: fetchFrom(12, "two", map[int32]int64{0: 0}, nil)},
	}
	oracle, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(oracle.Close)
	b := startBroker(t, func(o *Options) { o.Partitions, o.NodeID = 3, 0 })
	theirs := &scene{rawConn: dialRaw(t, oracle.ListenAddrs()[0]), ids: map[string][16]byte{}}
	ours := &scene{rawConn: b.dial(), ids: map[string][16]byte{}}
	for _, a := range play {
		want, got := a.ask(theirs), a.ask(ours)
		if a.differs == "" && got != want {
			t.Errorf("%s:\n  %.500s\nthe oracle:\n  %.500s", a.what, got, want)
		}
		if a.differs != "" && got == want {
			t.Errorf("%s: the oracle says the same, so there is no difference to explain: %s", a.what, got)
		}
	}
}
