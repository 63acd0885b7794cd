package logstore

import (
	"path/filepath"
	"sync"

	"polylog/logstore/vfs"
)

// pinHandles is how many segment files stay open for snapshots, however many there are of either: a copy goes through the files one after another.
const pinHandles = 8

// pins are the segment files that open snapshots need. Nothing that they need is changed: of an open segment they have the entries up to a position, behind which
// all is written; a sealed one never changes. A file that cleaning takes out of the log meanwhile gets the name of a spare one, under which no start will take it for
// a part of the log, but is not written again, and goes with the last snapshot that needs it.
//
// So what is deleted during a copy takes disk space until its end. When the disk is nearly full the space is worth more than the copy.
type pins struct {
	s     *Store
	cache *fileCache

	mu     sync.Mutex         // taken before the store's
	files  map[string]*pinned // by the name that the file had when it was pinned
	closed bool
}

// pinned is a file with the snapshots that need it counted.
type pinned struct {
	users   int
	name    string // that it has now
	size    int64
	retired bool // out of the log
	lost    bool // and removed
}

func (p *pins) init(s *Store) {
	p.s, p.files = s, map[string]*pinned{}
	p.cache = newFileCache(s.fs, s.dir, pinHandles)
}

// hold counts one more user of each file. The lock is held.
func (p *pins) hold(files []SnapshotFile) {
	for _, f := range files {
		if p.files[f.Name] == nil {
			p.files[f.Name] = &pinned{name: f.Name}
		}
		p.files[f.Name].users++
	}
}

// release counts one user less of each file, and removes those that nobody needs any more.
func (p *pins) release(files []SnapshotFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range files {
		h := p.files[f.Name]
		if h == nil {
			continue // the store was closed meanwhile
		}
		if h.users--; h.users == 0 {
			delete(p.files, f.Name)
			p.remove(h)
			p.cache.drop(h.name)
		}
	}
}

// remove removes a file that is out of the log. The lock is held.
func (p *pins) remove(h *pinned) {
	if !h.retired || h.lost {
		return
	}
	h.lost = true
	p.cache.drop(h.name)
	if err := p.s.fs.Remove(filepath.Join(p.s.dir, h.name)); err != nil {
		p.s.opts.Logf("removing %s, which a snapshot needed: %v; the next start removes it", h.name, err)
	}
}

// retire takes a segment's file out of the log if a snapshot needs it, and else reports that none does.
func (p *pins) retire(g *sealedSegment) (held bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.files[g.name]
	if h == nil {
		return false, nil
	}
	name := spareName(g.name)
	if err := p.s.fs.Rename(filepath.Join(p.s.dir, g.name), filepath.Join(p.s.dir, name)); err != nil {
		return false, err
	}
	p.cache.drop(g.name)
	p.s.files.drop(g.name)
	h.name, h.size, h.retired = name, g.size, true
	return true, nil
}

// relieve gives back the space of files that are out of the log while the disk is nearly full. Snapshots that still need one cannot be read to their end.
func (p *pins) relieve() {
	if _, bytes := p.held(); bytes == 0 || !p.s.isNearlyFull() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.files {
		p.remove(h)
	}
}

// held returns how many files there are that only snapshots need, and their bytes.
func (p *pins) held() (files int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.files {
		if h.retired && !h.lost {
			files++
			bytes += h.size
		}
	}
	return files, bytes
}

// acquire opens a pinned file. While the lock is held it keeps its name.
func (p *pins) acquire(name string) (*cachedFile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.files[name]
	switch {
	case p.closed || h == nil:
		return nil, ErrClosed
	case h.lost:
		return nil, &SnapshotLostError{File: name}
	}
	return p.cache.acquire(h.name)
}

// close ends all snapshots.
func (p *pins) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, h := range p.files {
		p.remove(h)
	}
	clear(p.files)
	p.cache.close()
}

// openCheckpoint opens the file of a checkpoint, whose bytes stay there for the handle when the file is removed.
func (s *Store) openCheckpoint(id checkpointID) (vfs.File, int64, error) {
	f, err := s.fs.Open(filepath.Join(s.dir, checkpointName(id)))
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, size, nil
}
