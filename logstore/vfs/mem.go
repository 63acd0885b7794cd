package vfs

import (
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// Mem is a file system in memory that knows what would be left of it if power failed now: files that were synced, under names whose
// directory was synced. What is not certain to be left it keeps as a list of changes in the order of their issue, for Crash to choose from. These
// lists grow until the file or directory is synced. Directories from MkdirAll are durable at once. Paths start at the root, with a
// slash or without; there are no links and no permissions.
type Mem struct {
	// mu is held for writing by who changes the tree or must see all of it stand still, for reading by all others, who also
	// lock the inode of the file they touch. So operations on different files run side by side.
	mu      sync.RWMutex
	root    *inode
	relinks []relink // in the order of issue
	crashed bool     // frozen: no operation has effect any more

	seq   atomic.Uint64 // of the last change issued, to files and tree alike
	space space
	count counters
}

// NewMem returns an empty file system without a limit to its size.
func NewMem() *Mem { return &Mem{root: newDir()} }

// Create makes a new file; its name is durable after SyncDir.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, there, err := m.place("create", name)
	if err != nil {
		return nil, err
	}
	if there != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	node := newFile()
	m.relink(node, slot{}, at)
	return m.handle(name, node, true), nil
}

// Open opens a file for reading.
func (m *Mem) Open(name string) (File, error) { return m.open(name, false) }

// OpenWrite opens a file for reading and writing.
func (m *Mem) OpenWrite(name string) (File, error) { return m.open(name, true) }

func (m *Mem) open(name string, writable bool) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	if node.isDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	return m.handle(name, node, writable), nil
}

// Remove takes the name of a file or an empty directory away; that is durable after SyncDir.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, err := m.place("remove", name)
	switch {
	case err != nil:
		return err
	case node == nil:
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	case len(node.entries) > 0:
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	m.relink(node, at, slot{})
	m.unname(node)
	return nil
}

// unname gives the space of a file without a name back.
func (m *Mem) unname(node *inode) {
	node.gone = true
	if !node.isDir() {
		m.space.give(node.current.allocated())
	}
}

// Rename moves a name; that is durable after SyncDir of the directory, or of both.
func (m *Mem) Rename(old, new string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, node, err := m.place("rename", old)
	if err == nil && node == nil {
		err = &fs.PathError{Op: "rename", Path: old, Err: fs.ErrNotExist}
	}
	if err != nil {
		return err
	}
	to, replaced, err := m.place("rename", new)
	switch {
	case err != nil:
		return err
	case from == to:
		return nil
	case replaced != nil && replaced.isDir():
		return &fs.PathError{Op: "rename", Path: new, Err: fs.ErrExist}
	case replaced != nil && node.isDir():
		return &fs.PathError{Op: "rename", Path: new, Err: syscall.ENOTDIR}
	case node.isDir() && node.holds(to.dir):
		return &fs.PathError{Op: "rename", Path: new, Err: syscall.EINVAL}
	}
	if replaced != nil {
		m.unname(replaced)
	}
	m.relink(node, from, to)
	return nil
}

// List returns the names in a directory, sorted.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.findDir("list", dir)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(node.entries)), nil
}

// MkdirAll makes a directory and its parents, durably.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mkdirAll(dir)
}

func (m *Mem) mkdirAll(dir string) error {
	if m.crashed {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: ErrCrashed}
	}
	node := m.root
	way := map[slot]bool{}
	for e := range elements(dir) {
		at := slot{node, e}
		if node = node.entries[e]; node == nil {
			node = newDir()
			m.relink(node, slot{}, at)
		}
		if !node.isDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		way[at] = true
	}
	m.settle(func(r *relink) bool {
		return slices.ContainsFunc(r.slots(), func(s slot) bool { return way[s] })
	})
	return nil
}

// SyncDir makes the names in a directory durable.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findDir("sync", dir)
	if err != nil {
		return err
	}
	m.count.dirSyncs.Add(1)
	m.settle(func(r *relink) bool {
		r.waitsFrom = r.waitsFrom && r.from.dir != node
		r.waitsTo = r.waitsTo && r.to.dir != node
		return !r.waitsFrom && !r.waitsTo
	})
	return nil
}

// Stat tells how large a file is.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.find("stat", name)
	if err != nil || node.isDir() {
		return Info{}, err
	}
	node.mu.RLock()
	defer node.mu.RUnlock()
	return Info{Size: node.current.size, Allocated: node.current.allocated()}, nil
}

// Lock locks a file against other calls of Lock on the same Mem.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, err := m.place("lock", name)
	switch {
	case err != nil:
		return nil, err
	case node == nil:
		node = newFile()
		m.relink(node, slot{}, at)
	case node.isDir():
		return nil, &fs.PathError{Op: "lock", Path: name, Err: syscall.EISDIR}
	case node.locked:
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	node.locked = true
	m.count.opened()
	return &memLock{m: m, name: name, node: node, open: true}, nil
}
