package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"polylog/logstore/vfs"
)

// Open opens the store in opts.Dir, which it makes if it is not there, and recovers what an earlier process left: it reads the newest good checkpoint and
// replays the entries behind it. A group that was cut off in the middle of being written was never confirmed, and is dropped. Damage to anything older is a
// *CorruptError, unless opts.Repair is set. Store.Recovery says what was found. A directory that another store holds is vfs.ErrLocked.
func Open(opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{
		opts: opts, fs: opts.FS, dir: opts.Dir,
		files:  newFileCache(opts.FS, opts.Dir, opts.OpenFiles),
		intake: newIntake(),
		groups: make(chan *group), ahead: make(chan *group), spare: make(chan *group, keptGroups),
		prepare: make(chan struct{}, 1), prepared: make(chan preparation, 1),
		seal: make(chan *openSegment, 1), sealFree: make(chan struct{}, 1),
		closing: make(chan struct{}), stopTasks: make(chan struct{}),
	}
	s.checkpoints.kick = make(chan struct{}, 1)
	s.cleaner.init(s)
	s.spares.s = s
	s.pins.init(s)
	if err := s.fs.MkdirAll(s.dir); err != nil {
		return nil, fmt.Errorf("making the directory of the log: %w", err)
	}
	if s.lock, err = s.fs.Lock(filepath.Join(s.dir, lockName)); err != nil {
		if errors.Is(err, vfs.ErrLocked) {
			return nil, fmt.Errorf("%s is in use: %w; stop the other process, or use another directory", s.dir, err)
		}
		return nil, fmt.Errorf("locking %s: %w", s.dir, err)
	}
	if err := s.start(); err != nil {
		s.files.close()
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// start recovers and sets the goroutines going.
func (s *Store) start() error {
	r := &recovery{s: s, fs: s.fs, dir: s.dir, repair: s.opts.Repair}
	if err := r.run(); err != nil {
		return err
	}
	s.Recovery = r.Recovery
	s.st, s.segs.sealed = r.st, r.sealed
	s.durableSeq.Store(s.st.seq)
	s.visible.Store(uint64(at(r.nextID, 0)))
	s.checkpoints.kept, s.checkpoints.size = r.checkpoints, r.checkpointSize
	s.checkpoints.logged = -r.Recovery.ReplayedBytes
	s.checkpoints.publish()

	if s.opts.Sequencer != nil {
		s.follower = newFollower(s, s.opts.Sequencer)
	}
	for range cap(s.spare) {
		s.spare <- &group{}
	}
	s.sealFree <- struct{}{}
	order := &orderer{s: s}
	switch err := s.holdReserve(); {
	case vfs.IsNoSpace(err):
		order.noRoom(err) //nolint:errcheck // it returns what it notes
		order.beginEmergency()
	case err != nil:
		return fmt.Errorf("putting disk space aside in %s: %w", s.dir, err)
	}
	w := &writer{s: s}
	s.logTasks.Add(4)
	go order.run()
	go w.run()
	go s.prepareLoop(r.nextID)
	go s.sealLoop()
	if r.damaged() {
		if err := s.sealRepair(); err != nil {
			return errors.Join(err, s.Close()) // Close ends the goroutines
		}
	}
	s.tasks.Add(1)
	go s.cleaner.run()
	if !s.opts.checkpointsByHand {
		s.tasks.Add(1)
		go s.checkpointLoop()
	}
	s.checkpoints.wake()
	if s.follower != nil {
		if err := s.opts.Sequencer.Attach(s); err != nil {
			close(s.follower.done) // it never began
			return errors.Join(fmt.Errorf("following the order: %w", err), s.Close())
		}
		s.follower.start()
	}
	return nil
}

// sealRepair makes a repair final: the checkpoints from before it would lead back to the damage.
func (s *Store) sealRepair() error {
	c := &s.checkpoints
	c.mu.Lock()
	old := slices.Clone(c.kept)
	c.kept = nil
	c.mu.Unlock()
	if err := s.takeCheckpoint(); err != nil {
		return fmt.Errorf("writing the checkpoint after the repair: %w", err)
	}
	for _, id := range old {
		if id == c.kept[0] {
			continue
		}
		if err := s.removeCheckpoint(id); err != nil {
			return fmt.Errorf("removing a checkpoint from before the repair: %w", err)
		}
	}
	return s.fs.SyncDir(s.dir)
}
