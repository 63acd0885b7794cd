package vfs

import (
	"bytes"
	"testing"
)

// everyFS runs a test of the contract on each file system, in a directory of its own.
func everyFS(t *testing.T, f func(t *testing.T, fsys FS, dir string)) {
	t.Parallel()
	for name, fsys := range map[string]FS{"os": OS, "mem": NewMem(), "fault": NewFault(NewMem(), nil), "fault on os": NewFault(OS, nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, fsys.MkdirAll(dir))
			f(t, fsys, dir)
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, fsys FS, name string) File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t testing.TB, f File, off int64, p []byte) {
	t.Helper()
	n, err := f.WriteAt(p, off)
	must(t, err)
	if n != len(p) {
		t.Fatalf("wrote %d of %d bytes without an error", n, len(p))
	}
}

// content reads all of a file through its handle.
func content(t testing.TB, f File) []byte {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	must(t, err)
	if n != len(b) {
		t.Fatalf("read %d of %d bytes without an error", n, len(b))
	}
	return b
}

// want checks what a name holds; nil means that there is no such name.
func want(t testing.TB, m *Mem, name string, data []byte) {
	t.Helper()
	got, err := m.Contents(name)
	switch {
	case data == nil && err == nil:
		t.Fatalf("%s is there with %d bytes, want it gone", name, len(got))
	case data != nil && err != nil:
		t.Fatalf("%s: %v", name, err)
	case data != nil && !bytes.Equal(got, data):
		t.Fatalf("%s: %s", name, difference(got, data))
	}
}
