package record

import (
	"encoding/binary"
	"math/bits"
)

// Most lengths and deltas take one byte. A function that reads those and calls another for the rest is too large for the compiler to
// inline, so the loop over records asks for one byte first and then for any number, a fifth faster in the whole:
//
//	n, next := byteVarint(b, pos)
//	if next < 0 {
//		n, next = varint(b, pos)
//	}

// byteVarint reads a zigzag integer of one byte at b[pos:] and returns the position behind it, or -1 if it has not one byte.
func byteVarint(b []byte, pos int) (int32, int) {
	if pos < len(b) {
		if c := int32(b[pos]); c < 0x80 {
			return c>>1 ^ -(c & 1), pos + 1
		}
	}
	return 0, -1
}

// varint reads a zigzag integer of up to five bytes at b[pos:] and returns the position behind it, or -1 if the bytes end inside it or
// it does not fit in 32 bits.
func varint(b []byte, pos int) (int32, int) {
	if pos < len(b)-1 && b[pos+1] < 0x80 && b[pos] >= 0x80 { // two bytes, as the length of most values
		u := uint32(b[pos]&0x7f) | uint32(b[pos+1])<<7
		return int32(u>>1) ^ -int32(u&1), pos + 2
	}
	u, shift := uint32(0), 0
	for ; pos < len(b); pos++ {
		c := b[pos]
		if shift == 28 && c > 0x0f {
			break
		}
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), pos + 1
		}
		shift += 7
	}
	return 0, -1
}

// varlong is varint for 64 bits and up to ten bytes.
func varlong(b []byte, pos int) (int64, int) {
	if pos >= len(b) {
		return 0, -1
	}
	v, n := binary.Varint(b[pos:])
	if n <= 0 {
		return 0, -1
	}
	return v, pos + n
}

// varlongSize returns how many bytes binary.AppendVarint takes for v. It also holds for 32 bits.
func varlongSize(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
