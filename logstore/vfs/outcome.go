package vfs

import (
	"maps"
	"math/rand/v2"
)

// outcome is what a power loss left: it begins with what is durable, and what survived besides is added in the order of issue.
type outcome struct {
	dirs  map[*inode]map[string]*inode
	files map[*inode]*image
}

func (o *outcome) dir(n *inode) map[string]*inode {
	d, ok := o.dirs[n]
	if !ok {
		d = maps.Clone(n.stable)
		o.dirs[n] = d
	}
	return d
}

func (o *outcome) file(n *inode) *image {
	im, ok := o.files[n]
	if !ok {
		im = n.durable.clone()
		o.files[n] = im
	}
	return im
}

// inode returns what became of n, and counts the space it takes.
func (o *outcome) inode(n *inode, s *space) *inode {
	if !n.isDir() {
		im := o.file(n)
		s.used += im.allocated()
		return &inode{current: im, durable: im.clone()}
	}
	d := newDir()
	for name, e := range o.dir(n) {
		c := o.inode(e, s)
		d.entries[name], d.stable[name] = c, c
	}
	return d
}

// keepPrefix lets the first changes survive, and the last of them in part.
func (o *outcome) keepPrefix(all []pending, r *rand.Rand) {
	kept := r.IntN(len(all) + 1)
	for i, p := range all[:kept] {
		switch {
		case p.relink != nil:
			p.relink.apply(o.dir)
		case i == kept-1 && !p.change.resized:
			p.change.tear(o.file(p.file), r)
		default:
			im := o.file(p.file)
			im.poke(p.change.sectors, p.change.off)
			p.change.applySize(im)
		}
	}
}

// tear lets the first sectors of a write survive. The size is that after the whole write, or what these need.
func (c *change) tear(im *image, r *rand.Rand) {
	n := r.Int64N(int64(len(c.sectors))/sectorSize+1) * sectorSize
	im.poke(c.sectors[:n], c.off)
	if r.IntN(2) == 0 {
		im.size = c.size
	} else if n > 0 {
		im.size = max(im.size, min(c.size, c.off+n))
	}
}

// applySize makes the change to the file's size, without its bytes.
func (c *change) applySize(im *image) {
	if c.reserve > 0 {
		im.reserve(c.reserve)
	} else {
		im.resize(c.size)
	}
}

// reorder lets changes survive by chance. Once a change to a name or size is lost, what builds on it is lost too; a sector needs no such care,
// as what was written of it last holds all that went before.
func (o *outcome) reorder(all []pending, r *rand.Rand) {
	lost := losses{names: map[slot]bool{}, dirs: map[*inode]bool{}, sizes: map[*inode]bool{}}
	rate := r.Float64() // of survival, so that some crashes leave next to nothing and some nearly all
	for _, p := range all {
		survives := chance(r, rate)
		if p.relink != nil {
			o.reorderRelink(p.relink, &lost, survives)
		} else {
			o.reorderChange(p.file, p.change, &lost, survives)
		}
	}
	for _, im := range o.files {
		im.cut()
	}
}

// chance returns what decides over the parts of one change. They tend to share one fate; tossing for each would hardly ever show a large
// write whole, or gone.
func chance(r *rand.Rand, rate float64) func() bool {
	toss := func() bool { return r.Float64() < rate }
	if r.IntN(3) == 0 {
		return toss
	}
	fate := toss()
	return func() bool { return fate }
}

// losses is what changes were lost in, so that nothing that builds on them survives.
type losses struct {
	names map[slot]bool
	dirs  map[*inode]bool // with a lost name in them
	sizes map[*inode]bool
}

func (o *outcome) reorderRelink(l *relink, lost *losses, survives func() bool) {
	ok := survives() && !lost.dirs[l.removedDir()]
	for _, s := range l.slots() {
		ok = ok && !lost.names[s]
	}
	if ok {
		l.apply(o.dir)
		return
	}
	for _, s := range l.slots() {
		lost.names[s], lost.dirs[s.dir] = true, true
	}
}

func (o *outcome) reorderChange(file *inode, c *change, lost *losses, survives func() bool) {
	im := o.file(file)
	if c.resized || c.size != c.prev {
		if survives() && !lost.sizes[file] {
			c.applySize(im)
		} else {
			lost.sizes[file] = true
		}
	}
	for i := 0; i < len(c.sectors); i += sectorSize {
		if survives() {
			im.poke(c.sectors[i:i+sectorSize], c.off+int64(i))
		}
	}
}
