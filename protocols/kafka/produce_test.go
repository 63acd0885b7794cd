package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/logstore/seed"
	"polylog/viewlayer/topic"
)

// damaged returns a batch with a byte changed.
func damaged(raw []byte, at int, to byte) []byte {
	raw = slices.Clone(raw)
	raw[at] = to
	return raw
}

// resealed returns a batch with a byte changed and the CRC right again.
func resealed(t *testing.T, raw []byte, at int, to byte) []byte {
	t.Helper()
	raw = damaged(raw, at, to)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// What cannot be appended is refused with Kafka's code for it, and what stands beside it in the request is appended.
func TestProduceAnswersEachPartitionForItself(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", func(s *topic.Spec) { s.Partitions = 40; s.Config = map[string]string{"max.message.bytes": "5000"} })
	good := batchOf(t, nil, "one", "two")
	zstd := batchOf(t, func(b *record.Builder) { b.SetCodec(record.Zstd) }, "one", "two")
	cases := []struct {
		what    string
		records []byte
		code    int16
		version int16 // the last one that is so; 0: any
		codec   record.Codec
	}{
		{what: "a batch", records: good},
		{what: "null", records: nil, code: codeInvalidRecord},
		{what: "empty", records: []byte{}, code: codeInvalidRecord},
		{what: "garbage", records: []byte("this is no batch, but it is long enough that it could be one if only it were one"), code: codeInvalidRecord},
		{what: "a part of a batch", records: good[:len(good)-1], code: codeCorruptMessage},
		{what: "less than a header", records: good[:40], code: codeCorruptMessage},
		{what: "two batches", records: append(slices.Clone(good), good...), code: codeInvalidRecord},
		{what: "something behind the batch", records: append(slices.Clone(good), 0), code: codeInvalidRecord},
		{what: "magic 1", records: damaged(good, 16, 1), code: codeInvalidRecord},
		{what: "magic 3", records: damaged(good, 16, 3), code: codeInvalidRecord},
		{what: "a changed value", records: damaged(good, len(good)-2, 'X'), code: codeCorruptMessage},
		{what: "a changed CRC", records: damaged(good, 18, good[18]+1), code: codeCorruptMessage},
		{what: "too large", records: batchOf(t, nil, string(make([]byte, 5000))), code: codeMessageTooLarge},
		{what: "a codec that does not exist", records: resealed(t, good, 22, 5), code: codeUnsupportedCompressionType},
		{what: "a control batch", records: batchOf(t, func(b *record.Builder) { b.SetControl(true) }, "x"), code: codeInvalidRecord},
		{what: "a transactional batch", records: batchOf(t, func(b *record.Builder) { b.SetTransactional(true) }, "x"), code: codeInvalidTxnState},
		{what: "log append time", records: batchOf(t, func(b *record.Builder) { b.SetLogAppendTime(true) }, "x"), code: codeInvalidTimestamp},
		{what: "base offset 1", records: damaged(good, 7, 1), code: codeInvalidRecord},
		{what: "fewer records than offsets", records: resealed(t, good, 26, 2), code: codeInvalidRecord},
		{what: "more records than there are", records: resealed(t, resealed(t, good, 60, 3), 26, 2), code: codeInvalidRecord},
		{what: "no records", records: record.Empty(0, 0, 0, nil).Bytes(), code: codeInvalidRecord},
		{what: "a producer without a sequence", records: batchOf(t, func(b *record.Builder) { b.SetProducer(1, 0, -1) }, "x"), code: codeInvalidRecord},
		{what: "damaged compression", records: resealed(t, zstd, 70, 0xff), code: codeInvalidRecord, codec: record.Zstd},
		{what: "zstd", records: zstd, codec: record.Zstd},
		{what: "zstd before v7", records: zstd, code: codeUnsupportedCompressionType, version: 6, codec: record.Zstd},
		{what: "leader epoch -1", records: damaged(damaged(good, 12, 0xff), 13, 0xff)},
	}
	for version := int16(3); version <= 13; version++ {
		req := produceRequest(version, tp, 0, -1, nil)
		req.Topics[0].Partitions = nil
		var want []int16
		for i, c := range cases {
			if c.version != 0 && c.version < version || c.codec == record.Zstd && c.version == 0 && version < 7 {
				continue
			}
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: int32(i), Records: c.records})
			want = append(want, c.code)
		}
		for _, p := range []int32{-1, 40, math.MaxInt32} {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: p, Records: good})
			want = append(want, codeUnknownTopicOrPartition)
		}
		resp := b.dial().ask(req).(*kmsg.ProduceResponse)
		for i, p := range resp.Topics[0].Partitions {
			if p.ErrorCode != want[i] {
				t.Errorf("v%d: partition %d: error %d, want %d (%s)", version, p.Partition, p.ErrorCode, want[i], *cmpString(p.ErrorMessage))
			}
			if p.ErrorCode == 0 && p.BaseOffset != 2*int64(version-3) && p.Partition != 23 || p.ErrorCode != 0 && p.BaseOffset != -1 {
				t.Errorf("v%d: partition %d: base offset %d", version, p.Partition, p.BaseOffset)
			}
			if version >= 8 && (p.ErrorCode != 0) != (p.ErrorMessage != nil) {
				t.Errorf("v%d: partition %d: error %d with message %v", version, p.Partition, p.ErrorCode, p.ErrorMessage)
			}
		}
	}
}

func cmpString(s *string) *string {
	if s == nil {
		return new(string)
	}
	return s
}

// acks other than -1, 0 and 1 do not exist, and nothing is appended.
func TestUnknownAcksAreRefused(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	for _, acks := range []int16{2, -2, math.MaxInt16} {
		resp := r.ask(produceRequest(9, tp, 0, acks, batchOf(t, nil, "v"))).(*kmsg.ProduceResponse)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != codeInvalidRequiredAcks {
			t.Errorf("acks %d: %+v", acks, p)
		}
	}
	if base := r.mustProduce(tp, "first"); base != 0 {
		t.Errorf("something was appended: the next offset is %d", base)
	}
}

// A produce without acknowledgement gets no answer; if it fails, the connection ends, as there is no other way to say so.
func TestProduceWithoutAckIsNotAnswered(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	for range 3 {
		r.send(produceRequest(9, tp, 0, 0, batchOf(t, nil, "v")))
	}
	if base := r.mustProduce(tp, "acknowledged"); base != 3 {
		t.Errorf("base offset %d, want 3", base)
	}
	r.send(produceRequest(9, tp, 1, 0, batchOf(t, nil, "v")))
	r.expectClosed()
}

// Records that compress well are taken, also far better than is usual; those that would fill the memory are not, and what was set aside for them is given back.
func TestHowFarRecordsMayExpand(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	well := batchOf(t, func(b *record.Builder) { b.SetCodec(record.Zstd) }, strings.Repeat("x", 8<<20))
	if len(well) > 100_000 {
		t.Fatalf("it has %d bytes", len(well))
	}
	if p := r.produce(tp, 0, well); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("%+v", p)
	}
	bomb := slices.Clone(well[:record.HeaderSize])
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb = append(bomb, enc.EncodeAll(make([]byte, record.DefaultDecompressedLimit+1), nil)...)
	binary.BigEndian.PutUint32(bomb[8:], uint32(len(bomb)-12))
	if p := r.produce(tp, 0, resealed(t, bomb, 0, 0)); p.ErrorCode != codeMessageTooLarge {
		t.Errorf("%d bytes that expand to %d: %+v", len(bomb), record.DefaultDecompressedLimit+1, p)
	}
	a := b.server.decode
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left != a.size {
		t.Errorf("%d bytes of the allowance are missing", a.size-a.left)
	}
}

// The broker's own topics, and exclusive queues, are not for clients to write.
func TestTopicsThatAreNotForWriting(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	internal := b.topic("__claims", func(s *topic.Spec) { s.Internal = true })
	private := b.topic("private", func(s *topic.Spec) { s.Owner, s.Hidden = "somebody", true })
	gone := b.topic("gone", nil)
	if err := b.opts.Topics.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	r := b.dial()
	want := map[*topic.Topic][2]int16{
		internal: {codeTopicAuthorizationFailed, codeTopicAuthorizationFailed},
		private:  {codeTopicAuthorizationFailed, codeTopicAuthorizationFailed},
		gone:     {codeUnknownTopicOrPartition, codeUnknownTopicID},
	}
	for tp, codes := range want {
		for i, version := range []int16{9, 13} {
			resp := r.ask(produceRequest(version, tp, 0, -1, batchOf(t, nil, "v"))).(*kmsg.ProduceResponse)
			if got := resp.Topics[0].Partitions[0].ErrorCode; got != codes[i] {
				t.Errorf("%s, v%d: error %d, want %d", tp.Name, version, got, codes[i])
			}
		}
	}
	if p := r.fetch(internal, 0); p.ErrorCode != 0 {
		t.Errorf("an internal topic cannot be read: error %d", p.ErrorCode)
	}
	if p := r.fetch(private, 0); p.ErrorCode != codeTopicAuthorizationFailed {
		t.Errorf("an exclusive queue can be read: error %d", p.ErrorCode)
	}
}

// A record comes out as it went in: null and empty, any headers.
func TestRecordsComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	many := make([]record.RecordHeader, 1000)
	for i := range many {
		many[i] = record.RecordHeader{Key: []byte{byte(i)}, Value: []byte{byte(i >> 8)}}
	}
	w := record.NewBuilder()
	w.Append(1, nil, nil, nil)
	w.Append(2, []byte{}, []byte{}, nil)
	w.Append(3, []byte("key"), nil, []record.RecordHeader{{Key: []byte("same"), Value: nil}, {Key: []byte("same"), Value: []byte{}}, {Key: nil, Value: []byte("x")}})
	w.Append(-4, nil, []byte("value"), many)
	raw, err := w.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := b.dial()
	if p := r.produce(tp, 0, raw); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	got := r.fetch(tp, 0).RecordBatches
	if !bytes.Equal(got[21:], raw[21:]) {
		t.Error("the batch was changed")
	}
}

// In a topic with log append time, a record's time is that of its arrival, and the answer says so.
func TestLogAppendTime(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_123)
	b := startBroker(t, func(o *Options) { o.Now = func() time.Time { return now } })
	tp := b.topic("stamped", func(s *topic.Spec) { s.Config = map[string]string{"message.timestamp.type": "LogAppendTime"} })
	r := b.dial()
	p := r.produce(tp, 0, batchOf(t, func(b *record.Builder) { b.SetCodec(record.LZ4) }, "a", "b"))
	if p.ErrorCode != 0 || p.LogAppendTime != now.UnixMilli() {
		t.Errorf("%+v", p)
	}
	for _, rec := range recordsOf(t, r.fetch(tp, 0).RecordBatches) {
		if rec.ts != now.UnixMilli() {
			t.Errorf("%+v", rec)
		}
	}
	plain := b.topic("plain", nil)
	if p := r.produce(plain, 0, batchOf(t, nil, "a")); p.LogAppendTime != -1 {
		t.Errorf("%+v", p)
	}
}

// sequenced makes a batch of an idempotent producer.
func sequenced(t testing.TB, id int64, epoch int16, first int32, values ...string) []byte {
	return batchOf(t, func(b *record.Builder) { b.SetProducer(id, epoch, first) }, values...)
}

// The broker takes each batch of an idempotent producer once, in order (KIP-98).
func TestIdempotentProducer(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", func(s *topic.Spec) { s.Partitions = 2 })
	r := b.dial()
	newID := func() int64 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version = 4
		return r.ask(req).(*kmsg.InitProducerIDResponse).ProducerID
	}
	eventually(t, "the topic is older than the producer", func() bool { return time.Now().UnixMilli() > tp.Created+1 })
	id := newID()
	if other := newID(); other == id {
		t.Fatalf("id %d twice", id)
	}
	steps := []struct {
		what      string
		partition int32
		raw       []byte
		code      int16
		base      int64
	}{
		{"a first sequence over 0", 0, sequenced(t, id, 0, 1, "x"), codeOutOfOrderSequenceNumber, -1},
		{"the first", 0, sequenced(t, id, 0, 0, "a", "b"), 0, 0},
		{"the first again", 0, sequenced(t, id, 0, 0, "a", "b"), 0, 0},
		{"a gap", 0, sequenced(t, id, 0, 3, "x"), codeOutOfOrderSequenceNumber, -1},
		{"the second", 0, sequenced(t, id, 0, 2, "c"), 0, 2},
		{"another partition", 1, sequenced(t, id, 0, 0, "A"), 0, 0},
		{"the third", 0, sequenced(t, id, 0, 3, "d"), 0, 3},
		{"the fourth", 0, sequenced(t, id, 0, 4, "e"), 0, 4},
		{"the fifth", 0, sequenced(t, id, 0, 5, "f"), 0, 5},
		{"the first, five later", 0, sequenced(t, id, 0, 0, "a", "b"), 0, 0},
		{"the sixth", 0, sequenced(t, id, 0, 6, "g"), 0, 6},
		{"the first, too late to know", 0, sequenced(t, id, 0, 0, "a", "b"), codeOutOfOrderSequenceNumber, -1},
		{"the third again", 0, sequenced(t, id, 0, 3, "d"), 0, 3},
		{"a part of the first", 0, sequenced(t, id, 0, 2, "c", "d"), codeOutOfOrderSequenceNumber, -1},
		{"a new epoch with a sequence over 0", 0, sequenced(t, id, 1, 7, "x"), codeOutOfOrderSequenceNumber, -1},
		{"a new epoch", 0, sequenced(t, id, 1, 0, "h"), 0, 7},
		{"the old epoch", 0, sequenced(t, id, 0, 7, "x"), codeInvalidProducerEpoch, -1},
		{"an id that was never given out", 0, sequenced(t, 1<<40, 0, 5, "x"), codeUnknownProducerID, -1},
	}
	for _, s := range steps {
		p := r.produce(tp, s.partition, s.raw)
		if p.ErrorCode != s.code || p.BaseOffset != s.base {
			t.Errorf("%s: error %d, base offset %d; want %d, %d", s.what, p.ErrorCode, p.BaseOffset, s.code, s.base)
		}
	}
	if got := valuesOf(recordsOf(t, r.fetch(tp, 0).RecordBatches)); !slices.Equal(got, []string{"a", "b", "c", "d", "e", "f", "g", "h"}) {
		t.Errorf("%q", got)
	}
}

// Five requests in flight on a connection that breaks, sent again on another: each record is there once and in order, and each answer says where.
func TestFiveInFlightAfterAReconnect(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	rng := seed.Rand(t)
	r := b.dial()
	id := r.ask(kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse).ProducerID
	next := int32(0)
	for range 20 {
		var reqs []*kmsg.ProduceRequest
		for i := range int32(5) {
			reqs = append(reqs, produceRequest(9, tp, 0, -1, sequenced(t, id, 0, next+i, string(rune('a'+i)))))
		}
		sent := reqs[:rng.IntN(6)]
		for _, req := range sent {
			r.send(req)
		}
		if len(sent) > 0 && rng.IntN(2) == 0 {
			r.in.ReadByte() // the first answer is on its way
		}
		r.conn.Close()
		r = b.dial()
		var corrs []int32
		for _, req := range reqs {
			corrs = append(corrs, r.send(req))
		}
		for i, req := range reqs {
			p := r.receive(req, corrs[i]).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != int64(next)+int64(i) {
				t.Fatalf("sequence %d: error %d, base offset %d", next+int32(i), p.ErrorCode, p.BaseOffset)
			}
		}
		next += 5
	}
}

// Several producers at once, each with its connection: every record is there once, in its producer's order.
func TestConcurrentProducersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	b.topic("example", nil)
	const producers, each = 8, 300
	for i := range producers {
		w := b.client(kgo.DefaultProduceTopic("example"), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(50))
		go func() {
			for j := range each {
				w.Produce(t.Context(), kgo.KeySliceRecord([]byte{byte(i)}, []byte{byte(j >> 8), byte(j)}), nil)
			}
		}()
	}
	r := b.client(kgo.ConsumeTopics("example"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := [producers]int{}
	for _, rec := range consume(t, r, producers*each) {
		i, j := rec.Key[0], int(rec.Value[0])<<8|int(rec.Value[1])
		if j != next[i] {
			t.Fatalf("record %d of producer %d, want %d", j, i, next[i])
		}
		next[i]++
	}
}

// A partition that cannot be appended to, though it could a moment ago, does not take the others of the request with it.
func TestOnePartitionsFailureIsItsOwn(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", func(s *topic.Spec) { s.Partitions = 3 })
	if _, err := b.opts.Store.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.DropShard(tp.Shards[1])}}); err != nil {
		t.Fatal(err)
	}
	req := produceRequest(9, tp, 0, -1, batchOf(t, nil, "v"))
	for p := int32(1); p < 3; p++ {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: p, Records: batchOf(t, nil, "v")})
	}
	for i, p := range b.dial().ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions {
		want := map[int]int16{1: codeUnknownTopicOrPartition}[i]
		if p.ErrorCode != want || want == 0 && p.BaseOffset != 0 {
			t.Errorf("%+v, want error %d", p, want)
		}
	}
}

// The same batch from two connections at once is stored once, and both are told where.
func TestRacingDuplicatesAreStoredOnce(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", func(s *topic.Spec) { s.Partitions = 2 })
	one, two := b.dial(), b.dial()
	id := one.ask(kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse).ProducerID
	for first := range int32(200) {
		req := produceRequest(9, tp, 0, -1, sequenced(t, id, 0, first, "v"))
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: 1, Records: sequenced(t, id, 0, first, "w")})
		corrOne, corrTwo := one.send(req), two.send(req)
		for _, resp := range []kmsg.Response{one.receive(req, corrOne), two.receive(req, corrTwo)} {
			for _, p := range resp.(*kmsg.ProduceResponse).Topics[0].Partitions {
				if p.ErrorCode != 0 || p.BaseOffset != int64(first) {
					t.Fatalf("sequence %d: %+v", first, p)
				}
			}
		}
	}
}

// Batches of one producer for one partition, several in one request, are stored one after another.
func TestSequencesWithinARequest(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	id := r.ask(kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse).ProducerID
	req := produceRequest(9, tp, 0, -1, sequenced(t, id, 0, 0, "a"))
	for first := int32(1); first < 4; first++ {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Records: sequenced(t, id, 0, first, "b")})
	}
	for i, p := range r.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions {
		if p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Errorf("%+v", p)
		}
	}
}
