package logstore

import (
	"io"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"polylog/logstore/segment"
)

// rescanShare is the share of the sealed segments' offsets that must be freed in a scattered way before they are counted anew: it bounds the work to ten index
// entries for each deletion.
const rescanShare = 10

// account brings the books up to date: how many offsets of each sealed segment are live. It returns the entry up to which deletions are in them. Only the cleaning
// goroutine changes the books.
func (c *cleaner) account() (seq uint64, err error) {
	s := c.s
	s.mu.Lock()
	freed := s.freed.take()
	sealed := s.segs.sealed
	seq = s.st.seq
	total, uncounted := uint64(0), false
	for _, g := range sealed {
		total += g.index.Offsets
		uncounted = uncounted || !g.counted
	}
	if freed.overflow {
		c.scattered += freed.offsets
	}
	rescan := c.scattered > 0 && uint64(c.scattered) >= total/rescanShare
	var st *state
	if uncounted || rescan {
		st = s.st.snapshot()
	}
	s.mu.Unlock()

	live := make(map[*sealedSegment]uint64)
	if rescan {
		c.scattered = 0
		s.stats.rescans.Add(1)
	} else if err := c.subtract(sealed, freed.ranges, live); err != nil {
		return 0, err
	}
	for _, g := range sealed {
		if rescan || !g.counted {
			if live[g], err = countLive(s.files, g, st); err != nil {
				return 0, err
			}
		}
	}
	s.mu.Lock()
	for g, n := range live {
		g.live, g.counted = n, true
	}
	s.mu.Unlock()
	return seq, nil
}

// subtract takes freed ranges off the counted segments: live gets the new counts.
func (c *cleaner) subtract(sealed []*sealedSegment, freed map[Shard][]Range, live map[*sealedSegment]uint64) error {
	for sh, ranges := range freed {
		slices.SortFunc(ranges, func(a, b Range) int { return int(min(max(a.From-b.From, -1), 1)) })
		c.buf.hint = 0
		i, err := c.s.findSealed(sealed, sh, ranges[0].From, &c.buf)
		if err != nil {
			return err
		}
		for i = max(i, 0); i < len(sealed); i++ {
			g := sealed[i]
			if !g.index.Has(uint64(sh)) {
				continue
			}
			n, beyond, err := c.overlap(g, sh, ranges)
			if err != nil {
				return err
			}
			if n > 0 && g.counted {
				if _, has := live[g]; !has {
					live[g] = g.live
				}
				live[g] -= min(live[g], uint64(n))
			}
			if beyond {
				break
			}
		}
	}
	return nil
}

// overlap counts the offsets of the ranges, which ascend, that the segment's batches cover. beyond: the segment goes on behind the last range.
func (c *cleaner) overlap(g *sealedSegment, sh Shard, ranges []Range) (n int64, beyond bool, err error) {
	if err := g.index.Seek(&c.buf.cursor, cachedReader{c.s.files, g.name}, uint64(sh), ranges[0].From); err != nil {
		return 0, false, g.corrupt(err)
	}
	for len(ranges) > 0 {
		l, err := c.buf.cursor.Next()
		if err == io.EOF || err == nil && l.Shard != uint64(sh) {
			return n, false, nil
		}
		if err != nil {
			return 0, false, g.corrupt(err)
		}
		for len(ranges) > 0 {
			r := ranges[0]
			n += max(0, min(r.To, l.End())-max(r.From, l.Base))
			if r.To > l.End() {
				break
			}
			ranges = ranges[1:]
		}
	}
	return n, true, nil
}

// countLive counts the segment's offsets that are live in the state.
func countLive(files *fileCache, g *sealedSegment, st *state) (uint64, error) {
	var n uint64
	err := walkLive(files, g, st, func(_ segment.Loc, live int64, _ []Range) { n += uint64(live) })
	return n, err
}

// walkLive calls f for each batch of the segment in the order of its index, with the number of its offsets that are live in the state and their runs.
func walkLive(files *fileCache, g *sealedSegment, st *state, f func(l segment.Loc, live int64, runs []Range)) error {
	var cur segment.Cursor
	if err := g.index.Seek(&cur, cachedReader{files, g.name}, 0, 0); err != nil {
		return g.corrupt(err)
	}
	var (
		sh      *shard
		last    uint64
		deleted roaring64.IntPeekable64
		runs    []Range
	)
	for {
		l, err := cur.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return g.corrupt(err)
		}
		if l.Shard != last {
			if last, sh = l.Shard, st.shards.get(Shard(l.Shard)); sh != nil {
				deleted = sh.deleted.iterator()
			}
		}
		live := int64(0)
		runs = runs[:0]
		if sh != nil {
			runs, live = liveRuns(runs, max(l.Base, sh.first), min(l.End(), sh.next), deleted)
		}
		f(l, live, runs)
	}
}
