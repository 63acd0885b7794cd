package vfs

import (
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"syscall"
)

// counters counts what was done to a Mem since it came to be, by NewMem, Crash or Snapshot.
type counters struct {
	reads, writes, syncs, dirSyncs atomic.Int64
	handles, maxHandles            atomic.Int64
}

func (c *counters) opened() {
	n := c.handles.Add(1)
	for {
		high := c.maxHandles.Load()
		if n <= high || c.maxHandles.CompareAndSwap(high, n) {
			return
		}
	}
}

// Reads returns the number of ReadAt calls.
func (m *Mem) Reads() int64 { return m.count.reads.Load() }

// Writes returns the number of WriteAt calls.
func (m *Mem) Writes() int64 { return m.count.writes.Load() }

// Syncs returns the number of Sync calls on files.
func (m *Mem) Syncs() int64 { return m.count.syncs.Load() }

// DirSyncs returns the number of SyncDir calls.
func (m *Mem) DirSyncs() int64 { return m.count.dirSyncs.Load() }

// OpenHandles returns how many files and locks are open.
func (m *Mem) OpenHandles() int64 { return m.count.handles.Load() }

// MaxOpenHandles returns the highest number of files and locks that were open at one time.
func (m *Mem) MaxOpenHandles() int64 { return m.count.maxHandles.Load() }

// Contents returns the bytes of a file as a read would find them.
func (m *Mem) Contents(name string) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.find("read", name)
	if err != nil {
		return nil, err
	}
	if node.isDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	node.mu.RLock()
	defer node.mu.RUnlock()
	b := make([]byte, node.current.size)
	node.current.readAt(b, 0)
	return b, nil
}

// Put makes a file with this content, or gives an existing one this content, and makes content, name and directories durable.
func (m *Mem) Put(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, err := m.placeInMade(name)
	if err != nil {
		return err
	}
	content := newImage()
	content.writeAt(data, 0)
	grow := content.allocated()
	if node != nil {
		grow -= node.current.allocated()
	}
	if !m.space.take(grow) {
		return &fs.PathError{Op: "put", Path: name, Err: ErrNoSpace}
	}
	if node == nil {
		node = newFile()
		m.relink(node, slot{}, at)
	}
	node.current, node.durable, node.changes = content, content.clone(), nil
	m.settle(func(r *relink) bool { return slices.Contains(r.slots(), at) })
	return nil
}

// placeInMade is place for a file, making the directories first.
func (m *Mem) placeInMade(name string) (slot, *inode, error) {
	if err := m.mkdirAll(name + "/.."); err != nil {
		return slot{}, nil, err
	}
	at, node, err := m.place("put", name)
	if err == nil && node != nil && node.isDir() {
		err = &fs.PathError{Op: "put", Path: name, Err: syscall.EISDIR}
	}
	return at, node, err
}

// Corrupt flips the bits of mask in one byte of a file, as a failing disk does. To make the damage certain to survive a crash it makes the file's content
// durable first.
func (m *Mem) Corrupt(name string, offset int64, mask byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("corrupt", name)
	if err != nil {
		return err
	}
	if node.isDir() || offset < 0 || offset >= node.current.size {
		return &fs.PathError{Op: "corrupt", Path: name, Err: fmt.Errorf("no byte at offset %d", offset)}
	}
	node.settle()
	for _, im := range [...]*image{node.current, node.durable} {
		var b [1]byte
		im.readAt(b[:], offset)
		b[0] ^= mask
		im.poke(b[:], offset)
	}
	return nil
}

// Snapshot returns a copy of the file system as it is, down to what is not durable, which goes its own way from here. Nothing is open or locked
// in it, and files without a name are not in it. A file system that has crashed is copied as it was when it did, and works again.
func (m *Mem) Snapshot() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.copy()
}
