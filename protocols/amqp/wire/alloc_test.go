package wire

import (
	"bytes"
	"testing"

	"polylog/protocols/stream"
)

// again reads the same bytes for ever.
type again struct {
	data []byte
	at   int
}

func (a *again) Read(p []byte) (int, error) {
	n := copy(p, a.data[a.at:])
	a.at = (a.at + n) % len(a.data)
	return n, nil
}

func TestReadingAPublishAllocatesNothing(t *testing.T) {
	raw := (&BasicPublish{RoutingKey: []byte("orders")}).AppendFrame(nil, 1)
	raw = AppendContent(raw, 1, []byte{0x10, 0, 2}, make([]byte, 10_000), FrameMin)
	r := NewReader(stream.NewReader(&again{data: raw}, 0), FrameMin)
	next := func() Frame {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	allocs := testing.AllocsPerRun(500, func() {
		id, args, err := SplitMethod(next().Payload)
		var m BasicPublish
		if err != nil || id != BasicPublishID || m.Decode(args) != nil || string(m.RoutingKey) != "orders" {
			t.Fatalf("%s %v %+v", id, err, m)
		}
		h, err := ParseHeader(next().Payload)
		if err != nil || len(h.Properties) != 3 {
			t.Fatalf("%+v %v", h, err)
		}
		for left := h.BodySize; left > 0; {
			left -= uint64(len(next().Payload))
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestWritingADeliveryAllocatesNothing(t *testing.T) {
	tag, key, properties, body := []byte("amq.ctag-1"), []byte("orders"), []byte{0x10, 0, 2}, make([]byte, 10_000)
	var dst []byte
	allocs := testing.AllocsPerRun(500, func() {
		dst = (&BasicDeliver{ConsumerTag: tag, DeliveryTag: 7, RoutingKey: key}).AppendFrame(dst[:0], 1)
		dst = AppendContent(dst, 1, properties, body, FrameMin)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkReadPublish(b *testing.B) {
	raw := (&BasicPublish{RoutingKey: []byte("orders")}).AppendFrame(nil, 1)
	raw = AppendContent(raw, 1, []byte{0x10, 0, 2}, make([]byte, 1024), 131072)
	raw = bytes.Repeat(raw, 64)
	r := NewReader(stream.NewReader(&again{data: raw}, 0), 131072)
	b.SetBytes(int64(len(raw) / 64))
	b.ReportAllocs()
	for b.Loop() {
		for range 3 {
			f, err := r.Next()
			if err != nil {
				b.Fatal(err)
			}
			if f.Type == FrameMethod {
				_, args, _ := SplitMethod(f.Payload)
				var m BasicPublish
				if err := m.Decode(args); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

func BenchmarkWriteDelivery(b *testing.B) {
	tag, key, properties, body := []byte("amq.ctag-1"), []byte("orders"), []byte{0x10, 0, 2}, make([]byte, 1024)
	var dst []byte
	b.SetBytes(1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = (&BasicDeliver{ConsumerTag: tag, DeliveryTag: 7, RoutingKey: key}).AppendFrame(dst[:0], 1)
		dst = AppendContent(dst, 1, properties, body, 131072)
	}
}
