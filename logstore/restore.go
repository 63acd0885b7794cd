package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"polylog/logstore/vfs"
)

// restoringName is a file that is in a directory while it is being made a copy of another store. It goes last, so whatever happens before, no start takes
// a part of the copy for the whole.
const restoringName = "restoring"

const (
	maxRestoredSegment = 2 << 30
	maxRestoredFile    = 1 << 40
)

// Restoring makes an empty directory a copy of a store, from the files of one of its snapshots: Create each, write all bytes of each in any order, Finish.
// Its methods may be called from several goroutines. It holds the directory's lock until Finish succeeds or Abort.
//
// What is damaged on the way is the transporter's to find, by a checksum over what it sends. Finish verifies checkpoint and headers, so that Open works; a damaged
// message would be found when it is read, and by Check.
type Restoring struct {
	fs   vfs.FS
	dir  string
	lock io.Closer

	mu    sync.Mutex
	files []*restored
	over  bool
}

// restored is a file that is being received.
type restored struct {
	path string
	name string
	size int64

	mu   sync.Mutex
	f    vfs.File // nil: whole, on the disk, and closed
	have []Range  // that were written; they ascend and do not touch
}

// Restore begins to fill a directory, which is made if it is not there. What an earlier restore left that was not finished is removed; a log is a *HoldsLogError.
func Restore(fsys vfs.FS, dir string) (*Restoring, error) {
	r, err := lockRestore(fsys, dir)
	if err != nil {
		return nil, err
	}
	unfinished, err := Unfinished(r.fs, dir)
	if err == nil && !unfinished && holdsLog(r.fs, dir) == nil {
		err = &HoldsLogError{dir}
	}
	if err == nil {
		err = r.begin()
	}
	if err != nil {
		return nil, errors.Join(err, r.lock.Close())
	}
	return r, nil
}

// Abandon gives up the log in a directory for good, because a copy of another store is to take its place: from then on Open fails with an *UnfinishedRestoreError until a
// restore was finished.
func Abandon(fsys vfs.FS, dir string) error {
	r, err := lockRestore(fsys, dir)
	if err != nil {
		return err
	}
	return errors.Join(r.begin(), r.lock.Close())
}

// Unfinished reports whether the directory is waiting for a restore: the last one was not finished, or its log was abandoned.
func Unfinished(fsys vfs.FS, dir string) (bool, error) {
	if fsys == nil {
		fsys = vfs.OS
	}
	_, err := fsys.Stat(filepath.Join(dir, restoringName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func lockRestore(fsys vfs.FS, dir string) (*Restoring, error) {
	if fsys == nil {
		fsys = vfs.OS
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("making the directory of the log: %w", err)
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s is in use: %w; close its store first", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return &Restoring{fs: fsys, dir: dir, lock: lock}, nil
}

// begin marks the directory, and only when that is sure to last removes what is in it.
func (r *Restoring) begin() error {
	f, err := r.fs.Create(filepath.Join(r.dir, restoringName))
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil {
		err = r.fs.SyncDir(r.dir)
	}
	if err != nil {
		return fmt.Errorf("marking %s as one to be restored: %w", r.dir, err)
	}
	return r.wipe()
}

// wipe removes all files of a log.
func (r *Restoring) wipe() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isLogFile(name) && !strings.HasSuffix(name, tmpSuffix) && !strings.HasSuffix(name, spareSuffix) {
			continue
		}
		if err := r.fs.Remove(filepath.Join(r.dir, name)); err != nil {
			return fmt.Errorf("emptying %s: %w", r.dir, err)
		}
	}
	return r.fs.SyncDir(r.dir)
}

// isLogFile reports whether this is the name of a segment or a checkpoint.
func isLogFile(name string) bool {
	_, _, isSegment := parseSegmentName(name)
	_, isCheckpoint := parseCheckpointName(name)
	return isSegment || isCheckpoint
}

// Create makes a file of the snapshot, with disk space for its size, and returns its index for WriteAt. The name comes from another node: any but that of a segment or
// checkpoint is refused.
func (r *Restoring) Create(name string, size int64) (file int, err error) {
	_, isCheckpoint := parseCheckpointName(name)
	switch {
	case !isLogFile(name):
		return 0, &InvalidError{fmt.Sprintf("%q is not the name of a segment or checkpoint, which a snapshot consists of", name)}
	case size < 1 || size > maxRestoredFile || !isCheckpoint && size > maxRestoredSegment:
		return 0, &InvalidError{fmt.Sprintf("%s is to have %d bytes; a segment has at most %d, a checkpoint %d", name, size, int64(maxRestoredSegment), int64(maxRestoredFile))}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return 0, fs.ErrClosed
	}
	w := &restored{path: filepath.Join(r.dir, name), name: name, size: size}
	if w.f, err = r.fs.Create(w.path); err != nil {
		return 0, err
	}
	if err := w.f.Preallocate(size); err != nil {
		return 0, errors.Join(err, w.f.Close(), r.fs.Remove(w.path))
	}
	r.files = append(r.files, w)
	return len(r.files) - 1, nil
}

// WriteAt writes a part of a file. What was written already is passed over, so a transporter may send again. A file that is whole is forced to the disk and closed.
func (r *Restoring) WriteAt(file int, p []byte, off int64) (int, error) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return 0, fs.ErrClosed
	}
	w := r.files[file]
	r.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	part := Range{off, off + int64(len(p))}
	switch {
	case off < 0 || part.To > w.size:
		return 0, &InvalidError{fmt.Sprintf("bytes %d to %d of %s, which has %d", part.From, part.To, w.name, w.size)}
	case len(p) == 0 || slices.ContainsFunc(w.have, func(h Range) bool { return h.From <= part.From && part.To <= h.To }):
		return len(p), nil
	case w.f == nil:
		return 0, fs.ErrClosed
	}
	if n, err := w.f.WriteAt(p, off); err != nil {
		return n, err
	}
	w.have = addRange(w.have, part)
	if w.isWhole() {
		return len(p), w.settle()
	}
	return len(p), nil
}

// addRange puts a range into a set whose ranges ascend and do not touch.
func addRange(set []Range, add Range) []Range {
	from := slices.IndexFunc(set, func(r Range) bool { return r.To >= add.From })
	if from < 0 {
		return append(set, add)
	}
	to := from
	for ; to < len(set) && set[to].From <= add.To; to++ {
		add.From, add.To = min(add.From, set[to].From), max(add.To, set[to].To)
	}
	return slices.Replace(set, from, to, add)
}

func (w *restored) isWhole() bool { return len(w.have) == 1 && w.have[0] == Range{0, w.size} }

// settle forces a whole file to the disk. A sync that failed proves nothing when it is tried again, so the file must then be received again.
func (w *restored) settle() error {
	err := w.f.Sync()
	if err != nil {
		w.have = nil
		return err
	}
	err = w.f.Close()
	w.f = nil
	return err
}

// Finish makes the directory that of a store, which Open can open. After an error it is not one yet: what is missing can still be written, or all given up by Abort.
func (r *Restoring) Finish() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return fs.ErrClosed
	}
	if err := r.verify(); err != nil {
		return fmt.Errorf("restoring %s: %w", r.dir, err)
	}
	err := r.fs.SyncDir(r.dir)
	if err == nil {
		if err = r.fs.Remove(filepath.Join(r.dir, restoringName)); errors.Is(err, fs.ErrNotExist) {
			err = nil // an earlier Finish came as far as here
		}
	}
	if err == nil {
		err = r.fs.SyncDir(r.dir)
	}
	if err != nil {
		return fmt.Errorf("restoring %s: %w", r.dir, err)
	}
	r.over = true
	return r.lock.Close()
}

// verify sees that all was received, and that it is what Open begins with.
func (r *Restoring) verify() error {
	var names []string
	checkpoints := 0
	for _, w := range r.files {
		w.mu.Lock()
		whole := w.f == nil && w.isWhole()
		w.mu.Unlock()
		if !whole {
			return &InvalidError{fmt.Sprintf("%s is not whole; write all of its %d bytes", w.name, w.size)}
		}
		names = append(names, w.name)
		id, is := parseCheckpointName(w.name)
		if !is {
			continue
		}
		checkpoints++
		if _, _, err := openCheckpoint(r.fs, r.dir, id); errors.Is(err, errBadCheckpoint) {
			return &CorruptError{File: w.name, What: err.Error()}
		} else if err != nil {
			return err
		}
	}
	if checkpoints != 1 {
		return &InvalidError{fmt.Sprintf("%d checkpoints; a snapshot has one", checkpoints)}
	}
	slices.Sort(names)
	found, err := findSegments(r.fs, r.dir, names)
	if err != nil {
		return err
	}
	for i, g := range found {
		if g.headErr != nil {
			return &CorruptError{File: g.name, What: g.headErr.Error()}
		}
		// The last two may have been open.
		if g.indexErr != nil && (g.header.Generation > 0 || i < len(found)-2) {
			return &CorruptError{File: g.name, Pos: g.entriesEnd(), What: g.indexErr.Error()}
		}
	}
	return nil
}

// Abort gives up what was received. The directory waits for another restore.
func (r *Restoring) Abort() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil
	}
	r.over = true
	var errs []error
	for _, w := range r.files {
		w.mu.Lock()
		if w.f != nil {
			errs = append(errs, w.f.Close())
			w.f = nil
		}
		w.mu.Unlock()
	}
	return errors.Join(append(errs, r.begin(), r.lock.Close())...) // the mark too: a Finish that failed may have removed it
}
