package logstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"polylog/logstore/vfs"
)

// faults is a disk on which operations fail as a test says.
type faults struct {
	mu   sync.Mutex
	fail func(op vfs.Op) error
}

func (f *faults) set(fail func(op vfs.Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *faults) hook(op vfs.Op) error {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(op)
}

func isSegment(op vfs.Op) bool { return strings.HasSuffix(op.Name, segmentSuffix) }

// After a failed write or sync nothing of its group is confirmed, nothing more is taken, reads go on, and the next start finds everything that
// was confirmed.
func TestAFailedWriteOrSyncStopsWritingAndLosesNothing(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]error{"write": syscall.EIO, "sync": syscall.EIO, "short write": vfs.ShortWrite{N: 700, Err: syscall.EIO}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f faults
			mem := vfs.NewMem()
			s := openMem(t, vfs.NewFault(mem, f.hook))
			sh := newShard(t, s, "q")
			fill(t, s, sh, 100, 1)
			kind := vfs.OpWrite
			if name == "sync" {
				kind = vfs.OpSync
			}
			await(t, func() bool { s.mu.RLock(); defer s.mu.RUnlock(); return s.segs.sealing == nil }) // or that fails too
			var times atomic.Int64
			f.set(func(op vfs.Op) error {
				if op.Kind == kind && isSegment(op) {
					times.Add(1)
					return bad
				}
				return nil
			})
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					_, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(1, "lost"))}})
					var failed *FailedError
					if !errors.As(err, &failed) || !errors.Is(err, syscall.EIO) {
						t.Errorf("a commit gave %v", err)
					}
				})
			}
			wg.Wait()
			f.set(nil) // the disk says it is well again: it is not to be believed
			if _, err := s.Commit(context.Background(), Txn{Do: []Op{Put("k", nil)}, Wait: Relaxed}); err == nil {
				t.Error("a commit after the failure was taken")
			}
			if n := times.Load(); n != 1 {
				t.Errorf("the failed operation was tried %d times", n)
			}
			if got := values(t, s, sh, 0, 1<<20); len(got) != 100 {
				t.Errorf("%d records are readable after the failure, want 100", len(got))
			}
			var failed *FailedError
			if err := s.Close(); !errors.As(err, &failed) {
				t.Errorf("closing gave %v", err)
			}
			s = openMem(t, mem.Crash(vfs.CrashPlan{Kind: vfs.DropUnsynced}))
			defer mustClose(t, s)
			if got := values(t, s, sh, 0, 1<<20); len(got) != 100 {
				t.Errorf("%d records after the restart, want 100", len(got))
			}
		})
	}
}

func TestAFullDiskRefusesMessagesServesReadsAndGoesOnByItself(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	s := openMem(t, mem)
	sh := newShard(t, s, "q")
	mem.SetCapacity(12 * minSegmentBytes)
	n := int64(0)
	var full *DiskFullError
	for {
		_, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(1, fmt.Sprintf("%01000d", n)))}})
		if err != nil {
			if !errors.As(err, &full) || !vfs.IsNoSpace(err) || !strings.Contains(err.Error(), "d") {
				t.Fatalf("record %d gave %v", n, err)
			}
			break
		}
		n++
		if n > 10000 {
			t.Fatal("the disk never got full")
		}
	}
	if !s.Stats().DiskFull {
		t.Error("the stats do not say that the disk is full")
	}
	if got := values(t, s, sh, 0, 1<<20); int64(len(got)) != n {
		t.Errorf("%d records are readable, want %d", len(got), n)
	}
	if s.Failure() != nil {
		t.Fatalf("a full disk is no failure: %v", s.Failure())
	}
	// Messages can be acknowledged, which makes room.
	for o := int64(0); o < n-10; o++ {
		// Now and then one is refused until a checkpoint and the cleaner have made room.
		await(t, func() bool {
			_, err := s.Commit(context.Background(), Txn{Do: []Op{Delete(sh, Range{o, o + 1})}, Wait: Relaxed})
			if err != nil && !errors.As(err, &full) {
				t.Fatalf("deleting offset %d on the full disk: %v", o, err)
			}
			return err == nil
		})
	}
	await(t, func() bool {
		_, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(1, "again"))}})
		if err != nil && !errors.As(err, &full) {
			t.Fatalf("after making room: %v", err)
		}
		return err == nil
	})
	mustClose(t, s)
	s = openMem(t, mem)
	defer mustClose(t, s)
	if got := values(t, s, sh, n-10, 1<<20); len(got) != 11 || !strings.HasSuffix(got[10], "=again") {
		t.Errorf("after reopening there are %d records, want 11", len(got))
	}
}

// Without reserved blocks, as on some file systems, a write itself can find the disk full.
func TestAWriteThatFindsNoRoomWaitsForIt(t *testing.T) {
	t.Parallel()
	var f faults
	mem := vfs.NewMem()
	s := openMem(t, vfs.NewFault(mem, f.hook))
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	refused := make(chan struct{})
	var once sync.Once
	f.set(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && isSegment(op) {
			once.Do(func() { close(refused) })
			return vfs.ShortWrite{N: 10, Err: syscall.ENOSPC}
		}
		return nil
	})
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(1, "patient"))}})
		done <- err
	}()
	<-refused
	await(t, func() bool { return s.Stats().DiskFull })
	var full *DiskFullError
	if _, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(1, "refused"))}}); !errors.As(err, &full) {
		t.Errorf("a commit while the disk is full gave %v", err)
	}
	f.set(nil)
	if err := <-done; err != nil {
		t.Fatalf("the waiting commit gave %v", err)
	}
	if got := values(t, s, sh, 0, 1000); fmt.Sprint(got) != "[0=patient]" {
		t.Errorf("read %v", got)
	}
}

func TestAReadOnlyDiskIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	fs := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpCreate, vfs.OpWrite, vfs.OpMkdirAll, vfs.OpOpenWrite, vfs.OpLock:
			return syscall.EROFS
		}
		return nil
	})
	_, err := Open(Options{Dir: "d", FS: fs})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "d") {
		t.Errorf("opening gave %v", err)
	}
}

func TestADiskThatTurnsReadOnlyKeepsServingReads(t *testing.T) {
	t.Parallel()
	var f faults
	s := openMem(t, vfs.NewFault(vfs.NewMem(), f.hook))
	sh := newShard(t, s, "q")
	fill(t, s, sh, 10, 1)
	f.set(func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpRemove, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpSyncDir:
			return syscall.EROFS
		}
		return nil
	})
	if _, err := s.Commit(context.Background(), Txn{Do: []Op{Put("k", nil)}}); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a commit gave %v", err)
	}
	if got := values(t, s, sh, 0, 1<<20); len(got) != 10 {
		t.Errorf("%d records are readable, want 10", len(got))
	}
	if err := s.Close(); err == nil {
		t.Error("closing said that all is well")
	}
}

func TestADirectoryHasOneStore(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	s := openMem(t, m)
	defer mustClose(t, s)
	_, err := Open(Options{Dir: "d", FS: m})
	if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opening it twice gave %v", err)
	}
}
