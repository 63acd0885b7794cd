package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"polylog/logstore/vfs"
)

// keepSpares lets a test's store keep files as a real one does.
func keepSpares(o *Options) { o.spareMemory = time.Minute }

// spareFiles returns the names of spare files in the directory of a test's store.
func spareFiles(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List("d")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, spareSuffix) })
}

// withSpares opens a store in which more than n segments were filled, and n became spare files. It returns the first offset that is live.
func withSpares(t *testing.T, fsys vfs.FS, n int) (*Store, Shard, int64) {
	t.Helper()
	s := openMem(t, fsys, keepSpares)
	sh := newShard(t, s, "q")
	next := 62*(n+1) + 20 // 62 records of a kilobyte fill a segment
	fill(t, s, sh, next, 1)
	await(t, func() bool { s.cleaner.wake(); return s.Stats().LiveBytes >= int64(n)*minSegmentBytes })
	s.spares.note(time.Now())
	mustCommit(t, s, TrimBefore(sh, int64(next)))
	await(t, func() bool { return s.Stats().SpareSegments+int(s.Stats().ReusedSegments) >= n })
	return s, sh, int64(next)
}

func TestFilesOfCleanedSegmentsAreWrittenAgain(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s, sh, first := withSpares(t, disk, 4)
	fill(t, s, sh, 300, 1)
	if st := s.Stats(); st.ReusedSegments < 3 {
		t.Fatalf("%d files were used again, want 3 at least", st.ReusedSegments)
	}
	want := values(t, s, sh, first, 1<<20)
	if len(want) != 300 {
		t.Fatalf("%d records, want 300", len(want))
	}
	// A power loss: what the files had before is behind the entries of the last segment, or nowhere.
	after := disk.Crash(vfs.CrashPlan{Kind: vfs.DropUnsynced, Rand: rand.New(rand.NewPCG(1, 1))})
	s.Close()
	report, err := Check(context.Background(), after, "d", nil)
	if err != nil || !report.OK() {
		t.Fatalf("the check found %v (%v)", report.Problems, err)
	}
	s = openMem(t, after)
	defer mustClose(t, s)
	if left := spareFiles(t, after); len(left) > 1 {
		t.Errorf("%q are left after a start", left)
	}
	if got := values(t, s, sh, first, 1<<20); !slices.Equal(got, want) {
		t.Errorf("%d records after a crash, want %d", len(got), len(want))
	}
}

// The first segment after a start can be made of a spare file while no other segment exists, so that nothing but a checkpoint says that its entries are old.
func TestASpareFileThatWasNotUsedYetIsNoDamage(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := openMem(t, disk, func(o *Options) { o.checkpointsByHand = true }) // or the segment is gone when the store closes
	sh := newShard(t, s, "q")
	fill(t, s, sh, 50, 1)
	mustCommit(t, s, TrimBefore(sh, 50))
	mustClose(t, s)
	var f faults
	s = openMem(t, vfs.NewFault(disk, f.hook), keepSpares)
	await(t, func() bool {
		st := s.Stats()
		s.Checkpoint()
		s.cleaner.wake()
		return st.Segments == 0 && st.SpareSegments == 1
	})
	f.set(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && isSegment(op) {
			return vfs.ErrCrashed
		}
		return nil
	})
	if _, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(1, "lost"))}}); err == nil {
		t.Fatal("the commit did not fail")
	}
	if s.Stats().ReusedSegments != 1 {
		t.Fatal("the segment was not made of the spare file")
	}
	after := disk.Crash(vfs.CrashPlan{Kind: vfs.KeepAll, Rand: rand.New(rand.NewPCG(1, 1))})
	s.Close()
	report, err := Check(context.Background(), after, "d", nil)
	if err != nil || !report.OK() || report.Unused != 1 {
		t.Errorf("the check found %v, %d unused (%v); want one unused file and no problem", report.Problems, report.Unused, err)
	}
	s = openMem(t, after)
	defer mustClose(t, s)
	if first, next, err := s.Bounds(sh); err != nil || first != 50 || next != 50 {
		t.Errorf("the shard has records from %d to %d (%v), want 50 to 50", first, next, err)
	}
}

func TestAFileThatSomeoneReadsIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := openMem(t, disk, keepSpares)
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	fill(t, s, sh, 200, 1)
	await(t, func() bool { s.cleaner.wake(); return s.Stats().LiveBytes >= minSegmentBytes })
	s.spares.note(time.Now())
	s.mu.RLock()
	name := s.segs.sealed[0].name
	s.mu.RUnlock()
	f, err := s.files.acquire(name)
	if err != nil {
		t.Fatal(err)
	}
	defer s.files.release(f)
	size, _ := f.Size()
	before, after := make([]byte, size), make([]byte, size)
	if _, err := f.ReadAt(before, 0); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, TrimBefore(sh, 200))
	await(t, func() bool { return s.Stats().RemovedSegments >= 2 })
	fill(t, s, sh, 400, 1)
	if s.Stats().ReusedSegments == 0 {
		t.Fatal("no file was used again")
	}
	if _, err := f.ReadAt(after, 0); err != nil || !bytes.Equal(before, after) {
		t.Errorf("what a reader has open was changed (%v)", err)
	}
}

// As long as a power loss could bring the old name back, the file must stay as it is.
func TestASpareFileIsNotTouchedBeforeItsNameIsDurable(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	unsettled := map[string]bool{} // renamed, the directory not synced
	written := 0
	disk := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case op.Kind == vfs.OpRename && strings.HasSuffix(op.To, spareSuffix):
			unsettled[op.To] = true
		case op.Kind == vfs.OpSyncDir:
			clear(unsettled)
		case op.Kind == vfs.OpOpenWrite && strings.HasSuffix(op.Name, spareSuffix):
			written++
			if unsettled[op.Name] {
				t.Errorf("%s is opened for writing", op.Name)
			}
		}
		return nil
	})
	s := openMem(t, disk, keepSpares)
	sh := newShard(t, s, "q")
	for i := range 30 { // a queue's life
		fill(t, s, sh, 40, 1)
		mustCommit(t, s, TrimBefore(sh, int64(40*(i+1))))
	}
	mustClose(t, s)
	if written == 0 {
		t.Error("no file was used again")
	}
}

func TestSpareFilesAreGivenBack(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"after a while", "when little was live for a while", "when the disk is nearly full", "at the end", "at the next start"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			disk, most := vfs.NewMem(), 0
			s, _, _ := withSpares(t, disk, 5)
			switch when {
			case "after a while":
				for range len(spareFiles(t, disk)) {
					if err := s.spares.trim(time.Now().Add(time.Hour)); err != nil {
						t.Fatal(err)
					}
				}
			case "when little was live for a while":
				s.spares.note(time.Now().Add(time.Hour))
				most = 1
			case "when the disk is nearly full":
				disk.SetCapacity(disk.Used() - 4*minSegmentBytes) // still nearly full when they are gone
			case "at the next start":
				after := disk.Crash(vfs.CrashPlan{Kind: vfs.KeepAll, Rand: rand.New(rand.NewPCG(1, 1))})
				if len(spareFiles(t, after)) < 2 {
					t.Fatal("the crash left no spare files")
				}
				s.Close()
				disk, s = after, openMem(t, after)
			case "at the end":
				mustClose(t, s)
			}
			await(t, func() bool { return len(spareFiles(t, disk)) <= most })
			if when != "at the end" {
				mustClose(t, s)
			}
		})
	}
}

// A queue that is emptied as fast as it is filled needs two files, the one being written and the next, whatever is kept of old ones.
func TestAQueueThatIsKeptEmptyLivesInFewFiles(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := openMem(t, disk, keepSpares)
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	for i := range 100 {
		fill(t, s, sh, 40, 1)
		mustCommit(t, s, TrimBefore(sh, int64(40*(i+1))))
		if i%10 == 9 {
			await(t, func() bool {
				s.cleaner.wake()
				st := s.Stats()
				return st.Segments+st.SpareSegments <= 3 && diskUse(t, disk, "d") <= 4*minSegmentBytes+s.reserveBytes()
			})
		}
	}
	if st := s.Stats(); st.ReusedSegments < 10 {
		t.Errorf("%d files were used again in a queue's life of some 60 segments", st.ReusedSegments)
	}
}

// What cannot be used again is told to the operator, and a new file is made.
func TestASpareFileThatCannotBeWrittenIsReplaced(t *testing.T) {
	t.Parallel()
	var f faults
	disk := vfs.NewMem()
	s, sh, first := withSpares(t, vfs.NewFault(disk, f.hook), 4)
	defer mustClose(t, s)
	f.set(func(op vfs.Op) error {
		if op.Kind == vfs.OpOpenWrite && strings.HasSuffix(op.Name, spareSuffix) {
			return &vfsError{filepath.Base(op.Name)}
		}
		return nil
	})
	reused := s.Stats().ReusedSegments
	fill(t, s, sh, 200, 1)
	if n := s.Stats().ReusedSegments - reused; n > 1 { // one may have been on its way
		t.Errorf("%d files were used again", n)
	}
	if got := values(t, s, sh, first, 1<<20); len(got) != 200 {
		t.Errorf("%d records, want 200", len(got))
	}
}

type vfsError struct{ name string }

func (e *vfsError) Error() string { return fmt.Sprintf("%s: a test's error", e.name) }

// While a large group is being forced to the disk the next one is written.
func TestALargeGroupIsWrittenWhileTheOneBeforeIsSynced(t *testing.T) {
	t.Parallel()
	var f faults
	s := openMem(t, vfs.NewFault(vfs.NewMem(), f.hook), func(o *Options) { o.aheadBytes = 1 })
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	syncing, written := make(chan struct{}), make(chan struct{})
	var first, second sync.Once
	f.set(func(op vfs.Op) error {
		switch {
		case !isSegment(op):
		case op.Kind == vfs.OpSync:
			first.Do(func() {
				close(syncing)
				select {
				case <-written:
				case <-time.After(time.Minute):
					t.Error("nothing was written while the disk was syncing")
				}
			})
		case op.Kind == vfs.OpWrite:
			select {
			case <-syncing:
				second.Do(func() { close(written) })
			default:
			}
		}
		return nil
	})
	var all sync.WaitGroup
	for i := range 2 {
		if i == 1 {
			<-syncing
		}
		all.Go(func() {
			if _, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(1, fmt.Sprint(i)))}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// When the sync of a large group fails, nothing that was written behind it is confirmed.
func TestNothingBehindAFailedSyncIsConfirmed(t *testing.T) {
	t.Parallel()
	var f faults
	s := openMem(t, vfs.NewFault(vfs.NewMem(), f.hook), func(o *Options) { o.aheadBytes = 1 })
	sh := newShard(t, s, "q")
	fill(t, s, sh, 1, 1)
	broken := errors.New("a broken disk")
	f.set(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && isSegment(op) {
			return broken
		}
		return nil
	})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(1, "lost"))}}); !errors.Is(err, broken) {
				t.Errorf("a commit gave %v, want %v", err, broken)
			}
		})
	}
	all.Wait()
	if _, next, err := s.Bounds(sh); err != nil || next != 1 {
		t.Errorf("%d records can be read (%v), want 1", next, err)
	}
	f.set(nil)
	if err := s.Close(); err == nil {
		t.Error("the store closed as if nothing had happened")
	}
}
