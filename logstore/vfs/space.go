package vfs

import "sync"

// unlimited is what Free says of a Mem without a capacity: a lot, and far enough from overflow to be added to.
const unlimited = 1 << 50

// space is the room on the disk of a Mem, in bytes.
type space struct {
	mu       sync.Mutex
	limited  bool
	capacity int64
	used     int64
}

// take uses n bytes, or none when there is not that much left.
func (s *space) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && n > s.left() {
		return false
	}
	s.used += n
	return true
}

// takeBlocks uses up to n blocks and returns how many it got.
func (s *space) takeBlocks(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.left()/blockSize)
	s.used += n * blockSize
	return n
}

func (s *space) give(n int64) {
	s.mu.Lock()
	s.used -= n
	s.mu.Unlock()
}

// left is never negative, though a crash that brings removed files back can use more than there is.
func (s *space) left() int64 {
	if !s.limited {
		return unlimited
	}
	return max(s.capacity-s.used, 0)
}

// SetCapacity limits the bytes that files may take, in blocks of 4 KiB; a negative number lifts the limit. What is there already stays.
func (m *Mem) SetCapacity(bytes int64) {
	m.space.mu.Lock()
	m.space.limited, m.space.capacity = bytes >= 0, bytes
	m.space.mu.Unlock()
}

// Used returns the bytes that files take. A file gives its bytes back when its name goes, not when that is durable or the last handle closes.
func (m *Mem) Used() int64 {
	m.space.mu.Lock()
	defer m.space.mu.Unlock()
	return m.space.used
}

// Free returns the bytes that are left of the capacity.
func (m *Mem) Free(dir string) (int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.find("statfs", dir); err != nil {
		return 0, err
	}
	m.space.mu.Lock()
	defer m.space.mu.Unlock()
	return m.space.left(), nil
}
