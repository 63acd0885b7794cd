package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"polylog/logstore/seed"
)

// difference describes where two contents begin to differ.
func difference(got, want []byte) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d is %#02x, want %#02x (sizes %d and %d)", i, got[i], want[i], len(got), len(want))
		}
	}
	return fmt.Sprintf("size is %d, want %d", len(got), len(want))
}

func TestCreateRefusesATakenName(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "a")
		write(t, create(t, fsys, name), 0, []byte("kept"))
		must(t, fsys.MkdirAll(filepath.Join(dir, "d")))
		for _, taken := range []string{name, filepath.Join(dir, "d")} {
			if _, err := fsys.Create(taken); !errors.Is(err, fs.ErrExist) {
				t.Errorf("Create(%s) = %v, want fs.ErrExist", taken, err)
			}
		}
		if info, err := fsys.Stat(name); err != nil || info.Size != 4 {
			t.Errorf("Stat = %+v, %v; the file in the way has changed", info, err)
		}
	})
}

func TestAMissingNameIsReported(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		none := filepath.Join(dir, "none")
		below := filepath.Join(none, "below")
		create(t, fsys, filepath.Join(dir, "there"))
		for what, f := range map[string]func() error{
			"Create below":  func() error { _, err := fsys.Create(below); return err },
			"Open":          func() error { _, err := fsys.Open(none); return err },
			"OpenWrite":     func() error { _, err := fsys.OpenWrite(none); return err },
			"Remove":        func() error { return fsys.Remove(none) },
			"Rename":        func() error { return fsys.Rename(none, filepath.Join(dir, "new")) },
			"Rename below":  func() error { return fsys.Rename(filepath.Join(dir, "there"), below) },
			"List":          func() error { _, err := fsys.List(none); return err },
			"SyncDir":       func() error { return fsys.SyncDir(none) },
			"Stat":          func() error { _, err := fsys.Stat(none); return err },
			"Lock below":    func() error { _, err := fsys.Lock(below); return err },
			"Free of none":  func() error { _, err := fsys.Free(none); return err },
			"Open of below": func() error { _, err := fsys.Open(below); return err },
		} {
			if err := f(); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v, want fs.ErrNotExist", what, err)
			}
		}
	})
}

func TestAFileIsNoDirectory(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		file := filepath.Join(dir, "file")
		create(t, fsys, file)
		for what, f := range map[string]func() error{
			"Create below":   func() error { _, err := fsys.Create(filepath.Join(file, "x")); return err },
			"List":           func() error { _, err := fsys.List(file); return err },
			"MkdirAll":       func() error { return fsys.MkdirAll(file) },
			"MkdirAll below": func() error { return fsys.MkdirAll(filepath.Join(file, "x")) },
			"Lock of a dir":  func() error { _, err := fsys.Lock(dir); return err },
			"OpenWrite dir":  func() error { _, err := fsys.OpenWrite(dir); return err },
		} {
			if f() == nil {
				t.Errorf("%s succeeded", what)
			}
		}
	})
}

func TestReadsEndWithTheFile(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "a"))
		write(t, f, 5000, []byte("end")) // after a hole
		for _, c := range []struct {
			off  int64
			size int
			n    int
			err  error
		}{{0, 5003, 5003, nil}, {5000, 3, 3, nil}, {5000, 4, 3, io.EOF}, {5003, 1, 0, io.EOF}, {1 << 20, 8, 0, io.EOF}, {5003, 0, 0, nil}} {
			b := bytes.Repeat([]byte{0xff}, c.size)
			n, err := f.ReadAt(b, c.off)
			if n != c.n || err != c.err {
				t.Errorf("ReadAt(%d bytes, %d) = %d, %v; want %d, %v", c.size, c.off, n, err, c.n, c.err)
			}
		}
		if got, want := content(t, f), append(make([]byte, 5000), "end"...); !bytes.Equal(got, want) {
			t.Error(difference(got, want))
		}
		if _, err := f.ReadAt(make([]byte, 1), -1); err == nil {
			t.Error("a read at a negative offset succeeded")
		}
		if _, err := f.WriteAt(make([]byte, 1), -1); err == nil {
			t.Error("a write at a negative offset succeeded")
		}
		if f.Truncate(-1) == nil || f.Preallocate(-1) == nil {
			t.Error("a negative size was taken")
		}
	})
}

func TestOpenIsForReadingOnly(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "a")
		write(t, create(t, fsys, name), 0, []byte("kept"))
		f, err := fsys.Open(name)
		must(t, err)
		defer f.Close()
		if _, err := f.WriteAt([]byte("lost"), 0); err == nil {
			t.Error("WriteAt succeeded")
		}
		if f.Truncate(1) == nil {
			t.Error("Truncate succeeded")
		}
		if f.Preallocate(100) == nil {
			t.Error("Preallocate succeeded")
		}
		must(t, f.Sync())
		if got := content(t, f); string(got) != "kept" {
			t.Errorf("the file holds %q", got)
		}
	})
}

func TestHandlesFollowTheFileNotTheName(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		first := create(t, fsys, a)
		second, err := fsys.OpenWrite(a)
		must(t, err)
		defer second.Close()
		must(t, fsys.Rename(a, b))
		write(t, first, 0, []byte("one"))
		must(t, fsys.Remove(b))
		write(t, second, 3, []byte("two"))
		must(t, first.Sync())
		write(t, create(t, fsys, b), 0, []byte("another"))
		if got := content(t, first); string(got) != "onetwo" {
			t.Errorf("the first handle reads %q", got)
		}
	})
}

func TestRenameReplaces(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "sub", "b")
		must(t, fsys.MkdirAll(filepath.Join(dir, "sub")))
		write(t, create(t, fsys, a), 0, []byte("new"))
		old := create(t, fsys, b)
		write(t, old, 0, []byte("the old one"))
		must(t, fsys.Rename(a, b))
		must(t, fsys.Rename(b, b))
		if info, err := fsys.Stat(b); err != nil || info.Size != 3 {
			t.Errorf("Stat = %+v, %v", info, err)
		}
		if _, err := fsys.Stat(a); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the old name: %v", err)
		}
		if got := content(t, old); string(got) != "the old one" {
			t.Errorf("the replaced file reads %q", got)
		}
		if err := fsys.Rename(b, filepath.Join(dir, "sub")); err == nil {
			t.Error("a file replaced a directory")
		}
	})
}

func TestDirectoriesCanBeRenamedAndRemoved(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		old, moved := filepath.Join(dir, "old"), filepath.Join(dir, "moved")
		must(t, fsys.MkdirAll(filepath.Join(old, "deep")))
		create(t, fsys, filepath.Join(old, "a"))
		if fsys.Remove(old) == nil {
			t.Error("a directory with a file in it was removed")
		}
		if fsys.Rename(old, filepath.Join(old, "deep", "x")) == nil {
			t.Error("a directory was moved into itself")
		}
		must(t, fsys.Rename(old, moved))
		must(t, fsys.Remove(filepath.Join(moved, "a")))
		must(t, fsys.Remove(filepath.Join(moved, "deep")))
		must(t, fsys.Remove(moved))
		must(t, fsys.SyncDir(dir))
		if names, err := fsys.List(dir); err != nil || len(names) != 0 {
			t.Errorf("List = %v, %v", names, err)
		}
	})
}

func TestListIsSorted(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		for _, name := range []string{"10", "b", "2", "a"} {
			create(t, fsys, filepath.Join(dir, name))
		}
		must(t, fsys.MkdirAll(filepath.Join(dir, "ab", "c")))
		must(t, fsys.MkdirAll(filepath.Join(dir, "ab", "c")))
		names, err := fsys.List(dir)
		must(t, err)
		if want := []string{"10", "2", "a", "ab", "b"}; !slices.Equal(names, want) {
			t.Errorf("List = %v, want %v", names, want)
		}
	})
}

func TestPreallocateReservesZeros(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "a")
		f := create(t, fsys, name)
		write(t, f, 100, []byte("kept"))
		must(t, f.Preallocate(1<<20))
		expected := make([]byte, 1<<20)
		copy(expected[100:], "kept")
		if got := content(t, f); !bytes.Equal(got, expected) {
			t.Error(difference(got, expected))
		}
		if info, err := fsys.Stat(name); err != nil || info.Size != 1<<20 || info.Allocated < 1<<20 {
			t.Errorf("Stat = %+v, %v", info, err)
		}
		must(t, f.Preallocate(10))
		must(t, f.Preallocate(0))
		if size, err := f.Size(); err != nil || size != 1<<20 {
			t.Errorf("preallocating less made the size %d, %v", size, err)
		}
		must(t, f.Truncate(4096))
		if info, err := fsys.Stat(name); err != nil || info.Size != 4096 || info.Allocated >= 1<<20 {
			t.Errorf("after Truncate: Stat = %+v, %v", info, err)
		}
	})
}

func TestAClosedFileSaysSo(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "a"))
		must(t, f.Close())
		for what, op := range map[string]func() error{
			"ReadAt":      func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
			"WriteAt":     func() error { _, err := f.WriteAt(make([]byte, 1), 0); return err },
			"Sync":        f.Sync,
			"Truncate":    func() error { return f.Truncate(1) },
			"Preallocate": func() error { return f.Preallocate(1) },
			"Size":        func() error { _, err := f.Size(); return err },
			"Close":       f.Close,
		} {
			if err := op(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s: %v, want fs.ErrClosed", what, err)
			}
		}
	})
}

func TestALockIsHeldByOne(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "lock")
		lock, err := fsys.Lock(name)
		must(t, err)
		if _, err := fsys.Lock(name); !errors.Is(err, ErrLocked) {
			t.Errorf("second Lock: %v, want ErrLocked", err)
		}
		f, err := fsys.OpenWrite(name) // the lock is advisory
		must(t, err)
		must(t, f.Close())
		if _, err := fsys.Lock(name); !errors.Is(err, ErrLocked) {
			t.Errorf("Lock after the file was closed elsewhere: %v, want ErrLocked", err)
		}
		must(t, lock.Close())
		if err := lock.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second Close: %v, want fs.ErrClosed", err)
		}
		lock, err = fsys.Lock(name)
		must(t, err)
		must(t, lock.Close())
	})
}

func TestFreeIsKnown(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		if n, err := fsys.Free(dir); err != nil || n <= 0 {
			t.Errorf("Free = %d, %v", n, err)
		}
	})
}

// TestFilesAreBytes compares random writes, sizes and reads with a slice.
func TestFilesAreBytes(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		r := seed.Rand(t)
		const limit = 3 << 20
		f := create(t, fsys, filepath.Join(dir, "a"))
		var model []byte
		resize := func(size int64) {
			if grow := size - int64(len(model)); grow > 0 {
				model = append(model, make([]byte, grow)...)
			}
			model = model[:size]
		}
		for range 300 {
			off := r.Int64N(limit)
			switch r.IntN(8) {
			case 0:
				must(t, f.Truncate(off))
				resize(off)
			case 1:
				must(t, f.Preallocate(off))
				resize(max(off, int64(len(model))))
			case 2:
				must(t, f.Sync())
			default:
				p := bytes.Repeat([]byte{byte(r.IntN(256))}, 1+r.IntN(20_000))
				write(t, f, off, p)
				resize(max(int64(len(model)), off+int64(len(p))))
				copy(model[off:], p)
			}
			from := min(max(off-10_000, 0), int64(len(model)))
			got := make([]byte, min(40_000, int64(len(model))-from))
			if n, err := f.ReadAt(got, from); n != len(got) || err != nil {
				t.Fatalf("read %d of %d bytes, %v", n, len(got), err)
			}
			if !bytes.Equal(got, model[from:][:len(got)]) {
				t.Fatalf("from %d on: %s", from, difference(got, model[from:][:len(got)]))
			}
		}
		if got := content(t, f); !bytes.Equal(got, model) {
			t.Error(difference(got, model))
		}
	})
}

func TestFilesAreUsedSideBySide(t *testing.T) {
	everyFS(t, func(t *testing.T, fsys FS, dir string) {
		shared := create(t, fsys, filepath.Join(dir, "shared"))
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				own, err := fsys.Create(filepath.Join(dir, fmt.Sprint(w)))
				if err != nil {
					t.Error(err)
					return
				}
				defer own.Close()
				mine := bytes.Repeat([]byte{byte('a' + w)}, 1000)
				got := make([]byte, len(mine))
				for i := range int64(50) {
					_, errShared := shared.WriteAt(mine, int64(w)*1000)
					_, errOwn := own.WriteAt(mine, i*1000)
					_, errRead := shared.ReadAt(got, int64(w)*1000)
					_, errList := fsys.List(dir)
					if err := errors.Join(errShared, errOwn, errRead, errList, own.Sync(), fsys.SyncDir(dir)); err != nil {
						t.Error(err)
					}
					if !bytes.Equal(got, mine) {
						t.Errorf("writer %d reads %q", w, got[:8])
					}
				}
			})
		}
		wg.Wait()
	})
}
