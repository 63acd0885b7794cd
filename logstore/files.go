package logstore

import (
	"container/list"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// File names in the directory of a store.
const (
	lockName         = "lock"
	segmentSuffix    = ".seg"
	checkpointSuffix = ".ckpt"
	tmpSuffix        = ".tmp"
	spareSuffix      = ".spare"
)

// segmentName is <segment id>-<generation>.seg, the id in 16 hex digits so that names sort.
func segmentName(id uint64, generation uint32) string {
	return fmt.Sprintf("%016x-%d%s", id, generation, segmentSuffix)
}

func parseSegmentName(name string) (id uint64, generation uint32, ok bool) {
	id, generation, ok = parseNumberedName(name, segmentSuffix)
	return id, generation, ok && id >= 1 && id <= segment.MaxID && segmentName(id, generation) == name
}

// checkpointName is <sequence number>-<copy>.ckpt, the number in 16 hex digits.
func checkpointName(id checkpointID) string {
	return fmt.Sprintf("%016x-%d%s", id.seq, id.copy, checkpointSuffix)
}

func parseCheckpointName(name string) (checkpointID, bool) {
	seq, copied, ok := parseNumberedName(name, checkpointSuffix)
	id := checkpointID{seq, copied}
	return id, ok && checkpointName(id) == name
}

func parseNumberedName(name, suffix string) (number uint64, second uint32, ok bool) {
	base, has := strings.CutSuffix(name, suffix)
	hex, dec, cut := strings.Cut(base, "-")
	if !has || !cut || len(hex) != 16 {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(hex, 16, 64)
	n, err2 := strconv.ParseUint(dec, 10, 32)
	return number, uint32(n), err == nil && err2 == nil
}

// fileCache holds segment files open for reading: those in use, and of the others the most recently used, up to a limit.
type fileCache struct {
	fs    vfs.FS
	dir   string
	limit int

	mu     sync.Mutex
	open   map[string]*cachedFile
	idle   *list.List // *cachedFile with no user, the least recently used first
	closed bool
}

// cachedFile is an open file with its users counted.
type cachedFile struct {
	vfs.File
	name    string
	users   int
	idle    *list.Element
	dropped bool // close with the last user
}

// prefetch has a part of the file fetched into memory, if the file system can, and does not wait for it.
func (f *cachedFile) prefetch(pos, size int64) {
	if p, can := f.File.(vfs.Prefetcher); can {
		p.Prefetch(pos, size)
	}
}

func newFileCache(fs vfs.FS, dir string, limit int) *fileCache {
	return &fileCache{fs: fs, dir: dir, limit: limit, open: map[string]*cachedFile{}, idle: list.New()}
}

// adopt puts a file that is open already into the cache, with one user.
func (c *fileCache) adopt(name string, f vfs.File) *cachedFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	cf := &cachedFile{File: f, name: name, users: 1}
	c.open[name] = cf
	return cf
}

// acquire opens the file, or finds it open, and counts one more user.
func (c *fileCache) acquire(name string) (*cachedFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cf := c.open[name]; cf != nil {
		if cf.idle != nil {
			c.idle.Remove(cf.idle)
			cf.idle = nil
		}
		cf.users++
		return cf, nil
	}
	if c.closed {
		return nil, ErrClosed
	}
	f, err := c.fs.Open(filepath.Join(c.dir, name))
	if err != nil {
		return nil, err
	}
	cf := &cachedFile{File: f, name: name, users: 1}
	c.open[name] = cf
	return cf, nil
}

// release counts one user less.
func (c *fileCache) release(cf *cachedFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cf.users--; cf.users > 0 {
		return
	}
	if cf.dropped || c.closed {
		cf.Close()
		return
	}
	cf.idle = c.idle.PushBack(cf)
	if c.idle.Len() > c.limit {
		c.evict(c.idle.Front())
	}
}

func (c *fileCache) evict(e *list.Element) {
	cf := c.idle.Remove(e).(*cachedFile)
	cf.idle = nil
	delete(c.open, cf.name)
	cf.Close()
}

// drop forgets a file that was removed; its last user closes it. It reports whether there is no user left.
func (c *fileCache) drop(name string) (unused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cf := c.open[name]
	if cf == nil {
		return true
	}
	if cf.idle != nil {
		c.evict(cf.idle)
		return true
	}
	cf.dropped = true
	delete(c.open, name)
	return false
}

// close closes all files, and opens no more.
func (c *fileCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for name, cf := range c.open {
		cf.Close()
		delete(c.open, name)
	}
	c.idle.Init()
}
