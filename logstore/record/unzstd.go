package record

import (
	"errors"

	"github.com/klauspost/compress/zstd"
)

const (
	// A block decodes to at most 128 KiB, and one that repeats a byte takes four: no frame expands more.
	zstdBlockMax = 128 << 10
	zstdRatioMax = zstdBlockMax / 4
	// zstdSlack is room behind the output that lets the decoder copy by words.
	zstdSlack = 16
	// zstdFirstRoom is the room beyond four times the input for records of unknown size. What compresses better is decoded again with
	// four times the room, which costs at most a third more than knowing the size.
	zstdFirstRoom = 64 << 10
)

var errZstdClaim = errors.New("a frame claims more than its bytes can hold")

// unzstd decodes into a buffer that the decoder does not grow. The output is its own window, so a frame costs no memory by the window it
// claims.
func (s *Scratch) unzstd(src []byte, limit int) ([]byte, error) {
	most := min(limit, zstdRatioMax*len(src))
	var frame zstd.Header
	if frame.Decode(src) == nil && frame.HasFCS {
		if frame.FrameContentSize > uint64(limit) {
			return nil, errOverLimit
		}
		if size := int(frame.FrameContentSize); size <= most {
			out, err := s.decodeZstd(src, size+zstdSlack)
			if err == nil && len(out) <= limit {
				return out, nil
			}
			// Damaged, or there are more frames.
		}
	}

	// With room for one block more than allowed, a decoder that stops for want of room has already gone over what is allowed: its error
	// does not tell that from damage, but the length of what it decoded does.
	const spare = zstdBlockMax + zstdSlack
	room := 4*len(src) + zstdFirstRoom
	for {
		room = min(max(room, cap(s.buf)-spare), most)
		out, err := s.decodeZstd(src, room+spare)
		switch {
		case err == nil && len(out) <= limit:
			return out, nil
		case err == nil:
			return nil, errOverLimit
		case len(out) <= room && !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, err
		case room == limit:
			return nil, errOverLimit
		case room == most:
			return nil, errZstdClaim
		}
		room *= 4
	}
}

// decodeZstd decodes into the buffer, as far as size bytes reach. On error it returns what was decoded until then.
func (s *Scratch) decodeZstd(src []byte, size int) ([]byte, error) {
	if s.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		s.zstd = d
	}
	if cap(s.buf) < size {
		s.buf = make([]byte, 0, size)
	}
	return s.zstd.DecodeAll(src, s.buf[:0:size])
}
