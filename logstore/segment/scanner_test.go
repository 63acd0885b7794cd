package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"polylog/logstore/seed"
)

// entriesFile is a file with a header, these entries and room zeros, and the entries' positions.
func entriesFile(room int, entries ...[]byte) (file []byte, at []uint32) {
	file = Header{ID: 1, CoversTo: 1}.AppendTo(nil)
	for _, e := range entries {
		at = append(at, uint32(len(file)))
		file = append(file, e...)
	}
	return append(file, make([]byte, room)...), at
}

func scanner(file []byte) *Scanner {
	return NewScanner(bytes.NewReader(file), 0, HeaderSize, int64(len(file)))
}

func takeAny(*Entry) bool { return true }

func TestScannerReadsAllEntriesAndSaysHowTheyEnd(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	var entries [][]byte
	for i := range 60 { // some 3 MiB: windows end inside entries
		kind := []Kind{KindTxn, KindKept}[r.IntN(2)]
		entries = append(entries, entry(uint64(i+1), uint32(i), kind, randomBytes(r, r.IntN(300)), randomBytes(r, r.IntN(1+[]int{0, 100, 200_000}[r.IntN(3)]))))
	}
	entries = append(entries, entry(61, 0, KindTxn, nil, make([]byte, 3*scanChunk))) // longer than a window
	for _, room := range []int{0, 1, EntryHeaderSize - 1, EntryHeaderSize, 3 * scanChunk} {
		file, at := entriesFile(room, entries...)
		s := scanner(file)
		for i := range entries {
			e, err := s.Next()
			must(t, err)
			if e.Seq != uint64(i+1) || e.Pos != at[i] || e.Size() != len(entries[i]) || !bytes.Equal(slices.Concat(e.Meta, e.Body), entries[i][EntryHeaderSize:]) {
				t.Fatalf("entry %d came back as seq %d at %d", i+1, e.Seq, e.Pos)
			}
			if int(s.Pos()) != int(at[i])+len(entries[i]) {
				t.Fatalf("position %d behind entry %d", s.Pos(), i+1)
			}
		}
		want := ErrNoEntry
		if room == 0 {
			want = io.EOF
		}
		for range 2 { // it stays at the end
			if _, err := s.Next(); !errors.Is(err, want) || int(s.Pos()) != len(file)-room {
				t.Fatalf("with %d zeros behind: %v at %d", room, err, s.Pos())
			}
		}
	}
}

func TestScannerNeverReadsBeyondTheEndItWasGiven(t *testing.T) {
	t.Parallel()
	file, at := entriesFile(0, entry(1, 0, KindTxn, nil, make([]byte, 500)), entry(2, 0, KindTxn, nil, make([]byte, 500)))
	for end := int64(at[1]); end <= int64(len(file)); end++ {
		limit := &limitedReader{t: t, r: bytes.NewReader(file), end: end}
		s := NewScanner(limit, 0, HeaderSize, end)
		_, err := s.Next()
		must(t, err)
		_, err = s.Next()
		switch {
		case end == int64(at[1]) && err != io.EOF, end == int64(len(file)) && err != nil:
			t.Fatalf("end %d: %v", end, err)
		case end > int64(at[1]) && end < int64(len(file)) && !errors.Is(err, ErrBadEntry):
			t.Fatalf("an entry is cut off at %d: %v", end, err)
		}
	}
}

// limitedReader fails the test when something behind end is read.
type limitedReader struct {
	t   *testing.T
	r   io.ReaderAt
	end int64
}

func (l *limitedReader) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > l.end {
		l.t.Errorf("bytes %d to %d were read, the end is %d", off, off+int64(len(p)), l.end)
	}
	return l.r.ReadAt(p, off)
}

func TestResyncFindsTheNextEntryBehindDamage(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for _, damaged := range []int{1, 400, scanChunk + 1000} { // bytes of the batches of the entry that is damaged
		file, at := entriesFile(1<<10,
			entry(1, 0, KindTxn, []byte("one"), randomBytes(r, 100)),
			entry(2, 0, KindTxn, []byte("two"), randomBytes(r, damaged)),
			entry(3, 0, KindTxn, []byte("three"), randomBytes(r, 100)),
			entry(4, 0, KindKept, []byte("four"), randomBytes(r, 100)))
		file[at[1]+9] ^= 0x40
		t.Run(fmt.Sprint(damaged), func(t *testing.T) {
			behind := func() *Scanner {
				s := scanner(file)
				_, err := s.Next()
				must(t, err)
				if _, err = s.Next(); !errors.Is(err, ErrBadEntry) || s.Pos() != at[1] {
					t.Fatalf("the damage is not seen: %v at %d", err, s.Pos())
				}
				return s
			}
			find := func(s *Scanner, after uint64, accept func(*Entry) bool, want int) {
				t.Helper()
				found, err := s.Resync(after, accept)
				must(t, err)
				if want == 0 {
					if found || s.Pos() != at[1] {
						t.Fatalf("found %v, at %d", found, s.Pos())
					}
					if _, err := s.Next(); !errors.Is(err, ErrBadEntry) {
						t.Fatalf("after a search in vain: %v", err)
					}
					return
				}
				if !found || s.Pos() != at[want-1] {
					t.Fatalf("found %v at %d, want entry %d at %d", found, s.Pos(), want, at[want-1])
				}
				for seq := want; seq <= 4; seq++ {
					e, err := s.Next()
					if err != nil || e.Seq != uint64(seq) {
						t.Fatalf("entry %d, %v; want %d", e.Seq, err, seq)
					}
				}
			}
			find(behind(), 1, takeAny, 3)
			find(behind(), 3, takeAny, 4) // what follows is older, save the kept batches, whose number is that of their origin
			find(behind(), 1, func(e *Entry) bool { return e.Kind == KindKept }, 4)
			find(behind(), 1, func(e *Entry) bool { return string(e.Meta) == "three" && e.Pos == at[2] }, 3)
			find(behind(), 1, func(*Entry) bool { return false }, 0)
		})
	}
}

// A search that found nothing had left the scanner with a window that lies behind its position.
func TestScannerGoesOnAfterASearchInVainThroughALargeFile(t *testing.T) {
	t.Parallel()
	file, at := entriesFile(3*scanChunk, entry(1, 0, KindTxn, nil, nil), []byte("no entry"))
	s := scanner(file)
	_, err := s.Next()
	must(t, err)
	if found, err := s.Resync(1, takeAny); found || err != nil || s.Pos() != at[1] {
		t.Fatalf("found %v, %v, at %d", found, err, s.Pos())
	}
	if _, err := s.Next(); !errors.Is(err, ErrBadEntry) {
		t.Fatal(err)
	}
	s.Rewind(at[0])
	if e, err := s.Next(); err != nil || e.Seq != 1 {
		t.Fatalf("entry %d, %v", e.Seq, err)
	}
}

// sparse is a file of any size that has the same byte everywhere but at its beginning.
type sparse struct {
	head  []byte
	fill  byte
	calls int64
	bytes int64
}

func (f *sparse) ReadAt(p []byte, off int64) (int, error) {
	f.calls++
	f.bytes += int64(len(p))
	for n := copy(p, []byte{f.fill}); n < len(p); n *= 2 {
		copy(p[n:], p[:n])
	}
	if off < int64(len(f.head)) {
		copy(p, f.head[off:])
	}
	return len(p), nil
}

func TestResyncSkipsZerosQuickly(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	search := func(fill byte) (time.Duration, *sparse) {
		file, _ := entriesFile(0, []byte("no entry"))
		f := &sparse{head: file, fill: fill}
		began := time.Now()
		if found, err := NewScanner(f, 0, HeaderSize, size).Resync(0, takeAny); found || err != nil {
			t.Fatalf("found %v, %v", found, err)
		}
		return time.Since(began), f
	}
	// Zeros take a tenth of what a look at every position takes. The machine may be busy, so there is more than one try.
	for tries := 0; ; tries++ {
		zeros, f := search(0)
		if f.bytes > size+size/4 || f.calls > size/scanChunk*5/4 {
			t.Fatalf("%d bytes were read in %d calls", f.bytes, f.calls)
		}
		others, _ := search(0xff)
		if zeros < others/2 {
			return
		}
		if tries == 5 {
			t.Fatalf("zeros took %v, what has to be looked at takes %v", zeros, others)
		}
	}
}

// What follows a torn entry is often the rest of compressed batches, which looks like noise: a fiftieth of all positions there can be the length of an
// entry, and so the beginning of megabytes.
func TestResyncThroughNoiseDoesNotReadItOverAndOver(t *testing.T) {
	t.Parallel()
	const noise = 256 << 10
	f := &sparse{head: randomBytes(seed.Rand(t), noise)}
	began := time.Now()
	found, err := NewScanner(f, 0, HeaderSize, 128<<20).Resync(1000, takeAny)
	if found || err != nil {
		t.Fatalf("found %v, %v", found, err)
	}
	// It takes 0.1 s, or little more where noise looks very much like a header; it took minutes when the CRC was the first thing to be asked.
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// endless is a file with an entry wherever one looks, as large as one likes.
type endless struct{ entry []byte }

func (f endless) ReadAt(p []byte, off int64) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], f.entry[(off-HeaderSize+int64(n))%int64(len(f.entry)):])
	}
	return len(p), nil
}

func TestPositionsDoNotWrapInFilesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	f := endless{entry(1, 0, KindTxn, nil, make([]byte, 1<<20))}
	const before = 1<<32/(1<<20) - 20
	s := NewScanner(f, 0, HeaderSize+uint32(before*len(f.entry)), 1<<40)
	n := 0
	for ; ; n++ {
		if n > 30 {
			t.Fatal("it goes on beyond 4 GiB")
		}
		if _, err := s.Next(); errors.Is(err, ErrBadEntry) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n < 15 || s.Pos() < math.MaxUint32-2<<20 {
		t.Fatalf("it ended after %d entries, at %d", n, s.Pos())
	}
	if _, err := s.Resync(0, func(*Entry) bool { return false }); err != nil {
		t.Fatal(err)
	}
}

// failingReader fails as a disk does.
type failingReader struct{ err error }

func (f failingReader) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestDiskErrorsAreNotTakenForDamage(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken disk")
	s := NewScanner(failingReader{broken}, 0, HeaderSize, 1000)
	if _, err := s.Next(); !errors.Is(err, broken) || errors.Is(err, ErrBadEntry) {
		t.Errorf("Next: %v", err)
	}
	if _, err := s.Resync(0, takeAny); !errors.Is(err, broken) {
		t.Errorf("Resync: %v", err)
	}
	if _, err := OpenSealed(failingReader{broken}, 1000); !errors.Is(err, broken) || errors.Is(err, ErrBadIndex) || errors.Is(err, ErrNotSealed) {
		t.Errorf("OpenSealed: %v", err)
	}
}
