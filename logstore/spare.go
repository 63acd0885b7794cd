package logstore

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"polylog/logstore/vfs"
)

const (
	// maxSpares bounds the files kept: a second or two of the fastest writing.
	maxSpares = 16
	// erasedBytes at the beginning and the end of a spare file are overwritten, so that neither a header nor an index is found in it.
	erasedBytes = 4 << 10
)

// spares are files of segments that were cleaned away, kept to be the next segments. Writing over blocks that a file has already spares the file system from
// noting each block as written, which is more than half of a small sync, and from giving back and finding space, which holds up every sync for tens of
// milliseconds. What such a file still contains means nothing: its entries have another salt, and are older than every checkpoint.
//
// They take disk space that is not in use, so there are never more than the log needed in the last minute, nor any when none was used in that time, or while the disk is nearly full.
type spares struct {
	s *Store

	mu     sync.Mutex
	files  []spare
	usedAt time.Time // when a file came or went last
	most   int64     // live bytes of sealed segments: the most in the last minute or so
	mostAt time.Time
	closed bool
	// nextMade: the file after the active segment's exists or is being made.
	nextMade bool
}

// spare is a file that waits to be written again.
type spare struct {
	name string
	size int64
}

// spareName is the name of a segment's file while it is a spare.
func spareName(segment string) string {
	return strings.TrimSuffix(segment, segmentSuffix) + spareSuffix
}

// limit is how many files may be kept.
func (p *spares) limit() int {
	if p.closed {
		return 0
	}
	n := min(int(p.most/p.s.opts.SegmentBytes), maxSpares)
	if n == 0 && !p.nextMade {
		n = 1
	}
	return n
}

// wants reports whether a file of that size is worth keeping when others are being kept already.
func (p *spares) wants(size int64, others int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := p.s.opts.SegmentBytes
	return size <= full && size >= full/2 && len(p.files)+others < p.limit() && !p.s.isNearlyFull()
}

// add takes a file that has its new name, durably, and that nobody reads any more.
func (p *spares) add(f spare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files, p.usedAt = append(p.files, f), time.Now()
}

// take gives a file away.
func (p *spares) take() (spare, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextMade = true
	n := len(p.files)
	if n == 0 {
		return spare{}, false
	}
	f := p.files[n-1]
	p.files, p.usedAt = p.files[:n-1], time.Now()
	return f, true
}

// nextUsed notes that the file made last is the active segment's now.
func (p *spares) nextUsed() {
	p.mu.Lock()
	p.nextMade = false
	p.mu.Unlock()
}

// note sees how much of the log is live.
func (p *spares) note(now time.Time) {
	var live int64
	p.s.mu.RLock()
	for _, g := range p.s.segs.sealed {
		live += g.liveBytes()
	}
	p.s.mu.RUnlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if live >= p.most || now.Sub(p.mostAt) > p.s.opts.spareMemory {
		p.most, p.mostAt = live, now
	}
}

// trim removes one file if there are too many or none was used for a while, or all while the disk is nearly full.
func (p *spares) trim(now time.Time) error {
	p.mu.Lock()
	var gone []spare
	switch n := len(p.files); {
	case n == 0:
	case p.closed || p.s.isNearlyFull():
		gone, p.files = p.files, nil
	case n > p.limit(), now.Sub(p.usedAt) > p.s.opts.spareMemory:
		gone, p.files = p.files[n-1:], p.files[:n-1]
	}
	p.mu.Unlock()
	for _, f := range gone {
		if err := p.s.fs.Remove(filepath.Join(p.s.dir, f.name)); err != nil {
			return err
		}
	}
	return nil
}

// close removes all files, and keeps none from now on.
func (p *spares) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	return p.trim(time.Now())
}

// count returns how many files there are, and their bytes.
func (p *spares) count() (files int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.files {
		bytes += f.size
	}
	return len(p.files), bytes
}

// isNearlyFull reports whether the disk has no room for two more segments.
func (s *Store) isNearlyFull() bool {
	if s.diskFull.Load() || s.stuck.Load() != nil {
		return true
	}
	free, err := s.fs.Free(s.dir)
	return err == nil && free < 2*s.opts.SegmentBytes
}

// reuse returns a file under the segment's name that was made of a spare one, and how far it was written; nil: there is none to be had.
func (s *Store) reuse(name string) (f vfs.File, written int64) {
	old, has := s.spares.take()
	if !has {
		return nil, 0
	}
	f, err := s.renew(old, name)
	if err == nil {
		s.stats.reusedSegments.Add(1)
		return f, old.size
	}
	s.opts.Logf("using %s again: %v; making a new file instead", old.name, err)
	for _, left := range []string{old.name, name} {
		if err := s.fs.Remove(filepath.Join(s.dir, left)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.opts.Logf("removing the spare segment file %s: %v; the next start removes it", left, err)
		}
	}
	return nil, 0
}

// renew makes a spare file one that could have been made just now, under the segment's name, and opens it. The rename comes last: whatever happens before, the
// next start finds a spare file and removes it.
func (s *Store) renew(old spare, name string) (vfs.File, error) {
	path := filepath.Join(s.dir, old.name)
	f, err := s.fs.OpenWrite(path)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, erasedBytes)
	_, err = f.WriteAt(zeros, 0)
	if err == nil {
		_, err = f.WriteAt(zeros, old.size-erasedBytes)
	}
	if err == nil {
		err = f.Preallocate(s.opts.SegmentBytes)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = s.fs.Rename(path, filepath.Join(s.dir, name))
	}
	if err != nil {
		return nil, err
	}
	return s.fs.OpenWrite(filepath.Join(s.dir, name))
}

// retire takes the files of segments away that are not in the log any more: some become spares, those of snapshots wait for their end, the others are removed.
func (s *Store) retire(gone []*sealedSegment) error {
	var kept []spare
	for _, g := range gone {
		if held, err := s.pins.retire(g); err != nil {
			return err
		} else if held {
			continue
		}
		name := g.name
		wanted := s.spares.wants(g.size, len(kept))
		if wanted {
			name = spareName(g.name)
			if err := s.fs.Rename(filepath.Join(s.dir, g.name), filepath.Join(s.dir, name)); err != nil {
				return err
			}
		}
		// Under its new name nobody can open it, but one who did before may still read.
		if unused := s.files.drop(g.name); wanted && unused {
			kept = append(kept, spare{name, g.size})
		} else if err := s.fs.Remove(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return err
	}
	for _, f := range kept {
		s.spares.add(f) // not before: after a crash the old name would have what is written into it
	}
	return nil
}
