package record

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/klauspost/compress/s2"
)

var (
	errSnappyChunk    = errors.New("a chunk does not fit")
	errSnappyLength   = errors.New("the declared length is impossible")
	errSnappyDialect  = errors.New("a copy from offset 0, which only the S2 dialect has")
	errSnappyVersion  = errors.New("unknown framing version")
	snappyFrame       = [8]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}
	snappyFrameHeader = len(snappyFrame) + 4 + 4 // magic, version, least compatible version
)

// unsnappy appends the decoded src to dst. Java clients write the framing of snappy-java, chunks of a big-endian length and a block
// each; others write one bare block.
func unsnappy(dst, src []byte, limit int) ([]byte, error) {
	if len(src) < len(snappyFrame) || [8]byte(src) != snappyFrame {
		return unsnappyBlock(dst, src, limit)
	}
	if len(src) < snappyFrameHeader {
		return dst, errSnappyChunk
	}
	if v := binary.BigEndian.Uint32(src[len(snappyFrame)+4:]); v != 1 {
		return dst, errSnappyVersion
	}
	src = src[snappyFrameHeader:]
	for len(src) > 0 {
		if len(src) < 4 {
			return dst, errSnappyChunk
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if int64(n) > int64(len(src)) {
			return dst, errSnappyChunk
		}
		var err error
		if dst, err = unsnappyBlock(dst, src[:n], limit); err != nil {
			return dst, err
		}
		src = src[n:]
	}
	return dst, nil
}

// maxSnappyRatio is over what a block can expand: a copy of 64 bytes takes three.
const maxSnappyRatio = 22

func unsnappyBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	switch {
	case err != nil:
		return dst, err
	case n > limit-len(dst):
		return dst, errOverLimit
	case n > maxSnappyRatio*len(src):
		return dst, errSnappyLength
	case !standardSnappy(src):
		return dst, errSnappyDialect
	}
	dst = slices.Grow(dst, n)
	if _, err := s2.Decode(dst[len(dst):len(dst)+n], src); err != nil {
		return dst, err
	}
	return dst[:len(dst)+n], nil
}

// standardSnappy tells whether a block has no copy from offset 0. The S2 decoder, which is the fast one, gives that a meaning; other
// readers of Kafka reject it. Anything else that is wrong with the block is left to the decoder.
func standardSnappy(src []byte) bool {
	_, i := binary.Uvarint(src)
	for i < len(src) {
		tag := src[i]
		n := int(tag >> 2)
		switch tag & 3 {
		case 0: // literal; from 60 on the length follows in one to four bytes
			i++
			if n >= 60 {
				width := n - 59
				if len(src)-i < width {
					return true
				}
				n = 0
				for w := range width {
					n |= int(src[i+w]) << (8 * w)
				}
				i += width
			}
			i += n + 1
			if i < 0 { // a length of over 2 GiB where int has 32 bits
				return true
			}
		case 1: // offset of 11 bits
			if i+1 < len(src) && tag>>5 == 0 && src[i+1] == 0 {
				return false
			}
			i += 2
		case 2: // offset of 16 bits
			if i+2 < len(src) && src[i+1]|src[i+2] == 0 {
				return false
			}
			i += 3
		case 3: // offset of 32 bits
			if i+4 < len(src) && src[i+1]|src[i+2]|src[i+3]|src[i+4] == 0 {
				return false
			}
			i += 5
		}
	}
	return true
}
