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

// nextAbsent returns the first offset at or above from that is not in the set. The cost grows with the logarithm of the run of
// offsets that are, not with its length: a shard whose oldest message was held for long may have millions.
func (s *offsetSet) nextAbsent(from int64) int64 {
	if !s.contains(from) {
		return from
	}
	full := func(n int64) bool { return s.count(from, from+n) == n } // the n offsets at from are all in the set
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
	for from < to {
		if from = s.nextAbsent(from); from >= to {
			return
		}
		end := s.nextPresent(from, to)
		f(Range{from, end})
		from = end
	}
}
