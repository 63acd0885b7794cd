package logstore

import (
	"slices"

	"polylog/logstore/segment"
)

// position is a place in the log: the segment's id in the upper 32 bits, the position in its file in the lower. Positions
// compare as the log is written.
type position uint64

func at(seg uint64, pos uint32) position { return position(seg<<32 | uint64(pos)) }

func (p position) segment() uint64 { return uint64(p) >> 32 }
func (p position) offset() uint32  { return uint32(p) }

// openSegment is a segment whose index is in memory: the one being written, or the one before it while that is sealed. The sequencing goroutine
// owns pos and what follows it; index is guarded by the store's lock.
type openSegment struct {
	id       uint64
	name     string
	file     *cachedFile
	capacity int64 // bytes of the file reserved on disk
	// initialised is how far the file was ever written, be it with zeros: writing there changes nothing that the file system must note. The writing goroutine
	// owns it.
	initialised int64

	salt     uint32 // of the entries' CRCs
	pos      uint32 // where the next entry goes
	prevSeq  uint64 // the last one ordered before the segment's first entry
	firstSeq uint64 // 0: no entry yet
	lastSeq  uint64
	index    segment.MemIndex
}

func (g *openSegment) header() segment.Header {
	return segment.Header{ID: g.id, CoversTo: g.id, PrevSeq: g.prevSeq, Salt: g.salt}
}

// indexReserve is the room kept for the index when the segment is sealed, for each batch and in all: an index entry takes 9 bytes
// as a rule, 45 at worst; a shard's first one about 10 more.
const (
	indexReservePerBatch = 24
	indexReserve         = 1 << 10
)

// room is how many bytes of entries with the given number of batches still fit.
func (g *openSegment) room(batches int) int64 {
	return g.capacity - int64(g.pos) - indexReserve - int64(g.index.Len()+batches)*indexReservePerBatch
}

// sealedSegment is a segment file that is complete. All but the accounting is immutable; cleaning replaces the whole.
type sealedSegment struct {
	header segment.Header
	name   string
	size   int64
	index  *segment.Sealed

	// How much of it is live. Written by the accountant under the store's lock.
	counted bool
	live    uint64 // offsets
}

// offsets is how many offsets of the segment were live when its file was written.
func (g *sealedSegment) offsets() uint64 {
	if g.header.Generation > 0 {
		return g.header.Live
	}
	return g.index.Offsets
}

// liveBytes estimates the bytes of live batches by the share of offsets that are.
func (g *sealedSegment) liveBytes() int64 {
	all := g.offsets()
	if all == 0 {
		return 0
	}
	return int64(float64(g.size) * float64(g.live) / float64(all))
}

// segments are the files of the log. The store's lock guards the fields; the slice itself is never changed, only replaced, so that a
// reader may go on with the one it saw.
type segments struct {
	sealed  []*sealedSegment // by id
	sealing *openSegment     // complete, its index still in memory only; nil: none
	active  *openSegment     // being written; nil before the first entry
	// replaced counts the times that cleaning took files away, so that a reader who misses one knows whether to look again.
	replaced uint64
}

// memory returns the segment with this id if its index is in memory.
func (s *segments) memory(id uint32) *openSegment {
	switch {
	case id == 0:
		return nil
	case s.active != nil && uint32(s.active.id) == id:
		return s.active
	case s.sealing != nil && uint32(s.sealing.id) == id:
		return s.sealing
	}
	return nil
}

// addSealed puts a segment behind all others.
func (s *segments) addSealed(g *sealedSegment) {
	s.sealed = append(slices.Clip(s.sealed), g)
}

// replace puts new (nil: nothing) in the place of the old ones, which are neighbours.
func (s *segments) replace(old []*sealedSegment, new *sealedSegment) {
	i := slices.Index(s.sealed, old[0])
	list := make([]*sealedSegment, 0, len(s.sealed))
	list = append(list, s.sealed[:i]...)
	if new != nil {
		list = append(list, new)
	}
	s.sealed = append(list, s.sealed[i+len(old):]...)
	s.replaced++
}
