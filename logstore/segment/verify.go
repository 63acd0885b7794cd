package segment

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// IndexError says where the index of a sealed segment is not what the entries make it. It unwraps to ErrBadIndex.
type IndexError struct {
	Pos  int64 // in the file
	What string
}

func (e *IndexError) Error() string {
	return fmt.Sprintf("%v at position %d: %s", ErrBadIndex, e.Pos, e.What)
}
func (e *IndexError) Unwrap() error { return ErrBadIndex }

// Verify holds the index to the entries of its file, which r reads and which is size bytes long: locs are all batches in them, in any order, and are sorted in
// place. Every location is compared, and so is what the directory, the bitmap and the trailer say of them; the sequence numbers are the caller's to judge. The
// error is an *IndexError, or the disk's.
func (s *Sealed) Verify(r io.ReaderAt, size int64, locs []Loc) error {
	slices.SortFunc(locs, func(a, b Loc) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Base, b.Base))
	})
	end, err := s.verifyBlocks(r, locs)
	if err != nil {
		return err
	}
	var t [TrailerSize]byte
	trailer := size - TrailerSize
	if err := ReadFull(r, t[:], trailer); err != nil {
		return err
	}
	if dir := binary.LittleEndian.Uint32(t[44:]); dir != end {
		return &IndexError{int64(end), fmt.Sprintf("the blocks end here, and the directory begins at %d", dir)}
	}
	var offsets, shards uint64
	maxTime := int64(0) // as BuildIndex has it: times before 1970 do not show
	for i := range locs {
		l := &locs[i]
		offsets += uint64(l.Span)
		maxTime = max(maxTime, l.MaxTime)
		if i == 0 || l.Shard != locs[i-1].Shard {
			shards++
			if !s.Has(l.Shard) {
				return &IndexError{int64(binary.LittleEndian.Uint32(t[48:])), fmt.Sprintf("the bitmap lacks shard %d", l.Shard)}
			}
		}
	}
	if n := s.Shards(); n != shards {
		return &IndexError{int64(binary.LittleEndian.Uint32(t[48:])), fmt.Sprintf("the bitmap has %d shards, the entries %d", n, shards)}
	}
	if s.Offsets != offsets || int(s.Batches) != len(locs) || s.MaxTime != maxTime {
		return &IndexError{trailer, fmt.Sprintf("the trailer says %d batches, %d offsets and the time %d, the entries %d, %d and %d",
			s.Batches, s.Offsets, s.MaxTime, len(locs), offsets, maxTime)}
	}
	return nil
}

// verifyBlocks compares the blocks with the sorted locs, and returns where the last one ends.
func (s *Sealed) verifyBlocks(r io.ReaderAt, locs []Loc) (end uint32, err error) {
	c := Cursor{s: s, r: r, blk: -1}
	end = s.DataEnd
	var newest int64
	for i := 0; ; i++ {
		before := c.blk
		l, err := c.Next()
		at := func() int64 { return int64(s.blocks[min(c.blk, len(s.blocks)-1)].pos) }
		if c.blk > before && before >= 0 && s.blocks[before].maxTime != newest {
			return 0, &IndexError{int64(s.blocks[before].pos), fmt.Sprintf("the directory says that the block's newest time is %d, it is %d", s.blocks[before].maxTime, newest)}
		}
		switch {
		case err == io.EOF && i == len(locs):
			return end, nil
		case err == io.EOF:
			return 0, &IndexError{int64(end), fmt.Sprintf("the index ends before the batch at offset %d of shard %d", locs[i].Base, locs[i].Shard)}
		case errors.Is(err, ErrBadIndex):
			return 0, &IndexError{at(), err.Error()}
		case err != nil:
			return 0, err
		case i == len(locs):
			return 0, &IndexError{at(), fmt.Sprintf("the index has a batch at offset %d of shard %d, the entries have not", l.Base, l.Shard)}
		case l != locs[i]:
			return 0, &IndexError{at(), fmt.Sprintf("the index says %+v, the entries %+v", l, locs[i])}
		}
		if c.blk > before {
			b := &s.blocks[c.blk]
			if c.blk != before+1 || b.pos != end || b.shard != l.Shard || b.base != l.Base {
				return 0, &IndexError{at(), fmt.Sprintf("the directory says that block %d begins at %d with offset %d of shard %d; it is %d, at %d with offset %d of shard %d",
					c.blk, b.pos, b.base, b.shard, before+1, end, l.Base, l.Shard)}
			}
			end, newest = b.pos+b.size, math.MinInt64
		}
		newest = max(newest, l.MaxTime)
	}
}

// VerifyBlocks reads every block of the index, which r reads, and compares the checksums. The error matches ErrBadIndex, or is the disk's.
func (s *Sealed) VerifyBlocks(r io.ReaderAt) error {
	c := Cursor{s: s, r: r, blk: -1}
	for {
		if _, err := c.Next(); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// DamagedTrailer returns an *IndexError if the file of size bytes, which OpenSealed took for one that was not sealed, ends in a trailer with damaged magic, and nil if
// it was not sealed.
func DamagedTrailer(r io.ReaderAt, size int64) error {
	if size < HeaderSize+TrailerSize {
		return nil
	}
	var t [TrailerSize]byte
	if err := ReadFull(r, t[:], size-TrailerSize); err != nil {
		return nil
	}
	magic := t[:8:8]
	was := string(magic)
	copy(magic, trailerMagic[:])
	if was == string(magic) || Checksum(t[:68]) != binary.LittleEndian.Uint32(t[68:]) {
		return nil
	}
	return &IndexError{size - TrailerSize, fmt.Sprintf("the trailer's magic is %q", was)}
}
