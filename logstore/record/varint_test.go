package record

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestVarintsOfEveryLength(t *testing.T) {
	t.Parallel()
	for shift := range 64 {
		for _, v := range []int64{1 << shift, 1<<shift - 1, -1 << shift, ^(-1 << shift), math.MaxInt64 >> shift, math.MinInt64 >> shift} {
			b := binary.AppendVarint([]byte("x"), v)
			if n := varlongSize(v); n != len(b)-1 {
				t.Fatalf("%d is said to take %d bytes and takes %d", v, n, len(b)-1)
			}
			if got, next := varlong(b, 1); got != v || next != len(b) {
				t.Fatalf("%d is read as %d, up to %d of %d", v, got, next, len(b))
			}
			fits := v >= math.MinInt32 && v <= math.MaxInt32
			got, next := varint(b, 1)
			if fits && (int64(got) != v || next != len(b)) || !fits && next != -1 {
				t.Fatalf("%d is read as %d, up to %d of %d", v, got, next, len(b))
			}
			if got, next := byteVarint(b, 1); (next == 2) != (len(b) == 2) || next == 2 && int64(got) != v {
				t.Fatalf("%d is read as %d from one byte", v, got)
			}
			for n := 1; n < len(b); n++ {
				_, short := varint(b[:n], 1)
				_, long := varlong(b[:n], 1)
				if _, one := byteVarint(b[:n], 1); short != -1 || long != -1 || one != -1 {
					t.Fatalf("%d cut to %d bytes is read", v, n-1)
				}
			}
		}
	}
	// More bytes than needed are allowed, as Kafka's own reader does, but not more bits.
	if v, next := varint([]byte{0x82, 0x80, 0x80, 0x80, 0x00}, 0); v != 1 || next != 5 {
		t.Errorf("read %d up to %d", v, next)
	}
	if _, next := varint([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, 0); next != -1 {
		t.Errorf("six bytes are read up to %d", next)
	}
}
