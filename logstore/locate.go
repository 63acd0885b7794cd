package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"polylog/logstore/segment"
)

// stepBatches bounds the batches that one step of a read looks at, and so the time that it holds the store's lock.
const stepBatches = 4096

// located is a batch to be read: where it lies, and which of its offsets are live.
type located struct {
	segment.Loc
	// The live offsets are Buffer.runs[from:to] when some are deleted; all are live when whole is set.
	whole    bool
	from, to int
}

// step is the part of a read that lies in one segment file.
type step struct {
	name   string // of the file; empty: nothing left to read
	sealed bool   // the file does not grow
	end    int64  // offset to go on from after the located batches
}

// visibleNext is the offset behind the shard's last batch that may be read. The store's lock is held.
func (s *Store) visibleNext(p *shard) int64 {
	vis := position(s.visible.Load())
	if m := s.segs.memory(p.local.prevSeg); m != nil && p.local.prevChain.First != 0 {
		if i := hidden(m, p.local.prevChain, vis); i != 0 {
			return m.index.Loc(i).Base
		}
	}
	if m := s.segs.memory(p.local.seg); m != nil && p.local.chain.First != 0 {
		if i := hidden(m, p.local.chain, vis); i != 0 {
			return m.index.Loc(i).Base
		}
	}
	return p.next
}

// hidden returns the first batch of the chain that may not be read yet, or 0.
func hidden(m *openSegment, c segment.Chain, vis position) uint32 {
	switch {
	case m.id < vis.segment():
		return 0
	case m.id > vis.segment():
		return c.First
	}
	return m.index.FirstEndingAfter(c, vis.offset())
}

// locate finds the batches of the shard from offset from on, in one segment, until their size reaches max (but at least one), and puts those with live
// records into buf.items. strict refuses an offset outside the shard's bounds.
func (s *Store) locate(sh Shard, from int64, max int, strict bool, buf *Buffer) (step, error) {
	buf.items, buf.runs = buf.items[:0], buf.runs[:0]
	s.mu.RLock()
	p := s.st.shards.get(sh)
	if p == nil {
		s.mu.RUnlock()
		return step{}, &UnknownShardError{sh}
	}
	next := s.visibleNext(p)
	first := min(p.first, next)
	if strict && (from < first || from > next) {
		s.mu.RUnlock()
		return step{}, &OffsetRangeError{sh, from, first, next}
	}
	if from < p.first {
		from = p.first
	}
	if from = p.deleted.nextAbsent(from); from >= next {
		s.mu.RUnlock()
		return step{end: next}, nil
	}
	if m, c := s.inMemory(p, from); m != nil {
		defer s.mu.RUnlock()
		st := step{name: m.name, end: from}
		return st, s.fromMemory(p, m, c, next, max, &st, buf)
	}
	sealed := s.segs.sealed
	s.mu.RUnlock()

	st, err := s.fromSealed(sealed, sh, from, max, buf)
	if err != nil {
		return st, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if p = s.st.shards.get(sh); p == nil {
		return step{}, &UnknownShardError{sh}
	}
	buf.keepLive(p)
	return st, nil
}

// locateAgain is locate, tried again when cleaning took a file away between finding and opening it.
func (s *Store) locateAgain(sh Shard, from int64, max int, strict bool, buf *Buffer) (step, error) {
	for {
		files := s.filesVersion()
		st, err := s.locate(sh, from, max, strict, buf)
		if !errors.Is(err, fs.ErrNotExist) || files == s.filesVersion() {
			return st, err
		}
	}
}

// inMemory returns the segment and chain that hold the live offset, if they are in memory. The store's lock is held.
func (s *Store) inMemory(p *shard, offset int64) (*openSegment, segment.Chain) {
	m := s.segs.memory(p.local.seg)
	if m != nil && p.local.chain.First != 0 && m.index.Loc(p.local.chain.First).Base <= offset {
		return m, p.local.chain
	}
	m = s.segs.memory(p.local.prevSeg)
	if m != nil && p.local.prevChain.First != 0 && m.index.Loc(p.local.prevChain.First).Base <= offset {
		return m, p.local.prevChain
	}
	return nil, segment.Chain{}
}

// fromMemory collects batches of one chain. The store's lock is held.
func (s *Store) fromMemory(p *shard, m *openSegment, c segment.Chain, next int64, max int, st *step, buf *Buffer) error {
	size := 0
	for i := m.index.Find(c, st.end); i != 0 && len(buf.items) < stepBatches; i = m.index.Next(i) {
		l := m.index.Loc(i)
		if l.Base >= next || size > 0 && size+int(l.Size) > max {
			break
		}
		size += int(l.Size)
		buf.items = append(buf.items, located{Loc: l})
		st.end = l.End()
	}
	buf.keepLive(p)
	return nil
}

// fromSealed collects batches of one sealed segment.
func (s *Store) fromSealed(sealed []*sealedSegment, sh Shard, from int64, max int, buf *Buffer) (st step, err error) {
	i, err := s.findSealed(sealed, sh, from, buf)
	if err != nil {
		return step{}, err
	}
	if i < 0 {
		return step{}, s.missing(sh, from)
	}
	g := sealed[i]
	f, err := s.files.acquire(g.name)
	if err != nil {
		return step{}, err
	}
	defer s.files.release(f)
	if err := g.index.Seek(&buf.cursor, f, uint64(sh), from); err != nil {
		return step{}, g.corrupt(err)
	}
	st = step{name: g.name, sealed: true, end: from}
	size := 0
	for len(buf.items) < stepBatches {
		l, err := buf.cursor.Next()
		if err == io.EOF || err == nil && l.Shard != uint64(sh) {
			break
		}
		if err != nil {
			return step{}, g.corrupt(err)
		}
		if size == 0 && l.Base > from {
			return step{}, s.missing(sh, from)
		}
		if size > 0 && size+int(l.Size) > max {
			break
		}
		size += int(l.Size)
		buf.items = append(buf.items, located{Loc: l})
		st.end = l.End()
	}
	if size == 0 {
		return step{}, s.missing(sh, from)
	}
	if next := buf.cursor.NextBlock(); buf.hint == g.header.ID && max >= largePiece && next != 0 {
		f.prefetch(next, indexAhead)
	}
	buf.hint = g.header.ID
	return st, nil
}

// missing is the error for an offset that the state calls live and no segment has.
func (s *Store) missing(sh Shard, offset int64) error {
	return &CorruptError{File: s.dir, What: fmt.Sprintf("offset %d of shard %d is live, but no segment holds it", offset, sh)}
}

// corrupt says where a damaged index is.
func (g *sealedSegment) corrupt(err error) error {
	if errors.Is(err, segment.ErrBadIndex) {
		return &CorruptError{File: g.name, Pos: int64(g.index.DataEnd), What: err.Error()}
	}
	return fmt.Errorf("reading the index of %s: %w", g.name, err)
}

// findSealed returns the last segment whose first batch of the shard begins at or before offset, or -1. Segments hold a shard's batches in the order of their offsets,
// since cleaning rewrites a segment where it stands.
func (s *Store) findSealed(sealed []*sealedSegment, sh Shard, offset int64, buf *Buffer) (int, error) {
	lo, hi, best := 0, len(sealed), -1
	// A reader that goes on finds its place in the segment of the last step, or in the one behind.
	if buf.hint != 0 {
		h := sort.Search(len(sealed), func(i int) bool { return sealed[i].header.ID >= buf.hint })
		if h < len(sealed) && sealed[h].index.Has(uint64(sh)) {
			starts, err := s.startsBy(sealed[h], sh, offset, buf)
			if err != nil {
				return 0, err
			}
			if starts {
				best = h
				for h++; h < len(sealed) && !sealed[h].index.Has(uint64(sh)); h++ {
				}
				if h < len(sealed) {
					if starts, err = s.startsBy(sealed[h], sh, offset, buf); err != nil {
						return 0, err
					}
				}
				if h == len(sealed) || !starts {
					return best, nil
				}
				lo, best = h+1, h
			}
		}
	}
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		m := mid
		for m >= lo && !sealed[m].index.Has(uint64(sh)) {
			m--
		}
		if m < lo {
			lo = mid + 1
			continue
		}
		starts, err := s.startsBy(sealed[m], sh, offset, buf)
		switch {
		case err != nil:
			return 0, err
		case starts:
			best, lo = m, mid+1
		default:
			hi = m
		}
	}
	return best, nil
}

// startsBy reports whether the segment's first batch of the shard, which it has, begins at or before offset.
func (s *Store) startsBy(g *sealedSegment, sh Shard, offset int64, buf *Buffer) (bool, error) {
	base, exact := g.index.FirstBase(uint64(sh))
	if base <= offset || exact {
		return base <= offset, nil
	}
	f, err := s.files.acquire(g.name)
	if err != nil {
		return false, err
	}
	defer s.files.release(f)
	if err := g.index.Seek(&buf.cursor, f, uint64(sh), 0); err != nil {
		return false, g.corrupt(err)
	}
	l, err := buf.cursor.Next()
	if err != nil {
		return false, g.corrupt(err)
	}
	return l.Shard == uint64(sh) && l.Base <= offset, nil
}

// keepLive judges the items by the shard's deletions, and drops those with nothing live. The store's lock is held.
func (b *Buffer) keepLive(p *shard) {
	if p.deleted == nil && (len(b.items) == 0 || b.items[0].Base >= p.first) {
		for i := range b.items {
			b.items[i].whole = true
		}
		return
	}
	deleted := p.deleted.iterator()
	kept := b.items[:0]
	for _, it := range b.items {
		it.from = len(b.runs)
		var n int64
		b.runs, n = liveRuns(b.runs, max(it.Base, p.first), it.End(), deleted)
		if n == 0 {
			continue
		}
		it.to = len(b.runs)
		if it.whole = n == int64(it.Span); it.whole {
			b.runs = b.runs[:it.from]
		}
		kept = append(kept, it)
	}
	b.items = kept
}

// liveRuns appends the runs of offsets in from <= o < to that the iterator (nil: over nothing) does not hold, and counts them. Calls must ascend.
func liveRuns(runs []Range, from, to int64, deleted roaring64.IntPeekable64) ([]Range, int64) {
	n := int64(0)
	for w := (liveWalk{from, to, deleted}); ; {
		r := w.next()
		if r.From >= r.To {
			return runs, n
		}
		runs = append(runs, r)
		n += r.To - r.From
	}
}
