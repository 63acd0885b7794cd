package logstore

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// settleIndex reports whether the segment has an index that may be relied upon. Of a segment whose index the process before this one may have been writing when
// it ended, not every sector need be on the disk, although the trailer is: its blocks are read, and forced to the disk.
func (r *recovery) settleIndex(i int, g *foundSegment) (sound bool, err error) {
	if g.index == nil || g.headErr != nil {
		return false, nil
	}
	if g.header.Generation > 0 || !r.mayBeUnsynced(i) {
		return true, nil
	}
	f, err := r.fs.OpenWrite(filepath.Join(r.dir, g.name))
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := g.index.VerifyBlocks(f); errors.Is(err, segment.ErrBadIndex) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading the index of %s: %w", g.name, err)
	}
	if err := f.Sync(); err != nil {
		return false, fmt.Errorf("syncing %s: %w", g.name, err)
	}
	return true, nil
}

// mayBeUnsynced reports whether the segment's index may have been on its way to the disk when the process ended. Segments are sealed one after another, each
// while the next is written: so at most one that was used follows.
func (r *recovery) mayBeUnsynced(i int) bool {
	used := 0
	for _, g := range r.found[i+1:] {
		if g.headErr == nil {
			used++
		}
	}
	return used <= 1
}

// sealFound leaves the scanned segment sealed: what is behind its last entry is cut off, and the index written there, unless it is there already.
func (r *recovery) sealFound(g *foundSegment, f io.ReaderAt, sc *segment.Scanner, c *collected) error {
	r.lastSeq = max(r.lastSeq, c.lastSeq, g.header.LastSeq)
	if c.dropped {
		c.good = append(c.good, Range{int64(c.runFrom), int64(sc.Pos())})
		return r.rewriteGood(g, f, c)
	}
	firstSeq, lastSeq := c.firstSeq, c.lastSeq
	if g.index != nil {
		firstSeq, lastSeq = g.index.FirstSeq, g.index.LastSeq
		if g.indexErr = g.index.Verify(f, g.size, c.locs); g.indexErr == nil {
			r.keep(g)
			return nil
		} else if !errors.Is(g.indexErr, segment.ErrBadIndex) {
			return fmt.Errorf("reading the index of %s: %w", g.name, g.indexErr)
		}
	}
	if sc.Pos() == segment.HeaderSize {
		return r.remove(g.name) // nothing in it was ever confirmed
	}
	if errors.Is(g.indexErr, segment.ErrBadIndex) {
		r.RebuiltIndexes = append(r.RebuiltIndexes, g.name)
	}
	w, err := r.fs.OpenWrite(filepath.Join(r.dir, g.name))
	if err != nil {
		return err
	}
	defer w.Close()
	idx, sealed := segment.BuildIndex(c.locs, sc.Pos(), firstSeq, lastSeq)
	if err := writeIndex(w, idx, sc.Pos()); err != nil {
		return fmt.Errorf("writing the index of %s: %w", g.name, err)
	}
	g.index, g.size = sealed, int64(sc.Pos())+int64(len(idx))
	r.keep(g)
	return nil
}

// writeIndex seals a file whose entries end at pos. Cut off at any point, it leaves a file that is sealed or is not: no stale bytes can be taken for entries,
// and what the trailer vouches for is on the disk before it.
func writeIndex(w vfs.File, idx []byte, pos uint32) error {
	if err := w.Truncate(int64(pos)); err != nil {
		return err
	}
	trailer := len(idx) - segment.TrailerSize
	if _, err := w.WriteAt(idx[:trailer], int64(pos)); err != nil {
		return err
	}
	if err := w.Sync(); err != nil {
		return err
	}
	if _, err := w.WriteAt(idx[trailer:], int64(pos)+int64(trailer)); err != nil {
		return err
	}
	return w.Sync()
}
