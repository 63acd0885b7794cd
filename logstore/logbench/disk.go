package logbench

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// filesIn returns the paths of the files in a directory.
func filesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// allocated returns the bytes of disk that the files in a directory take.
func allocated(dir string) (int64, error) {
	names, err := filesIn(dir)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, name := range names {
		var st unix.Stat_t
		err := unix.Stat(name, &st)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return 0, &fs.PathError{Op: "stat", Path: name, Err: err}
		}
		sum += st.Blocks * 512
	}
	return sum, nil
}

// forget has the system drop what it holds in memory of the files in a directory. They must have been synced.
func forget(dir string) error {
	names, err := filesIn(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		f.Close()
		if err != nil {
			return fmt.Errorf("dropping the cached pages of %s: %w", name, err)
		}
	}
	return nil
}

// readFiles reads the files of a directory from beginning to end in pieces of len(buf), and returns how many bytes that were.
func readFiles(dir string, buf []byte) (n int64, err error) {
	names, err := filesIn(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return n, err
		}
		for err == nil {
			var k int
			k, err = f.Read(buf)
			n += int64(k)
		}
		f.Close()
		if err != io.EOF {
			return n, err
		}
	}
	return n, nil
}
