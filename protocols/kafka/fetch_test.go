package kafka

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/topic"
)

// remove deletes offsets, as acknowledgements do.
func (b *broker) remove(tp *topic.Topic, ranges ...logstore.Range) {
	b.t.Helper()
	if _, err := b.opts.Store.Commit(b.t.Context(), logstore.Txn{Do: []logstore.Op{logstore.Delete(tp.Shards[0], ranges...)}}); err != nil {
		b.t.Fatal(err)
	}
}

// trim deletes everything before an offset, as retention does.
func (b *broker) trim(tp *topic.Topic, offset int64) {
	b.t.Helper()
	if _, err := b.opts.Store.Commit(b.t.Context(), logstore.Txn{Do: []logstore.Op{logstore.TrimBefore(tp.Shards[0], offset)}}); err != nil {
		b.t.Fatal(err)
	}
}

// A fetch begins with the batch that its offset lies in, is empty at the end, and out of range behind it and before the start.
func TestFetchByOffset(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	for range 4 {
		r.mustProduce(tp, "a", "b", "c")
	}
	b.trim(tp, 3)
	for _, c := range []struct {
		offset int64
		code   int16
		first  int64 // of the records; -1: none
	}{
		{-1, codeOffsetOutOfRange, -1}, {0, codeOffsetOutOfRange, -1}, {2, codeOffsetOutOfRange, -1}, {3, 0, 3}, {4, 0, 3}, {5, 0, 3}, {6, 0, 6}, {11, 0, 9}, {12, 0, -1},
		{13, codeOffsetOutOfRange, -1}, {1 << 60, codeOffsetOutOfRange, -1},
	} {
		p := r.fetch(tp, c.offset)
		first := int64(-1)
		if rs := recordsOf(t, p.RecordBatches); len(rs) > 0 {
			first = rs[0].offset
		}
		if p.ErrorCode != c.code || first != c.first || p.HighWatermark != 12 || p.LastStableOffset != 12 || p.LogStartOffset != 3 {
			t.Errorf("offset %d: error %d, first record %d, high watermark %d, start %d; want error %d, record %d",
				c.offset, p.ErrorCode, first, p.HighWatermark, p.LogStartOffset, c.code, c.first)
		}
	}
}

// What was taken from a queue is missing for who reads it with Kafka, and nothing more: the reader goes on behind it and is never out of range.
func TestFetchThroughWhatAQueueHasLost(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("queue", func(s *topic.Spec) { s.AckPolicy = topic.Delete })
	r := b.dial()
	r.mustProduce(tp, "0", "1", "2", "3", "4")
	for _, v := range []string{"5", "6", "7", "8", "9"} {
		r.mustProduce(tp, v)
	}
	b.remove(tp, logstore.Range{From: 0, To: 2}, logstore.Range{From: 3, To: 4}, logstore.Range{From: 5, To: 8})
	for offset, want := range map[int64]string{0: "2489", 1: "2489", 2: "2489", 3: "2489", 4: "2489", 5: "89", 7: "89", 8: "89", 9: "9", 10: ""} {
		p := r.fetch(tp, offset)
		rs := recordsOf(t, p.RecordBatches)
		if got := strings.Join(valuesOf(rs), ""); p.ErrorCode != 0 || got != want || p.LogStartOffset != 0 || p.HighWatermark != 10 {
			t.Errorf("offset %d: %q, error %d, start %d, end %d; want %q", offset, got, p.ErrorCode, p.LogStartOffset, p.HighWatermark, want)
		}
	}
	if p := r.fetch(tp, 11); p.ErrorCode != codeOffsetOutOfRange {
		t.Errorf("behind the end: error %d", p.ErrorCode)
	}
	if p := r.fetch(tp, -1); p.ErrorCode != codeOffsetOutOfRange {
		t.Errorf("offset -1: error %d", p.ErrorCode)
	}
}

// Compaction takes records from anywhere, and nobody is out of range for it.
func TestFetchFromACompactedTopic(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("compacted", func(s *topic.Spec) { s.Config = map[string]string{"cleanup.policy": "compact"} })
	r := b.dial()
	keyed := record.NewBuilder()
	for i, key := range []string{"a", "a", "b", "a", "b", "c"} {
		keyed.Append(int64(i), []byte(key), []byte{'0' + byte(i)}, nil)
	}
	raw, err := keyed.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.produce(tp, 0, raw)
	if _, err := b.opts.Store.CompactKeys(t.Context(), tp.Shards[0], logstore.Compaction{}); err != nil {
		t.Fatal(err)
	}
	for offset, want := range map[int64]string{0: "345", 2: "345", 4: "345", 6: ""} {
		p := r.fetch(tp, offset)
		if got := strings.Join(valuesOf(recordsOf(t, p.RecordBatches)), ""); p.ErrorCode != 0 || got != want || p.LogStartOffset != 0 {
			t.Errorf("offset %d: error %d, %q, start %d; want %q", offset, p.ErrorCode, got, p.LogStartOffset, want)
		}
	}
}

// Where only deleted offsets are left, a fetch is told so once, by a batch without records, and so comes to the end. If it asks for them again all the same it waits, as
// at the end, and is woken by the next record.
func TestFetchOfDeletedOffsetsMovesOnAndDoesNotSpin(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("queue", func(s *topic.Spec) { s.AckPolicy = topic.Delete })
	r, w := b.dial(), b.dial()
	w.mustProduce(tp, "0", "1", "2")
	b.remove(tp, logstore.Range{From: 0, To: 3})
	end := int64(3)
	for offset := range int64(4) {
		ask := func() *kmsg.FetchRequest {
			req := fetchRequest(12, tp, offset)
			req.MaxWaitMillis = 1 << 30
			return req
		}
		if offset < end {
			p := r.ask(ask()).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			batch, rest, err := record.Parse(p.RecordBatches)
			if err != nil || len(rest) > 0 || batch.Count() != 0 || batch.BaseOffset() != offset || batch.LastOffset() != end-1 {
				t.Fatalf("offset %d: % x, %v", offset, p.RecordBatches, err)
			}
		}
		waited := b.server.Figures().FetchesWaited
		req := ask()
		corr := r.send(req)
		eventually(t, "the fetch waits", func() bool { return b.server.Figures().FetchesWaited == waited+1 })
		base := w.mustProduce(tp, "new")
		p := r.receive(req, corr).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if rs := recordsOf(t, p.RecordBatches); len(rs) != 1 || rs[0].offset != base {
			t.Errorf("offset %d: %v", offset, rs)
		}
		b.remove(tp, logstore.Range{From: base, To: base + 1})
		end = base + 1
	}
}

// A fetch waits for its minimum of bytes as long as it wants and no longer; with an error it does not wait.
func TestFetchWaitsForMinBytes(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r, w := b.dial(), b.dial()
	small := len(batchOf(t, nil, "x"))
	w.mustProduce(tp, "x")

	req := fetchRequest(12, tp, 0)
	req.MinBytes, req.MaxWaitMillis = int32(2*small), 50
	began := time.Now()
	if p := r.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) != small {
		t.Errorf("after the wait: %d bytes, want %d", len(p.RecordBatches), small)
	}
	if d := time.Since(began); d < 50*time.Millisecond {
		t.Errorf("waited %v, wanted were 50 ms", d)
	}
	req.MinBytes, req.MaxWaitMillis = int32(100*small), 1<<30
	corr := r.send(req)
	for range 99 {
		w.mustProduce(tp, "x")
	}
	if p := r.receive(req, corr).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) != 100*small {
		t.Errorf("%d bytes, want %d", len(p.RecordBatches), 100*small)
	}
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.FetchRequestTopicPartition{Partition: 9, PartitionMaxBytes: 1000, CurrentLeaderEpoch: -1})
	req.MinBytes = 1 << 30
	if ps := r.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions; ps[1].ErrorCode != codeUnknownTopicOrPartition {
		t.Errorf("%+v", ps[1])
	}
	req = fetchRequest(12, tp, 0)
	req.MinBytes, req.MaxWaitMillis, req.Topics = 1, 1<<30, nil
	r.ask(req) // there is nothing to wait for
}

// Limits hold for a partition and for all together; the first batch comes whole whatever they are (KIP-74), and a batch that does not fit any more is left for the next.
func TestFetchLimits(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", func(s *topic.Spec) { s.Partitions = 4 })
	r := b.dial()
	value := strings.Repeat("x", 1000)
	size := len(batchOf(t, nil, value))
	for p := range int32(3) {
		for range 4 {
			if out := r.produce(tp, p, batchOf(t, nil, value)); out.ErrorCode != 0 {
				t.Fatalf("%+v", out)
			}
		}
	}
	for _, c := range []struct {
		partitionMax, max int
		want              [3]int // batches
	}{
		{1 << 20, 1 << 20, [3]int{4, 4, 4}},
		{2 * size, 1 << 20, [3]int{2, 2, 2}},
		{2*size + size - 1, 1 << 20, [3]int{2, 2, 2}},
		{1 << 20, 5 * size, [3]int{4, 1, 0}},
		{1 << 20, 4*size + size/2, [3]int{4, 0, 0}},
		{1, 1 << 20, [3]int{1, 0, 0}},
		{1, 1, [3]int{1, 0, 0}},
		{0, 0, [3]int{1, 0, 0}},
		{-1, -1, [3]int{1, 0, 0}},
		{1 << 20, 1, [3]int{1, 0, 0}},
	} {
		req := fetchRequest(12, tp, 0)
		req.MaxBytes = int32(c.max)
		req.Topics[0].Partitions = nil
		for p := range int32(3) {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.FetchRequestTopicPartition{Partition: p, PartitionMaxBytes: int32(c.partitionMax), CurrentLeaderEpoch: -1})
		}
		var got [3]int
		for i, p := range r.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions {
			got[i] = len(p.RecordBatches) / size
			if p.ErrorCode != 0 || p.HighWatermark != 4 {
				t.Errorf("partition %d: %+v", i, p)
			}
		}
		if got != c.want {
			t.Errorf("max %d of %d a partition: batches %v, want %v", c.max, c.partitionMax, got, c.want)
		}
	}
}

// The broker's own limit on an answer holds whatever the client asks for.
func TestFetchIsLimitedByTheBroker(t *testing.T) {
	t.Parallel()
	b := startBroker(t, func(o *Options) { o.Limits.ResponseBytes = 5000 })
	tp := b.topic("example", nil)
	r := b.dial()
	for range 20 {
		r.mustProduce(tp, strings.Repeat("x", 1000))
	}
	req := fetchRequest(12, tp, 0)
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 1<<31-1, 1<<31-1
	if p := r.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) > 5000 || len(p.RecordBatches) < 4000 {
		t.Errorf("%d bytes", len(p.RecordBatches))
	}
}

// A client's knowledge of the leader is compared with the leader (KIP-320), in every request that has it.
func TestLeaderEpochs(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	r.mustProduce(tp, "a", "b")
	for epoch, want := range map[int32]int16{-1: 0, 0: 0, 1: codeUnknownLeaderEpoch, 7: codeUnknownLeaderEpoch, -2: codeFencedLeaderEpoch} {
		f := fetchRequest(12, tp, 0)
		f.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		if got := r.ask(f).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode; got != want {
			t.Errorf("fetch with epoch %d: %d, want %d", epoch, got, want)
		}
		l := listRequest(7, "example", -1)
		l.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		if got := r.ask(l).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode; got != want {
			t.Errorf("list offsets with epoch %d: %d, want %d", epoch, got, want)
		}
		e := kmsg.NewPtrOffsetForLeaderEpochRequest()
		e.Version = 4
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.CurrentLeaderEpoch, rp.LeaderEpoch = epoch, 0
		e.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "example", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{rp}}}
		p := r.ask(e).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
		if p.ErrorCode != want || want == 0 && (p.LeaderEpoch != 0 || p.EndOffset != 2) {
			t.Errorf("offset for leader epoch with epoch %d: %+v, want error %d", epoch, p, want)
		}
	}
	for asked, want := range map[int32][2]int64{-1: {-1, -1}, 0: {0, 2}, 1: {-1, -1}} {
		e := kmsg.NewPtrOffsetForLeaderEpochRequest()
		e.Version = 4
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.LeaderEpoch = asked
		e.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "example", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{rp}}}
		p := r.ask(e).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || int64(p.LeaderEpoch) != want[0] || p.EndOffset != want[1] {
			t.Errorf("epoch %d: %+v, want %v", asked, p, want)
		}
	}
}

// From v13 on topics are named by id; a topic that was made anew under its name is another one.
func TestFetchByTopicID(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	old := b.topic("example", nil)
	if err := b.opts.Topics.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	tp := b.topic("example", nil)
	r := b.dial()
	r.mustProduce(tp, "a")
	for version := int16(13); version <= 18; version++ {
		for want, id := range map[int16][16]byte{0: tp.ID, codeUnknownTopicID: old.ID} {
			req := fetchRequest(version, tp, 0)
			req.Topics[0].TopicID = id
			topics := r.ask(req).(*kmsg.FetchResponse).Topics
			if p := topics[0].Partitions[0]; p.ErrorCode != want || topics[0].TopicID != id {
				t.Errorf("v%d: error %d, want %d", version, p.ErrorCode, want)
			}
		}
	}
}

// A client that does not know zstd is not sent it (KIP-110).
func TestZstdIsNotSentToOldClients(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	if p := r.produce(tp, 0, batchOf(t, func(b *record.Builder) { b.SetCodec(record.Zstd) }, "a")); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	for version, want := range map[int16]int16{4: codeUnsupportedCompressionType, 9: codeUnsupportedCompressionType, 10: 0, 12: 0} {
		p := r.ask(fetchRequest(version, tp, 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if p.ErrorCode != want || (want == 0) != (len(p.RecordBatches) > 0) {
			t.Errorf("v%d: error %d and %d bytes", version, p.ErrorCode, len(p.RecordBatches))
		}
	}
}

// A fetch of many small partitions and of large ones gives all their bytes, unmixed.
func TestFetchOfManyPartitions(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	const n = 300
	tp := b.topic("example", func(s *topic.Spec) { s.Partitions = n })
	r := b.dial()
	want := make([]string, n)
	req := produceRequest(9, tp, 0, -1, nil)
	req.Topics[0].Partitions = nil
	for i := range want {
		want[i] = strings.Repeat(string(rune('a'+i%26)), 10+(i%7)*(i%7)*(i%7)*100)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: int32(i), Records: batchOf(t, nil, want[i])})
	}
	for _, p := range r.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions {
		if p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	f := fetchRequest(12, tp, 0)
	f.MaxBytes = 100 << 20
	f.Topics[0].Partitions = nil
	for i := range want {
		f.Topics[0].Partitions = append(f.Topics[0].Partitions, kmsg.FetchRequestTopicPartition{Partition: int32(i), PartitionMaxBytes: 1 << 20, CurrentLeaderEpoch: -1})
	}
	for range 3 {
		for i, p := range r.ask(f).(*kmsg.FetchResponse).Topics[0].Partitions {
			if got := valuesOf(recordsOf(t, p.RecordBatches)); !slices.Equal(got, []string{want[i]}) {
				t.Fatalf("partition %d differs", i)
			}
		}
	}
}

// Damage on the disk is met where it is: what lies before it can be read, and at it the client is told, each time, and not given other records instead.
func TestFetchMeetsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) {
		store, err := logstore.Open(logstore.Options{Dir: dir, Sync: logstore.SyncOS})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		o.Store, o.Logf = store, nil
		o.Topics = topic.Open(topic.Options{Store: store, Now: time.Now, NewID: func() topic.ID { return topic.ID{1} }})
	})
	tp := b.topic("example", nil)
	r := b.dial()
	for i := range 5 {
		r.mustProduce(tp, strings.Repeat(string(rune('a'+i)), 1000))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, 64<<10)
	if _, err := f.ReadAt(head, 0); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(head, bytes.Repeat([]byte("d"), 1000))
	if _, err := f.WriteAt([]byte("D"), int64(at)); err != nil {
		t.Fatal(err)
	}
	for offset, want := range map[int64]string{0: "a", 1: "b", 2: "c"} {
		p := r.fetch(tp, offset)
		if rs := recordsOf(t, p.RecordBatches); p.ErrorCode != 0 || len(rs) == 0 || rs[0].value[:1] != want {
			t.Errorf("offset %d: error %d, %d records", offset, p.ErrorCode, len(rs))
		}
	}
	for range 2 {
		if p := r.fetch(tp, 3); p.ErrorCode != codeKafkaStorageError || len(p.RecordBatches) > 0 {
			t.Errorf("at the damage: error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
		}
	}
	if p := r.fetch(tp, 4); p.ErrorCode != 0 || recordsOf(t, p.RecordBatches)[0].value[:1] != "e" {
		t.Errorf("behind it: error %d", p.ErrorCode)
	}
}
