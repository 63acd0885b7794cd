package vfs

import (
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// inode is a file or directory of a Mem, whatever its name is.
//
// The fields of a directory are guarded by Mem.mu. Those of a file are guarded by mu for who holds Mem.mu for reading; who holds Mem.mu for writing has them
// alone.
type inode struct {
	// Of a directory: what it holds, and what it would hold if power failed now and nothing unsynced survived. Both nil for a file.
	entries, stable map[string]*inode

	// Of a file: likewise, and the changes that lead from durable to current.
	mu               sync.RWMutex
	current, durable *image
	changes          []change

	locked bool // guarded by Mem.mu
	gone   bool // has no name any more, so takes no space; guarded by Mem.mu
}

func newFile() *inode {
	return &inode{current: newImage(), durable: newImage()}
}

func newDir() *inode {
	return &inode{entries: map[string]*inode{}, stable: map[string]*inode{}}
}

func (n *inode) isDir() bool { return n.entries != nil }

// holds reports whether the directory n is other or has it below.
func (n *inode) holds(other *inode) bool {
	if n == other {
		return true
	}
	for _, e := range n.entries {
		if e.isDir() && e.holds(other) {
			return true
		}
	}
	return false
}

// slot is a place for a name in a directory.
type slot struct {
	dir  *inode
	name string
}

// relink is a change to the tree that is not durable: a node leaves one slot, goes into another, or both. It survives a power loss as a whole or
// not at all, and only together with all earlier ones in the same slots; the removal of a directory only together with all earlier ones in it, so
// that what was moved out is not lost with it.
type relink struct {
	seq      uint64
	node     *inode
	from, to slot // the one without a directory is none

	waitsFrom, waitsTo bool // that directory was not synced since
}

// slots returns the places that the change is about.
func (r *relink) slots() []slot {
	switch {
	case r.from.dir == nil:
		return []slot{r.to}
	case r.to.dir == nil:
		return []slot{r.from}
	}
	return []slot{r.from, r.to}
}

// removedDir returns the directory that the change removes, if it does.
func (r *relink) removedDir() *inode {
	if r.to.dir == nil && r.node.isDir() {
		return r.node
	}
	return nil
}

// apply makes the change in the directories' contents as given by entries.
func (r *relink) apply(entries func(dir *inode) map[string]*inode) {
	if r.from.dir != nil {
		delete(entries(r.from.dir), r.from.name)
	}
	if r.to.dir != nil {
		entries(r.to.dir)[r.to.name] = r.node
	}
}

// relink moves node, now, and notes that this is not durable. Mem.mu is held for writing.
func (m *Mem) relink(node *inode, from, to slot) {
	r := relink{seq: m.seq.Add(1), node: node, from: from, to: to, waitsFrom: from.dir != nil, waitsTo: to.dir != nil}
	r.apply(func(dir *inode) map[string]*inode { return dir.entries })
	m.relinks = append(m.relinks, r)
}

// settle makes those changes durable that are due, and the earlier ones that they build on.
func (m *Mem) settle(due func(*relink) bool) {
	built := map[slot]bool{}
	builtDirs := map[*inode]bool{}
	settled := make([]bool, len(m.relinks))
	for i := len(m.relinks) - 1; i >= 0; i-- {
		r := &m.relinks[i]
		needed := due(r)
		for _, s := range r.slots() {
			needed = needed || built[s] || builtDirs[s.dir]
		}
		if !needed {
			continue
		}
		settled[i] = true
		for _, s := range r.slots() {
			built[s] = true
		}
		if d := r.removedDir(); d != nil {
			builtDirs[d] = true
		}
	}
	var rest []relink
	for i, r := range m.relinks {
		if settled[i] {
			r.apply(func(dir *inode) map[string]*inode { return dir.stable })
		} else {
			rest = append(rest, r)
		}
	}
	m.relinks = rest
}

// elements yields the names on the way from the root. Relative names start there too.
func elements(name string) iter.Seq[string] {
	clean := strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
	if clean == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(clean, "/")
}

// find returns what has the name, unless the file system has crashed.
func (m *Mem) find(op, name string) (*inode, error) {
	if m.crashed {
		return nil, &fs.PathError{Op: op, Path: name, Err: ErrCrashed}
	}
	n := m.root
	for e := range elements(name) {
		if !n.isDir() {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
		}
		if n = n.entries[e]; n == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	return n, nil
}

// findDir is find for a directory.
func (m *Mem) findDir(op, name string) (*inode, error) {
	n, err := m.find(op, name)
	if err == nil && !n.isDir() {
		return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return n, err
}

// place returns the slot for the name and what is in it now, nil for nothing. The directory exists.
func (m *Mem) place(op, name string) (slot, *inode, error) {
	parent, base := path.Split(path.Clean("/" + filepath.ToSlash(name)))
	dir, err := m.findDir(op, parent)
	if err != nil {
		err.(*fs.PathError).Path = name
		return slot{}, nil, err
	}
	if base == "" {
		return slot{}, nil, &fs.PathError{Op: op, Path: name, Err: syscall.EINVAL}
	}
	return slot{dir, base}, dir.entries[base], nil
}
