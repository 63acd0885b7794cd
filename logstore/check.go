package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// Check verifies the log in dir, which no store may have open, and changes nothing there but the lock file. fsys is vfs.OS if it is nil. progress, which may be
// nil, is told now and then how many bytes of how many are done.
//
// It reads every byte that means something and holds it to all that is known of it: checksums, the records inside the batches, the order of
// entries and files, the indexes to the entries, the newest checkpoint to what the one before it and the log lead to, and the state to the files: each live offset
// must be in exactly one batch. The end of a log that a crash cut off is judged as Open judges it, and is no damage.
//
// Damage is in the report and no error; Check goes on behind it. The error says why the check could not be made: the directory is missing, has no log or is
// in use, was written by a newer version, or ctx has ended. The memory needed is that of an open store, and the index of one segment, or of each damaged one.
func Check(ctx context.Context, fsys vfs.FS, dir string, progress func(done, total int64)) (*Report, error) {
	if fsys == nil {
		fsys = vfs.OS
	}
	// Before the lock, which would make a file.
	if err := holdsLog(fsys, dir); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s is in use: %w; stop the process that has it open, then check again", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	files := newFileCache(fsys, dir, checkOpenFiles)
	c := &checker{
		recovery: recovery{s: &Store{files: files}, fs: fsys, dir: dir},
		ctx:      ctx, files: files, report: newReport(), progress: progress, damagedFiles: map[string]bool{},
	}
	err = c.run()
	files.close()
	if closeErr := lock.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return c.report, nil
}

// checkOpenFiles is how many segment files stay open while their indexes are walked.
const checkOpenFiles = 64

// holdsLog returns an error that says what is wrong with the directory when there is no log in it.
func holdsLog(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no directory %s: %w", dir, err)
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if isLogFile(name) {
			return nil
		}
	}
	return fmt.Errorf("%s holds no log: it has neither segment files nor checkpoints", dir)
}

// checker is one run of Check. It is a recovery that finds and judges and changes nothing: of its methods only those that read are called.
type checker struct {
	recovery
	ctx    context.Context
	files  *fileCache
	report *Report

	progress    func(done, total int64)
	done, total int64
	told        int64 // done, when progress was last called

	line         checkedLine
	damagedFiles map[string]bool // what is live and nowhere may have been in them
	rebuilt      int64           // bytes of indexes made anew in memory
	uncovered    bool            // there were too many of them
	missed       bool            // a file was reported as missing, with the live records in it
}

func (c *checker) run() error {
	names, err := c.fs.List(c.dir)
	if err != nil {
		return err
	}
	c.sortNames(names)
	if err := c.findAll(names); err != nil {
		return err
	}
	if err := c.checkCheckpoints(names); err != nil {
		return err
	}
	for i, g := range c.found {
		if err := c.checkSegment(i, g); err != nil {
			return err
		}
	}
	if err := c.endReplay(); err != nil {
		return err
	}
	if err := c.checkCoverage(); err != nil {
		return err
	}
	c.checkEnd()
	if err := c.measure(); err != nil {
		return err
	}
	c.tell(c.total - c.done)
	return nil
}

// sortNames notes the files that are no part of the log.
func (c *checker) sortNames(names []string) {
	for _, name := range names {
		switch {
		case isLogFile(name) || name == lockName || name == reserveName:
		case name == restoringName:
			c.report.problem(name, 0, "the directory was to be made a copy of another store, and that was not finished; restore it again")
		case strings.HasSuffix(name, tmpSuffix):
			c.report.note("%s was being written when the process ended; the next start removes it", name)
		case strings.HasSuffix(name, spareSuffix):
			c.report.note("%s is a file that was kept for later segments; the next start removes it", name)
		default:
			c.report.note("%s is not a file of the log", name)
		}
	}
}

// findAll reads the headers and indexes of the segment files, and adds up what there is to do.
func (c *checker) findAll(names []string) error {
	for i, name := range names {
		if _, is := parseCheckpointName(name); is {
			if info, err := c.fs.Stat(filepath.Join(c.dir, name)); err == nil {
				c.total += info.Size
			}
		}
		found, err := findSegments(c.fs, c.dir, names[i:i+1])
		if errors.Is(err, segment.ErrVersion) {
			return err
		}
		if err != nil {
			c.unreadable(name, 0, err)
		}
		c.found = append(c.found, found...)
	}
	sorted, copies := sortByHeader(c.found)
	for _, g := range copies {
		c.report.problem(g.name, 0, "%v, of which there is another file", g.headErr)
	}
	c.found = sorted
	kept := make([]*foundSegment, 0, len(c.found))
	for _, g := range c.found {
		if by := supersededBy(c.found, g); by != nil {
			c.report.Replaced++
			c.report.note("%s is left over: %s replaces it; the next start removes it", g.name, by.name)
			continue
		}
		kept = append(kept, g)
		c.total += g.size
	}
	c.found = kept
	return nil
}

// unreadable reports what the disk does not give back.
func (c *checker) unreadable(name string, pos int64, err error) {
	c.damagedFiles[name] = true
	c.report.problem(name, pos, "it cannot be read: %v", err)
}

// tellBytes is how much is done between two calls of progress.
const tellBytes = 1 << 20

// tell counts bytes as done.
func (c *checker) tell(bytes int64) {
	c.done += bytes
	if c.progress != nil && (c.done-c.told >= tellBytes || c.done == c.total) {
		c.told = c.done
		c.progress(c.done, c.total)
	}
}
