package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
)

// message is a record with everything resolved, as the tests compare it.
type message struct {
	offset, timestamp int64
	key, value        []byte
	headers           []RecordHeader
}

func (m message) equal(o message) bool {
	return m.offset == o.offset && m.timestamp == o.timestamp && sameBytes(m.key, o.key) && sameBytes(m.value, o.value) &&
		slices.EqualFunc(m.headers, o.headers, func(a, b RecordHeader) bool { return bytes.Equal(a.Key, b.Key) && sameBytes(a.Value, b.Value) })
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func sameMessages(t testing.TB, got, want []message) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		if !got[i].equal(want[i]) {
			t.Fatalf("record %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

// collect reads as far as it goes. The messages do not share memory with s.
func collect(b Batch, s *Scratch) ([]message, error) {
	var ms []message
	it := b.Iter(s)
	for it.Next() {
		r := it.Record()
		m := message{offset: it.Offset(), timestamp: it.Timestamp(), key: bytes.Clone(r.Key), value: bytes.Clone(r.Value)}
		for h := r.Headers(); h.Next(); {
			m.headers = append(m.headers, RecordHeader{Key: bytes.Clone(h.Header().Key), Value: bytes.Clone(h.Header().Value)})
		}
		if len(m.headers) != r.HeaderCount() {
			return ms, errors.New("the header count differs from the headers")
		}
		ms = append(ms, m)
	}
	return ms, it.Err()
}

func read(t testing.TB, b Batch) []message {
	t.Helper()
	ms, err := collect(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// rawRecord encodes a record without the Builder.
func rawRecord(offsetDelta int32, tsDelta int64, key, value []byte, headers []RecordHeader) []byte {
	nullable := func(dst, p []byte) []byte {
		if p == nil {
			return binary.AppendVarint(dst, -1)
		}
		return append(binary.AppendVarint(dst, int64(len(p))), p...)
	}
	body := []byte{0}
	body = binary.AppendVarint(body, tsDelta)
	body = binary.AppendVarint(body, int64(offsetDelta))
	body = nullable(nullable(body, key), value)
	body = binary.AppendVarint(body, int64(len(headers)))
	for _, h := range headers {
		body = nullable(append(binary.AppendVarint(body, int64(len(h.Key))), h.Key...), h.Value)
	}
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// assemble makes a batch of any header and payload, coherent or not. Only length and CRC are right.
func assemble(h Header, payload []byte) []byte {
	return h.seal(append(make([]byte, HeaderSize), payload...)).raw
}

// framing is a codec and, where there are several, the way to frame it.
type framing struct {
	name  string
	codec Codec
	pack  func(t testing.TB, records []byte) []byte
}

func framings() []framing {
	return []framing{
		{"none", None, func(_ testing.TB, p []byte) []byte { return p }},
		{"gzip", Gzip, packGzip},
		{"snappy block", Snappy, func(_ testing.TB, p []byte) []byte { return snappy.Encode(nil, p) }},
		{"snappy java", Snappy, packSnappyJava},
		{"lz4", LZ4, packWith(LZ4)},
		{"zstd", Zstd, packWith(Zstd)},
	}
}

func packGzip(t testing.TB, p []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	return packed(t, w, &out, p)
}

// packed writes p to w, which writes to out, and returns what came out.
func packed(t testing.TB, w io.WriteCloser, out *bytes.Buffer, p []byte) []byte {
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func packSnappyJava(_ testing.TB, p []byte) []byte {
	out := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	for chunk := range slices.Chunk(p, 32<<10) {
		block := snappy.Encode(nil, chunk)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
	}
	return out
}

func packWith(codec Codec) func(testing.TB, []byte) []byte {
	return func(t testing.TB, p []byte) []byte {
		var c compressor
		out, err := c.compress(codec, nil, p)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// repack gives an uncompressed batch another codec.
func repack(t testing.TB, b Batch, f framing) Batch {
	t.Helper()
	h := decodeHeader(b.raw)
	h.Attributes |= int16(f.codec)
	out, rest, err := Parse(assemble(h, f.pack(t, b.Payload())))
	if err != nil || len(rest) != 0 {
		t.Fatalf("repacking as %s: %v, %d bytes left", f.name, err, len(rest))
	}
	return out
}

// sample builds a batch of n records of mixed shapes.
func sample(t testing.TB, n int) (Batch, []message) {
	t.Helper()
	bl := NewBuilder()
	bl.SetBaseOffset(1000)
	bl.SetProducer(7, 1, 100)
	var ms []message
	for i := range n {
		m := message{offset: 1000 + int64(i), timestamp: 1700000000000 + int64(i*37%100)}
		if i%3 != 0 {
			m.key = bytes.Repeat([]byte("key"), i%7)
			m.key = append([]byte{}, m.key...)
		}
		if i%5 != 0 {
			m.value = append([]byte{}, bytes.Repeat([]byte("value "), i%60)...)
		}
		for j := range i % 4 {
			h := RecordHeader{Key: []byte("header")}
			if j%2 == 0 {
				h.Value = []byte("content")
			}
			m.headers = append(m.headers, h)
		}
		bl.Append(m.timestamp, m.key, m.value, m.headers)
		ms = append(ms, m)
	}
	raw, err := bl.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return b, ms
}

func wantKind(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error is %v, want %v", err, kind)
	}
	if e := (*Error)(nil); !errors.As(err, &e) || e.Detail == "" {
		t.Fatalf("error %v is not an *Error with a detail", err)
	}
}
