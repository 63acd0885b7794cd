package logstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// Snapshot is the store as it was after one transaction: a checkpoint and the segment files that belong to it, which stay readable and unchanged until Close while
// the store goes on. Restore makes a store of a copy of them. Its methods may be called from several goroutines.
//
// However many snapshots there are, few files are held open. Disk space of what the store would have removed meanwhile is not given back before Close, unless the
// disk is nearly full: then it is, and ReadAt fails with a *SnapshotLostError.
type Snapshot struct {
	Seq   uint64         // of the last transaction in it
	Files []SnapshotFile // the checkpoint, then the segments

	s          *Store
	checkpoint vfs.File
	mu         sync.RWMutex // held for writing to close
	closed     bool
}

// SnapshotFile is a file of a snapshot. Of a segment that was being written it has the entries up to the snapshot's transaction.
type SnapshotFile struct {
	Name string
	Size int64
}

// Snapshot takes a checkpoint and keeps what belongs to it for a copy. All that was ordered before is in it.
func (s *Store) Snapshot(ctx context.Context) (*Snapshot, error) {
	if err := errors.Join(ctx.Err(), s.Failure()); err != nil {
		return nil, err
	}
	c := &s.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	logged := s.stats.logBytes.Load()

	s.pins.mu.Lock()
	if s.pins.closed {
		s.pins.mu.Unlock()
		return nil, ErrClosed
	}
	s.mu.Lock()
	st := s.st.snapshot()
	files := s.segs.files()
	s.mu.Unlock()
	s.pins.hold(files)
	s.pins.mu.Unlock()

	snap := &Snapshot{Seq: st.seq, s: s}
	id, err := s.keepCheckpoint(st, logged) // and the entries are on the disk, so the files have them
	if err == nil {
		err = ctx.Err()
	}
	var size int64
	if err == nil {
		snap.checkpoint, size, err = s.openCheckpoint(id)
	}
	if err != nil {
		s.pins.release(files)
		return nil, fmt.Errorf("taking a snapshot: %w", err)
	}
	snap.Files = slices.Insert(files, 0, SnapshotFile{checkpointName(id), size})
	return snap, nil
}

// files lists the files with the entries up to now. The store's lock is held.
func (s *segments) files() []SnapshotFile {
	list := make([]SnapshotFile, 0, len(s.sealed)+2)
	for _, g := range s.sealed {
		list = append(list, SnapshotFile{g.name, g.size})
	}
	for _, g := range []*openSegment{s.sealing, s.active} {
		if g != nil && g.firstSeq != 0 {
			list = append(list, SnapshotFile{g.name, int64(g.pos)})
		}
	}
	return list
}

// ReadAt reads from a file of the snapshot as io.ReaderAt does; file is an index in Files. After the store's Close it fails with ErrClosed.
func (n *Snapshot) ReadAt(file int, p []byte, off int64) (int, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.closed {
		return 0, fs.ErrClosed
	}
	size := n.Files[file].Size
	if off < 0 || off >= size {
		return 0, io.EOF
	}
	var end error
	if int64(len(p)) > size-off {
		p, end = p[:size-off], io.EOF
	}
	if err := n.read(file, p, off); err != nil {
		return 0, err
	}
	return len(p), end
}

func (n *Snapshot) read(file int, p []byte, off int64) error {
	if file == 0 {
		return segment.ReadFull(n.checkpoint, p, off)
	}
	f, err := n.s.pins.acquire(n.Files[file].Name)
	if err != nil {
		return err
	}
	defer n.s.pins.cache.release(f)
	if err := segment.ReadFull(f, p, off); errors.Is(err, fs.ErrClosed) {
		return ErrClosed
	} else if err != nil {
		return fmt.Errorf("reading %s for a snapshot: %w", n.Files[file].Name, err)
	}
	return nil
}

// Close lets the store go on with the files as it likes.
func (n *Snapshot) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	n.s.pins.release(n.Files[1:])
	return n.checkpoint.Close()
}
