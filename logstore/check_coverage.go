package logstore

import (
	"errors"
	"fmt"
	"slices"

	"polylog/logstore/segment"
)

// maxPlaces bounds the ranges for which a check finds out in which file they should be: each takes a few reads.
const maxPlaces = 10000

// misplaced are live offsets that are in no batch, or in more than one, of a file.
type misplaced struct {
	file          string
	ranges, count int64
	first         LostRange
}

func (m *misplaced) String() string {
	switch {
	case m.count == 1:
		return fmt.Sprintf("1 live record (%v)", m.first)
	case m.ranges == 1:
		return fmt.Sprintf("%d live records (%v)", m.count, m.first)
	}
	return fmt.Sprintf("%d live records (in %d places, the first: %v)", m.count, m.ranges, m.first)
}

// placesOf gathers such ranges by their files.
type placesOf []*misplaced

func (p *placesOf) add(file string, l LostRange) {
	i := slices.IndexFunc(*p, func(m *misplaced) bool { return m.file == file })
	if i < 0 {
		i = len(*p)
		*p = append(*p, &misplaced{file: file, first: l})
	}
	m := (*p)[i]
	m.ranges++
	m.count += l.To - l.From
}

// checkCoverage sees that each live offset is in exactly one batch.
func (c *checker) checkCoverage() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.uncovered {
		c.report.note("it was not checked whether all live records are there: too many indexes are damaged")
		return nil
	}
	var lost, missing, twice placesOf
	places := 0
	place := func(l LostRange) (file string, there bool) {
		if places++; places > maxPlaces {
			return c.dir, true
		}
		return c.placeOf(l)
	}
	err := walkCoverage(c.files, c.sealed, c.st,
		func(l LostRange) {
			if file, there := place(l); there {
				lost.add(file, l)
			} else {
				missing.add(file, l)
			}
		},
		func(l LostRange) {
			file, _ := place(l)
			twice.add(file, l)
		})
	c.missed = len(missing) > 0
	for _, m := range missing {
		c.report.problem(m.file, 0, "it is missing, with %v", m)
	}
	for _, m := range lost {
		c.report.problem(m.file, 0, "missing in it: %v", m)
	}
	for _, m := range twice {
		c.report.problem(m.file, 0, "in more than one batch: %v", m)
	}
	c.indexUnreadable(err)
	return nil
}

// indexUnreadable reports an error of walking the indexes, if there is one. They were all read before, so it is the disk's.
func (c *checker) indexUnreadable(err error) {
	if corrupt, is := errors.AsType[*CorruptError](err); is {
		c.report.problem(corrupt.File, corrupt.Pos, "%s", corrupt.What)
	} else if err != nil {
		c.unreadable(c.dir, 0, err)
	}
}

// placeOf names the file in which a range of offsets that no batch has should be, somewhere between the segments with the shard's offsets before and behind it: a
// damaged file, or else one that is missing (there is false then).
func (c *checker) placeOf(l LostRange) (file string, there bool) {
	before, err := c.s.findSealed(c.sealed, l.Shard, l.From, &Buffer{})
	if err != nil {
		return c.dir, true
	}
	end := uint64(0) // the last id that the segments up to here cover
	if before >= 0 {
		g := c.sealed[before]
		if c.damagedFiles[g.name] || c.goesOn(g, l) {
			return g.name, true
		}
		end = g.header.CoversTo
	}
	var behind []*sealedSegment
	for _, g := range c.sealed[before+1:] {
		if c.damagedFiles[g.name] {
			return g.name, true
		}
		behind = append(behind, g)
		if g.index.Has(uint64(l.Shard)) {
			break
		}
	}
	for _, g := range behind {
		if g.header.ID > end+1 {
			return c.fileOf(end+1, g.header.ID)
		}
		end = g.header.CoversTo
	}
	if len(behind) > 0 && behind[len(behind)-1].index.Has(uint64(l.Shard)) {
		return behind[len(behind)-1].name, true // no file is missing; the batch is
	}
	return c.fileOf(end+1, end+2)
}

// goesOn reports whether the segment has batches of the shard behind the range.
func (c *checker) goesOn(g *sealedSegment, l LostRange) bool {
	var cur segment.Cursor
	if g.index.Seek(&cur, cachedReader{c.files, g.name}, uint64(l.Shard), l.From) != nil {
		return true
	}
	at, err := cur.Next()
	return err == nil && at.Shard == uint64(l.Shard)
}

// fileOf names the file of the segments from and up to (not including) to, which are not in the log, and reports whether it is there all the same.
func (c *checker) fileOf(from, to uint64) (name string, there bool) {
	for _, g := range c.found {
		if from <= g.header.ID && g.header.ID < to {
			return g.name, true
		}
	}
	return missingName(from, to, "*"), false
}
