package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// sortLocs puts the batches into the order of the index, and leaves out those that overlap others: no index can hold both.
func (s *segmentScan) sortLocs() {
	slices.SortFunc(s.locs, func(a, b segment.Loc) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Base, b.Base), cmp.Compare(a.Pos, b.Pos))
	})
	kept := s.locs[:0]
	for _, l := range s.locs {
		if n := len(kept); n > 0 && kept[n-1].Shard == l.Shard && l.Base < kept[n-1].End() {
			s.c.report.problem(s.g.name, int64(l.Pos), "the batch at offset %d of shard %d covers offsets that the one at position %d has", l.Base, l.Shard, kept[n-1].Pos)
			s.damaged = true
			continue
		}
		kept = append(kept, l)
	}
	s.locs = kept
}

// checkIndex holds the index of the file to its entries.
func (s *segmentScan) checkIndex() {
	g := s.g
	switch {
	case g.index == nil:
		if errors.Is(g.indexErr, segment.ErrBadIndex) {
			s.badIndex(g.indexErr)
		}
	case s.damaged:
		// What the index says of the lost entries is of no use, but damage to it is damage.
		if err := g.index.VerifyBlocks(s.f); err != nil {
			s.badIndex(err)
		}
	default:
		if err := g.index.Verify(s.f, g.size, s.locs); err != nil {
			s.badIndex(err)
			return
		}
		s.checkSeqs()
	}
}

// checkSeqs sees that the trailer has the right sequence numbers. Those of batches that cleaning kept are gone.
func (s *segmentScan) checkSeqs() {
	g, x := s.g, s.g.index
	pos := g.size - segment.TrailerSize
	switch {
	case g.header.Generation > 0 && (x.LastSeq != g.header.LastSeq || x.FirstSeq > x.LastSeq):
		s.c.report.problem(g.name, pos, "the trailer says entries %d to %d, the header up to %d", x.FirstSeq, x.LastSeq, g.header.LastSeq)
	case g.header.Generation == 0 && (x.FirstSeq != s.firstSeq || x.LastSeq != s.lastSeq):
		s.c.report.problem(g.name, pos, "the trailer says entries %d to %d, they are %d to %d", x.FirstSeq, x.LastSeq, s.firstSeq, s.lastSeq)
	}
}

// badIndex reports a damaged index, unless it is one that a crash has cut off.
func (s *segmentScan) badIndex(err error) {
	g := s.g
	pos, what := int64(s.sc.Pos()), err.Error()
	if at, is := errors.AsType[*segment.IndexError](err); is {
		pos, what = at.Pos, at.What
	}
	switch {
	case !errors.Is(err, segment.ErrBadIndex):
		s.c.unreadable(g.name, pos, err)
	case s.cutOff():
		s.c.report.note("the index of %s was being written when the process ended; the next start writes it anew", g.name)
	default:
		s.c.report.problem(g.name, pos, "the index is not that of the entries: %s", what)
	}
	s.reindex = true
}

// sectorSize is what a disk writes whole or not at all.
const sectorSize = 512

// cutOff reports whether the index differs from what it should be only in sectors that are still as they were reserved: a power loss came while it was written.
func (s *segmentScan) cutOff() bool {
	pos := s.sc.Pos()
	if s.damaged || s.g.header.Generation > 0 || !s.c.mayBeUnsynced(s.i) {
		return false
	}
	want, _ := segment.BuildIndex(s.locs, pos, s.firstSeq, s.lastSeq)
	if s.g.size != int64(pos)+int64(len(want)) {
		return false
	}
	got := make([]byte, len(want))
	if err := segment.ReadFull(s.f, got, int64(pos)); err != nil {
		return false
	}
	for at := 0; at < len(want); {
		n := min(len(want)-at, sectorSize-(int(pos)+at)%sectorSize)
		piece := got[at : at+n]
		if !slices.Equal(piece, want[at:at+n]) && slices.ContainsFunc(piece, func(b byte) bool { return b != 0 }) {
			return false
		}
		at += n
	}
	return true
}

// maxRebuilt bounds the indexes that a check makes anew, in bytes: it is enough for what a crash leaves unsealed and for fifty million batches in damaged files.
const maxRebuilt = 512 << 20

// indexInMemory puts the segment into the log with an index made from its entries. The file's own is missing or damaged, or speaks of entries that are gone.
func (s *segmentScan) indexInMemory() {
	c, g := s.c, s.g
	pos := s.sc.Pos()
	for i := range s.locs {
		pos = max(pos, s.locs[i].Pos+s.locs[i].Size)
	}
	idx, sealed := segment.BuildIndex(s.locs, pos, s.firstSeq, s.lastSeq)
	if c.rebuilt += int64(len(idx)); c.rebuilt > maxRebuilt {
		c.uncovered = true
		return
	}
	c.files.adopt(g.name, indexFile{at: int64(pos), idx: idx})
	c.sealed = append(c.sealed, &sealedSegment{header: g.header, name: g.name, size: g.size, index: sealed})
}

// indexFile stands for a segment file of which only the index is read.
type indexFile struct {
	vfs.File // none
	at       int64
	idx      []byte
}

// ReadAt reads the index.
func (f indexFile) ReadAt(p []byte, pos int64) (int, error) {
	if pos < f.at || pos > f.at+int64(len(f.idx)) {
		return 0, fmt.Errorf("position %d is not in the index", pos)
	}
	n := copy(p, f.idx[pos-f.at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close does nothing.
func (f indexFile) Close() error { return nil }
