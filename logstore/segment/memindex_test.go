package segment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"polylog/logstore/seed"
)

// randomLocs returns the locations of n batches in the order in which they would be written: shards take turns at random, offsets of a shard ascend with gaps
// now and then, positions ascend.
func randomLocs(r *rand.Rand, n, shards int) []Loc {
	next := map[uint64]int64{}
	locs := make([]Loc, n)
	pos := uint32(HeaderSize)
	for i := range locs {
		sh := uint64(1 + r.IntN(shards))
		if r.IntN(4) == 0 {
			sh = uint64(1 + r.IntN(min(shards, 3))) // some shards are busy
		}
		if r.IntN(8) == 0 {
			next[sh] += r.Int64N(1 << uint(r.IntN(40)))
		}
		l := Loc{Shard: sh, Base: next[sh], Span: uint32(1 + r.IntN(5)), MaxTime: 1e12 + r.Int64N(1e6), Pos: pos + uint32(r.IntN(40)), Size: uint32(61 + r.IntN(300))}
		switch r.IntN(50) {
		case 0:
			l.Span = 1 << uint(r.IntN(31))
		case 1:
			l.MaxTime = -r.Int64N(10)
		case 2:
			l.MaxTime = r.Int64()
		}
		next[sh] = l.End()
		pos = l.Pos + l.Size
		locs[i] = l
	}
	return locs
}

// probes are offsets at and around the bounds of the batches.
func probes(locs []Loc) []int64 {
	ps := []int64{0, 1, 1 << 50}
	for i := range locs {
		for _, o := range []int64{locs[i].Base - 1, locs[i].Base, locs[i].Base + int64(locs[i].Span)/2, locs[i].End() - 1, locs[i].End()} {
			ps = append(ps, max(o, 0))
		}
	}
	slices.Sort(ps)
	return slices.Compact(ps)
}

func TestMemIndexFindsWhatANaiveSearchFinds(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for round := range 12 {
		n, shards := r.IntN(400), 1+r.IntN(20)
		if round == 0 {
			n, shards = 3*nodeChunk+1, 3 // several chunks, deep chains
		}
		locs := randomLocs(r, n, shards)
		var x MemIndex
		chains := map[uint64]*Chain{}
		model := map[uint64][]Loc{}
		for _, l := range locs {
			if chains[l.Shard] == nil {
				chains[l.Shard] = &Chain{}
			}
			x.Append(chains[l.Shard], l)
			model[l.Shard] = append(model[l.Shard], l)
		}
		if x.Len() != n || x.Bytes() < uint64(n)*48 {
			t.Fatalf("%d batches in %d bytes, want %d", x.Len(), x.Bytes(), n)
		}
		var all []Loc
		x.All(func(l *Loc) { all = append(all, *l) })
		if !slices.Equal(all, locs) {
			t.Fatal("All does not give the batches in the order in which they were written")
		}
		for sh, want := range model {
			checkChain(t, r, &x, *chains[sh], want)
		}
		if x.Find(Chain{}, 0) != 0 || x.FirstEndingAfter(Chain{}, 0) != 0 {
			t.Fatal("an empty chain has a batch")
		}
	}
}

// checkChain compares a chain with its batches in a slice.
func checkChain(t *testing.T, r *rand.Rand, x *MemIndex, c Chain, want []Loc) {
	t.Helper()
	var walked []Loc
	for i := c.First; i != 0; i = x.Next(i) {
		walked = append(walked, x.Loc(i))
	}
	if !slices.Equal(walked, want) {
		t.Fatalf("Next walks over %d batches, want %d", len(walked), len(want))
	}
	ps := probes(want)
	if len(ps) > 300 {
		r.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
		ps = ps[:300]
	}
	for _, o := range ps {
		expect(t, x, x.Find(c, o), want, func(l *Loc) bool { return l.End() > o }, "offset", o)
	}
	for range 100 {
		l := want[r.IntN(len(want))]
		pos := l.Pos + uint32(r.IntN(int(l.Size)+2))
		expect(t, x, x.FirstEndingAfter(c, pos), want, func(l *Loc) bool { return l.Pos+l.Size > pos }, "position", int64(pos))
	}
	expect(t, x, x.FirstEndingAfter(c, 0), want, func(*Loc) bool { return true }, "position", 0)
}

// expect checks that i is the first of the batches for which ok holds.
func expect(t *testing.T, x *MemIndex, i uint32, all []Loc, ok func(l *Loc) bool, what string, at int64) {
	t.Helper()
	got := "none"
	if i != 0 {
		got = fmt.Sprintf("%+v", x.Loc(i))
	}
	want := "none"
	if j := slices.IndexFunc(all, func(l Loc) bool { return ok(&l) }); j >= 0 {
		want = fmt.Sprintf("%+v", all[j])
	}
	if got != want {
		t.Fatalf("at %s %d: found %s, want %s", what, at, got, want)
	}
}

// A search must not walk the chain: the queue that nobody reads is the one with the long chain.
func TestMemIndexSearchTakesLogarithmicSteps(t *testing.T) {
	t.Parallel()
	var x MemIndex
	var c Chain
	const n = 1 << 17
	for i := range n {
		x.Append(&c, Loc{Shard: 1, Base: int64(i), Span: 1, Pos: uint32(i), Size: 1})
	}
	worst := 0
	for o := 0; o < n; o += 997 {
		steps := 0
		i := x.search(c, func(nd *node) bool { steps++; return nd.End() > int64(o) })
		if x.Loc(i).Base != int64(o) {
			t.Fatalf("offset %d is in %+v", o, x.Loc(i))
		}
		worst = max(worst, steps)
	}
	if worst > 4*17+8 {
		t.Fatalf("%d steps in a chain of %d", worst, n)
	}
}
