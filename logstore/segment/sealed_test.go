package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"polylog/logstore/seed"
)

// sealedFile is a segment file with an index of these batches, whose entries are zeros.
func sealedFile(locs []Loc) []byte {
	end := uint32(HeaderSize)
	for i := range locs {
		end = max(end, locs[i].Pos+locs[i].Size)
	}
	idx, _ := BuildIndex(slices.Clone(locs), end, 5, 99)
	return append(append(Header{ID: 1, CoversTo: 1}.AppendTo(nil), make([]byte, end-HeaderSize)...), idx...)
}

func openSealed(t testing.TB, file []byte) *Sealed {
	t.Helper()
	s, err := OpenSealed(bytes.NewReader(file), int64(len(file)))
	must(t, err)
	return s
}

func sortedLocs(locs []Loc) []Loc {
	locs = slices.Clone(locs)
	slices.SortFunc(locs, func(a, b Loc) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Base, b.Base)) })
	return locs
}

// walk returns what is left of the index behind the cursor.
func walk(c *Cursor) ([]Loc, error) {
	var got []Loc
	for {
		l, err := c.Next()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, l)
	}
}

func TestSealedIndexAnswersAsANaiveSearchDoes(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for _, size := range []struct{ n, shards int }{{0, 1}, {1, 1}, {2, 2}, {40, 7}, {3000, 1}, {3000, 2}, {4000, 40}, {5000, 5000}} {
		t.Run(fmt.Sprintf("%d batches of %d shards", size.n, size.shards), func(t *testing.T) {
			locs := randomLocs(r, size.n, size.shards)
			want := sortedLocs(locs)
			file := sealedFile(locs)
			s := openSealed(t, file)
			checkTotals(t, s, want)
			if size.n >= 3000 && len(s.blocks) < 4 {
				t.Fatalf("only %d blocks: the test does not see their borders", len(s.blocks))
			}
			checkFirstBase(t, r, s, want)
			var c Cursor // reused, as a reader's is
			for range 60 {
				sh, o := uint64(r.IntN(size.shards+2)), int64(0)
				if len(locs) > 0 && r.IntN(4) > 0 {
					l := locs[r.IntN(len(locs))]
					sh, o = l.Shard, max(l.Base+r.Int64N(int64(l.Span)+2)-1, 0)
				}
				must(t, s.Seek(&c, bytes.NewReader(file), sh, o))
				got, err := walk(&c)
				must(t, err)
				i := slices.IndexFunc(want, func(l Loc) bool { return l.Shard > sh || l.Shard == sh && l.End() > o })
				if i < 0 {
					i = len(want)
				}
				if !slices.Equal(got, want[i:]) {
					t.Fatalf("from offset %d of shard %d there are %d batches, want %d", o, sh, len(got), len(want)-i)
				}
			}
		})
	}
}

// checkTotals compares what the trailer and the bitmap say with the batches.
func checkTotals(t *testing.T, s *Sealed, want []Loc) {
	t.Helper()
	offsets, newest, shards := uint64(0), int64(0), map[uint64]bool{}
	for i := range want {
		offsets += uint64(want[i].Span)
		newest = max(newest, want[i].MaxTime)
		shards[want[i].Shard] = true
	}
	if s.FirstSeq != 5 || s.LastSeq != 99 || s.Offsets != offsets || s.MaxTime != newest || int(s.Batches) != len(want) || s.Shards() != uint64(len(shards)) {
		t.Fatalf("the trailer says %+v with %d shards, want %d batches of %d shards with %d offsets and the time %d", *s, s.Shards(), len(want), len(shards), offsets, newest)
	}
	for sh := range uint64(5010) {
		if s.Has(sh) != shards[sh] {
			t.Fatalf("Has(%d) is %v", sh, s.Has(sh))
		}
	}
}

func checkFirstBase(t *testing.T, r *rand.Rand, s *Sealed, want []Loc) {
	t.Helper()
	for range min(len(want), 200) {
		sh := want[r.IntN(len(want))].Shard
		first := want[slices.IndexFunc(want, func(l Loc) bool { return l.Shard == sh })].Base
		base, exact := s.FirstBase(sh)
		if base < first || exact && base != first {
			t.Fatalf("shard %d begins at %d, FirstBase says %d, exact %v", sh, first, base, exact)
		}
	}
}

func TestOpenedIndexIsTheOneThatWasBuilt(t *testing.T) {
	t.Parallel()
	locs := randomLocs(seed.Rand(t), 2000, 30)
	end := locs[len(locs)-1].Pos + locs[len(locs)-1].Size
	idx, built := BuildIndex(locs, end, 5, 99)
	file := append(make([]byte, end), idx...)
	s := openSealed(t, file)
	if !slices.Equal(s.blocks, built.blocks) || !s.shards.Equals(built.shards) {
		t.Fatal("directory or bitmap differ")
	}
	s.blocks, s.shards, built.blocks, built.shards = nil, nil, nil, nil
	if fmt.Sprint(*s) != fmt.Sprint(*built) {
		t.Fatalf("opened %+v, built %+v", *s, *built)
	}
}

func TestMinTimePassesOverOldBlocksOnly(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	var locs []Loc
	for i := range 6000 { // ascending times, with some that are out of order
		locs = append(locs, Loc{Shard: 1, Base: int64(i), Span: 1, Pos: uint32(HeaderSize + 100*i), Size: 100, MaxTime: int64(1000+i) + r.Int64N(50)})
	}
	file := sealedFile(locs)
	s := openSealed(t, file)
	for _, minTime := range []int64{0, 1, 1000, 3000, 5555, 7000, 10_000} {
		reads := &countingReader{r: bytes.NewReader(file)}
		c := Cursor{MinTime: minTime}
		must(t, s.Seek(&c, reads, 1, 0))
		got, err := walk(&c)
		must(t, err)
		i := 0
		for _, l := range locs {
			if i < len(got) && got[i] == l {
				i++
			} else if l.MaxTime >= minTime {
				t.Fatalf("from time %d on, the batch %+v is missing", minTime, l)
			}
		}
		if i != len(got) {
			t.Fatalf("from time %d on, %d batches are there that were not written", minTime, len(got)-i)
		}
		if blocks := int64(len(s.blocks)); minTime == 7000 && reads.calls > blocks/4 || minTime == 10_000 && reads.calls != 0 {
			t.Errorf("from time %d on, %d of %d blocks were read", minTime, reads.calls, blocks)
		}
	}
}

// A producer that gives no timestamps sends -1.
func TestBatchesWithoutTimestampsAreFound(t *testing.T) {
	t.Parallel()
	locs := []Loc{{Shard: 1, Base: 0, Span: 3, MaxTime: -1, Pos: 100, Size: 70}, {Shard: 2, Base: 9, Span: 1, MaxTime: math.MinInt64, Pos: 170, Size: 70}}
	file := sealedFile(locs)
	var c Cursor
	must(t, openSealed(t, file).Seek(&c, bytes.NewReader(file), 1, 0))
	if got, err := walk(&c); err != nil || !slices.Equal(got, locs) {
		t.Fatalf("found %+v, %v", got, err)
	}
}

func TestEveryFlippedBitOfTheIndexIsFound(t *testing.T) {
	t.Parallel()
	file := sealedFile(randomLocs(seed.Rand(t), 600, 150))
	s := openSealed(t, file)
	if len(s.blocks) < 2 {
		t.Fatal("the index has one block only")
	}
	for i := int(s.DataEnd); i < len(file); i++ {
		for _, mask := range []byte{1 << (i % 8), 0xff} {
			file[i] ^= mask
			err := walkAll(file)
			isMagic := i >= len(file)-TrailerSize && i < len(file)-TrailerSize+8
			if want := map[bool]error{true: ErrNotSealed, false: ErrBadIndex}[isMagic]; !errors.Is(err, want) {
				t.Fatalf("byte %d of %d xor %02x: got %v, want %v", i, len(file), mask, err, want)
			}
			file[i] ^= mask
		}
	}
	must(t, walkAll(file))
}

// walkAll opens the index of a file and reads all of it.
func walkAll(file []byte) error {
	r := bytes.NewReader(file)
	s, err := OpenSealed(r, int64(len(file)))
	if err != nil {
		return err
	}
	var c Cursor
	if err := s.Seek(&c, r, 0, 0); err != nil {
		return err
	}
	_, err = walk(&c)
	return err
}

func TestUnsealedFilesAreNotTakenForSealed(t *testing.T) {
	t.Parallel()
	file := sealedFile(randomLocs(seed.Rand(t), 20, 3))
	for _, f := range [][]byte{nil, file[:HeaderSize], make([]byte, 1<<16), append(bytes.Clone(file), 0), file[:len(file)-1]} {
		if err := walkAll(f); !errors.Is(err, ErrNotSealed) {
			t.Errorf("%d bytes: %v", len(f), err)
		}
	}
}

// TestIndexThatCannotBeIsRefused takes indexes whose checksums are right and whose content is not: what a program that errs writes.
func TestIndexThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	good := []Loc{{Shard: 3, Base: 10, Span: 5, Pos: 100, Size: 70}, {Shard: 3, Base: 15, Span: 5, Pos: 170, Size: 80}}
	with := func(f func(l *Loc)) []byte {
		locs := slices.Clone(good)
		f(&locs[1])
		idx, _ := BuildIndex(locs, 250, 1, 2)
		return append(make([]byte, 250), idx...)
	}
	must(t, walkAll(with(func(l *Loc) {})))
	must(t, walkAll(with(func(l *Loc) { l.Span, l.Base = 1<<31, math.MaxInt64-1<<31 })))
	for name, change := range map[string]func(l *Loc){
		"no offset":               func(l *Loc) { l.Span = 0 },
		"negative offset":         func(l *Loc) { l.Base = -1 },
		"offsets without end":     func(l *Loc) { l.Base = math.MaxInt64 - 3 },
		"the same offset twice":   func(l *Loc) { l.Base = 10 },
		"in the header":           func(l *Loc) { l.Pos = HeaderSize - 1 },
		"behind the entries":      func(l *Loc) { l.Size = 81 },
		"far behind the entries":  func(l *Loc) { l.Pos, l.Size = math.MaxUint32, math.MaxUint32 },
		"larger than the file":    func(l *Loc) { l.Size = math.MaxUint32 },
		"behind 4 GiB, and wraps": func(l *Loc) { l.Pos = math.MaxUint32 - 10 },
	} {
		if err := walkAll(with(change)); !errors.Is(err, ErrBadIndex) {
			t.Errorf("%s: %v", name, err)
		}
	}
	file := with(func(l *Loc) {})
	for name, change := range map[string]func(trailer []byte){
		"sections in the header": func(b []byte) { binary.LittleEndian.PutUint32(b[40:], HeaderSize-1) },
		"directory before index": func(b []byte) { binary.LittleEndian.PutUint32(b[44:], 249) },
		"half an entry":          func(b []byte) { binary.LittleEndian.PutUint32(b[44:], binary.LittleEndian.Uint32(b[44:])+1) },
		"bitmap beyond the file": func(b []byte) { binary.LittleEndian.PutUint32(b[52:], math.MaxUint32) },
	} {
		f := bytes.Clone(file)
		b := f[len(f)-TrailerSize:]
		change(b)
		binary.LittleEndian.PutUint32(b[68:], Checksum(b[:68]))
		if err := walkAll(f); !errors.Is(err, ErrBadIndex) || !strings.Contains(err.Error(), "do not fit") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// countingReader counts what is read through it.
type countingReader struct {
	r            io.ReaderAt
	calls, bytes int64
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.r.ReadAt(p, off)
	c.calls++
	c.bytes += int64(n)
	return n, err
}
