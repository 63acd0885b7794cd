package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

func TestRepairReplaysTransactionsThatAppendTwiceOrMakeTwoShards(t *testing.T) {
	t.Parallel()
	running := vfs.NewMem()
	s := openMem(t, running)
	id := newShard(t, s, "a")
	mustCommit(t, s, Put("lost", nil))
	mustCommit(t, s, AppendBatch(id, batchOf(1, "lost too")))
	mustCommit(t, s, AppendBatch(id, batchOf(1, "x", "y")), Delete(id, Range{0, 1}), AppendBatch(id, batchOf(1, "z")))
	r := mustCommit(t, s, CreateShard("b"), CreateShard("c"))
	b, c := r.Shard(0), r.Shard(1)
	mustCommit(t, s, AppendBatch(b, batchOf(1, "of b")), AppendBatch(c, batchOf(1, "of c")))
	disk := running.Snapshot()
	mustClose(t, s)

	corruptEntries(t, disk, segmentName(1, 0), 1, 2)
	s = openMem(t, disk, func(o *Options) { o.Repair = true })
	defer mustClose(t, s)
	if n := len(s.Recovery.Damage); n != 1 || len(s.Recovery.Lost) != 0 {
		t.Errorf("the repair says %+v", s.Recovery) // what was lost had been deleted later
	}
	for id, want := range map[Shard]string{id: "[1=x 2=y 3=z]", b: "[0=of b]", c: "[0=of c]"} {
		first, _, err := s.Bounds(id)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(values(t, s, id, first, 1<<20)); got != want {
			t.Errorf("shard %d holds %s, want %s", id, got, want)
		}
	}
	if _, is := s.Get("lost"); is {
		t.Error("a damaged entry was replayed")
	}
	if next := newShard(t, s, "d"); next != c+1 {
		t.Errorf("the next shard is %d, want %d", next, c+1)
	}
}

// corruptEntries damages entries of a file, counted from 0.
func corruptEntries(t *testing.T, disk *vfs.Mem, name string, which ...int) {
	t.Helper()
	b := files(t, disk)[name]
	sc := entriesOf(b)
	for n := 0; len(which) > 0; n++ {
		e, err := sc.Next()
		if err != nil {
			t.Fatalf("entry %d: %v", n, err)
		}
		if n != which[0] {
			continue
		}
		if err := disk.Corrupt(filepath.Join("d", name), int64(e.Pos)+segment.EntryHeaderSize, 0x40); err != nil {
			t.Fatal(err)
		}
		which = which[1:]
	}
}

func TestRepairMakesADamagedIndexAnewAndDropsNothing(t *testing.T) {
	t.Parallel()
	disk := simpleLog(t, 300, true)
	name := withSuffix(t, disk, segmentSuffix)[1]
	b := files(t, disk)[name]
	if err := disk.Corrupt(filepath.Join("d", name), inTrailer(40)(b)+5, 1); err != nil {
		t.Fatal(err)
	}
	s := openMem(t, disk, func(o *Options) { o.Repair = true })
	defer mustClose(t, s)
	if r := s.Recovery; len(r.RebuiltIndexes) != 1 || r.RebuiltIndexes[0] != name || len(r.Damage)+len(r.Lost) > 0 {
		t.Errorf("the repair says %+v", r)
	}
	if got := values(t, s, 1, 0, 1<<20); len(got) != 900 {
		t.Errorf("%d records are read, want 900", len(got))
	}
}

func TestRepairPutsMisnamedFilesInOrder(t *testing.T) {
	t.Parallel()
	whole := simpleLog(t, 300, true)
	names := withSuffix(t, whole, segmentSuffix)
	for name, c := range map[string]struct {
		do   func(t *testing.T, disk *vfs.Mem)
		what string
	}{
		"swapped": {func(t *testing.T, disk *vfs.Mem) { swap(t, disk, names[1], names[3]) }, "it is that of segment"},
		"copied": {func(t *testing.T, disk *vfs.Mem) {
			if err := disk.Put("d/"+segmentName(700, 0), files(t, disk)[names[1]]); err != nil {
				t.Fatal(err)
			}
		}, "of which there is another file"},
		"under the name that a repair would give": {func(t *testing.T, disk *vfs.Mem) {
			all := files(t, disk)
			for name, b := range map[string][]byte{segmentName(2, 1): all[names[2]], segmentName(3, 1): all[names[1]]} {
				if err := disk.Put("d/"+name, b); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range names[1:3] {
				if err := disk.Remove("d/" + n); err != nil {
					t.Fatal(err)
				}
			}
		}, "it is that of segment"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := whole.Snapshot()
			c.do(t, disk)
			wantRefused(t, disk)
			s := openMem(t, disk, func(o *Options) { o.Repair = true })
			if r := s.Recovery; len(r.Damage) == 0 || !strings.Contains(r.Damage[0].What, c.what) || len(r.Lost) > 0 {
				t.Errorf("the repair says %+v", r)
			}
			if got := values(t, s, 1, 0, 1<<20); len(got) != 900 {
				t.Errorf("%d records are read, want 900", len(got))
			}
			mustClose(t, s)
			wantRepaired(t, disk)
		})
	}
}

// TestRepairWithoutCheckpoints rebuilds what the log alone says, when cleaning has taken all but a few records away already.
func TestRepairWithoutCheckpoints(t *testing.T) {
	t.Parallel()
	disk := simpleLog(t, 300, true)
	s := openMem(t, disk)
	mustCommit(t, s, Delete(1, Range{0, 80}, Range{82, 900}))
	mustClose(t, s)
	s = openMem(t, disk, func(o *Options) { o.CleanRate = -1 })
	if err := s.Checkpoint(); err != nil { // the second of the same entry: cleaning may take everything up to there
		t.Fatal(err)
	}
	await(t, func() bool {
		awaitCleaning(t, s)
		return s.Stats().Segments == 1
	})
	mustClose(t, s)
	for _, name := range withSuffix(t, disk, checkpointSuffix) {
		if err := disk.Remove("d/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if r := wantRefused(t, disk); !r.OK() && !strings.Contains(r.Problems[0].What, "a checkpoint is lost") {
		t.Errorf("the check finds %v", r.Problems)
	}
	s = openMem(t, disk, func(o *Options) { o.Repair = true })
	if len(s.Recovery.Damage) == 0 {
		t.Errorf("the repair says %+v", s.Recovery)
	}
	newShard(t, s, "from after the repair")
	mustClose(t, s)
	wantRepaired(t, disk)
}

func TestOpenPassesOverCheckpointsUnderTheNameOfOthers(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := openMem(t, disk)
	id := newShard(t, s, "a")
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, AppendBatch(id, batchOf(1, "x")))
	seq, hash := s.Hash()
	mustClose(t, s)
	names := withSuffix(t, disk, checkpointSuffix)
	swap(t, disk, names[0], names[1])
	s = openMem(t, disk)
	defer mustClose(t, s)
	if n := len(s.Recovery.BadCheckpoints); n != 2 {
		t.Errorf("%d checkpoints were passed over, want 2", n)
	}
	if q, h := s.Hash(); q != seq || h != hash {
		t.Errorf("entry %d, hash %016x; want %d, %016x", q, h, seq, hash)
	}
}

// withoutEachSegment calls f with copies of a disk, in each of which another segment is missing.
func withoutEachSegment(t *testing.T, m *vfs.Mem, f func(name string, broken *vfs.Mem)) {
	t.Helper()
	for _, name := range withSuffix(t, m, segmentSuffix) {
		broken := m.Snapshot()
		if err := broken.Remove("d/" + name); err != nil {
			t.Fatal(err)
		}
		f(name, broken)
	}
}

// wantRefused fails the test unless a start without a repair refuses the disk as damaged, and the check finds damage too. It returns what that found.
func wantRefused(t *testing.T, disk *vfs.Mem) *Report {
	t.Helper()
	s, err := Open(Options{Dir: "d", FS: disk, SegmentBytes: minSegmentBytes})
	if err == nil {
		mustClose(t, s)
	}
	if !errors.As(err, new(*CorruptError)) {
		t.Errorf("opening without a repair gave %v", err)
	}
	r := mustCheck(t, disk)
	if r.OK() {
		t.Error("the check finds nothing")
	}
	return r
}

// wantRepaired fails the test unless the check finds nothing, and a start needs no repair.
func wantRepaired(t *testing.T, disk *vfs.Mem) {
	t.Helper()
	if r := mustCheck(t, disk); !r.OK() {
		t.Errorf("after the repair: %v", r.Problems)
	}
	mustClose(t, openMem(t, disk))
}

// A file that is missing is noticed at the start, also when the newest checkpoint covers what was in it, and a repair says what is lost with it.
func TestAMissingSegmentIsNoticedAtTheStart(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	s := openMem(t, m, func(o *Options) { o.checkpointsByHand = true })
	sh := newShard(t, s, "q")
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	fill(t, s, sh, 200, 1)
	mustClose(t, s)
	withoutEachSegment(t, m, func(name string, broken *vfs.Mem) {
		t.Log("without", name)
		wantRefused(t, broken)
		s := openMem(t, broken, func(o *Options) { o.Repair = true })
		lost := map[int64]bool{}
		for _, l := range s.Recovery.Lost {
			for o := l.From; o < l.To; o++ {
				lost[o] = true
			}
		}
		got, err := readAll(s, sh, mustFirst(t, s, sh), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(lost) == 0 || len(got)+len(lost) != 200 {
			t.Errorf("%d records are left and %d are reported lost, of 200", len(got), len(lost))
		}
		mustClose(t, s)
		wantRepaired(t, broken)
	})
}

// One checkpoint says nothing of what was cleaned before it, but live records must lie somewhere.
func TestOneCheckpointWithoutItsSegmentsIsNoticed(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	s := openMem(t, m, func(o *Options) { o.checkpointsByHand = true })
	sh := newShard(t, s, "q")
	fill(t, s, sh, 20, 1)
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	disk := m.Snapshot()
	mustClose(t, s)
	for _, name := range withSuffix(t, disk, segmentSuffix) {
		if err := disk.Remove(filepath.Join("d", name)); err != nil {
			t.Fatal(err)
		}
	}
	wantRefused(t, disk)
	s = openMem(t, disk, func(o *Options) { o.Repair = true })
	if len(s.Recovery.Lost) != 1 || s.Recovery.Lost[0].Range != (Range{0, 20}) {
		t.Errorf("the repair says that %v is lost", s.Recovery.Lost)
	}
	mustClose(t, s)
	wantRepaired(t, disk)
}

// What Open refuses, the check reports: also a missing file in which nothing but keys was set.
func TestTheCheckReportsAMissingFileWithoutRecords(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	s := openMem(t, m, func(o *Options) { o.checkpointsByHand = true })
	mustCommit(t, s, Put("first", nil))
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		mustCommit(t, s, Put("k", make([]byte, 1000+i)))
	}
	mustClose(t, s)
	withoutEachSegment(t, m, func(name string, broken *vfs.Mem) {
		t.Log("without", name)
		wantRefused(t, broken)
		mustClose(t, openMem(t, broken, func(o *Options) { o.Repair = true }))
		wantRepaired(t, broken)
	})
}
