package vfs

import (
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"
)

// change is a change to a file that is not durable. Size and bytes are apart in it because they reach the disk apart.
type change struct {
	seq        uint64
	prev, size int64 // of the file, before and after
	reserve    int64 // the bytes to have reserved after it, 0 for no more than before
	resized    bool  // the size was set, or disk reserved, rather than the file extended by a write

	// Whole sectors as they were in memory afterwards, and where they begin. A disk does not write less than a sector, so that what
	// survives of a sector is what it was at some time, never a mixture. Not changed any more, so that copies of the list share it.
	sectors []byte
	off     int64
}

// memFile is an open file of a Mem.
type memFile struct {
	m        *Mem
	name     string
	node     *inode
	writable bool
	closed   atomic.Bool
}

func (m *Mem) handle(name string, node *inode, writable bool) *memFile {
	m.count.opened()
	return &memFile{m: m, name: name, node: node, writable: writable}
}

// usable says why an operation cannot be done, if so. Mem.mu is held.
func (f *memFile) usable(op string, toWrite bool) error {
	var err error
	switch {
	case f.closed.Load():
		err = fs.ErrClosed
	case f.m.crashed:
		err = ErrCrashed
	case toWrite && !f.writable:
		err = syscall.EBADF
	default:
		return nil
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

// inBounds says what is wrong with a position in a file, if anything is.
func (f *memFile) inBounds(op string, pos int64) error {
	switch {
	case pos < 0:
		return &fs.PathError{Op: op, Path: f.name, Err: syscall.EINVAL}
	case pos > maxFileSize:
		return &fs.PathError{Op: op, Path: f.name, Err: syscall.EFBIG}
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, f.inBounds("read", off)
	}
	f.m.count.reads.Add(1)
	f.node.mu.RLock()
	n := f.node.current.readAt(p, off)
	f.node.mu.RUnlock()
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes as much as there is room for.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable("write", true); err != nil {
		return 0, err
	}
	if err := f.inBounds("write", off); err != nil {
		return 0, err
	}
	if err := f.inBounds("write", off+int64(len(p))); err != nil {
		return 0, err
	}
	f.m.count.writes.Add(1)
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	fit := f.room(off, int64(len(p)))
	if fit > 0 {
		prev := f.node.current.size
		f.node.current.writeAt(p[:fit], off)
		f.issue(change{prev: prev}, off, off+fit)
	}
	if fit < int64(len(p)) {
		return int(fit), &fs.PathError{Op: "write", Path: f.name, Err: ErrNoSpace}
	}
	return len(p), nil
}

// room takes the space for a write and returns how many of its bytes there is room for.
func (f *memFile) room(off, n int64) int64 {
	if f.node.gone || n == 0 {
		return n
	}
	need := f.node.current.unallocated(off/blockSize, blocksFor(off+n))
	if need == 0 {
		return n
	}
	got := f.m.space.takeBlocks(need)
	if got == need {
		return n
	}
	return f.node.current.fitting(off, n, got)
}

// issue notes a change to the current image, just made, that wrote the bytes from off up to end. The inode is locked.
func (f *memFile) issue(c change, off, end int64) {
	c.seq, c.size = f.m.seq.Add(1), f.node.current.size
	if off < end {
		c.off = off / sectorSize * sectorSize
		c.sectors = make([]byte, (end+sectorSize-1)/sectorSize*sectorSize-c.off)
		f.node.current.peek(c.sectors, c.off)
	}
	f.node.changes = append(f.node.changes, c)
}

func (f *memFile) Sync() error {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable("sync", false); err != nil {
		return err
	}
	f.m.count.syncs.Add(1)
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	f.node.settle()
	return nil
}

// settle makes the file's content durable.
func (n *inode) settle() {
	if len(n.changes) == 0 {
		return
	}
	n.durable = n.current.clone()
	clear(n.changes)
	n.changes = n.changes[:0]
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable("truncate", true); err != nil {
		return err
	}
	if err := f.inBounds("truncate", size); err != nil {
		return err
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	before := f.node.current.allocated()
	prev := f.node.current.size
	f.node.current.resize(size)
	wrote := size
	if size < prev {
		wrote = (size + sectorSize - 1) / sectorSize * sectorSize // the rest of the last sector became zero
	}
	f.issue(change{prev: prev, resized: true}, size, wrote)
	if !f.node.gone {
		f.m.space.give(before - f.node.current.allocated())
	}
	return nil
}

func (f *memFile) Preallocate(size int64) error {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable("fallocate", true); err != nil {
		return err
	}
	if err := f.inBounds("fallocate", size); err != nil {
		return err
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	need := f.node.current.unallocated(0, blocksFor(size)) * blockSize
	if !f.node.gone && !f.m.space.take(need) {
		return &fs.PathError{Op: "fallocate", Path: f.name, Err: ErrNoSpace}
	}
	prev := f.node.current.size
	f.node.current.reserve(size)
	f.issue(change{prev: prev, resized: true, reserve: size}, 0, 0)
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable("stat", false); err != nil {
		return 0, err
	}
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	return f.node.current.size, nil
}

func (f *memFile) Close() error {
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	if err := f.usable("close", false); err != nil {
		return err
	}
	if f.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	f.m.count.handles.Add(-1)
	return nil
}

// memLock is a lock held on a file of a Mem.
type memLock struct {
	m    *Mem
	name string
	node *inode
	open bool // guarded by Mem.mu
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	switch {
	case !l.open:
		return &fs.PathError{Op: "unlock", Path: l.name, Err: fs.ErrClosed}
	case l.m.crashed:
		return &fs.PathError{Op: "unlock", Path: l.name, Err: ErrCrashed}
	}
	l.open, l.node.locked = false, false
	l.m.count.handles.Add(-1)
	return nil
}
