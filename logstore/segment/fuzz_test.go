package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// allocated returns how many bytes of memory f asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func FuzzParseHeader(f *testing.F) {
	f.Add(Header{ID: 1, CoversTo: 1}.AppendTo(nil))
	f.Add(Header{Generation: 3, ID: 7, CoversTo: 12, PrevSeq: 100, LastSeq: 900, Live: 17}.AppendTo(nil))
	f.Add(Header{ID: 1 << 40, CoversTo: 1 << 41}.AppendTo([]byte{}))
	f.Add([]byte("PLOGSEG1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, repaired := range []bool{false, true} {
			b := slices.Clone(b)
			if repaired {
				rehead(b)
			}
			h, err := ParseHeader(b)
			if err != nil {
				if !errors.Is(err, ErrBadHeader) && !errors.Is(err, ErrVersion) || h != (Header{}) {
					t.Fatalf("%+v, %v", h, err)
				}
				continue
			}
			if h.ID == 0 || h.ID > h.CoversTo || h.CoversTo > MaxID {
				t.Fatalf("taken: %+v", h)
			}
			again := h.AppendTo(nil)
			if !bytes.Equal(again, b[:HeaderSize]) {
				t.Fatalf("read %x, written again %x", b[:HeaderSize], again)
			}
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	f.Add(entry(1, 0, KindTxn, []byte("meta"), []byte("body")))
	f.Add(entry(1<<60, 1<<31, KindKept, nil, nil))
	f.Add(entry(5, 0, 9, []byte("of a newer kind"), nil))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, repaired := range []bool{false, true} {
			b := slices.Clone(b)
			if repaired {
				reframe(b)
			}
			e, err := ParseEntry(b, 0)
			if err != nil {
				if !errors.Is(err, ErrBadEntry) && !errors.Is(err, ErrNoEntry) {
					t.Fatal(err)
				}
				continue
			}
			if e.Size() > len(b) || e.Size() > MaxEntry || e.Kind != KindTxn && e.Kind != KindKept {
				t.Fatalf("an entry of kind %d and %d bytes in %d", e.Kind, e.Size(), len(b))
			}
			if again := entry(e.Seq, e.Unsynced, e.Kind, e.Meta, e.Body); !bytes.Equal(again, b[:e.Size()]) {
				t.Fatalf("read %x, written again %x", b[:e.Size()], again)
			}
		}
	})
}

func FuzzScanner(f *testing.F) {
	one, two := entry(1, 0, KindTxn, []byte("one"), make([]byte, 100)), entry(2, 1, KindTxn, []byte("two"), nil)
	f.Add(slices.Concat(one, two, make([]byte, 200)), uint64(0))
	f.Add(slices.Concat(one, []byte("torn"), make([]byte, 200), two), uint64(1))
	f.Add(slices.Concat(one[:50], two, one), uint64(1))
	f.Add(entry(9, 0, KindKept, slices.Concat(one, two), two), uint64(3)) // an entry inside another's metadata
	f.Fuzz(func(t *testing.T, entries []byte, after uint64) {
		file := append(make([]byte, HeaderSize), entries...)
		// Repair the chain of entries as far as it goes, so that mutations of lengths and kinds are seen.
		for pos := HeaderSize; pos+EntryHeaderSize <= len(file); {
			size, _, ok := entryLengths(file[pos:])
			if !ok || pos+size > len(file) {
				break
			}
			if file[pos]&1 == 0 {
				reframe(file[pos:])
			}
			pos += size
		}
		s := scanner(file)
		limit := uint64(2*scanChunk + 64*len(file))
		if n := allocated(func() { scanAll(t, s, file, after) }); n > limit {
			t.Fatalf("%d bytes were allocated for a file of %d", n, len(file))
		}
	})
}

// scanAll reads all entries and goes on behind each bad place, as a repair does; what it finds must be in the file.
func scanAll(t *testing.T, s *Scanner, file []byte, after uint64) {
	for steps := 0; ; steps++ {
		if steps > len(file) {
			t.Fatal("it does not end")
		}
		pos := s.Pos()
		e, err := s.Next()
		switch {
		case err == nil:
			want, err := ParseEntry(file[pos:], 0)
			if err != nil || e.Pos != pos || e.Seq != want.Seq || !bytes.Equal(e.Meta, want.Meta) || !bytes.Equal(e.Body, want.Body) || int(s.Pos()) != int(pos)+want.Size() {
				t.Fatalf("at %d of %d: seq %d, %d bytes, want seq %d, %d bytes, %v", pos, len(file), e.Seq, e.Size(), want.Seq, want.Size(), err)
			}
			continue
		case err == io.EOF:
			if int(s.Pos()) != len(file) {
				t.Fatalf("the end is said to be at %d of %d", s.Pos(), len(file))
			}
			return
		case !errors.Is(err, ErrBadEntry) && !errors.Is(err, ErrNoEntry):
			t.Fatal(err)
		}
		if s.Pos() != pos {
			t.Fatalf("%v moved it from %d to %d", err, pos, s.Pos())
		}
		asked := 0
		found, err := s.Resync(after, func(e *Entry) bool {
			asked++
			if e.Kind == KindTxn && e.Seq <= after {
				t.Fatalf("entry %d is offered, and they must be behind %d", e.Seq, after)
			}
			return asked%3 != 0
		})
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			if s.Pos() != pos {
				t.Fatalf("a search in vain moved it from %d to %d", pos, s.Pos())
			}
			return
		}
		if s.Pos() <= pos {
			t.Fatalf("the search went from %d to %d", pos, s.Pos())
		}
	}
}

func FuzzParseBitmap(f *testing.F) {
	for _, b := range bitmaps() {
		if raw := serialized(f, b); len(raw) < 600 {
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := allocated(func() {
			set, err := ParseBitmap(raw)
			if err != nil {
				return
			}
			// Runs that touch are taken, though the library would have joined them.
			if err := set.Validate(); err != nil && !errors.Is(err, roaring.ErrRunIntervalOverlap) {
				t.Fatalf("the library refuses what was taken: %v", err)
			}
			if !set.IsEmpty() && set.Minimum() > set.Maximum() {
				t.Fatalf("it goes from %d to %d", set.Minimum(), set.Maximum())
			}
			again, err := ParseBitmap(serialized(t, set))
			if err != nil || !again.Equals(set) {
				t.Fatalf("written and read again it differs: %v", err)
			}
		})
		if n > uint64(1<<20+200*len(raw)) {
			t.Fatalf("%d bytes were allocated for %d", n, len(raw))
		}
	})
}

// reindex makes the checksums of a sealed file's index right again, as far as its sections fit.
func reindex(file []byte) {
	if len(file) < HeaderSize+TrailerSize {
		return
	}
	le := binary.LittleEndian
	t := file[len(file)-TrailerSize:]
	copy(t, trailerMagic[:])
	end := int64(len(file) - TrailerSize)
	dir, bm, bmLen := int64(le.Uint32(t[44:])), int64(le.Uint32(t[48:])), int64(le.Uint32(t[52:]))
	if dir <= bm && bm+bmLen == end {
		for d := file[dir:bm]; len(d) >= dirEntry; d = d[dirEntry:] {
			if pos, size := int64(le.Uint32(d[24:])), int64(le.Uint32(d[28:])); pos+size <= dir {
				le.PutUint32(d[32:], Checksum(file[pos:pos+size]))
			}
		}
		le.PutUint32(t[60:], Checksum(file[dir:bm]))
		le.PutUint32(t[64:], Checksum(file[bm:end]))
	}
	le.PutUint32(t[68:], Checksum(t[:68]))
}

func FuzzOpenSealed(f *testing.F) {
	f.Add(sealedFile(nil), true, uint64(1), int64(0), int64(0))
	f.Add(sealedFile([]Loc{{Shard: 1, Base: 0, Span: 1, Pos: 64, Size: 61, MaxTime: 7}, {Shard: 9, Base: 3, Span: 9, Pos: 125, Size: 100, MaxTime: -1}}), true, uint64(9), int64(5), int64(0))
	var locs []Loc
	for i := range 700 { // two blocks
		locs = append(locs, Loc{Shard: uint64(i % 40), Base: int64(i), Span: uint32(1 + i%3), Pos: uint32(64 + i%50), Size: 61, MaxTime: int64(i)})
	}
	f.Add(sealedFile(locs), true, uint64(20), int64(300), int64(600))
	f.Fuzz(func(t *testing.T, file []byte, repair bool, shard uint64, offset, minTime int64) {
		file = slices.Clone(file)
		if repair {
			reindex(file)
		}
		n := allocated(func() { checkSealed(t, file, shard, offset, minTime) })
		if n > uint64(1<<20+300*len(file)) {
			t.Fatalf("%d bytes were allocated for a file of %d", n, len(file))
		}
	})
}

// checkSealed reads an index from any bytes: it is refused, or everything in it is possible.
func checkSealed(t *testing.T, file []byte, shard uint64, offset, minTime int64) {
	r := bytes.NewReader(file)
	s, err := OpenSealed(r, int64(len(file)))
	if err != nil {
		if !errors.Is(err, ErrNotSealed) && !errors.Is(err, ErrBadIndex) {
			t.Fatal(err)
		}
		return
	}
	s.Has(shard)
	s.FirstBase(shard)
	s.Shards()
	s.IndexBytes()
	var c Cursor
	for _, from := range []struct {
		shard           uint64
		offset, minTime int64
	}{{0, 0, 0}, {shard, offset, 0}, {shard, offset, minTime}} {
		c.MinTime = from.minTime
		if err := s.Seek(&c, r, from.shard, from.offset); err != nil {
			if !errors.Is(err, ErrBadIndex) {
				t.Fatal(err)
			}
			continue
		}
		for n := 0; ; n++ {
			if n > len(file)*(1+len(s.blocks)) { // blocks may overlap, and each entry takes a byte at least
				t.Fatal("it does not end")
			}
			l, err := c.Next()
			if err != nil {
				if err != io.EOF && !errors.Is(err, ErrBadIndex) {
					t.Fatal(err)
				}
				break
			}
			if l.Base < 0 || l.End() <= l.Base || l.Pos < HeaderSize || int64(l.Pos)+int64(l.Size) > int64(s.DataEnd) || int64(s.DataEnd) > int64(len(file)) {
				t.Fatalf("impossible: %+v in a file whose entries end at %d of %d", l, s.DataEnd, len(file))
			}
		}
	}
}
