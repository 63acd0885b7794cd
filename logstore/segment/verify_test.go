package segment

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"polylog/logstore/seed"
)

func TestVerifyAcceptsTheIndexOfItsEntries(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for _, n := range []int{0, 1, 2, 3000} {
		locs := randomLocs(r, n, 40)
		file := sealedFile(locs)
		r.Shuffle(len(locs), func(i, j int) { locs[i], locs[j] = locs[j], locs[i] })
		if err := openSealed(t, file).Verify(bytes.NewReader(file), int64(len(file)), locs); err != nil {
			t.Errorf("%d batches: %v", n, err)
		}
	}
}

func TestVerifyFindsEveryDifference(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	locs := sortedLocs(randomLocs(r, 3000, 40))
	file := sealedFile(locs)
	if n := len(openSealed(t, file).blocks); n < 3 {
		t.Fatalf("the index has %d blocks", n)
	}
	differ := func(what string, change func(s *Sealed, locs []Loc) []Loc) {
		t.Helper()
		s := openSealed(t, file)
		changed := change(s, slices.Clone(locs))
		err := s.Verify(bytes.NewReader(file), int64(len(file)), changed)
		var at *IndexError
		if !errors.As(err, &at) || !errors.Is(err, ErrBadIndex) || at.Pos < int64(s.DataEnd) || at.Pos >= int64(len(file)) {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	ofLoc := func(what string, change func(l *Loc)) {
		t.Helper()
		differ(what, func(_ *Sealed, locs []Loc) []Loc { change(&locs[r.IntN(len(locs))]); return locs })
	}
	ofIndex := func(what string, change func(s *Sealed)) {
		t.Helper()
		differ(what, func(s *Sealed, locs []Loc) []Loc { change(s); return locs })
	}
	for range 20 {
		ofLoc("shard", func(l *Loc) { l.Shard += 1000 })
		ofLoc("offset", func(l *Loc) { l.Base++ })
		ofLoc("time", func(l *Loc) { l.MaxTime++ })
		ofLoc("position", func(l *Loc) { l.Pos++ })
		ofLoc("size", func(l *Loc) { l.Size++ })
		ofLoc("span", func(l *Loc) { l.Span++ })
		differ("a batch less", func(_ *Sealed, locs []Loc) []Loc { i := r.IntN(len(locs)); return slices.Delete(locs, i, i+1) })
		differ("a batch more", func(_ *Sealed, locs []Loc) []Loc {
			l := locs[r.IntN(len(locs))]
			l.Base += 1 << 40
			return append(locs, l)
		})
		ofIndex("directory: shard", func(s *Sealed) { s.blocks[r.IntN(len(s.blocks))].shard++ })
		ofIndex("directory: offset", func(s *Sealed) { s.blocks[r.IntN(len(s.blocks))].base-- })
		ofIndex("directory: time", func(s *Sealed) { s.blocks[r.IntN(len(s.blocks))].maxTime++ })
		ofIndex("directory: checksum", func(s *Sealed) { s.blocks[r.IntN(len(s.blocks))].crc++ })
		ofIndex("directory: a block less", func(s *Sealed) { i := r.IntN(len(s.blocks)); s.blocks = slices.Delete(s.blocks, i, i+1) })
	}
	ofIndex("bitmap: a shard more", func(s *Sealed) { s.shards.Add(12345) })
	ofIndex("bitmap: a shard less", func(s *Sealed) { s.shards.Remove(locs[0].Shard) })
	ofIndex("trailer: batches", func(s *Sealed) { s.Batches++ })
	ofIndex("trailer: offsets", func(s *Sealed) { s.Offsets++ })
	ofIndex("trailer: time", func(s *Sealed) { s.MaxTime-- })
}

func TestVerifyBlocksReadsAllOfThem(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	file := sealedFile(randomLocs(r, 3000, 40))
	s := openSealed(t, file)
	if err := s.VerifyBlocks(bytes.NewReader(file)); err != nil {
		t.Errorf("of a good index: %v", err)
	}
	for i, b := range s.blocks {
		bad := slices.Clone(file)
		bad[b.pos+r.Uint32N(b.size)] ^= byte(1 + r.IntN(255))
		if err := s.VerifyBlocks(bytes.NewReader(bad)); !errors.Is(err, ErrBadIndex) {
			t.Errorf("with block %d damaged: %v", i, err)
		}
	}
}

func TestADamagedTrailerIsToldFromNone(t *testing.T) {
	t.Parallel()
	file := sealedFile(randomLocs(rand.New(rand.NewPCG(1, 1)), 10, 2))
	damaged := func(b []byte) error { return DamagedTrailer(bytes.NewReader(b), int64(len(b))) }
	for i := range 8 {
		bad := slices.Clone(file)
		bad[len(bad)-TrailerSize+i] ^= 0x20
		if _, err := OpenSealed(bytes.NewReader(bad), int64(len(bad))); !errors.Is(err, ErrNotSealed) {
			t.Errorf("without its magic: %v", err)
		}
		if err := damaged(bad); !errors.Is(err, ErrBadIndex) {
			t.Errorf("byte %d of the magic is damaged: %v", i, err)
		}
	}
	for _, b := range [][]byte{nil, file, file[:len(file)-1], file[:HeaderSize+TrailerSize], make([]byte, 4096)} {
		if err := damaged(b); err != nil {
			t.Errorf("of %d bytes: %v", len(b), err)
		}
	}
}
