package vfs

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// CrashKind says what a crash leaves of what was not synced.
type CrashKind uint8

const (
	// DropUnsynced leaves nothing of it: power loss with everything still in memory.
	DropUnsynced CrashKind = iota
	// KeepAll leaves all of it: the process died, the system did not. It is still not durable, so a second crash can take it.
	KeepAll
	// KeepPrefix leaves a random number of the first changes as they were issued, over all files and directories, and of the last of these, if it
	// is a write, a random number of its first sectors.
	KeepPrefix
	// Reorder leaves what a disk and a file system without any order among files might have got to. Each sector is as it was after one of the
	// changes to it; of the changes to each file's size and to each name a random number of the first survive; all that independently,
	// save that a rename is in both directories or in neither, and that a sector beyond the surviving size is lost. Where only the size
	// survived, zeros are read.
	Reorder
)

func (k CrashKind) String() string {
	switch k {
	case DropUnsynced:
		return "drop unsynced"
	case KeepAll:
		return "keep all"
	case KeepPrefix:
		return "keep prefix"
	case Reorder:
		return "reorder"
	}
	return fmt.Sprintf("CrashKind(%d)", uint8(k))
}

// CrashPlan decides how a crash goes. The same plan on the same history gives the same outcome. Rand is needed for KeepPrefix and Reorder only.
type CrashPlan struct {
	Rand *rand.Rand
	Kind CrashKind
}

// Crash freezes the file system, so that all that is done to it or its files from now on fails with ErrCrashed, and returns what is found after the
// restart, with nothing open or locked. After a power loss, all that is found is durable. Crashing it again gives other outcomes of the same crash.
func (m *Mem) Crash(plan CrashPlan) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashed = true
	o := outcome{dirs: map[*inode]map[string]*inode{}, files: map[*inode]*image{}}
	switch plan.Kind {
	case DropUnsynced:
	case KeepAll:
		return m.copy()
	case KeepPrefix:
		o.keepPrefix(m.pending(), plan.Rand)
	case Reorder:
		o.reorder(m.pending(), plan.Rand)
	default:
		panic("vfs: " + plan.Kind.String() + " is no kind of crash")
	}
	n := NewMem()
	n.root = o.inode(m.root, &n.space)
	n.space.limited, n.space.capacity = m.space.limited, m.space.capacity
	return n
}

// pending is a change that is not durable: either to the tree or to a file.
type pending struct {
	seq    uint64
	relink *relink
	file   *inode
	change *change
}

// pending lists all that is not durable, in the order of issue. Files are looked for wherever a crash may find them.
func (m *Mem) pending() []pending {
	var all []pending
	seen := map[*inode]bool{}
	var visit func(n *inode)
	visit = func(n *inode) {
		if seen[n] {
			return
		}
		seen[n] = true
		for i := range n.changes {
			all = append(all, pending{seq: n.changes[i].seq, file: n, change: &n.changes[i]})
		}
		for _, e := range n.stable {
			visit(e)
		}
		for _, e := range n.entries {
			visit(e)
		}
	}
	visit(m.root)
	for i := range m.relinks {
		r := &m.relinks[i]
		visit(r.node)
		all = append(all, pending{seq: r.seq, relink: r})
	}
	slices.SortFunc(all, func(a, b pending) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// copy returns a copy with the same state, durable or not. Mem.mu is held for writing.
func (m *Mem) copy() *Mem {
	copies := map[*inode]*inode{}
	var of func(n *inode) *inode
	of = func(n *inode) *inode {
		if n == nil {
			return nil
		}
		if c, ok := copies[n]; ok {
			return c
		}
		c := &inode{gone: n.gone}
		copies[n] = c
		if !n.isDir() {
			c.current, c.durable, c.changes = n.current.clone(), n.durable.clone(), slices.Clone(n.changes)
			return c
		}
		c.entries, c.stable = make(map[string]*inode, len(n.entries)), make(map[string]*inode, len(n.stable))
		for name, e := range n.entries {
			c.entries[name] = of(e)
		}
		for name, e := range n.stable {
			c.stable[name] = of(e)
		}
		return c
	}
	n := NewMem()
	n.root = of(m.root)
	for _, r := range m.relinks {
		r.node, r.from.dir, r.to.dir = of(r.node), of(r.from.dir), of(r.to.dir)
		n.relinks = append(n.relinks, r)
	}
	n.seq.Store(m.seq.Load())
	n.space.limited, n.space.capacity, n.space.used = m.space.limited, m.space.capacity, m.space.used
	return n
}
