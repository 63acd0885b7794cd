package vfs

import (
	"errors"
	"io"
	"syscall"
)

// FS is a file system. All methods may be called from several goroutines at once. A name that is missing or in the way is reported by an error
// that matches fs.ErrNotExist or fs.ErrExist.
type FS interface {
	// Create makes a new empty file and opens it for reading and writing. It fails with fs.ErrExist when the name is taken.
	Create(name string) (File, error)
	// Open opens an existing file for reading only.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// Remove removes a file or an empty directory. Handles that are open on the file stay usable.
	Remove(name string) error
	// Rename gives a file another name and replaces what had it, in one step: whoever looks finds the one or the other, also after a power loss.
	Rename(old, new string) error
	// List returns the base names of what is in a directory, sorted.
	List(dir string) ([]string, error)
	// MkdirAll makes a directory with all parents that are missing. They are durable when it returns.
	MkdirAll(dir string) error
	// SyncDir makes creations, renames and removals in the directory durable. A rename from one directory into another needs both synced.
	SyncDir(dir string) error
	// Stat tells how large a file is.
	Stat(name string) (Info, error)
	// Lock takes the exclusive advisory lock of a file, which is created if needed. It does not wait: it fails with ErrLocked when
	// another holds the lock, in this process or any other. Closing, or the end of the process, releases it.
	Lock(name string) (io.Closer, error)
	// Free returns how many bytes can still be written to the disk that holds the directory.
	Free(dir string) (bytes int64, err error)
}

// Info is what Stat tells of a file: the bytes that can be read, and the bytes of disk it takes. Allocated is more than Size after Preallocate or by
// rounding up to blocks, and less when there are holes.
type Info struct{ Size, Allocated int64 }

// File is an open file. All methods may be called from several goroutines at once; after Close they fail with fs.ErrClosed.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Sync makes data and size durable, but not the name: that is SyncDir's. After an error nothing is known of what was written since
	// the last Sync, and a second try proves nothing.
	Sync() error
	// Truncate sets the size. Bytes that come to be by it are zero.
	Truncate(size int64) error
	// Preallocate reserves disk for the first size bytes, and extends the file with zeros if it is shorter. Writes to them then do not fail for want of
	// room. When there is no room it fails with ErrNoSpace and the file has the size that it had. It does not shrink a file.
	Preallocate(size int64) error
	// Size returns the number of bytes that can be read.
	Size() (int64, error)
}

// Prefetcher is a File that can be told what will be read soon. It is a hint: nothing fails, and the data may come from the disk later all the same.
type Prefetcher interface {
	Prefetch(off, size int64)
}

// ErrNoSpace means that the disk, or the quota, is full. Ask with IsNoSpace, which knows the system's own errors too.
var ErrNoSpace = errors.New("no space left on the disk")

// ErrLocked means that someone else holds the lock.
var ErrLocked = errors.New("locked by another process or store")

// ErrCrashed means that the file system was frozen by (*Mem).Crash.
var ErrCrashed = errors.New("the file system has crashed")

// IsNoSpace reports whether err says that the disk or the quota is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
