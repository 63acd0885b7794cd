package record

import (
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// errOverLimit is what the decoders return when the records do not fit in the limit.
var errOverLimit = errors.New("over the limit")

// decompress returns the records of a compressed batch in the buffer of s, or in a new one if s is nil.
func (b Batch) decompress(s *Scratch) ([]byte, error) {
	if s == nil {
		s = borrowScratch()
		defer s.giveBack()
		keep := s.buf
		s.buf = nil
		defer func() { s.buf = keep }()
	}
	var out []byte
	var err error
	src, limit := b.Payload(), s.limit()
	switch b.Codec() {
	case Gzip:
		out, err = s.gunzip(src, limit)
	case Snappy:
		out, err = unsnappy(s.buf[:0], src, limit)
		s.buf = out
	case LZ4:
		out, err = s.unlz4(src, limit)
	case Zstd:
		out, err = s.unzstd(src, limit)
	}
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, errOverLimit):
		return nil, failure(ErrTooLarge, b.BaseOffset(), "%d bytes of %v hold more than the %d bytes of records allowed", len(src), b.Codec(), limit)
	default:
		return nil, failure(ErrMalformed, b.BaseOffset(), "%d bytes are not %v: %v", len(src), b.Codec(), err)
	}
}

func (s *Scratch) gunzip(src []byte, limit int) ([]byte, error) {
	if s.gzip == nil {
		s.gzip = new(gzip.Reader)
	}
	s.in.Reset(src)
	defer s.in.Reset(nil)
	if err := s.gzip.Reset(&s.in); err != nil {
		return nil, unexpected(err)
	}
	return s.readAll(s.gzip, len(src), limit)
}

// firstRead is the least room to begin with; growth by doubling starts there.
const firstRead = 4 << 10

// readAll fills the buffer from r to its end. The buffer grows with what arrives and never past the limit.
func (s *Scratch) readAll(r io.Reader, compressed, limit int) ([]byte, error) {
	buf := s.buf[:0]
	if room := min(max(firstRead, 2*compressed), limit+1); cap(buf) < room {
		buf = make([]byte, 0, room)
	}
	defer func() { s.buf = buf }()
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > limit:
			return nil, errOverLimit
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, unexpected(err)
		}
		if len(buf) == cap(buf) { // here cap(buf) <= limit, so there is room for one byte that proves the excess
			grown := make([]byte, len(buf), min(2*cap(buf), limit+1))
			copy(grown, buf)
			buf = grown
		}
	}
}

// unexpected keeps an end inside the compressed bytes from being taken for their end.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
