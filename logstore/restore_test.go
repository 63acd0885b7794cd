package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"polylog/logstore/seed"
	"polylog/logstore/vfs"
)

// taken is a snapshot in memory, with what the store was.
type taken struct {
	seq, hash uint64
	names     []string
	files     [][]byte
}

// take makes a store with sealed, rewritten and open segments, and a snapshot of it. The store goes on being there, closed, on the disk.
func take(t testing.TB) (*taken, *vfs.Mem) {
	t.Helper()
	disk := vfs.NewMem()
	s := openMem(t, disk, func(o *Options) { o.CleanRate = -1 })
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	fill(t, s, sh, 62*5+20, 1)
	for i := range int64(60) {
		mustCommit(t, s, Delete(sh, Range{62 + 2*i, 62 + 2*i + 1}), Put(fmt.Sprint("key/", i), []byte(strings.Repeat("v", 50))))
	}
	for range 3 {
		if err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		mustCommit(t, s, Put("k", nil))
		awaitCleaning(t, s)
	}
	if s.Stats().RewrittenSegments == 0 {
		t.Fatal("no segment was rewritten")
	}
	n, err := s.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	k := &taken{}
	k.seq, k.hash = s.Hash()
	for i, f := range n.Files {
		b := make([]byte, f.Size)
		if _, err := n.ReadAt(i, b, 0); err != nil {
			t.Fatal(err)
		}
		k.names, k.files = append(k.names, f.Name), append(k.files, b)
	}
	return k, disk
}

// restore puts the snapshot into a directory, in pieces of some kilobytes. An error ends it as the death of the process would.
func (k *taken) restore(fsys vfs.FS, dir string) error {
	r, err := Restore(fsys, dir)
	if err != nil {
		return err
	}
	if err := k.send(r); err != nil {
		return err
	}
	return r.Finish()
}

func (k *taken) send(r *Restoring) error {
	for i, name := range k.names {
		if _, err := r.Create(name, int64(len(k.files[i]))); err != nil {
			return err
		}
	}
	for i, b := range k.files {
		for at := 0; at < len(b); at += 30 << 10 {
			if _, err := r.WriteAt(i, b[at:min(at+30<<10, len(b))], int64(at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// isAt opens the store and sees that it is that of the snapshot.
func (k *taken) isAt(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	s, err := Open(Options{Dir: dir, FS: fsys, SegmentBytes: minSegmentBytes})
	if err != nil {
		t.Fatalf("opening the restored store: %v", err)
	}
	if seq, hash := s.Hash(); seq != k.seq || hash != k.hash {
		t.Errorf("the restored store is at %d with hash %x, want %d, %x", seq, hash, k.seq, k.hash)
	}
	mustClose(t, s)
	if report, err := Check(context.Background(), fsys, dir, nil); err != nil || !report.OK() {
		t.Fatalf("the check found %v (%v)", report.Problems, err)
	}
}

// changes counts the operations that change the disk.
func changes(op vfs.Op) bool {
	switch op.Kind {
	case vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpRemove, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpSyncDir, vfs.OpMkdirAll:
		return true
	}
	return false
}

// TestARestoreThatACrashCutOffIsNoticed has power fail before every operation of a restore, into a new directory and over an abandoned log. What is found is the store
// from before, or an unfinished restore, or the whole copy.
func TestARestoreThatACrashCutOffIsNoticed(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	k, old := take(t)
	other := &taken{names: k.names, files: k.files}
	before := openMem(t, old.Snapshot())
	other.seq, other.hash = before.Hash()
	mustClose(t, before)
	for _, over := range []bool{false, true} {
		seen := map[string]int{}
		for at := int64(1); ; at++ {
			disk := vfs.NewMem()
			if over {
				disk = old.Snapshot()
			}
			var ops atomic.Int64
			fault := vfs.NewFault(disk, func(op vfs.Op) error {
				if changes(op) && ops.Add(1) >= at {
					return vfs.ErrCrashed
				}
				return nil
			})
			begun := !over
			var err error
			if over {
				err = Abandon(fault, "d")
				begun = err == nil
			}
			if err == nil {
				err = k.restore(fault, "d")
			}
			after := disk.Crash(vfs.CrashPlan{Kind: vfs.CrashKind(r.IntN(4)), Rand: r})
			unfinished, statErr := Unfinished(after, "d")
			if statErr != nil {
				t.Fatal(statErr)
			}
			switch holds := holdsLog(after, "d") == nil; {
			case unfinished:
				seen["unfinished"]++
				var refused *UnfinishedRestoreError
				for _, repair := range []bool{false, true} {
					if _, err := Open(Options{Dir: "d", FS: after, Repair: repair}); !errors.As(err, &refused) {
						t.Fatalf("crash before operation %d: opening gave %v", at, err)
					}
				}
				if holds {
					if report, err := Check(context.Background(), after, "d", nil); err != nil || report.OK() {
						t.Fatalf("crash before operation %d: the check found nothing wrong (%v)", at, err)
					}
				}
			case holds && over && !begun:
				seen["before"]++
				other.isAt(t, after, "d")
			case holds:
				seen["whole"]++
				k.isAt(t, after, "d")
			case over:
				t.Fatalf("crash before operation %d: there is no log", at)
			default:
				seen["empty"]++
				if ops.Load() > at && at > 4 {
					t.Fatalf("crash before operation %d: the directory does not know of the restore", at)
				}
			}
			if unfinished {
				if err := k.restore(after, "d"); err != nil {
					t.Fatalf("restoring again after a crash before operation %d: %v", at, err)
				}
				k.isAt(t, after, "d")
			}
			if err == nil {
				break
			}
		}
		t.Logf("over a log: %v; found %v", over, seen)
		if seen["unfinished"] < 20 || seen["whole"] == 0 || over && seen["before"] == 0 {
			t.Errorf("found %v", seen)
		}
	}
}

// TestARestoreThatFailsCanBeMadeAgain has every operation of a restore fail once.
func TestARestoreThatFailsCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	k, _ := take(t)
	for at := int64(1); ; at++ {
		disk := vfs.NewMem()
		var ops atomic.Int64
		fault := vfs.NewFault(disk, func(op vfs.Op) error {
			if changes(op) && ops.Add(1) == at {
				return syscall.EIO
			}
			return nil
		})
		r, err := Restore(fault, "d")
		if err == nil {
			if err = k.send(r); err == nil {
				if err = r.Finish(); err != nil && !errors.Is(err, syscall.EIO) {
					t.Fatalf("operation %d failed, and Finish said %v", at, err)
				}
			}
			if err != nil {
				if abortErr := r.Abort(); abortErr != nil {
					t.Fatalf("operation %d failed, and then Abort: %v", at, abortErr)
				}
				if unfinished, err := Unfinished(disk, "d"); err != nil || !unfinished {
					t.Fatalf("operation %d failed, and the directory does not know of the restore (%v)", at, err)
				}
			}
		}
		if n := disk.OpenHandles(); n != 0 {
			t.Fatalf("operation %d failed, and %d files are open", at, n)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("operation %d failed, which was reported as %v", at, err)
		}
		if err := k.restore(disk, "d"); err != nil {
			t.Fatalf("operation %d failed, and the next restore: %v", at, err)
		}
		k.isAt(t, disk, "d")
	}
}

// TestAFinishThatFailedCanBeTriedAgain has the last steps fail once each.
func TestAFinishThatFailedCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	k, _ := take(t)
	for at := int64(1); at <= 3; at++ {
		disk := vfs.NewMem()
		var f faults
		r, err := Restore(vfs.NewFault(disk, f.hook), "d")
		if err == nil {
			err = k.send(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		var ops atomic.Int64
		f.set(func(op vfs.Op) error {
			if changes(op) && ops.Add(1) == at {
				return syscall.EIO
			}
			return nil
		})
		if err := r.Finish(); !errors.Is(err, syscall.EIO) {
			t.Errorf("step %d failed, Finish said %v", at, err)
		}
		if err := r.Finish(); err != nil {
			t.Errorf("Finish again: %v", err)
		}
		k.isAt(t, disk, "d")
	}
}

func TestDamageOnTheWayIsFound(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	k, _ := take(t)
	var byFinish, byOpen, byCheck int
	for range 150 {
		damaged := &taken{names: k.names}
		for _, b := range k.files {
			damaged.files = append(damaged.files, slices.Clone(b))
		}
		i := r.IntN(len(k.files))
		b := damaged.files[i]
		at := r.IntN(len(b))
		if r.IntN(2) == 0 { // where it is not a message
			at = []int{r.IntN(64), len(b) - 1 - r.IntN(min(len(b), 500))}[r.IntN(2)]
		}
		b[at] ^= byte(1 + r.IntN(255))
		disk := vfs.NewMem()
		if err := damaged.restore(disk, "d"); err != nil {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.File != k.names[i] {
				t.Fatalf("byte %d of %s was damaged, and Finish said %v", at, k.names[i], err)
			}
			byFinish++
			continue
		}
		report, err := Check(context.Background(), disk, "d", nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(Options{Dir: "d", FS: disk, SegmentBytes: minSegmentBytes})
		switch {
		case err != nil:
			byOpen++
			continue
		case !report.OK():
			byCheck++ // a message: found by who reads it
		default:
			t.Errorf("byte %d of %s was damaged, and nobody noticed", at, k.names[i])
		}
		if seq, hash := s.Hash(); seq != k.seq || hash != k.hash {
			t.Errorf("byte %d of %s was damaged, and the store is at %d with hash %x, want %d, %x", at, k.names[i], seq, hash, k.seq, k.hash)
		}
		mustClose(t, s)
	}
	t.Logf("found by Finish: %d, by Open: %d, by Check: %d", byFinish, byOpen, byCheck)
}

func TestARestoreTakesNothingButWholeSnapshots(t *testing.T) {
	t.Parallel()
	k, _ := take(t)
	var invalid *InvalidError
	var corrupt *CorruptError
	disk := vfs.NewMem()
	r, err := Restore(disk, "d")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"", ".", "..", "lock", "reserve", "restoring", "../" + k.names[0], "/" + k.names[0], "x/" + k.names[1], k.names[0] + "/", k.names[0] + "\x00", k.names[0] + ".tmp",
		"0000000000000000-0.seg", "0000000000000001-00.seg", "000000000000000A-0.ckpt", "0000000000000001-0.spare",
	} {
		if _, err := r.Create(name, 100); !errors.As(err, &invalid) {
			t.Errorf("a file named %q was taken: %v", name, err)
		}
	}
	for _, size := range []int64{-1, 0, 1 << 50} {
		if _, err := r.Create(k.names[0], size); !errors.As(err, &invalid) {
			t.Errorf("a file of %d bytes was taken: %v", size, err)
		}
	}
	if err := r.Finish(); !errors.As(err, &invalid) {
		t.Errorf("a restore without a checkpoint gave %v", err)
	}
	f, err := r.Create(k.names[0], int64(len(k.files[0])))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create(k.names[0], 100); err == nil {
		t.Error("a file was taken twice")
	}
	for _, off := range []int64{-1, 1, 1 << 40} {
		if _, err := r.WriteAt(f, k.files[0], off); !errors.As(err, &invalid) {
			t.Errorf("a write at %d gave %v", off, err)
		}
	}
	if _, err := r.WriteAt(f, k.files[0][:50], 0); err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "not whole") {
		t.Errorf("a restore with half a checkpoint gave %v", err)
	}
	if _, err := Restore(disk, "d"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("two restores at once: %v", err)
	}
	if err := errors.Join(r.Abort(), r.Abort()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create(k.names[0], 100); err == nil {
		t.Error("a file was taken after Abort")
	}
	twice := &taken{names: append([]string{"0000000000000001-0.ckpt"}, k.names...), files: append([][]byte{k.files[0]}, k.files...)}
	if err := twice.restore(disk.Crash(vfs.CrashPlan{Kind: vfs.KeepAll}), "d"); !errors.As(err, &corrupt) {
		t.Errorf("a checkpoint under another name gave %v", err)
	}
}

func TestARestoreOverwritesNoLog(t *testing.T) {
	t.Parallel()
	k, disk := take(t)
	var holds *HoldsLogError
	if _, err := Restore(disk, "d"); !errors.As(err, &holds) {
		t.Errorf("a restore into a directory with a log gave %v", err)
	}
	s := openMem(t, disk)
	if err := Abandon(disk, "d"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("abandoning an open log gave %v", err)
	}
	mustClose(t, s)
	if err := Abandon(disk, "d"); err != nil {
		t.Fatal(err)
	}
	if err := k.restore(disk, "d"); err != nil {
		t.Fatal(err)
	}
	k.isAt(t, disk, "d")
	if n := disk.OpenHandles(); n != 0 {
		t.Errorf("%d files are open", n)
	}
}

func TestAFullDiskIsToldBeforeMuchIsSent(t *testing.T) {
	t.Parallel()
	k, _ := take(t)
	disk := vfs.NewMem()
	disk.SetCapacity(100 << 10)
	err := k.restore(disk, "d")
	if !vfs.IsNoSpace(err) || disk.Writes() != 0 {
		t.Errorf("a restore to a full disk gave %v after %d writes", err, disk.Writes())
	}
}

func TestRangesJoin(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(seed.Of(t), 12))
	for range 200 {
		var set []Range
		var has [64]bool
		for range r.IntN(20) {
			from := r.Int64N(63)
			add := Range{from, from + 1 + r.Int64N(min(8, 64-from))}
			set = addRange(set, add)
			for i := add.From; i < add.To; i++ {
				has[i] = true
			}
		}
		var want []Range
		for i := range int64(64) {
			if n := len(want); has[i] && n > 0 && want[n-1].To == i {
				want[n-1].To++
			} else if has[i] {
				want = append(want, Range{i, i + 1})
			}
		}
		if !slices.Equal(set, want) {
			t.Fatalf("the set is %v, want %v", set, want)
		}
	}
}
