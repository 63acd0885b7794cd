package logstore

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"polylog/logstore/vfs"
)

// reserveName is a file of zeros that nobody reads. Its disk space is put aside for a full disk: what makes room there, deletions and checkpoints,
// needs a little room itself.
const reserveName = "reserve"

// reserveBytes is room for three of the smallest segments: one is filled with deletions while those before it wait for the checkpoints that let
// them go.
func (s *Store) reserveBytes() int64 { return 3 * s.smallestSegment() }

// smallestSegment is the least that a segment file is made with on a nearly full disk.
func (s *Store) smallestSegment() int64 { return max(minSegmentBytes, s.opts.SegmentBytes/128) }

// holdReserve puts the space aside, unless it is already.
func (s *Store) holdReserve() error {
	path := filepath.Join(s.dir, reserveName)
	f, err := s.fs.OpenWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = s.fs.Create(path)
	}
	if err != nil {
		return err
	}
	err = f.Preallocate(s.reserveBytes())
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// beginEmergency gives the reserve to the transactions that make room. From here on no others are taken.
func (o *orderer) beginEmergency() {
	o.emergency, o.retry = true, time.Time{}
	if err := o.s.fs.Remove(filepath.Join(o.s.dir, reserveName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.s.opts.Logf("giving up the reserve: %v", err)
	}
}

// endEmergency puts the reserve aside again if there is room for it, and else returns that the disk is full.
func (o *orderer) endEmergency() error {
	if time.Now().Before(o.retry) {
		return o.full
	}
	err := o.s.holdReserve()
	switch {
	case err == nil:
		o.emergency = false
		o.roomAgain()
		return nil
	case vfs.IsNoSpace(err):
		return o.noRoom(err)
	}
	o.s.fail("putting disk space aside", err)
	return o.s.Failure()
}

// roomAgain forgets that the disk was full.
func (o *orderer) roomAgain() {
	if o.full == nil || o.emergency {
		return
	}
	o.full = nil
	o.s.diskFull.Store(false)
	o.s.opts.Logf("there is room on the disk again")
}
