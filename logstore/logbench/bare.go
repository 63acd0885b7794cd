package logbench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// bareLog is the yardstick: the least that a log which confirms must do, and no more. Writers leave their bytes; one goroutine gathers all that
// were left, writes them with one pwrite behind what is there, forces them to the disk with one fdatasync, and answers. Meanwhile the next
// group is left. Files are preallocated, the next one ahead of its need. There is no order to keep, no check sum, no index and no reader.
type bareLog struct {
	dir  string
	size int64 // of a file

	mu       sync.Mutex
	arrived  sync.Cond // the group is not empty any more, or the log closes
	next     *bareGroup
	closing  bool
	finished chan struct{}

	prepared chan bareFile // made ahead
	err      error         // why writing ended; set before finished is closed
}

// bareGroup is what one write takes.
type bareGroup struct {
	pieces [][]byte
	done   chan struct{} // closed when the bytes are on the disk
	err    error         // set before done is closed
}

type bareFile struct {
	f   *os.File
	err error
}

func newBareLog(dir string, fileSize int64) *bareLog {
	b := &bareLog{dir: dir, size: fileSize, next: &bareGroup{done: make(chan struct{})}, finished: make(chan struct{}), prepared: make(chan bareFile)}
	b.arrived.L = &b.mu
	go b.prepare()
	go b.run()
	return b
}

// append returns when the bytes are on the disk.
func (b *bareLog) append(p []byte) error {
	b.mu.Lock()
	g := b.next
	g.pieces = append(g.pieces, p)
	if len(g.pieces) == 1 {
		b.arrived.Signal()
	}
	b.mu.Unlock()
	<-g.done
	return g.err
}

// run writes one group after another.
func (b *bareLog) run() {
	defer close(b.finished)
	var (
		file  bareFile
		pos   int64
		buf   []byte
		spare [][]byte
	)
	defer func() {
		if file.f != nil {
			file.f.Close()
		}
	}()
	for {
		b.mu.Lock()
		for len(b.next.pieces) == 0 && !b.closing {
			b.arrived.Wait()
		}
		g := b.next
		if len(g.pieces) == 0 {
			b.mu.Unlock()
			return
		}
		b.next = &bareGroup{pieces: spare[:0], done: make(chan struct{})}
		b.mu.Unlock()
		buf = buf[:0]
		for _, p := range g.pieces {
			buf = append(buf, p...)
		}
		if g.err = b.err; g.err == nil && (file.f == nil || pos+int64(len(buf)) > b.size) {
			if file.f != nil {
				file.f.Close()
			}
			file, pos = <-b.prepared, 0
			g.err = file.err
		}
		if g.err == nil {
			g.err = put(file.f, buf, pos)
			pos += int64(len(buf))
		}
		b.err = g.err
		spare = g.pieces
		close(g.done)
	}
}

func put(f *os.File, p []byte, pos int64) error {
	if _, err := f.WriteAt(p, pos); err != nil {
		return err
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return fmt.Errorf("fdatasync of %s: %w", f.Name(), err)
	}
	return nil
}

// prepare has one file ready at any time.
func (b *bareLog) prepare() {
	for n := 0; ; n++ {
		file := b.newFile(filepath.Join(b.dir, fmt.Sprintf("bare-%06d", n)))
		select {
		case b.prepared <- file:
			if file.err != nil {
				return
			}
		case <-b.finished:
			if file.f != nil {
				file.f.Close()
			}
			return
		}
	}
}

func (b *bareLog) newFile(name string) bareFile {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return bareFile{err: err}
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, b.size); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		f.Close()
		return bareFile{err: fmt.Errorf("preallocating %s: %w", name, err)}
	}
	return bareFile{f: f, err: f.Sync()}
}

// close ends the log when all that was appended is on the disk.
func (b *bareLog) close() error {
	b.mu.Lock()
	b.closing = true
	b.arrived.Signal()
	b.mu.Unlock()
	<-b.finished
	return b.err
}
