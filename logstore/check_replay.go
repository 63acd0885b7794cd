package logstore

import (
	"errors"
	"fmt"
	"path/filepath"

	"polylog/logstore/segment"
)

// checkedLine is how far the state of a check has come. It begins with the older of the two checkpoints that a store keeps; when it reaches the newer one
// both must be the same state. What follows is replayed as Open does it.
type checkedLine struct {
	from   uint64          // the older checkpoint
	ahead  *goodCheckpoint // the newer one; nil once it is reached
	broken string          // why the log up to there cannot be replayed; empty: it can
	gap    bool            // entries may be missing before the next one
}

// goodCheckpoint is a checkpoint file that was read and found whole.
type goodCheckpoint struct {
	id   checkpointID
	hash uint64
}

// checkCheckpoints reads all checkpoint files, and takes up the state of the last but one.
func (c *checker) checkCheckpoints(names []string) error {
	var good []goodCheckpoint
	for _, id := range checkpointIDs(names) {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		st, size, err := openCheckpoint(c.fs, c.dir, id)
		if errors.Is(err, segment.ErrVersion) {
			return fmt.Errorf("%s: %w", filepath.Join(c.dir, checkpointName(id)), err)
		}
		c.report.Checkpoints = append(c.report.Checkpoints, CheckpointReport{checkpointName(id), id.seq, size, err == nil})
		c.tell(size)
		switch {
		case errors.Is(err, errBadCheckpoint):
			c.report.problem(checkpointName(id), 0, "%v", err)
		case err != nil:
			c.unreadable(checkpointName(id), 0, err)
		default:
			good = append(good, goodCheckpoint{id, st.hash()})
		}
	}
	c.st = newState()
	n := len(good)
	if n == 0 {
		return nil
	}
	newest := good[n-1]
	c.CheckpointSeq, c.completeFrom = newest.id.seq, newest.id.seq
	if n == 1 {
		return c.takeUp(newest)
	}
	older := good[n-2]
	if older.id.seq == newest.id.seq {
		if older.hash != newest.hash {
			c.report.problem(checkpointName(newest.id), 0, "its state has hash %016x, that of %s has %016x; both are of entry %d",
				newest.hash, checkpointName(older.id), older.hash, newest.id.seq)
		}
		return c.takeUp(newest)
	}
	c.completeFrom = older.id.seq
	c.line.from, c.line.ahead = older.id.seq, &newest
	return c.takeUp(older)
}

// takeUp makes a checkpoint the state.
func (c *checker) takeUp(g goodCheckpoint) error {
	c.st = nil // one state at a time is enough
	st, _, err := openCheckpoint(c.fs, c.dir, g.id)
	if err != nil {
		return fmt.Errorf("reading %s a second time: %w", checkpointName(g.id), err)
	}
	c.st = st
	return nil
}

// replayChecked applies an entry that the state does not have yet.
func (c *checker) replayChecked(g *foundSegment, e *segment.Entry) error {
	l := &c.line
	if l.ahead != nil && e.Seq > l.ahead.id.seq {
		if err := c.meet(); err != nil {
			return err
		}
	}
	if e.Seq <= c.st.seq {
		return nil
	}
	if l.gap && e.Seq > c.st.seq+1 {
		c.interrupt(fmt.Sprintf("entries between %d and %d are missing", c.st.seq, e.Seq))
	}
	l.gap = false
	if l.ahead != nil && l.broken != "" {
		return nil
	}
	err := c.replay(g, e)
	if corrupt, is := errors.AsType[*CorruptError](err); is {
		c.report.problem(corrupt.File, corrupt.Pos, "%s", corrupt.What)
		c.interrupt(fmt.Sprintf("entry %d cannot be applied", e.Seq))
		c.st.seq = e.Seq
		return nil
	}
	return err
}

// interrupt takes note that entries are missing. What follows is replayed as a repair does it, so that what it would lose can be told.
func (c *checker) interrupt(why string) {
	if c.line.ahead == nil {
		c.repair = true
	} else if c.line.broken == "" {
		c.line.broken = why
	}
}

// meet compares the state with the newer checkpoint, at which it has arrived, and goes on from there.
func (c *checker) meet() error {
	l, newest := &c.line, *c.line.ahead
	l.ahead = nil
	name := checkpointName(newest.id)
	if l.broken == "" && c.st.seq != newest.id.seq {
		l.broken = fmt.Sprintf("entries between %d and %d are missing", c.st.seq, newest.id.seq)
	}
	if l.broken != "" {
		c.report.note("%s was not compared with the one before, at entry %d: %s", name, l.from, l.broken)
	} else if hash := c.st.hash(); hash != newest.hash {
		c.report.problem(name, 0, "the log behind entry %d leads to a state with hash %016x, this checkpoint has %016x", l.from, hash, newest.hash)
	} else {
		return nil
	}
	return c.takeUp(newest)
}

// endReplay is called behind the last entry.
func (c *checker) endReplay() error {
	if c.line.ahead != nil {
		if err := c.meet(); err != nil {
			return err
		}
	}
	c.report.LastSeq, c.report.Hash = c.st.seq, c.st.hash()
	return nil
}
