package kafka

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/viewlayer/topic"
)

// client returns a franz-go client of the broker.
func (b *broker) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.addr), kgo.RetryTimeout(10 * time.Second)}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

// consume reads n records.
func consume(t *testing.T, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all []*kgo.Record
	for len(all) < n {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(all), n, err)
		}
		for _, e := range fs.Errors() {
			t.Fatalf("after %d of %d records: %s/%d: %v", len(all), n, e.Topic, e.Partition, e.Err)
		}
		all = append(all, fs.Records()...)
	}
	return all
}

// What an idempotent client produces with any codec, its consumer reads: every record once, in the order of its partition.
func TestClientReadsWhatItWrote(t *testing.T) {
	t.Parallel()
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, nil)
			b.t = t
			b.topic("orders", func(s *topic.Spec) { s.Partitions = 3 })
			const n = 2000
			w := b.client(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for i := range n {
				r := &kgo.Record{
					Partition: int32(i % 3), Key: fmt.Appendf(nil, "key %d", i), Value: []byte(strings.Repeat("v", i%300)),
					Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}, {Key: "h", Value: nil}},
				}
				w.Produce(t.Context(), r, func(r *kgo.Record, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := b.client(kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			next := [3]int64{}
			for _, rec := range consume(t, r, n) {
				i := next[rec.Partition]*3 + int64(rec.Partition)
				if rec.Offset != next[rec.Partition] || string(rec.Key) != fmt.Sprintf("key %d", i) || len(rec.Value) != int(i%300) {
					t.Fatalf("partition %d: got offset %d with key %s, want offset %d with key %d", rec.Partition, rec.Offset, rec.Key, next[rec.Partition], i)
				}
				if len(rec.Headers) != 2 || rec.Headers[0].Value[0] != byte(i) || rec.Headers[1].Value != nil {
					t.Fatalf("headers %v", rec.Headers)
				}
				next[rec.Partition]++
			}
		})
	}
}

// A topic appears when a client asks for it to write to it, and only if the broker and the client want that.
func TestTopicIsMadeByAskingForIt(t *testing.T) {
	t.Parallel()
	b := startBroker(t, func(o *Options) { o.Partitions = 4 })
	w := b.client(kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("fresh"))
	if err := w.ProduceSync(t.Context(), kgo.StringRecord("hello")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	made, err := b.opts.Topics.Find("/", "fresh")
	if err != nil || len(made.Shards) != 4 || made.AckPolicy != topic.Retain {
		t.Fatalf("%+v, %v", made, err)
	}
	r := b.client(kgo.ConsumeTopics("fresh"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if got := consume(t, r, 1); string(got[0].Value) != "hello" {
		t.Fatalf("%s", got[0].Value)
	}
}

// A consumer that waits gets a record when it comes, not when its wait is over.
func TestWaitingConsumerIsWokenByARecord(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("wake", nil)
	r := b.client(kgo.ConsumeTopics("wake"), kgo.FetchMaxWait(time.Hour))
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		eventually(t, "the consumer waits", func() bool { return b.server.Figures().FetchesWaited > 0 })
		dialRaw(t, b.addr).mustProduce(tp, "now")
	})
	if got := consume(t, r, 1); string(got[0].Value) != "now" {
		t.Fatalf("%s", got[0].Value)
	}
}
