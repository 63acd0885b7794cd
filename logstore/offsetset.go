package logstore

import (
	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// offsetSet is the compressed set of a shard's deleted offsets above its first live one. It is copy-on-write: a set may be
// changed only by the state whose epoch it carries (state.own).
type offsetSet struct {
	bm    *roaring64.Bitmap
	epoch uint64
}

func newOffsetSet(epoch uint64) *offsetSet { return &offsetSet{bm: roaring64.New(), epoch: epoch} }

func (s *offsetSet) clone(epoch uint64) *offsetSet {
	return &offsetSet{bm: s.bm.Clone(), epoch: epoch}
}

// contains works on the nil set, which is empty.
func (s *offsetSet) contains(o int64) bool { return s != nil && s.bm.Contains(uint64(o)) }

// count returns how many offsets of from <= o < to are in the set.
func (s *offsetSet) count(from, to int64) int64 {
	if s == nil || to <= from {
		return 0
	}
	n := s.bm.Rank(uint64(to - 1))
	if from > 0 {
		n -= s.bm.Rank(uint64(from - 1))
	}
	return int64(n)
}

// fewOffsets is up to how many offsets are looked at one by one: each takes the logarithm of the set's containers, where counting or changing a range
// takes their number. Deletions are mostly of one record.
const fewOffsets = 64

// nextAbsent returns the first offset at or above from that is not in the set. The cost does not grow with the length of the run of
// offsets that are: a shard whose oldest message was held for long may have millions.
func (s *offsetSet) nextAbsent(from int64) int64 {
	for end := from + fewOffsets; from < end; from++ {
		if !s.contains(from) {
			return from
		}
	}
	from-- // to the last one known to be in the set
	// full reports whether the n offsets at from are all in the set.
	full := func(n int64) bool { return s.count(from, from+n) == n }
	hi := int64(2)
	for full(hi) {
		hi *= 2
	}
	lo := hi / 2 // full(lo), not full(hi)
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; full(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return from + lo
}

// nextPresent returns the first offset of from <= o < to that is in the set, or to.
func (s *offsetSet) nextPresent(from, to int64) int64 {
	if s == nil {
		return to
	}
	rank := uint64(0)
	if from > 0 {
		rank = s.bm.Rank(uint64(from - 1))
	}
	if o, err := s.bm.Select(rank); err == nil && int64(o) < to {
		return int64(o)
	}
	return to
}

// absent calls f for each run of offsets in from <= o < to that is not in the set.
func (s *offsetSet) absent(from, to int64, f func(Range)) {
	if to-from <= fewOffsets {
		s.absentOfFew(from, to, f)
		return
	}
	for from < to {
		if from = s.nextAbsent(from); from >= to {
			return
		}
		end := s.nextPresent(from, to)
		f(Range{from, end})
		from = end
	}
}

func (s *offsetSet) absentOfFew(from, to int64, f func(Range)) {
	for ; from < to; from++ {
		if s.contains(from) {
			continue
		}
		start := from
		for from++; from < to && !s.contains(from); from++ {
		}
		f(Range{start, from})
	}
}

// add puts from <= o < to into the set.
func (s *offsetSet) add(from, to int64) {
	if to-from > fewOffsets {
		s.bm.AddRange(uint64(from), uint64(to))
		return
	}
	for ; from < to; from++ {
		s.bm.Add(uint64(from))
	}
}

// remove takes from <= o < to out of the set.
func (s *offsetSet) remove(from, to int64) {
	if to-from > fewOffsets {
		s.bm.RemoveRange(uint64(from), uint64(to))
		return
	}
	for ; from < to; from++ {
		s.bm.Remove(uint64(from))
	}
}

// liveWalk goes over the runs of offsets in at <= o < to that are not in a set. Its cost grows with the offsets that are. Walks of one iterator must
// ascend.
type liveWalk struct {
	at, to  int64
	deleted roaring64.IntPeekable64 // nil: an empty set
}

// iterator returns what a liveWalk needs.
func (s *offsetSet) iterator() roaring64.IntPeekable64 {
	if s == nil {
		return nil
	}
	return s.bm.Iterator()
}

// next returns the next run, or an empty one at the end.
func (w *liveWalk) next() Range {
	if w.deleted == nil {
		r := Range{w.at, max(w.at, w.to)}
		w.at = w.to
		return r
	}
	if w.at < w.to {
		w.deleted.AdvanceIfNeeded(uint64(w.at))
	}
	for w.at < w.to && w.deleted.HasNext() && int64(w.deleted.PeekNext()) == w.at {
		w.deleted.Next()
		w.at++
	}
	r := Range{w.at, max(w.at, w.to)}
	if w.deleted.HasNext() {
		r.To = max(w.at, min(w.to, int64(w.deleted.PeekNext())))
	}
	w.at = r.To
	return r
}
