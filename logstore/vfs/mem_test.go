package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"polylog/logstore/seed"
)

// checkSpace compares the sums that a Mem keeps with what is there.
func checkSpace(t testing.TB, m *Mem) {
	t.Helper()
	var used int64
	var visit func(n *inode)
	visit = func(n *inode) {
		for _, e := range n.entries {
			visit(e)
		}
		if n.isDir() {
			return
		}
		for _, im := range []*image{n.current, n.durable} {
			if extra := im.written(im.reserved, 1<<40/blockSize); extra != im.extra {
				t.Errorf("%d blocks are written that are not reserved, counted as %d", extra, im.extra)
			}
			if im.reserved > blocksFor(im.size) || int64(len(im.leaves)) > blocksFor(im.size)/leafBlocks+1 {
				t.Errorf("a file of size %d has %d blocks reserved and %d leaves", im.size, im.reserved, len(im.leaves))
			}
			rest := make([]byte, 2*blockSize)
			im.peek(rest, im.size)
			if !bytes.Equal(rest, make([]byte, len(rest))) {
				t.Errorf("a file of size %d has bytes after its end", im.size)
			}
		}
		used += n.current.allocated()
	}
	visit(m.root)
	if got := m.Used(); got != used {
		t.Errorf("Used = %d, but the files take %d", got, used)
	}
}

func TestAFullDiskRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	m := NewMem()
	m.SetCapacity(10 * blockSize)
	a := create(t, m, "a")
	must(t, a.Preallocate(8*blockSize))
	b := create(t, m, "b")
	write(t, b, 0, []byte("x"))
	if err := b.Preallocate(3 * blockSize); !errors.Is(err, ErrNoSpace) || !IsNoSpace(err) {
		t.Errorf("Preallocate: %v, want ErrNoSpace", err)
	}
	if size, _ := b.Size(); size != 1 {
		t.Errorf("a failed Preallocate left a size of %d", size)
	}
	n, err := b.WriteAt(bytes.Repeat([]byte("y"), 4*blockSize), 100)
	if n != 2*blockSize-100 || !IsNoSpace(err) {
		t.Errorf("WriteAt = %d, %v; want what fits in two blocks, and ErrNoSpace", n, err)
	}
	if size, _ := b.Size(); size != 2*blockSize {
		t.Errorf("the size is %d after a short write", size)
	}
	write(t, a, 0, make([]byte, 8*blockSize)) // was reserved
	if free, err := m.Free("/"); free != 0 || err != nil {
		t.Errorf("Free = %d, %v on a full disk", free, err)
	}
	must(t, m.Remove("a"))
	write(t, b, 2*blockSize, make([]byte, 8*blockSize))
	must(t, b.Truncate(blockSize))
	if got := m.Used(); got != blockSize {
		t.Errorf("%d bytes are used, want one block", got)
	}
	if err := m.Put("c", make([]byte, 10*blockSize)); !IsNoSpace(err) {
		t.Errorf("Put: %v, want ErrNoSpace", err)
	}
	write(t, a, 8*blockSize, make([]byte, blockSize)) // without a name it takes no space
	must(t, m.Put("d", make([]byte, 9*blockSize)))
	must(t, m.Rename("d", "b"))
	if got := m.Used(); got != 9*blockSize {
		t.Errorf("%d bytes are used after a file was replaced, want 9 blocks", got)
	}
	m.SetCapacity(-1)
	must(t, m.Put("c", make([]byte, 100*blockSize)))
	checkSpace(t, m)
}

func TestSpaceIsCountedRight(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 8 {
		m := NewMem()
		m.SetCapacity(1 << 20)
		for range 200 {
			name := string(rune('a' + r.IntN(5)))
			f, err := m.OpenWrite(name)
			if err != nil {
				f = create(t, m, name)
			}
			off := r.Int64N(1 << 21)
			switch r.IntN(7) {
			case 0:
				err = m.Remove(name)
			case 1:
				err = m.Rename(name, string(rune('a'+r.IntN(5))))
			case 2:
				err = f.Preallocate(off / 8)
			case 3:
				err = f.Truncate(off)
			case 4:
				err = f.Sync()
			default:
				_, err = f.WriteAt(bytes.Repeat([]byte("x"), r.IntN(50_000)), off)
			}
			if err != nil && !IsNoSpace(err) {
				t.Fatal(err)
			}
			if m.Used() > 1<<20 {
				t.Fatalf("%d bytes are used of %d", m.Used(), 1<<20)
			}
			checkSpace(t, m)
			must(t, f.Close())
		}
		for _, kind := range allKinds {
			checkSpace(t, m.Crash(CrashPlan{Rand: r, Kind: kind}))
		}
	}
}

func TestZerosCostNothing(t *testing.T) {
	t.Parallel()
	m := NewMem()
	f := create(t, m, "a")
	must(t, f.Preallocate(1<<40))
	write(t, f, 1<<39, []byte("x"))
	if n := f.(*memFile).node.current.written(0, 1<<40/blockSize); n != 1 {
		t.Errorf("%d blocks are in memory", n)
	}
	if _, err := f.WriteAt([]byte("x"), 1<<40); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("a write past the largest file: %v, want EFBIG", err)
	}
	if f.Truncate(1<<41) == nil || f.Preallocate(1<<41) == nil {
		t.Error("a size past the largest file was taken")
	}
}

func TestASnapshotGoesItsOwnWay(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("file", []byte("durable")))
	f, err := m.OpenWrite("file")
	must(t, err)
	write(t, f, 0, []byte("written"))
	lock, err := m.Lock("lock")
	must(t, err)
	defer lock.Close()

	s := m.Snapshot()
	must(t, f.Sync())
	write(t, f, 0, []byte("original"))
	must(t, f.Sync())
	want(t, s, "file", []byte("written"))
	seen := outcomes(t, s, KeepPrefix, func(m *Mem) string {
		b, err := m.Contents("file")
		must(t, err)
		return string(b)
	})
	wantOutcomes(t, seen, "durable", "written")
	g, err := s.OpenWrite("file")
	must(t, err)
	write(t, g, 0, []byte("SNAPSHOT"))
	want(t, m, "file", []byte("original"))
	if _, err := s.Lock("lock"); err != nil {
		t.Errorf("Lock in the snapshot: %v", err)
	}
	if s.OpenHandles() != 2 || s.Writes() != 1 {
		t.Errorf("the snapshot counts %d handles and %d writes, want its own 2 and 1", s.OpenHandles(), s.Writes())
	}
}

func TestCorruptionSurvives(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("file", []byte("...")))
	f, err := m.OpenWrite("file")
	must(t, err)
	write(t, f, 0, []byte("abc"))
	before := m.Snapshot()
	must(t, m.Corrupt("file", 1, 0x20))
	want(t, m, "file", []byte("aBc"))
	for _, kind := range allKinds {
		want(t, m.Crash(CrashPlan{Rand: rand.New(rand.NewPCG(1, 2)), Kind: kind}), "file", []byte("aBc"))
	}
	want(t, before, "file", []byte("abc"))
	for _, off := range []int64{-1, 3} {
		if before.Corrupt("file", off, 1) == nil {
			t.Errorf("offset %d was corrupted", off)
		}
	}
}

func TestPutIsDurable(t *testing.T) {
	t.Parallel()
	m := NewMem()
	f := create(t, m, "later/../file")
	write(t, f, 0, []byte("to be replaced"))
	must(t, m.Put("file", []byte("put")))
	must(t, m.Put("deep/er/file", []byte("put")))
	if got := content(t, f); string(got) != "put" {
		t.Errorf("an open handle reads %q", got)
	}
	c := m.Crash(CrashPlan{})
	want(t, c, "file", []byte("put"))
	want(t, c, "/deep/er/file", []byte("put"))
	if err := c.Put("deep", nil); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("Put over a directory: %v", err)
	}
}

func TestOperationsAreCounted(t *testing.T) {
	t.Parallel()
	m := NewMem()
	a := create(t, m, "a")
	b, err := m.Open("a")
	must(t, err)
	write(t, a, 0, []byte("x"))
	write(t, a, 1, []byte("y"))
	must(t, a.Sync())
	must(t, m.SyncDir(""))
	content(t, b)
	must(t, b.Close())
	got := []int64{m.Writes(), m.Syncs(), m.DirSyncs(), m.Reads(), m.OpenHandles(), m.MaxOpenHandles()}
	if want := []int64{2, 1, 1, 1, 1, 2}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("writes, syncs, dir syncs, reads, handles, most handles: %v, want %v", got, want)
	}
}

// TestSnapshotsAndCrashesComeAtAnyTime is for the race detector, and checks that a cut through several files is consistent.
func TestSnapshotsAndCrashesComeAtAnyTime(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	m := NewMem()
	var wg sync.WaitGroup
	t.Cleanup(func() {
		m.Crash(CrashPlan{}) // stops the writers
		wg.Wait()
	})
	for w := range 3 {
		dir := fmt.Sprint(w)
		must(t, m.MkdirAll(dir))
		first, second := create(t, m, path.Join(dir, "first")), create(t, m, path.Join(dir, "second"))
		wg.Go(func() {
			for i := 0; ; i++ {
				p := fmt.Appendf(nil, "%08d", i)
				_, err1 := first.WriteAt(p, 0)
				_, err2 := second.WriteAt(p, 0)
				err3 := [...]File{first, second}[i%2].Sync() // both, so that the changes to look through stay few
				if err := errors.Join(err1, err2, err3, m.SyncDir(dir)); err != nil {
					if !errors.Is(err, ErrCrashed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	inOrder := func(m *Mem) {
		for w := range 3 {
			var n [2]int
			for i, name := range []string{"first", "second"} {
				b, err := m.Contents(path.Join(fmt.Sprint(w), name))
				must(t, err)
				if len(b) > 0 {
					n[i], err = strconv.Atoi(string(b))
					must(t, err)
				}
			}
			if n[0] < n[1] || n[0] > n[1]+1 {
				t.Errorf("the first file is at %d, the second at %d", n[0], n[1])
			}
		}
	}
	for range 200 {
		s := m.Snapshot()
		inOrder(s)
		s.Crash(CrashPlan{Rand: r, Kind: Reorder})
	}
	inOrder(m.Crash(CrashPlan{Kind: KeepAll}))
}

func BenchmarkCrashStep(b *testing.B) {
	for _, kind := range allKinds {
		b.Run(kind.String(), func(b *testing.B) {
			m := NewMem()
			must(b, m.Put("log", bytes.Repeat([]byte("x"), 4<<20)))
			r := rand.New(rand.NewPCG(1, 2))
			p := bytes.Repeat([]byte("y"), 2000)
			b.ReportAllocs()
			for b.Loop() {
				f, err := m.OpenWrite("log")
				must(b, err)
				for i := range int64(10) {
					write(b, f, r.Int64N(4<<20), p)
					if i == 5 {
						must(b, f.Sync())
					}
				}
				m = m.Crash(CrashPlan{Rand: r, Kind: kind})
			}
		})
	}
}

func BenchmarkAppendAndSync(b *testing.B) {
	m := NewMem()
	f := create(b, m, "log")
	must(b, f.Preallocate(64<<20))
	p := bytes.Repeat([]byte("y"), 1000)
	b.ReportAllocs()
	var off int64
	for b.Loop() {
		write(b, f, off%(64<<20), p)
		must(b, f.Sync())
		off += 1000
	}
}
