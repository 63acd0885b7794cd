package logstore

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"polylog/logstore/record"
	"polylog/logstore/segment"
)

// segmentScan is what a check has seen of one segment file.
type segmentScan struct {
	c                 *checker
	i                 int // in the log
	g                 *foundSegment
	f                 io.ReaderAt
	sc                *segment.Scanner
	locs              []segment.Loc
	firstSeq, lastSeq uint64 // 0: no entry yet; lastSeq begins with the entry before
	damaged           bool   // some entries are
	reindex           bool   // the index is missing, or cannot be relied upon
	told              int64  // bytes of it counted as done
}

// checkSegment verifies one segment file and replays what the state does not have yet.
func (c *checker) checkSegment(i int, g *foundSegment) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if g.headErr != nil {
		unused, err := c.checkBadHeader(i, g)
		if unused || err != nil {
			return err
		}
	} else {
		c.checkChain(i, g)
	}
	f, err := c.fs.Open(filepath.Join(c.dir, g.name))
	if err != nil {
		c.unreadable(g.name, 0, err)
		return nil
	}
	defer f.Close()
	end := g.entriesEnd()
	s := &segmentScan{
		c: c, i: i, g: g, f: f, sc: segment.NewScanner(f, g.header.Salt, segment.HeaderSize, end),
		lastSeq: c.lastSeq, damaged: g.headErr != nil,
	}
	if errors.Is(g.indexErr, segment.ErrNotSealed) {
		if err := segment.DamagedTrailer(f, g.size); err != nil {
			g.indexErr = err
		}
	}
	if err := s.scan(end); err != nil {
		return err
	}
	s.sortLocs()
	s.checkIndex()
	c.lastSeq = max(c.lastSeq, s.lastSeq, g.header.LastSeq)
	r := c.report
	r.Segments++
	r.SegmentBytes += g.size
	if g.index != nil {
		r.Sealed++
		c.lastSeq = max(c.lastSeq, g.index.LastSeq)
	} else {
		r.Unsealed++
	}
	if s.damaged {
		c.damagedFiles[g.name] = true
	}
	if s.damaged || s.reindex || g.index == nil {
		s.indexInMemory()
	} else {
		c.keep(g)
	}
	c.tell(g.size - s.told)
	return nil
}

// checkBadHeader judges a file without a good header. If it was ever used, that is damage.
func (c *checker) checkBadHeader(i int, g *foundSegment) (unused bool, err error) {
	unused, err = c.neverUsed(i, g)
	if err != nil {
		c.unreadable(g.name, 0, err)
		return true, nil
	}
	if unused {
		c.report.Unused++
		c.report.note("%s was prepared, and nothing in it was ever confirmed; the next start removes it", g.name)
		c.tell(g.size)
		return true, nil
	}
	c.report.problem(g.name, 0, "%v", g.headErr)
	g.guessHeader(c.lastSeq)
	return false, nil
}

// checkChain sees that the segment follows the one before. Files whose entries the older checkpoint has may be gone: cleaning takes them away.
func (c *checker) checkChain(i int, g *foundSegment) {
	prev, known := g.header.PrevSeq, max(c.completeFrom, c.lastSeq)
	switch {
	case prev < c.lastSeq:
		c.report.problem(g.name, 0, "it follows entry %d, but the segment before it ends with entry %d", prev, c.lastSeq)
	case prev > known:
		if name := c.missingBefore(i); name != "" {
			c.report.problem(name, 0, "it is missing: %s follows entry %d, and the last one before is %d", g.name, prev, known)
		} else if i == 0 || !c.damagedFiles[c.found[i-1].name] {
			c.report.problem(g.name, 0, "it follows entry %d, and the last one before is %d: the end of a segment is missing", prev, known)
		}
	}
	if prev > max(c.lastSeq, c.st.seq) {
		c.line.gap = true
	}
	if g.header.Generation == 0 || g.header.LastSeq <= c.st.seq {
		return
	}
	why := fmt.Sprintf("%s was cleaned up to entry %d", g.name, g.header.LastSeq)
	if g.header.LastSeq > c.CheckpointSeq {
		c.report.problem(g.name, 0, "it was cleaned up to entry %d, but the newest good checkpoint ends at %d: a checkpoint is lost", g.header.LastSeq, c.CheckpointSeq)
	}
	c.interrupt(why)
}

// checkEnd sees that the log reaches to its newest checkpoint.
func (c *checker) checkEnd() {
	n := len(c.found)
	if !c.endsEarly() || c.missed || n > 0 && c.damagedFiles[c.found[n-1].name] {
		return // it does, or the reason was told
	}
	c.report.problem(c.dir, 0, "%s", c.endMissing())
}

// missingBefore names the file that may have been between the segment and the one before, or nothing.
func (c *checker) missingBefore(i int) string {
	from := uint64(1)
	if i > 0 {
		from = c.found[i-1].header.CoversTo + 1
	}
	return missingName(from, c.found[i].header.ID, "0") // cleaning has not been there yet
}

// missingName names the files of the segments from and up to (not including) to, if there are any.
func missingName(from, to uint64, generation string) string {
	if from >= to {
		return ""
	}
	first, last := fmt.Sprintf("%016x-%s%s", from, generation, segmentSuffix), fmt.Sprintf("%016x-%s%s", to-1, generation, segmentSuffix)
	if first == last {
		return first
	}
	return first + " to " + last
}

// scan reads all entries, and judges what is none as recovery does.
func (s *segmentScan) scan(end int64) error {
	for {
		bad, err := s.entries()
		if err != nil {
			return err
		}
		if errors.Is(bad, errUnreadable) {
			return nil
		}
		if bad == nil && s.g.index != nil {
			return nil
		}
		verdict, err := s.c.judge(s.i, s.g, s.sc.Pos(), s.lastSeq, bad)
		if err != nil {
			s.unreadable(err)
			return nil
		}
		if verdict == nil {
			if s.g.index == nil {
				s.noteTail(bad, end)
			}
			return nil
		}
		s.c.report.problem(verdict.File, verdict.Pos, "%s", verdict.What)
		s.noteGap()
		found, err := s.g.resync(s.sc, s.lastSeq)
		if err != nil {
			s.unreadable(err)
			return nil
		}
		if !found {
			return nil
		}
	}
}

// errUnreadable stands for an error of the disk, which was reported.
var errUnreadable = errors.New("the disk does not give it back")

// noteGap remembers that entries are lost. Those that the state has already do not matter to the replay.
func (s *segmentScan) noteGap() {
	s.damaged = true
	if x := s.g.index; x == nil || x.LastSeq > s.c.st.seq {
		s.c.line.gap = true
	}
}

func (s *segmentScan) unreadable(err error) {
	s.noteGap()
	s.c.unreadable(s.g.name, int64(s.sc.Pos()), err)
}

// entries verifies entries until the end (nil) or the first bad one.
func (s *segmentScan) entries() (bad error, err error) {
	c, g := s.c, s.g
	for {
		if n := int64(s.sc.Pos()) - s.told; n >= tellBytes {
			if err := c.ctx.Err(); err != nil {
				return nil, err
			}
			c.tell(n)
			s.told += n
		}
		pos := s.sc.Pos()
		e, err := s.sc.Next()
		switch {
		case err == io.EOF || errors.Is(err, segment.ErrNoEntry):
			if g.index != nil && err != io.EOF {
				return err, nil
			}
			return nil, nil
		case errors.Is(err, segment.ErrBadEntry):
			return err, nil
		case err != nil:
			s.unreadable(err)
			return errUnreadable, nil
		}
		if c.ops, err = decodeEntry(&e, c.ops[:0]); err == nil {
			err = s.checkOrder(&e)
		}
		if err != nil {
			s.sc.Rewind(pos)
			return err, nil
		}
		if e.Kind == segment.KindTxn {
			if err := c.replayChecked(g, &e); err != nil {
				return nil, err
			}
			if s.firstSeq == 0 {
				s.firstSeq = e.Seq
			}
			s.lastSeq = max(s.lastSeq, e.Seq)
		}
		s.checkBatches(&e)
		s.locs = appendLocs(s.locs, c.ops)
	}
}

// checkOrder sees that an entry may stand where it does.
func (s *segmentScan) checkOrder(e *segment.Entry) error {
	switch {
	case e.Kind == segment.KindKept && s.g.header.Generation == 0:
		return fmt.Errorf("a batch that cleaning kept is in a file that was never cleaned")
	case e.Kind == segment.KindTxn && s.g.header.Generation == 0 && s.lastSeq != 0 && e.Seq <= s.lastSeq:
		return fmt.Errorf("entry %d follows entry %d", e.Seq, s.lastSeq)
	}
	return nil
}

// checkBatches walks the records of an entry's batches.
func (s *segmentScan) checkBatches(e *segment.Entry) {
	r := s.c.report
	r.Entries++
	for i := range s.c.ops {
		o := &s.c.ops[i]
		if o.kind != opAppend {
			if e.Kind == segment.KindKept {
				r.problem(s.g.name, int64(e.Pos), "operation kind %d stands among batches that cleaning kept", o.kind)
			}
			continue
		}
		r.Batches++
		r.Records += int64(o.batch.Count())
		err := o.batch.Validate(record.Limits{})
		switch {
		case errors.Is(err, record.ErrTooLarge):
			r.note("%s at position %d: the records were not looked at: %v", s.g.name, o.pos, err)
		case err != nil:
			r.problem(s.g.name, int64(o.pos), "the batch at offset %d of shard %d is whole, but its records cannot be read: %v", o.base, o.shard, err)
		}
	}
}

// noteTail tells of the end of a file that was not sealed.
func (s *segmentScan) noteTail(bad error, end int64) {
	r, pos := s.c.report, int64(s.sc.Pos())
	switch {
	case errors.Is(s.g.indexErr, segment.ErrBadIndex):
		// That is told of the index.
	case bad == nil || pos >= end:
		r.note("%s is not sealed: the process that wrote it did not end in order; the next start seals it", s.g.name)
	default:
		r.note("%s is not sealed, and what stands behind position %d was never confirmed (%v); the next start cuts it off and seals the file", s.g.name, pos, bad)
	}
}
