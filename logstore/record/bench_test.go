package record

import (
	"bytes"
	"testing"
)

const benchRecords = 100

// benchBatch is 100 records of a key, 100 bytes that compress a little, and one header.
func benchBatch(b *testing.B, f framing) Batch {
	b.Helper()
	bl := NewBuilder()
	for i := range benchRecords {
		bl.Append(1700000000000+int64(i), []byte("sensors/room1"), benchValue(i), []RecordHeader{{Key: []byte("content-type"), Value: []byte("application/json")}})
	}
	plain, err := bl.Build()
	if err != nil {
		b.Fatal(err)
	}
	return repack(b, plain, f)
}

func benchValue(i int) []byte {
	v := bytes.Repeat([]byte(`{"t":21.5,"id":`), 7)[:100]
	v[50], v[51] = byte('a'+i%26), byte('a'+i/26)
	return v
}

func perRecord(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchRecords), "ns/record")
}

func BenchmarkIterate(b *testing.B) {
	for _, f := range framings() {
		b.Run(f.name, func(b *testing.B) {
			batch := benchBatch(b, f)
			var s Scratch
			var sum int
			b.SetBytes(int64(batch.Len()))
			b.ReportAllocs()
			for b.Loop() {
				it := batch.Iter(&s)
				for it.Next() {
					r := it.Record()
					sum += len(r.Key) + len(r.Value)
				}
				if it.Err() != nil {
					b.Fatal(it.Err())
				}
			}
			perRecord(b)
		})
	}
}

func BenchmarkParse(b *testing.B) {
	batch := benchBatch(b, framings()[0])
	for name, parse := range map[string]func([]byte) (Batch, []byte, error){"checked": Parse, "trusted": ParseTrusted} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(batch.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := parse(batch.Bytes()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, f := range framings() {
		b.Run(f.name, func(b *testing.B) {
			batch := benchBatch(b, f)
			b.ReportAllocs()
			for b.Loop() {
				if err := batch.Validate(Limits{Dense: true}); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b)
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, codec := range []Codec{None, LZ4, Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			bl := NewBuilder()
			key, value := []byte("sensors/room1"), benchValue(0)
			headers := []RecordHeader{{Key: []byte("content-type"), Value: []byte("application/json")}}
			b.ReportAllocs()
			for b.Loop() {
				bl.Reset()
				bl.SetCodec(codec)
				for i := range benchRecords {
					bl.Append(int64(i), key, value, headers)
				}
				if _, err := bl.Build(); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b)
		})
	}
}

func BenchmarkFilter(b *testing.B) {
	for _, f := range framings() {
		b.Run(f.name, func(b *testing.B) {
			batch := benchBatch(b, f)
			var s Scratch
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				out, _, err := batch.Filter(func(off int64) bool { return off%2 == 0 }, &s, dst[:0])
				if err != nil {
					b.Fatal(err)
				}
				dst = out.Bytes()
			}
			perRecord(b)
		})
	}
}
