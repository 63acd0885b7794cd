package kafka

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// BenchmarkProduce measures requests of one partition with records of 1 KiB, eight in flight, over a socket and onto a log that leaves syncing to the system.
func BenchmarkProduce(b *testing.B) {
	for _, records := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			br := startBroker(b, nil)
			tp := br.topic("bench", func(s *topic.Spec) { s.Config = map[string]string{"max.message.bytes": "10000000"} })
			batch := batchOf(b, nil, strings.Split(strings.Repeat(strings.Repeat("x", 1024)+"\n", records-1)+strings.Repeat("x", 1024), "\n")...)
			r := br.dial()
			frame := r.f.AppendRequest(nil, produceRequest(9, tp, 0, -1, batch), 1)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			inflight := make(chan struct{}, 8)
			done := make(chan struct{})
			b.ResetTimer()
			go func() {
				defer close(done)
				for range b.N {
					if _, _, err := r.receiveFrame(); err != nil {
						b.Error(err)
					}
					<-inflight
				}
			}()
			for range b.N {
				inflight <- struct{}{}
				r.conn.Write(frame)
			}
			<-done
			b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkFetch measures fetches of 1 MiB in batches of different sizes, from the page cache over a socket.
func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			br := startBroker(b, nil)
			tp := br.topic("bench", func(s *topic.Spec) { s.Config = map[string]string{"max.message.bytes": "10000000"} })
			r := br.dial()
			value := strings.Repeat("x", size-100)
			for range (8 << 20) / size {
				r.send(produceRequest(9, tp, 0, 0, batchOf(b, nil, value)))
			}
			r.mustProduce(tp, "end")
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			frame := r.f.AppendRequest(nil, fetchRequest(12, tp, 0), 1)
			buf := make([]byte, 2<<20)
			b.ResetTimer()
			for range b.N {
				r.conn.Write(frame)
				r.in.Read(buf[:4])
				for n := int(buf[0])<<24 | int(buf[1])<<16 | int(buf[2])<<8 | int(buf[3]); n > 0; {
					k, err := r.in.Read(buf[:n])
					if err != nil {
						b.Fatal(err)
					}
					n -= k
				}
			}
		})
	}
}

// BenchmarkMetadata measures a request that is answered at once.
func BenchmarkMetadata(b *testing.B) {
	br := startBroker(b, nil)
	br.topic("bench", nil)
	r := br.dial()
	frame := r.f.AppendRequest(nil, metadataRequest(12, false, "bench"), 1)
	b.ReportAllocs()
	for b.Loop() {
		r.conn.Write(frame)
		r.receiveFrame()
	}
}

// BenchmarkProduceDurable measures small requests of many connections, one in flight on each, onto a log that syncs before it answers.
func BenchmarkProduceDurable(b *testing.B) {
	store, err := logstore.Open(logstore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	br := startBroker(b, func(o *Options) {
		o.Store = store
		o.Topics = topic.Open(topic.Options{Store: store, Now: time.Now, NewID: func() topic.ID { return topic.ID{1} }})
	})
	tp := br.topic("bench", nil)
	batch := batchOf(b, nil, strings.Repeat("x", 1024))
	b.SetParallelism(64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := br.dial()
		frame := r.f.AppendRequest(nil, produceRequest(9, tp, 0, -1, batch), 1)
		for pb.Next() {
			r.conn.Write(frame)
			if _, _, err := r.receiveFrame(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
