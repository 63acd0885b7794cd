package logstore

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// Damage is a piece of a file that a repair dropped.
type Damage struct {
	File     string
	From, To int64
	What     string
}

func (d Damage) String() string {
	return fmt.Sprintf("%s, bytes %d to %d: %s", d.File, d.From, d.To, d.What)
}

// LostRange are offsets of a shard that were live and whose records are gone. After the repair they count as deleted.
type LostRange struct {
	Shard Shard
	Range
}

func (l LostRange) String() string {
	if l.To == l.From+1 {
		return fmt.Sprintf("shard %d, offset %d", l.Shard, l.From)
	}
	return fmt.Sprintf("shard %d, offsets %d to %d", l.Shard, l.From, l.To-1)
}

// resync moves the scanner to the next good entry behind damage, if there is one. In a file that cleaning wrote, numbers do not ascend.
func (g *foundSegment) resync(sc *segment.Scanner, lastSeq uint64) (bool, error) {
	if g.header.Generation > 0 {
		lastSeq = 0
	}
	return sc.Resync(lastSeq, isWhole)
}

// skip passes over damage: it notes what is dropped, and reports whether there are good entries behind it.
func (r *recovery) skip(sc *segment.Scanner, g *foundSegment, c *collected, end int64, verdict *CorruptError) (bool, error) {
	from := sc.Pos()
	c.dropped = true
	c.good = append(c.good, Range{int64(c.runFrom), int64(from)})
	c.runFrom = from
	found, err := g.resync(sc, c.lastSeq)
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", g.name, err)
	}
	d := Damage{File: g.name, From: int64(from), To: end, What: verdict.What}
	if found {
		d.To = int64(sc.Pos())
	}
	r.Damage = append(r.Damage, d)
	r.s.opts.Logf("repair: dropping %v", d)
	return found, nil
}

// prepareRepair makes the state one that the operations apply to, when entries before them were dropped.
func (st *state) prepareRepair(ops []appliedOp) {
	reach := func(id Shard, next int64) {
		if st.shards.get(id) == nil {
			st.shards.add(id, shard{})
			st.nextShard = max(st.nextShard, id+1)
		}
		if sh := st.shards.own(id); sh.next < next {
			sh.next = next // what is missing in between is dropped by dropUncovered
		}
	}
	// Of several appends to a shard, and of several new shards, the first says where they begin.
	appended, created := map[Shard]bool{}, false
	for i := range ops {
		switch o := &ops[i]; o.kind {
		case opAppend:
			if !appended[o.shard] {
				appended[o.shard] = true
				reach(o.shard, o.base)
			}
		case opDelete:
			for _, rg := range o.ranges {
				reach(o.shard, rg.To)
			}
		case opTrimBefore:
			reach(o.shard, o.offset)
		case opDropShard:
			reach(o.shard, 0)
		case opCreateShard:
			if !created {
				created = true
				st.nextShard = max(st.nextShard, o.shard)
			}
		}
	}
}

// rewriteGood replaces a damaged segment by one that holds its good entries only.
func (r *recovery) rewriteGood(g *foundSegment, f io.ReaderAt, c *collected) error {
	h := g.header
	for taken := true; taken; { // by g, or by what somebody named so
		h.Generation++
		name := segmentName(h.ID, h.Generation)
		taken = slices.ContainsFunc(r.found, func(o *foundSegment) bool { return o.name == name })
	}
	h.LastSeq = max(h.LastSeq, c.lastSeq)
	name := segmentName(h.ID, h.Generation)
	var size int64
	var index *segment.Sealed
	err := r.s.replaceFile(name, func(w vfs.File) error {
		pos := int64(segment.HeaderSize)
		for i := range c.good {
			from, to := c.good[i].From, c.good[i].To
			for at := from; at < to; {
				p := make([]byte, min(to-at, 1<<20))
				if err := segment.ReadFull(f, p, at); err != nil {
					return err
				}
				if _, err := w.WriteAt(p, pos+at-from); err != nil {
					return err
				}
				at += int64(len(p))
			}
			moveLocs(c.locs, c.good[i], pos-from)
			pos += to - from
		}
		for i := range c.locs {
			c.locs[i].Pos &^= movedBit
		}
		var idx []byte
		idx, index = segment.BuildIndex(c.locs, uint32(pos), c.firstSeq, h.LastSeq)
		size = pos + int64(len(idx))
		if _, err := w.WriteAt(idx, pos); err != nil {
			return err
		}
		h.Live = index.Offsets
		_, err := w.WriteAt(h.AppendTo(nil), 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if err := r.remove(g.name); err != nil {
		return err
	}
	r.keep(&foundSegment{name: name, header: h, size: size, index: index})
	return nil
}

// movedBit marks a location that has its new position already; no segment file reaches 2 GiB.
const movedBit = 1 << 31

// moveLocs shifts the positions of the batches that lay in a piece of the file.
func moveLocs(locs []segment.Loc, piece Range, by int64) {
	for i := range locs {
		if p := int64(locs[i].Pos); p&movedBit == 0 && p >= piece.From && p < piece.To {
			locs[i].Pos = uint32(p+by) | movedBit
		}
	}
}

// replaceFile writes a file under a temporary name, forces it to the disk and gives it its name, durably.
func (s *Store) replaceFile(name string, write func(f vfs.File) error) error {
	path := filepath.Join(s.dir, name)
	err := s.writeFile(path+tmpSuffix, write)
	if err == nil {
		err = s.fs.Rename(path+tmpSuffix, path)
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	return err
}

// dropUncovered makes state and segments agree: offsets that are live and that no segment holds are deleted, and reported as lost.
func (r *recovery) dropUncovered() error {
	err := walkCoverage(r.s.files, r.sealed, r.st, func(l LostRange) { r.Lost = append(r.Lost, l) }, nil)
	if err != nil {
		return err
	}
	var out outcome
	for _, l := range r.Lost {
		r.st.delete(l.Shard, []Range{l.Range}, &out)
		out.reset()
	}
	return nil
}
