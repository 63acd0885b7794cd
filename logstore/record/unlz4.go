package record

import (
	"encoding/binary"
	"errors"

	"github.com/pierrec/lz4/v4"
)

var (
	errLZ4Frame     = errors.New("not one whole frame")
	errLZ4Dependent = errors.New("blocks that depend on each other, which Kafka's own reader does not take")
)

// The fixed part of a frame: magic, flags, block size; then the content's size if the flags say so, and a checksum of the header.
const (
	lz4FrameMagic     = 0x184D2204
	lz4FlagsPos       = 4
	lz4SizePos        = 6
	lz4ContentSum     = 1 << 2
	lz4ContentSize    = 1 << 3
	lz4BlockSum       = 1 << 4
	lz4BlocksApart    = 1 << 5
	lz4HeaderMin      = 7
	lz4BlockLengthMax = 1<<31 - 1 // the top bit says that the block is not compressed
)

func (s *Scratch) unlz4(src []byte, limit int) ([]byte, error) {
	if err := checkLZ4Frame(src, limit); err != nil {
		return nil, err
	}
	if s.lz4 == nil {
		s.lz4 = lz4.NewReader(nil) // by default it decodes in the caller's goroutine
	}
	s.in.Reset(src)
	s.lz4.Reset(&s.in)
	out, err := s.readAll(s.lz4, len(src), limit)
	s.in.Reset(nil)
	s.lz4.Reset(&s.in) // returns its block buffer to its pool
	return out, err
}

// checkLZ4Frame holds src to what Kafka's readers take: exactly one frame of independent blocks. The decoder would also take frames in a
// row and those of the older kernel format; a batch with them would pass here and fail in a consumer.
func checkLZ4Frame(src []byte, limit int) error {
	if len(src) < lz4HeaderMin || binary.LittleEndian.Uint32(src) != lz4FrameMagic {
		return errLZ4Frame
	}
	flags := src[lz4FlagsPos]
	if flags&lz4BlocksApart == 0 {
		return errLZ4Dependent
	}
	pos, blockSum := lz4HeaderMin, 0
	if flags&lz4BlockSum != 0 {
		blockSum = 4
	}
	if flags&lz4ContentSize != 0 {
		pos += 8
		if len(src) >= pos && binary.LittleEndian.Uint64(src[lz4SizePos:]) > uint64(limit) {
			return errOverLimit
		}
	}
	for {
		if len(src)-pos < 4 {
			return errLZ4Frame
		}
		n := int(binary.LittleEndian.Uint32(src[pos:]) & lz4BlockLengthMax)
		pos += 4
		if n == 0 {
			break
		}
		if n > len(src)-pos-blockSum {
			return errLZ4Frame
		}
		pos += n + blockSum
	}
	if flags&lz4ContentSum != 0 {
		pos += 4
	}
	if pos != len(src) {
		return errLZ4Frame
	}
	return nil
}
