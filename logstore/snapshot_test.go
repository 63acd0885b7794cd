package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"polylog/logstore/record"
	"polylog/logstore/seed"
	"polylog/logstore/vfs"
)

// copying is a snapshot on its way to another disk.
type copying struct {
	snap  *Snapshot
	to    *Restoring
	fs    vfs.FS
	dir   string
	parts []part // that are left, in the order in which they are sent
}

// part is a piece of a file; file is its index in the snapshot.
type part struct {
	file     int
	from, to int64
}

// beginCopy takes a snapshot and cuts it into pieces, which go in any order, and some of them twice.
func beginCopy(t testing.TB, s *Store, fsys vfs.FS, dir string, r *rand.Rand) *copying {
	t.Helper()
	c := &copying{fs: fsys, dir: dir}
	var err error
	if c.snap, err = s.Snapshot(context.Background()); err != nil {
		t.Fatal(err)
	}
	if c.to, err = Restore(fsys, dir); err != nil {
		t.Fatal(err)
	}
	for i, f := range c.snap.Files {
		if file, err := c.to.Create(f.Name, f.Size); err != nil || file != i {
			t.Fatalf("creating %s, file %d, gave %d, %v", f.Name, i, file, err)
		}
		for at := int64(0); at < f.Size; {
			p := part{i, at, min(f.Size, at+1+r.Int64N(40<<10))}
			at = p.to
			if c.parts = append(c.parts, p); r.IntN(20) == 0 {
				c.parts = append(c.parts, p)
			}
		}
	}
	r.Shuffle(len(c.parts), func(i, j int) { c.parts[i], c.parts[j] = c.parts[j], c.parts[i] })
	return c
}

// step sends a piece, and reports whether more are left.
func (c *copying) step(t testing.TB) bool {
	t.Helper()
	if len(c.parts) > 0 {
		p := c.parts[0]
		buf := make([]byte, p.to-p.from)
		n, err := c.snap.ReadAt(p.file, buf, p.from)
		if n != len(buf) || err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("reading %d bytes at %d of %v gave %d, %v", len(buf), p.from, c.snap.Files[p.file], n, err)
		}
		if _, err := c.to.WriteAt(p.file, buf, p.from); err != nil {
			t.Fatal(err)
		}
		c.parts = c.parts[1:]
	}
	return len(c.parts) > 0
}

// end sends what is left, and opens the copy.
func (c *copying) end(t testing.TB, change ...func(*Options)) *Store {
	t.Helper()
	for c.step(t) {
	}
	if err := c.to.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := c.snap.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := Check(context.Background(), c.fs, c.dir, nil)
	if err != nil || !report.OK() {
		t.Fatalf("the check of the copy found %v (%v)", report.Problems, err)
	}
	return openMem(t, c.fs, append(change, func(o *Options) { o.Dir = c.dir })...)
}

// TestACopyIsTheStoreAtOneTransaction copies a store several times at once while transactions, cleaning and checkpoints go on, and compares each copy with the model of
// what was ordered up to its transaction.
func TestACopyIsTheStoreAtOneTransaction(t *testing.T) {
	t.Parallel()
	for i, of := range seed.Draw(6) {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			t.Parallel()
			seed.Tell(t, of)
			r := rand.New(rand.NewPCG(of, 11))
			var fsys vfs.FS = vfs.NewMem()
			dir := "d"
			if i%3 == 0 {
				fsys, dir = vfs.OS, t.TempDir()
			}
			s := openMem(t, fsys, keepSpares, func(o *Options) {
				o.Dir, o.CleanRate, o.CheckpointBytes, o.Sync = dir, -1, 32<<10, SyncPolicy(r.IntN(3))
			})
			defer mustClose(t, s)
			gen := &txns{r: r, builder: record.NewBuilder(), big: true}
			m := newModel()
			var past []Txn
			var copies []*copying
			held := 0
			compare := func(c *copying) {
				b := c.end(t)
				defer mustClose(t, b)
				seq, hash := b.Hash()
				if seq != c.snap.Seq {
					t.Errorf("the copy has transactions up to %d, the snapshot up to %d", seq, c.snap.Seq)
				}
				then := newModel()
				again := openMem(t, vfs.NewMem(), func(o *Options) { o.Sync = SyncOS })
				defer mustClose(t, again)
				for _, tx := range past[:c.snap.Seq] {
					then.commit(tx)
					mustCommit(t, again, tx.Do...)
				}
				if _, want := again.Hash(); hash != want {
					t.Errorf("the copy at transaction %d has hash %x, want %x", seq, hash, want)
				}
				if err := then.compare(b, r); err != nil {
					t.Errorf("the copy at transaction %d: %v", seq, err)
				}
				// It is a store like any other.
				fill(t, b, newShard(t, b, "new"), 70, 1)
			}
			for range 900 {
				tx := gen.txn(m)
				if r.IntN(30) == 0 { // so that whole segments die
					for id, sh := range m.shards {
						tx = Txn{Do: []Op{TrimBefore(id, sh.next)}}
					}
				}
				_, _, refused := m.commit(tx)
				if _, err := s.Commit(context.Background(), tx); kindOf(err) != refused {
					t.Fatalf("the commit gave %v, want %q", err, refused)
				}
				if refused == "" && len(tx.Do) > 0 {
					past = append(past, tx)
				}
				switch n := r.IntN(100); {
				case n < 2 && len(copies) < 3:
					var to vfs.FS = vfs.NewMem()
					dir := "e"
					if i%3 == 0 {
						to, dir = vfs.OS, t.TempDir()
					}
					copies = append(copies, beginCopy(t, s, to, dir, r))
				case n < 5:
					s.spares.note(time.Now())
					awaitCleaning(t, s)
				case n < 7:
					s.Checkpoint() //nolint:errcheck // a copy or a commit would fail too
				}
				copies = slices.DeleteFunc(copies, func(c *copying) bool {
					if c.step(t) {
						return false
					}
					compare(c)
					return true
				})
				held += s.Stats().HeldSegments
			}
			for _, c := range copies {
				compare(c)
			}
			st := s.Stats()
			t.Logf("%d of %d transactions took effect; %d segments rewritten, %d removed, %d made of spare files; %d were held, summed over time",
				len(past), 900, st.RewrittenSegments, st.RemovedSegments, st.ReusedSegments, held)
			if st.HeldSegments != 0 || len(s.pins.files) != 0 {
				t.Errorf("%d files are held for no snapshot", st.HeldSegments)
			}
		})
	}
}

// trimmed opens a store, fills some segments, takes snapshots, deletes everything and waits until cleaning has taken the segments out of the log.
func trimmed(t *testing.T, fsys vfs.FS, snapshots int) (s *Store, sh Shard, snaps []*Snapshot) {
	t.Helper()
	s = openMem(t, fsys, keepSpares)
	sh = newShard(t, s, "q")
	fill(t, s, sh, 300, 1)
	await(t, func() bool { s.cleaner.wake(); return s.Stats().LiveBytes >= 4*minSegmentBytes })
	s.spares.note(time.Now())
	for range snapshots {
		n, err := s.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		snaps = append(snaps, n)
	}
	mustCommit(t, s, TrimBefore(sh, 300))
	await(t, func() bool { s.cleaner.wake(); return s.Stats().RemovedSegments >= 4 })
	return s, sh, snaps
}

func TestFilesOfASnapshotAreNotWrittenAgain(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s, sh, snaps := trimmed(t, disk, 2)
	defer mustClose(t, s)
	if n := s.Stats().HeldSegments; n < 4 {
		t.Fatalf("%d files are held, want those of 4 segments", n)
	}
	// The log goes on, through the files that died later.
	for range 3 {
		_, next, err := s.Bounds(sh)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s, sh, 150, 1)
		mustCommit(t, s, TrimBefore(sh, next+150))
		awaitCleaning(t, s)
	}
	held := s.Stats().HeldSegments
	if err := snaps[0].Close(); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().HeldSegments; n != held {
		t.Errorf("%d files are held for the other snapshot, want %d", n, held)
	}
	r := seed.Rand(t)
	to, err := Restore(vfs.NewMem(), "e")
	if err != nil {
		t.Fatal(err)
	}
	c := &copying{snap: snaps[1], to: to, fs: to.fs, dir: "e"}
	for i, f := range snaps[1].Files {
		if _, err := to.Create(f.Name, f.Size); err != nil {
			t.Fatal(err)
		}
		c.parts = append(c.parts, part{i, 0, f.Size})
	}
	r.Shuffle(len(c.parts), func(i, j int) { c.parts[i], c.parts[j] = c.parts[j], c.parts[i] })
	b := c.end(t)
	defer mustClose(t, b)
	if got := values(t, b, sh, 0, 1<<20); len(got) != 300 {
		t.Errorf("the copy has %d records, want 300", len(got))
	}
	if st := s.Stats(); st.HeldSegments != 0 || len(spareFiles(t, disk)) != st.SpareSegments {
		t.Errorf("%d files are held after the last snapshot, and %q are there, %d of them spare", st.HeldSegments, spareFiles(t, disk), st.SpareSegments)
	}
}

func TestSnapshotsHoldFewFilesOpen(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := openMem(t, disk, func(o *Options) { o.OpenFiles = 1 })
	defer mustClose(t, s)
	fill(t, s, newShard(t, s, "q"), 62*30, 62)
	before := disk.OpenHandles()
	for range 3 {
		n, err := s.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if len(n.Files) < 25 {
			t.Fatalf("the snapshot has %d files", len(n.Files))
		}
		p := make([]byte, 100)
		for i := range n.Files {
			if _, err := n.ReadAt(i, p, 0); err != nil && err != io.EOF {
				t.Fatal(err)
			}
		}
	}
	if more := disk.OpenHandles() - before; more > 3+pinHandles+2 {
		t.Errorf("three snapshots hold %d files open", more)
	}
}

func TestANearlyFullDiskTakesWhatOnlySnapshotsNeed(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s, sh, snaps := trimmed(t, disk, 1)
	defer mustClose(t, s)
	p := make([]byte, 100)
	if _, err := snaps[0].ReadAt(1, p, 0); err != nil {
		t.Fatal(err)
	}
	disk.SetCapacity(disk.Used() + minSegmentBytes)
	await(t, func() bool { return s.Stats().HeldSegments == 0 })
	disk.SetCapacity(-1)
	var lost *SnapshotLostError
	if _, err := snaps[0].ReadAt(1, p, 0); !errors.As(err, &lost) {
		t.Errorf("reading a file that was taken gave %v", err)
	}
	if err := snaps[0].Close(); err != nil {
		t.Error(err)
	}
	fill(t, s, sh, 100, 1)
}

func TestASnapshotEndsWithItsStore(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s, _, snaps := trimmed(t, disk, 1)
	mustClose(t, s)
	if left := spareFiles(t, disk); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if _, err := snaps[0].ReadAt(1, make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("reading gave %v", err)
	}
	if err := snaps[0].Close(); err != nil {
		t.Error(err)
	}
	if n := disk.OpenHandles(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	if _, err := s.Snapshot(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("a snapshot of a closed store gave %v", err)
	}
}

// TestACrashDuringACopyLeavesTheStoreWhole has power fail while a snapshot holds files that are out of the log, some of them between segments that live on.
func TestACrashDuringACopyLeavesTheStoreWhole(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 10 {
		disk := vfs.NewMem()
		s := openMem(t, disk, keepSpares, func(o *Options) { o.CleanRate = -1 })
		sh := newShard(t, s, "q")
		fill(t, s, sh, 62*10, 1)
		n, err := s.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for range 4 { // the middle of the log dies, and neighbours of what is left are merged
			from := 62 * r.Int64N(9)
			mustCommit(t, s, Delete(sh, Range{from, min(62*10, from+50+r.Int64N(80))}))
			awaitCleaning(t, s)
		}
		first, _, err := s.Bounds(sh)
		if err != nil {
			t.Fatal(err)
		}
		want := values(t, s, sh, first, 1<<20)
		after := disk.Crash(vfs.CrashPlan{Kind: vfs.CrashKind(r.IntN(4)), Rand: r})
		s.Close()
		n.Close()
		report, err := Check(context.Background(), after, "d", nil)
		if err != nil || !report.OK() {
			t.Fatalf("the check found %v (%v)", report.Problems, err)
		}
		s = openMem(t, after)
		if got := values(t, s, sh, first, 1<<20); !slices.Equal(got, want) {
			t.Errorf("%d records after a crash, want %d", len(got), len(want))
		}
		mustClose(t, s)
	}
}

// TestADeadFileThatASnapshotNeedsIsNoPartOfTheLog has a segment die that was rewritten before, and its neighbours merged around it: under its old name the file would come
// back at the next start, with old offsets behind higher ones.
func TestADeadFileThatASnapshotNeedsIsNoPartOfTheLog(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := openMem(t, disk, func(o *Options) { o.CleanRate, o.checkpointsByHand = -1, true })
	sh := newShard(t, s, "q")
	fill(t, s, sh, 62*7, 1)
	await(t, func() bool { return s.Stats().Segments >= 7 })
	var begins []int64 // of the segments
	s.mu.RLock()
	sealed := s.segs.sealed
	s.mu.RUnlock()
	for _, g := range sealed {
		base, _ := g.index.FirstBase(uint64(sh))
		begins = append(begins, base)
	}
	segment3 := Range{begins[2], begins[3]}
	clean := func(done func(Stats) bool, ranges ...Range) {
		t.Helper()
		mustCommit(t, s, Delete(sh, ranges...))
		await(t, func() bool {
			mustCommit(t, s, Put("k", nil))
			if err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			return awaitCleaning(t, s) && done(s.Stats())
		})
	}
	// Part of a segment, then the rest, then most of its neighbours.
	clean(func(st Stats) bool { return st.RewrittenSegments > 0 }, Range{segment3.From + 5, segment3.To - 10})
	n, err := s.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	rewritten := s.Stats().RewrittenSegments
	clean(func(st Stats) bool { return st.HeldSegments > 0 }, segment3)
	clean(func(st Stats) bool { return st.RewrittenSegments >= rewritten+2 }, Range{segment3.From - 40, segment3.From}, Range{segment3.To, segment3.To + 40})
	var want []string
	for at := range int64(7 * 62) {
		if at < segment3.From-40 || at >= segment3.To+40 {
			want = append(want, fmt.Sprint(at))
		}
	}
	after := disk.Crash(vfs.CrashPlan{Kind: vfs.KeepAll})
	s.Close()
	n.Close()
	report, err := Check(context.Background(), after, "d", nil)
	if err != nil || !report.OK() {
		t.Errorf("the check found %v (%v)", report.Problems, err)
	}
	s = openMem(t, after)
	defer mustClose(t, s)
	for i, v := range values(t, s, sh, 0, 1000) {
		if offset, _, _ := strings.Cut(v, "="); i >= len(want) || offset != want[i] {
			t.Fatalf("record %d after a crash is %q", i, offset)
		}
	}
}

func TestReadingASnapshotKeepsToItsBounds(t *testing.T) {
	t.Parallel()
	s := openMem(t, vfs.NewMem())
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	fill(t, s, sh, 10, 1)
	n, err := s.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, sh, 10, 1) // behind what the snapshot has of the same file
	if len(n.Files) != 2 || !strings.HasSuffix(n.Files[0].Name, checkpointSuffix) {
		t.Fatalf("the snapshot has %v", n.Files)
	}
	size := n.Files[1].Size
	whole := make([]byte, size)
	if got, err := n.ReadAt(1, whole, 0); got != int(size) || err != nil {
		t.Errorf("reading all gave %d, %v", got, err)
	}
	p := make([]byte, 100)
	if got, err := n.ReadAt(1, p, size-40); got != 40 || err != io.EOF || !bytes.Equal(p[:40], whole[size-40:]) {
		t.Errorf("reading across the end gave %d, %v", got, err)
	}
	for _, off := range []int64{size, size + 1, -1} {
		if got, err := n.ReadAt(1, p, off); got != 0 || err != io.EOF {
			t.Errorf("reading at %d gave %d, %v", off, got, err)
		}
	}
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Error(err)
	}
	if _, err := n.ReadAt(1, p, 0); err == nil {
		t.Error("a closed snapshot was read")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Snapshot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a snapshot that nobody waits for gave %v", err)
	}
}

// TestSnapshotsAreTakenWhileOthersWrite is for the race detector.
func TestSnapshotsAreTakenWhileOthersWrite(t *testing.T) {
	t.Parallel()
	s := openMem(t, vfs.NewMem(), keepSpares, func(o *Options) { o.CleanRate, o.CheckpointBytes, o.Sync = -1, 32<<10, SyncOS })
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for i := int64(0); err == nil; i += 5 {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			ops := []Op{AppendBatch(sh, batchOf(i, strings.Repeat("x", 900), "b", "c", "d", "e"))}
			if i > 500 {
				ops = append(ops, TrimBefore(sh, i-500))
			}
			_, err = s.Commit(context.Background(), Txn{Do: ops})
		}
		done <- err
	}()
	r := seed.Rand(t)
	copied := make(chan *Store)
	for range 3 {
		copies := make([]*copying, 2)
		for i := range copies {
			copies[i] = beginCopy(t, s, vfs.NewMem(), "e", rand.New(rand.NewPCG(r.Uint64(), 0)))
			go func() { copied <- copies[i].end(t) }()
		}
		for range copies {
			b := <-copied
			first, next, err := b.Bounds(sh)
			if err != nil || len(values(t, b, sh, first, 1<<20)) != int(next-first) {
				t.Errorf("the copy has not all records from %d to %d (%v)", first, next, err)
			}
			mustClose(t, b)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
