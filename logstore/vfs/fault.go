package vfs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Fault is a file system that asks a hook before each operation on another one, and fails where the hook says so. It can also keep a list of the
// operations. Size of an open file is neither asked about nor listed.
type Fault struct {
	inner FS
	hook  func(Op) error

	mu        sync.Mutex // of the fields below; not held while the hook runs
	recording bool
	ops       []Op
}

// NewFault puts hook before the operations of inner. An error that it returns is what the operation returns, and then inner is not asked; but
// a file or lock is closed even then, as close(2) does. The hook is called from the goroutine of the operation, several at once
// if need be, and may itself use inner. A nil hook lets all pass.
func NewFault(inner FS, hook func(Op) error) *Fault {
	if hook == nil {
		hook = func(Op) error { return nil }
	}
	return &Fault{inner: inner, hook: hook}
}

// ShortWrite, returned by a hook for a write, lets the first N bytes through before it fails with Err. For other operations it is the same as Err.
type ShortWrite struct {
	N   int
	Err error
}

func (s ShortWrite) Error() string { return fmt.Sprintf("short write of %d bytes: %v", s.N, s.Err) }

// Unwrap returns Err.
func (s ShortWrite) Unwrap() error { return s.Err }

// Record begins a new list of operations.
func (f *Fault) Record() {
	f.mu.Lock()
	f.recording, f.ops = true, nil
	f.mu.Unlock()
}

// Ops returns the operations since Record in the order in which they began, those that failed too.
func (f *Fault) Ops() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ops)
}

// before records the operation and asks the hook.
func (f *Fault) before(op Op) error {
	f.mu.Lock()
	if f.recording {
		f.ops = append(f.ops, op)
	}
	f.mu.Unlock()
	return f.hook(op)
}

// ask is before for all that is not a write.
func (f *Fault) ask(op Op) error {
	err := f.before(op)
	if short, ok := errors.AsType[ShortWrite](err); ok {
		return short.Err
	}
	return err
}

// Create implements FS.
func (f *Fault) Create(name string) (File, error) { return f.open(OpCreate, name, f.inner.Create) }

// Open implements FS.
func (f *Fault) Open(name string) (File, error) { return f.open(OpOpen, name, f.inner.Open) }

// OpenWrite implements FS.
func (f *Fault) OpenWrite(name string) (File, error) {
	return f.open(OpOpenWrite, name, f.inner.OpenWrite)
}

func (f *Fault) open(kind OpKind, name string, open func(string) (File, error)) (File, error) {
	if err := f.ask(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fault: f, name: name}, nil
}

// Remove implements FS.
func (f *Fault) Remove(name string) error {
	if err := f.ask(Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// Rename implements FS.
func (f *Fault) Rename(old, new string) error {
	if err := f.ask(Op{Kind: OpRename, Name: old, To: new}); err != nil {
		return err
	}
	return f.inner.Rename(old, new)
}

// List implements FS.
func (f *Fault) List(dir string) ([]string, error) {
	if err := f.ask(Op{Kind: OpList, Name: dir}); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// MkdirAll implements FS.
func (f *Fault) MkdirAll(dir string) error {
	if err := f.ask(Op{Kind: OpMkdirAll, Name: dir}); err != nil {
		return err
	}
	return f.inner.MkdirAll(dir)
}

// SyncDir implements FS.
func (f *Fault) SyncDir(dir string) error {
	if err := f.ask(Op{Kind: OpSyncDir, Name: dir}); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

// Stat implements FS.
func (f *Fault) Stat(name string) (Info, error) {
	if err := f.ask(Op{Kind: OpStat, Name: name}); err != nil {
		return Info{}, err
	}
	return f.inner.Stat(name)
}

// Lock implements FS.
func (f *Fault) Lock(name string) (io.Closer, error) {
	if err := f.ask(Op{Kind: OpLock, Name: name}); err != nil {
		return nil, err
	}
	lock, err := f.inner.Lock(name)
	if err != nil {
		return nil, err
	}
	return &faultLock{lock: lock, fault: f, name: name}, nil
}

// Free implements FS.
func (f *Fault) Free(dir string) (int64, error) {
	if err := f.ask(Op{Kind: OpFree, Name: dir}); err != nil {
		return 0, err
	}
	return f.inner.Free(dir)
}

// close closes c whatever the hook says.
func (f *Fault) close(name string, c io.Closer) error {
	hookErr := f.ask(Op{Kind: OpClose, Name: name})
	if err := c.Close(); err != nil {
		return err
	}
	return hookErr
}

type faultLock struct {
	lock  io.Closer
	fault *Fault
	name  string
}

func (l *faultLock) Close() error { return l.fault.close(l.name, l.lock) }

// faultFile is an open file of a Fault. What it does not ask about it leaves to the embedded one.
type faultFile struct {
	File
	fault *Fault
	name  string
}

func (f *faultFile) Close() error { return f.fault.close(f.name, f.File) }

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fault.ask(Op{Kind: OpRead, Name: f.name, Offset: off, Size: int64(len(p))}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.fault.before(Op{Kind: OpWrite, Name: f.name, Offset: off, Size: int64(len(p))})
	if err == nil {
		return f.File.WriteAt(p, off)
	}
	short, ok := errors.AsType[ShortWrite](err)
	if !ok {
		return 0, err
	}
	if short.N <= 0 {
		return 0, short.Err
	}
	n, err := f.File.WriteAt(p[:min(short.N, len(p))], off)
	if err != nil {
		return n, err
	}
	return n, short.Err
}

func (f *faultFile) Sync() error {
	if err := f.fault.ask(Op{Kind: OpSync, Name: f.name}); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.fault.ask(Op{Kind: OpTruncate, Name: f.name, Size: size}); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Preallocate(size int64) error {
	if err := f.fault.ask(Op{Kind: OpPreallocate, Name: f.name, Size: size}); err != nil {
		return err
	}
	return f.File.Preallocate(size)
}
