package segment

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// TrailerSize is the number of bytes at the end of a sealed segment file.
//
//	 0  [8]  "PLOGIDX1"
//	 8  u64  first sequence number of the file's entries (0: none)
//	16  u64  last sequence number
//	24  u64  offsets indexed (sum of all spans)
//	32  i64  highest record timestamp, ms
//	40  u32  end of the entries = start of the index blocks
//	44  u32  start of the block directory
//	48  u32  start of the shard bitmap
//	52  u32  length of the shard bitmap
//	56  u32  number of batches indexed
//	60  u32  CRC-32C of the directory
//	64  u32  CRC-32C of the bitmap
//	68  u32  CRC-32C of bytes 0 .. 68 of the trailer
const TrailerSize = 72

var trailerMagic = [8]byte{'P', 'L', 'O', 'G', 'I', 'D', 'X', '1'}

const (
	blockTarget = 4 << 10 // bytes of an index block: one page read finds a batch
	dirEntry    = 36      // u64 shard, i64 base, i64 highest timestamp, u32 position, u32 length, u32 CRC-32C of the block
)

// ErrBadIndex means that the index of a sealed segment is damaged; it can be made anew from the entries.
var ErrBadIndex = errors.New("bad segment index")

// ErrNotSealed means that the file has no trailer: it was still open when the process ended.
var ErrNotSealed = errors.New("segment is not sealed")

// block is one directory entry.
type block struct {
	shard   uint64
	base    int64
	maxTime int64
	pos     uint32
	size    uint32
	crc     uint32
}

// Sealed is the index of a sealed segment: the directory is held in memory (36 bytes for about 500 batches), the blocks
// are read when needed. It is immutable.
type Sealed struct {
	FirstSeq, LastSeq uint64
	Offsets           uint64
	MaxTime           int64
	DataEnd           uint32
	Batches           uint32
	blocks            []block
	shards            *roaring64.Bitmap
}

// BuildIndex encodes the index of a segment: what stands in the file from position dataEnd to its end. locs is sorted in place, by shard
// and offset.
func BuildIndex(locs []Loc, dataEnd uint32, firstSeq, lastSeq uint64) ([]byte, *Sealed) {
	slices.SortFunc(locs, func(a, b Loc) int {
		if a.Shard != b.Shard {
			return cmp.Compare(a.Shard, b.Shard)
		}
		return cmp.Compare(a.Base, b.Base)
	})
	s := &Sealed{FirstSeq: firstSeq, LastSeq: lastSeq, DataEnd: dataEnd, Batches: uint32(len(locs)), shards: roaring64.New()}
	out := make([]byte, 0, len(locs)*9+TrailerSize+64)
	for i := 0; i < len(locs); {
		start := len(out)
		b := block{shard: locs[i].Shard, base: locs[i].Base, maxTime: locs[i].MaxTime, pos: dataEnd + uint32(start)}
		var prev Loc
		for first := true; i < len(locs) && len(out)-start < blockTarget; i++ {
			l := locs[i]
			if first || l.Shard != prev.Shard {
				s.shards.Add(l.Shard)
			}
			out = appendLoc(out, &prev, &l, first)
			b.maxTime = max(b.maxTime, l.MaxTime)
			s.Offsets += uint64(l.Span)
			prev, first = l, false
		}
		s.MaxTime = max(s.MaxTime, b.maxTime)
		b.size = uint32(len(out) - start)
		b.crc = Checksum(out[start:])
		s.blocks = append(s.blocks, b)
	}
	dirPos := uint32(len(out))
	for _, b := range s.blocks {
		out = binary.LittleEndian.AppendUint64(out, b.shard)
		out = binary.LittleEndian.AppendUint64(out, uint64(b.base))
		out = binary.LittleEndian.AppendUint64(out, uint64(b.maxTime))
		out = binary.LittleEndian.AppendUint32(out, b.pos)
		out = binary.LittleEndian.AppendUint32(out, b.size)
		out = binary.LittleEndian.AppendUint32(out, b.crc)
	}
	bmPos := uint32(len(out))
	s.shards.RunOptimize()
	bm, err := s.shards.MarshalBinary()
	if err != nil {
		panic("segment: encoding a bitmap in memory failed: " + err.Error())
	}
	out = append(out, bm...)
	var t [TrailerSize]byte
	copy(t[:], trailerMagic[:])
	binary.LittleEndian.PutUint64(t[8:], firstSeq)
	binary.LittleEndian.PutUint64(t[16:], lastSeq)
	binary.LittleEndian.PutUint64(t[24:], s.Offsets)
	binary.LittleEndian.PutUint64(t[32:], uint64(s.MaxTime))
	binary.LittleEndian.PutUint32(t[40:], dataEnd)
	binary.LittleEndian.PutUint32(t[44:], dataEnd+dirPos)
	binary.LittleEndian.PutUint32(t[48:], dataEnd+bmPos)
	binary.LittleEndian.PutUint32(t[52:], uint32(len(bm)))
	binary.LittleEndian.PutUint32(t[56:], s.Batches)
	binary.LittleEndian.PutUint32(t[60:], Checksum(out[dirPos:bmPos]))
	binary.LittleEndian.PutUint32(t[64:], Checksum(bm))
	binary.LittleEndian.PutUint32(t[68:], Checksum(t[:68]))
	return append(out, t[:]...), s
}

// appendLoc encodes one batch's location: the first of a block in full, the others by what differs from the one before.
func appendLoc(out []byte, prev, l *Loc, first bool) []byte {
	if first {
		*prev = Loc{}
	}
	out = binary.AppendUvarint(out, l.Shard-prev.Shard)
	if first || l.Shard != prev.Shard {
		out = binary.AppendUvarint(out, uint64(l.Base))
	} else {
		out = binary.AppendUvarint(out, uint64(l.Base-prev.End()))
	}
	out = binary.AppendVarint(out, int64(l.Pos)-int64(prev.Pos)-int64(prev.Size))
	out = binary.AppendUvarint(out, uint64(l.Size))
	out = binary.AppendUvarint(out, uint64(l.Span))
	return binary.AppendVarint(out, l.MaxTime-prev.MaxTime)
}

// OpenSealed reads the trailer, directory and bitmap of a sealed segment of size bytes.
func OpenSealed(r io.ReaderAt, size int64) (*Sealed, error) {
	if size < HeaderSize+TrailerSize {
		return nil, ErrNotSealed
	}
	var t [TrailerSize]byte
	if err := ReadFull(r, t[:], size-TrailerSize); err != nil {
		return nil, err
	}
	if [8]byte(t[:8]) != trailerMagic {
		return nil, ErrNotSealed
	}
	if got, want := Checksum(t[:68]), binary.LittleEndian.Uint32(t[68:]); got != want {
		return nil, fmt.Errorf("%w: trailer CRC is %08x, stored %08x", ErrBadIndex, got, want)
	}
	u32 := func(i int) uint32 { return binary.LittleEndian.Uint32(t[i:]) }
	s := &Sealed{
		FirstSeq: binary.LittleEndian.Uint64(t[8:]), LastSeq: binary.LittleEndian.Uint64(t[16:]),
		Offsets: binary.LittleEndian.Uint64(t[24:]), MaxTime: int64(binary.LittleEndian.Uint64(t[32:])),
		DataEnd: u32(40), Batches: u32(56),
	}
	dirPos, bmPos, bmLen := int64(u32(44)), int64(u32(48)), int64(u32(52))
	if int64(s.DataEnd) < HeaderSize || dirPos < int64(s.DataEnd) || bmPos < dirPos || (bmPos-dirPos)%dirEntry != 0 || bmPos+bmLen != size-TrailerSize {
		return nil, fmt.Errorf("%w: sections at %d, %d, %d do not fit a file of %d bytes", ErrBadIndex, s.DataEnd, dirPos, bmPos, size)
	}
	buf := make([]byte, bmPos+bmLen-dirPos)
	if err := ReadFull(r, buf, dirPos); err != nil {
		return nil, err
	}
	dir, bm := buf[:bmPos-dirPos], buf[bmPos-dirPos:]
	if got := Checksum(dir); got != u32(60) {
		return nil, fmt.Errorf("%w: directory CRC is %08x, stored %08x", ErrBadIndex, got, u32(60))
	}
	if got := Checksum(bm); got != u32(64) {
		return nil, fmt.Errorf("%w: bitmap CRC is %08x, stored %08x", ErrBadIndex, got, u32(64))
	}
	var err error
	if s.shards, err = ParseBitmap(bm); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBadIndex, err)
	}
	s.blocks = make([]block, len(dir)/dirEntry)
	for i := range s.blocks {
		d := dir[i*dirEntry:]
		b := block{
			shard: binary.LittleEndian.Uint64(d), base: int64(binary.LittleEndian.Uint64(d[8:])),
			maxTime: int64(binary.LittleEndian.Uint64(d[16:])),
			pos:     binary.LittleEndian.Uint32(d[24:]), size: binary.LittleEndian.Uint32(d[28:]), crc: binary.LittleEndian.Uint32(d[32:]),
		}
		if b.pos < s.DataEnd || int64(b.pos)+int64(b.size) > dirPos {
			return nil, fmt.Errorf("%w: block %d at %d+%d lies outside the index", ErrBadIndex, i, b.pos, b.size)
		}
		s.blocks[i] = b
	}
	return s, nil
}

// Has reports whether the segment holds batches of the shard.
func (s *Sealed) Has(shard uint64) bool { return s.shards.Contains(shard) }

// FirstBase returns an upper bound for the offset at which the shard's first batch begins, from memory alone. exact: it begins just there.
// The segment must have the shard.
func (s *Sealed) FirstBase(shard uint64) (base int64, exact bool) {
	i := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].shard >= shard })
	if i == len(s.blocks) || s.blocks[i].shard != shard {
		return math.MaxInt64, false // it begins inside block i-1
	}
	return s.blocks[i].base, i == 0
}

// Shards returns how many shards have batches in the segment.
func (s *Sealed) Shards() uint64 { return s.shards.GetCardinality() }

// IndexBytes is the memory that the index takes, in bytes.
func (s *Sealed) IndexBytes() uint64 { return uint64(len(s.blocks))*40 + s.shards.GetSizeInBytes() }

// Cursor walks the index of a sealed segment in the order (shard, offset). It is used by one goroutine, and reusable.
type Cursor struct {
	s    *Sealed
	r    io.ReaderAt
	blk  int // of rest
	rest []byte
	prev Loc
	head bool // the next loc is its block's first
	// ahead is what Seek read to find its place, and Next returns first.
	ahead   Loc
	isAhead bool
	buf     []byte
	// MinTime makes Next pass over blocks whose records are all older (ms); 0 passes over none.
	MinTime int64
}

// Seek places c before the first batch of the shard that ends behind offset, or before the next shard's first if there is none.
func (s *Sealed) Seek(c *Cursor, r io.ReaderAt, shard uint64, offset int64) error {
	i := sort.Search(len(s.blocks), func(i int) bool {
		b := &s.blocks[i]
		return b.shard > shard || b.shard == shard && b.base > offset
	})
	*c = Cursor{s: s, r: r, buf: c.buf, blk: max(i-1, 0) - 1, MinTime: c.MinTime}
	for {
		l, err := c.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if l.Shard > shard || l.Shard == shard && l.End() > offset {
			c.ahead, c.isAhead = l, true
			return nil
		}
	}
}

// NextBlock is the position in the file of the index block that Next will read when it is through with the one it is in; 0: that is the last one.
func (c *Cursor) NextBlock() int64 {
	if c.blk+1 >= len(c.s.blocks) {
		return 0
	}
	return int64(c.s.blocks[c.blk+1].pos)
}

// Next returns the next batch's location, io.EOF behind the last one, or ErrBadIndex.
func (c *Cursor) Next() (Loc, error) {
	if c.isAhead {
		c.isAhead = false
		return c.ahead, nil
	}
	for len(c.rest) == 0 {
		c.blk++
		if c.blk >= len(c.s.blocks) {
			c.blk = len(c.s.blocks)
			return Loc{}, io.EOF
		}
		b := &c.s.blocks[c.blk]
		if c.MinTime != 0 && b.maxTime < c.MinTime { // times may be negative
			continue
		}
		if cap(c.buf) < int(b.size) {
			c.buf = make([]byte, max(int(b.size), blockTarget+64))
		}
		p := c.buf[:b.size]
		if err := ReadFull(c.r, p, int64(b.pos)); err != nil {
			return Loc{}, err
		}
		if got := Checksum(p); got != b.crc {
			return Loc{}, fmt.Errorf("%w: block at %d has CRC %08x, stored %08x", ErrBadIndex, b.pos, got, b.crc)
		}
		c.rest, c.prev, c.head = p, Loc{}, true
	}
	l, n := decodeLoc(c.rest, &c.prev, c.head)
	if n <= 0 {
		return Loc{}, fmt.Errorf("%w: block at %d ends inside an entry, or has an impossible number", ErrBadIndex, c.s.blocks[c.blk].pos)
	}
	if !c.s.possible(&l, &c.prev, c.head) {
		return Loc{}, fmt.Errorf("%w: block at %d has an impossible entry %+v", ErrBadIndex, c.s.blocks[c.blk].pos, l)
	}
	c.rest, c.prev, c.head = c.rest[n:], l, false
	return l, nil
}

// possible reports whether a batch can lie there, behind prev: who reads by the index need not ask again.
func (s *Sealed) possible(l, prev *Loc, first bool) bool {
	return l.Base >= 0 && l.Span > 0 && l.Base <= math.MaxInt64-int64(l.Span) &&
		l.Pos >= HeaderSize && int64(l.Pos)+int64(l.Size) <= int64(s.DataEnd) &&
		(first || l.Shard > prev.Shard || l.Shard == prev.Shard && l.Base > prev.Base)
}

func decodeLoc(b []byte, prev *Loc, first bool) (l Loc, n int) {
	bad := false
	u := func() uint64 {
		if n < len(b) && b[n] < 0x80 {
			n++
			return uint64(b[n-1])
		}
		v, k := binary.Uvarint(b[n:])
		if k <= 0 {
			bad = true
			return 0
		}
		n += k
		return v
	}
	z := func() int64 { v := u(); return int64(v>>1) ^ -int64(v&1) }
	l.Shard = prev.Shard + u()
	base := int64(u())
	if !first && l.Shard == prev.Shard {
		base += prev.End()
	}
	l.Base = base
	pos, size, span := int64(prev.Pos)+int64(prev.Size)+z(), u(), u()
	l.Pos, l.Size, l.Span = uint32(pos), uint32(size), uint32(span)
	l.MaxTime = prev.MaxTime + z()
	if bad || pos>>32 != 0 || (size|span)>>32 != 0 {
		return Loc{}, 0
	}
	return l, n
}

// ReadFull fills p from position off, or fails.
func ReadFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading %d bytes at %d: %w", len(p), off, err)
}
