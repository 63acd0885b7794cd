package vfs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

var errInjected = errors.New("injected")

// everyOp does each operation once, on files that must be there, and returns its error by its kind.
func everyOp(t *testing.T, fsys FS, f File, lock io.Closer) map[OpKind]error {
	t.Helper()
	errs := map[OpKind]error{}
	note := func(kind OpKind, err error) { errs[kind] = err }
	_, err := fsys.Create("dir/new")
	note(OpCreate, err)
	_, err = fsys.Open("dir/file")
	note(OpOpen, err)
	_, err = fsys.OpenWrite("dir/file")
	note(OpOpenWrite, err)
	note(OpRename, fsys.Rename("dir/from", "dir/to"))
	note(OpRemove, fsys.Remove("dir/old"))
	_, err = fsys.List("dir")
	note(OpList, err)
	note(OpMkdirAll, fsys.MkdirAll("made"))
	note(OpSyncDir, fsys.SyncDir("dir"))
	_, err = fsys.Stat("dir/file")
	note(OpStat, err)
	_, err = fsys.Lock("dir/other lock")
	note(OpLock, err)
	_, err = fsys.Free("dir")
	note(OpFree, err)
	_, err = f.ReadAt(make([]byte, 2), 1)
	note(OpRead, err)
	_, err = f.WriteAt([]byte("new"), 1)
	note(OpWrite, err)
	note(OpSync, f.Sync())
	note(OpPreallocate, f.Preallocate(7))
	note(OpTruncate, f.Truncate(2))
	note(OpClose, errors.Join(f.Close(), lock.Close()))
	return errs
}

// faultScene returns the file system that everyOp needs, with an open file and a lock.
func faultScene(t *testing.T, hook func(Op) error) (*Mem, *Fault, File, io.Closer) {
	t.Helper()
	m := NewMem()
	must(t, m.Put("dir/file", []byte("content")))
	must(t, m.Put("dir/from", nil))
	must(t, m.Put("dir/old", nil))
	armed := false
	fsys := NewFault(m, func(op Op) error {
		if armed && hook != nil {
			return hook(op)
		}
		return nil
	})
	f, err := fsys.OpenWrite("dir/file")
	must(t, err)
	lock, err := fsys.Lock("dir/lock")
	must(t, err)
	armed = true
	return m, fsys, f, lock
}

func TestAnInjectedErrorHasNoOtherEffect(t *testing.T) {
	t.Parallel()
	for _, injected := range []error{errInjected, ShortWrite{Err: errInjected}} {
		m, fsys, f, lock := faultScene(t, func(Op) error { return injected })
		before := names(m)
		for kind, err := range everyOp(t, fsys, f, lock) {
			if !errors.Is(err, errInjected) {
				t.Errorf("%v: %v, want the injected error", kind, err)
			}
		}
		if got := names(m); got != before {
			t.Errorf("the tree was %s and is %s", before, got)
		}
		want(t, m, "dir/file", []byte("content"))
		if got := []int64{m.Reads(), m.Writes(), m.Syncs(), m.DirSyncs()}; !slices.Equal(got, make([]int64, 4)) {
			t.Errorf("reads, writes, syncs and dir syncs came through: %v", got)
		}
		if n := m.OpenHandles(); n != 0 {
			t.Errorf("%d handles are open after a failed Close", n)
		}
	}
}

func TestOperationsAreRecorded(t *testing.T) {
	t.Parallel()
	_, fsys, f, lock := faultScene(t, nil)
	if ops := fsys.Ops(); len(ops) != 0 {
		t.Errorf("recorded %v before Record", ops)
	}
	fsys.Record()
	for kind, err := range everyOp(t, fsys, f, lock) {
		if err != nil {
			t.Errorf("%v: %v", kind, err)
		}
	}
	var got strings.Builder
	kinds := map[OpKind]bool{}
	for _, op := range fsys.Ops() {
		fmt.Fprintln(&got, op)
		kinds[op.Kind] = true
	}
	const want = `create dir/new
open dir/file
open for writing dir/file
rename dir/from to dir/to
remove dir/old
list dir
mkdir made
sync dir dir
stat dir/file
lock dir/other lock
free dir
read dir/file 1+2
write dir/file 1+3
sync dir/file
preallocate dir/file to 7
truncate dir/file to 2
close dir/file
close dir/lock
`
	if got.String() != want {
		t.Errorf("recorded\n%swant\n%s", got.String(), want)
	}
	for k := range OpClose + 1 {
		if !kinds[k] || strings.HasPrefix(k.String(), "OpKind") {
			t.Errorf("operation %v is not tried here or has no name", k)
		}
	}
	fsys.Record()
	if ops := fsys.Ops(); len(ops) != 0 {
		t.Errorf("a new record begins with %v", ops)
	}
}

func TestAShortWriteLeavesItsBeginning(t *testing.T) {
	t.Parallel()
	if err := (ShortWrite{N: 1, Err: ErrNoSpace}); !IsNoSpace(err) || IsNoSpace(errInjected) {
		t.Error("a short write does not say why it was short")
	}
	for _, c := range []struct{ n, want int }{{-1, 0}, {0, 0}, {2, 2}, {3, 3}, {9, 3}} {
		m, _, f, _ := faultScene(t, func(op Op) error { return fmt.Errorf("hook: %w", ShortWrite{N: c.n, Err: errInjected}) })
		n, err := f.WriteAt([]byte("CON"), 0)
		if n != c.want || err != errInjected {
			t.Errorf("ShortWrite of %d: WriteAt = %d, %v; want %d and the injected error", c.n, n, err, c.want)
		}
		want(t, m, "dir/file", []byte("CON"[:c.want]+"content"[c.want:]))
	}
}

func TestAHookMayCrashTheDisk(t *testing.T) {
	t.Parallel()
	m := NewMem()
	var left *Mem
	fsys := NewFault(m, func(op Op) error {
		if op.Kind == OpSync {
			left = m.Crash(CrashPlan{Kind: KeepAll})
		}
		return nil
	})
	f := create(t, fsys, "file")
	write(t, f, 0, []byte("data"))
	if err := f.Sync(); !errors.Is(err, ErrCrashed) {
		t.Errorf("Sync: %v, want ErrCrashed", err)
	}
	want(t, left, "file", []byte("data"))
}
