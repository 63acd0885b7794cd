package logstore

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"

	"polylog/logstore/vfs"
)

// keptCheckpoints is how many good checkpoints are kept: should the newest turn out damaged, the one before still leads there.
const keptCheckpoints = 2

// checkpointID names a checkpoint: the last transaction in it, and which of several copies it is.
type checkpointID struct {
	seq  uint64
	copy uint32
}

func (a checkpointID) compare(b checkpointID) int {
	if c := cmp.Compare(a.seq, b.seq); c != 0 {
		return c
	}
	return cmp.Compare(a.copy, b.copy)
}

// checkpoints knows the checkpoint files, and when the next is due.
type checkpoints struct {
	kick chan struct{}

	mu     sync.Mutex     // held while one is taken
	kept   []checkpointID // ascending
	size   int64          // of the newest, bytes
	logged int64          // counters.logBytes when it was taken

	newest atomic.Uint64
	oldest atomic.Uint64 // cleaning may take away what lies at or before; 0 while there are fewer than keptCheckpoints
}

func (c *checkpoints) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// due reports whether enough was logged since the last checkpoint: so much that recovery stays short, and so that a large state is not written
// over and over.
func (s *Store) checkpointDue() bool {
	c := &s.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.stats.logBytes.Load()-c.logged >= max(s.opts.CheckpointBytes, 8*c.size)
}

// checkpointLoop takes checkpoints when they are due, or when cleaning waits for one.
func (s *Store) checkpointLoop() {
	defer s.tasks.Done()
	for {
		select {
		case <-s.stopTasks:
			return
		case <-s.checkpoints.kick:
		}
		if s.Failure() != nil {
			return
		}
		waited := s.cleaner.waitsForCheckpoint.Swap(false)
		if !waited && !s.checkpointDue() {
			continue
		}
		if err := s.takeCheckpoint(); err != nil && s.Failure() == nil && !errors.Is(err, ErrClosed) {
			s.opts.Logf("taking a checkpoint: %v; the log is kept until one succeeds", err)
		}
		s.cleaner.wake()
	}
}

// Checkpoint writes a checkpoint now: a start after this one replays only what was ordered since.
func (s *Store) Checkpoint() error { return s.takeCheckpoint() }

// takeCheckpoint writes the state as it is now.
func (s *Store) takeCheckpoint() error {
	c := &s.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	logged := s.stats.logBytes.Load()
	s.mu.Lock()
	st := s.st.snapshot()
	s.mu.Unlock()
	_, err := s.keepCheckpoint(st, logged)
	return err
}

// keepCheckpoint writes the state, which was taken when logged bytes had been written, unless there are enough checkpoints of it. The log up to there is forced to the
// disk first, so that a checkpoint is never ahead of the log. The lock of the checkpoints is held.
func (s *Store) keepCheckpoint(st *state, logged int64) (id checkpointID, err error) {
	c := &s.checkpoints
	id.seq = st.seq
	if n := len(c.kept); n > 0 && c.kept[n-1].seq == st.seq {
		if n >= keptCheckpoints && c.kept[0].seq == st.seq {
			return c.kept[n-1], nil
		}
		id.copy = c.kept[n-1].copy + 1 // nothing was ordered since; the older one still is not needed any more when there is a second of these
	}
	if err := s.durable(st.seq); err != nil {
		return id, err
	}
	size, err := s.storeCheckpoint(id, st)
	if vfs.IsNoSpace(err) && len(c.kept) == keptCheckpoints {
		// The older of the two gives its place: without a checkpoint nothing can be cleaned, and the disk would stay full.
		if err := s.removeCheckpoint(c.kept[0]); err != nil {
			return id, err
		}
		c.kept = c.kept[1:]
		size, err = s.storeCheckpoint(id, st)
	}
	if err != nil {
		return id, err
	}
	c.kept = append(c.kept, id)
	c.size, c.logged = size, logged
	for len(c.kept) > keptCheckpoints {
		if err := s.removeCheckpoint(c.kept[0]); err != nil {
			return id, err
		}
		c.kept = c.kept[1:]
	}
	c.publish()
	s.stats.checkpoints.Add(1)
	s.stats.checkpointBytes.Store(size)
	return id, nil
}

// publish tells what the kept checkpoints cover.
func (c *checkpoints) publish() {
	if n := len(c.kept); n > 0 {
		c.newest.Store(c.kept[n-1].seq)
		if n >= keptCheckpoints {
			c.oldest.Store(c.kept[0].seq)
		}
	}
}

// durable returns when the log is on the disk up to seq.
func (s *Store) durable(seq uint64) error {
	if s.durableSeq.Load() >= seq {
		return nil
	}
	return s.Sync(context.Background())
}

// storeCheckpoint writes a checkpoint file, which under its own name is always whole.
func (s *Store) storeCheckpoint(id checkpointID, st *state) (size int64, err error) {
	err = s.replaceFile(checkpointName(id), func(f vfs.File) (err error) {
		size, err = writeCheckpoint(f, st)
		return err
	})
	return size, err
}

// writeFile creates a file, has it written, and forces it to the disk. After an error there is no file.
func (s *Store) writeFile(path string, write func(f vfs.File) error) error {
	f, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		if rmErr := s.fs.Remove(path); rmErr != nil {
			s.opts.Logf("removing the unfinished file %s: %v", path, rmErr)
		}
	}
	return err
}

func (s *Store) removeCheckpoint(id checkpointID) error {
	return s.fs.Remove(filepath.Join(s.dir, checkpointName(id)))
}
