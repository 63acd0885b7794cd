package logstore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"polylog/logstore/seed"
)

// naiveSet is a set of offsets as one would write it first.
type naiveSet map[int64]bool

func (n naiveSet) count(from, to int64) (c int64) {
	for o := from; o < to; o++ {
		if n[o] {
			c++
		}
	}
	return c
}

// next returns the first offset at or above from, below to, that is in the set or not, as asked; or to.
func (n naiveSet) next(from, to int64, in bool) int64 {
	for ; from < to && n[from] != in; from++ {
	}
	return from
}

func (n naiveSet) absent(from, to int64) (runs []Range) {
	for o := from; o < to; o++ {
		switch last := len(runs) - 1; {
		case n[o]:
		case last >= 0 && runs[last].To == o:
			runs[last].To++
		default:
			runs = append(runs, Range{o, o + 1})
		}
	}
	return runs
}

func checkOffsetSet(t *testing.T, r *rand.Rand, s *offsetSet, n naiveSet, limit int64) {
	t.Helper()
	for range 60 {
		from := r.Int64N(limit)
		to := from + r.Int64N(limit)
		if got, want := s.contains(from), n[from]; got != want {
			t.Fatalf("contains(%d) is %v", from, got)
		}
		if got, want := s.count(from, to), n.count(from, to); got != want {
			t.Fatalf("count(%d, %d) is %d, want %d", from, to, got, want)
		}
		if got := s.count(to, from); got != 0 {
			t.Fatalf("count(%d, %d) is %d", to, from, got)
		}
		if got, want := s.nextAbsent(from), n.next(from, 3*limit, false); got != want {
			t.Fatalf("nextAbsent(%d) is %d, want %d", from, got, want)
		}
		if got, want := s.nextPresent(from, to), n.next(from, to, true); got != want {
			t.Fatalf("nextPresent(%d, %d) is %d, want %d", from, to, got, want)
		}
		var got []Range
		s.absent(from, to, func(r Range) { got = append(got, r) })
		if want := n.absent(from, to); !slices.Equal(got, want) {
			t.Fatalf("absent(%d, %d) is %v, want %v", from, to, got, want)
		}
	}
}

func TestOffsetSetIsTheNaiveSet(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 20 {
		limit := int64(1) << (2 + r.IntN(11))
		s, n := newOffsetSet(0), naiveSet{}
		for range 20 {
			from := r.Int64N(limit)
			to := from + 1 + r.Int64N(max(limit/int64(1+r.IntN(20)), 1))
			if r.IntN(4) == 0 {
				s.bm.RemoveRange(uint64(from), uint64(to))
				for o := from; o < to; o++ {
					delete(n, o)
				}
			} else {
				s.bm.AddRange(uint64(from), uint64(to))
				for o := from; o < to; o++ {
					n[o] = true
				}
			}
			checkOffsetSet(t, r, s, n, limit)
		}
		c := s.clone(9)
		if c.epoch != 9 {
			t.Fatalf("the clone has epoch %d", c.epoch)
		}
		c.bm.AddRange(0, uint64(2*limit))
		checkOffsetSet(t, r, s, n, limit)
	}
}

func TestNilOffsetSetIsEmpty(t *testing.T) {
	t.Parallel()
	checkOffsetSet(t, seed.Rand(t), nil, naiveSet{}, 1000)
}

// A record may be held for as long as millions behind it are acknowledged, so the search over them must not look at each.
func TestOffsetSetIsQuickOverLongRuns(t *testing.T) {
	t.Parallel()
	const far = int64(1) << 40
	s := newOffsetSet(0)
	s.bm.AddRange(1, 1<<26)
	s.bm.AddRange(uint64(far), uint64(far+1<<26))
	for range 50 {
		if a, p := s.nextAbsent(1), s.nextPresent(1<<26, far*2); a != 1<<26 || p != far {
			t.Fatalf("nextAbsent %d, nextPresent %d", a, p)
		}
	}
	var runs []Range
	s.absent(0, far*2, func(r Range) { runs = append(runs, r) })
	if want := []Range{{0, 1}, {1 << 26, far}, {far + 1<<26, far * 2}}; !slices.Equal(runs, want) {
		t.Fatalf("runs %v, want %v", runs, want)
	}
}
