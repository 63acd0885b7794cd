package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// Scanner reads the entries of a segment file one after another, as recovery and `polylog check` do.
// It is used by one goroutine.
type Scanner struct {
	salt uint32 // of the segment's header
	r    io.ReaderAt
	pos  uint32 // of the next entry
	end  int64  // of the file, or of the entries if it is sealed
	buf  []byte
	from uint32 // file position of buf[0]
}

// scanChunk is how much is read at a time: large enough that a read call costs nothing beside its bytes.
const scanChunk = 1 << 20

// NewScanner scans the entries of r, a file with this salt in its header, from position pos (HeaderSize for the first) and never reads at or beyond end, nor beyond 4 GiB, where no
// segment reaches and positions end.
func NewScanner(r io.ReaderAt, salt, pos uint32, end int64) *Scanner {
	return &Scanner{r: r, salt: salt, pos: pos, end: min(end, math.MaxUint32), from: pos}
}

// Pos is the position of the entry that the next call of Next will read.
func (s *Scanner) Pos() uint32 { return s.pos }

// Next returns the next entry; it is valid until the call after. The error is ErrNoEntry at the end of what was written,
// ErrBadEntry for bytes that are no entry, io.EOF at the end of the file, else the disk's.
func (s *Scanner) Next() (Entry, error) {
	if int64(s.pos) >= s.end {
		return Entry{}, io.EOF
	}
	b, err := s.window(EntryHeaderSize)
	if err != nil {
		return Entry{}, err
	}
	if len(b) >= EntryHeaderSize {
		size, _, err := entrySize(b)
		if err != nil {
			return Entry{}, err
		}
		if int64(s.pos)+int64(size) > s.end {
			return Entry{}, fmt.Errorf("%w: claims %d bytes at position %d of %d", ErrBadEntry, size, s.pos, s.end)
		}
		if b, err = s.window(size); err != nil {
			return Entry{}, err
		}
	}
	e, err := ParseEntry(b, s.salt)
	if err != nil {
		return Entry{}, err
	}
	e.Pos = s.pos
	s.pos += uint32(e.Size())
	return e, nil
}

// window returns the bytes at the current position, at least n of them unless the file ends before.
func (s *Scanner) window(n int) ([]byte, error) {
	have := int(s.from) + len(s.buf) - int(s.pos)
	if have >= n {
		return s.buf[s.pos-s.from:], nil
	}
	want := max(n, scanChunk)
	want = int(min(int64(want), s.end-int64(s.pos)))
	if want <= have {
		return s.buf[s.pos-s.from:], nil
	}
	if cap(s.buf) < want {
		s.buf = make([]byte, 0, want)
	}
	b := s.buf[:want]
	got, err := s.r.ReadAt(b, int64(s.pos))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	s.buf, s.from = b[:got], s.pos
	return s.buf, nil
}

// Resync looks for the next whole entry behind a bad one, byte by byte, and reports whether there is one; Next returns it
// then. Its sequence number is higher than after: an older one is what an earlier life of the disk left there.
// accept may refuse a candidate (its batches do not hold what they claim).
func (s *Scanner) Resync(after uint64, accept func(*Entry) bool) (bool, error) {
	start := s.pos
	for p := int64(start) + 1; p+EntryHeaderSize <= s.end; p++ {
		s.pos = uint32(p)
		b, err := s.window(EntryHeaderSize)
		if err != nil {
			return false, err
		}
		// Most of what follows a torn tail is zeros, which are no length.
		if zeros := leadingZeros(b); zeros > EntryHeaderSize {
			p += int64(zeros - EntryHeaderSize)
			continue
		}
		if len(b) < EntryHeaderSize {
			break
		}
		size, metaLen, ok := entryLengths(b)
		if !ok || p+int64(size) > s.end || isNoise(b, after) {
			continue
		}
		// The metadata first: a candidate may claim 80 MiB of batches.
		if b, err = s.window(EntryHeaderSize + metaLen); err != nil {
			return false, err
		}
		if len(b) < EntryHeaderSize+metaLen || impliedSalt(b, metaLen) != s.salt {
			continue
		}
		if b, err = s.window(size); err != nil {
			return false, err
		}
		if e, err := ParseEntry(b, s.salt); err == nil {
			e.Pos = s.pos
			if accept(&e) {
				return true, nil
			}
		}
	}
	s.Rewind(start)
	return false, nil
}

// maxLead is how far the sequence number of an entry may be ahead of the last one known: no order comes so far in a thousand years.
const maxLead = 1 << 56

// isNoise reports whether the header at b, whose lengths are possible, is none all the same, or one that Resync does not look for. It costs nothing,
// and among random bytes lets one position in a million through: a CRC over what such a position claims as its metadata is
// one over 8 MiB.
func isNoise(b []byte, after uint64) bool {
	seq, kind := binary.LittleEndian.Uint64(b[8:]), Kind(b[23])
	return kind != KindKept && (kind != KindTxn || seq <= after) || seq > after && seq-after >= maxLead
}

// leadingZeros returns how many bytes at the start of b are zero.
func leadingZeros(b []byte) int {
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		if v := binary.LittleEndian.Uint64(b[n:]); v != 0 {
			return n + bits.TrailingZeros64(v)/8
		}
	}
	for ; n < len(b) && b[n] == 0; n++ {
	}
	return n
}

// Rewind goes back to the position of an entry that Next has returned.
func (s *Scanner) Rewind(pos uint32) {
	s.pos = pos
	if pos < s.from {
		s.buf, s.from = s.buf[:0], pos
	}
}
