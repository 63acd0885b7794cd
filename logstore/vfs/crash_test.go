package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"polylog/logstore/seed"
)

// outcomes crashes copies of m many times and counts what f tells of them.
func outcomes(t *testing.T, m *Mem, kind CrashKind, f func(m *Mem) string) map[string]int {
	r := seed.Rand(t)
	seen := map[string]int{}
	for range 500 {
		seen[f(m.Snapshot().Crash(CrashPlan{Rand: r, Kind: kind}))]++
	}
	return seen
}

// names renders the tree below the root.
func names(m *Mem) string {
	var all []string
	var visit func(dir string)
	visit = func(dir string) {
		entries, err := m.List(dir)
		if err != nil {
			all = append(all, dir[:len(dir)-1])
			return
		}
		for _, e := range entries {
			visit(dir + e + "/")
		}
	}
	visit("")
	return fmt.Sprint(all)
}

func wantOutcomes(t *testing.T, seen map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("never saw %q", w)
		}
		delete(seen, w)
	}
	if len(seen) > 0 {
		t.Errorf("saw %v, which cannot be", seen)
	}
}

var allKinds = []CrashKind{DropUnsynced, KeepAll, KeepPrefix, Reorder}

func TestWhatIsSyncedSurvivesEveryCrash(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("durable."), 1000)
	for _, kind := range allKinds {
		t.Run(kind.String(), func(t *testing.T) {
			m := NewMem()
			must(t, m.MkdirAll("a/b"))
			f := create(t, m, "a/b/file")
			write(t, f, 0, data)
			must(t, f.Sync())
			must(t, m.SyncDir("a/b"))
			seen := outcomes(t, m, kind, func(m *Mem) string {
				want(t, m, "/a/b/file", data)
				return names(m)
			})
			wantOutcomes(t, seen, "[a/b/file]")
		})
	}
}

func TestUnsyncedIsDropped(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("changed", []byte("before")))
	must(t, m.Put("shrunk", []byte("before")))
	must(t, m.Put("removed", []byte("before")))
	must(t, m.Put("renamed", []byte("before")))
	must(t, m.Put("replaced", []byte("replaced")))
	write(t, create(t, m, "created"), 0, []byte("lost"))
	f, err := m.OpenWrite("changed")
	must(t, err)
	write(t, f, 3, []byte("after"))
	must(t, f.Preallocate(1<<20))
	f, err = m.OpenWrite("shrunk")
	must(t, err)
	must(t, f.Truncate(1))
	must(t, m.Remove("removed"))
	must(t, m.Rename("renamed", "replaced"))
	c := m.Crash(CrashPlan{Kind: DropUnsynced})
	for _, name := range []string{"changed", "shrunk", "removed", "renamed"} {
		want(t, c, name, []byte("before"))
	}
	want(t, c, "replaced", []byte("replaced"))
	want(t, c, "created", nil)
	if got := c.Used(); got != 5*blockSize {
		t.Errorf("%d bytes are used after the crash, want 5 blocks", got)
	}
}

func TestSyncOfAFileIsNotSyncOfItsName(t *testing.T) {
	t.Parallel()
	m := NewMem()
	f := create(t, m, "file")
	write(t, f, 0, []byte("data"))
	must(t, f.Sync())
	want(t, m.Snapshot().Crash(CrashPlan{}), "file", nil)
	must(t, m.SyncDir("/"))
	want(t, m.Snapshot().Crash(CrashPlan{}), "file", []byte("data"))
}

func TestSyncOfADirectoryIsNotSyncOfItsFiles(t *testing.T) {
	t.Parallel()
	m := NewMem()
	f := create(t, m, "file")
	write(t, f, 0, []byte("data"))
	must(t, m.SyncDir("/"))
	want(t, m.Snapshot().Crash(CrashPlan{}), "file", []byte{})
	zeros := string(make([]byte, 4))
	seen := outcomes(t, m, Reorder, func(m *Mem) string {
		b, err := m.Contents("file")
		must(t, err)
		return string(b)
	})
	wantOutcomes(t, seen, "", zeros, "data")
}

func TestAProcessCrashKeepsAllButMakesNothingDurable(t *testing.T) {
	t.Parallel()
	m := NewMem()
	write(t, create(t, m, "file"), 0, []byte("data"))
	m = m.Crash(CrashPlan{Kind: KeepAll})
	want(t, m, "file", []byte("data"))
	f, err := m.OpenWrite("file")
	must(t, err)
	must(t, m.SyncDir("/"))
	want(t, m.Snapshot().Crash(CrashPlan{}), "file", []byte{})
	must(t, f.Sync())
	want(t, m.Crash(CrashPlan{}), "file", []byte("data"))
}

func TestWhatAPowerLossLeftIsDurable(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 100 {
		m := NewMem()
		write(t, create(t, m, "file"), 100, bytes.Repeat([]byte("x"), 2000))
		must(t, m.Rename("file", "renamed"))
		m = m.Crash(CrashPlan{Rand: r, Kind: Reorder})
		before := names(m)
		b, _ := m.Contents("renamed")
		m = m.Crash(CrashPlan{Kind: DropUnsynced})
		if names(m) != before {
			t.Fatalf("names were %v, then %v", before, names(m))
		}
		if after, _ := m.Contents("renamed"); !bytes.Equal(b, after) {
			t.Fatal(difference(after, b))
		}
	}
}

func TestARenameGoesBackOrNotButIsWhole(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("new", []byte("new")))
	must(t, m.Put("old", []byte("old")))
	must(t, m.Rename("new", "old"))
	render := func(m *Mem) string {
		b, err := m.Contents("old")
		must(t, err)
		return names(m) + string(b)
	}
	wantOutcomes(t, outcomes(t, m, Reorder, render), "[new old]old", "[old]new")
	must(t, m.SyncDir("/"))
	wantOutcomes(t, outcomes(t, m, Reorder, render), "[old]new")
}

func TestARenameAcrossDirectoriesNeedsBothSynced(t *testing.T) {
	t.Parallel()
	for _, dirs := range [][]string{{"from", "to"}, {"to", "from"}} {
		m := NewMem()
		must(t, m.Put("from/file", []byte("data")))
		must(t, m.MkdirAll("to"))
		must(t, m.Rename("from/file", "to/file"))
		must(t, m.SyncDir(dirs[0]))
		want(t, m.Snapshot().Crash(CrashPlan{}), "from/file", []byte("data"))
		must(t, m.SyncDir(dirs[1]))
		want(t, m.Snapshot().Crash(CrashPlan{}), "to/file", []byte("data"))
	}
}

func TestALaterSyncCarriesWhatItBuildsOn(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("from/file", []byte("moved")))
	must(t, m.MkdirAll("to"))
	must(t, m.Rename("from/file", "to/file"))
	create(t, m, "from/file") // can be durable only if the move is
	must(t, m.SyncDir("from"))
	want(t, m.Snapshot().Crash(CrashPlan{}), "to/file", []byte("moved"))
	want(t, m.Snapshot().Crash(CrashPlan{}), "from/file", []byte{})
}

func TestWhatWasMovedOutOfADirectoryIsNotLostWithIt(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("dir/a", []byte("moved")))
	must(t, m.Put("dir/b", []byte("removed")))
	must(t, m.Rename("dir/a", "a"))
	must(t, m.Remove("dir/b"))
	must(t, m.Remove("dir"))
	seen := outcomes(t, m, Reorder, names)
	wantOutcomes(t, seen, "[dir/a dir/b]", "[a dir/b]", "[dir/a]", "[a]")
	must(t, m.SyncDir("/"))
	wantOutcomes(t, outcomes(t, m, DropUnsynced, names), "[a]")
	if len(m.relinks) != 0 {
		t.Errorf("%d changes wait for a directory that is gone", len(m.relinks))
	}
}

func TestDirectoryOperationsSurviveApart(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("removed", nil))
	create(t, m, "created")
	must(t, m.Remove("removed"))
	wantOutcomes(t, outcomes(t, m, Reorder, names), "[created removed]", "[created]", "[removed]", "[]")
	wantOutcomes(t, outcomes(t, m, KeepPrefix, names), "[created removed]", "[created]", "[removed]")
}

func TestAWriteIsTornBetweenSectors(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("file", bytes.Repeat([]byte("-"), 4*sectorSize)))
	f, err := m.OpenWrite("file")
	must(t, err)
	write(t, f, 500, bytes.Repeat([]byte("x"), 600)) // 12 bytes, a whole sector, and 76 bytes
	render := func(m *Mem) string {
		b, err := m.Contents("file")
		must(t, err)
		rest := append(bytes.Repeat([]byte("-"), 500), bytes.Repeat([]byte("x"), 600)...)
		var s string
		for i := 0; i < 3; i++ {
			switch part := b[i*sectorSize:][:sectorSize]; {
			case !bytes.Contains(part, []byte("x")):
				s += "-"
			case bytes.HasPrefix(rest[i*sectorSize:], bytes.TrimRight(part, "-")) && bytes.Count(part, []byte("x")) == []int{12, 512, 76}[i]:
				s += "x"
			default:
				s += "?"
			}
		}
		return s
	}
	wantOutcomes(t, outcomes(t, m, KeepPrefix, render), "---", "x--", "xx-", "xxx")
	wantOutcomes(t, outcomes(t, m, Reorder, render), "---", "x--", "xx-", "xxx", "-x-", "--x", "x-x", "-xx")
}

func TestWritesToASectorKeepTheirOrder(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("file", []byte("...")))
	f, err := m.OpenWrite("file")
	must(t, err)
	for i, c := range "abc" {
		write(t, f, int64(i), []byte(string(c)))
	}
	seen := outcomes(t, m, Reorder, func(m *Mem) string {
		b, err := m.Contents("file")
		must(t, err)
		return string(b)
	})
	wantOutcomes(t, seen, "...", "a..", "ab.", "abc")
}

func TestACutFileMayKeepItsSizeButLoseTheSectorsRest(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("file", bytes.Repeat([]byte("x"), 2*sectorSize)))
	f, err := m.OpenWrite("file")
	must(t, err)
	must(t, f.Truncate(100))
	seen := outcomes(t, m, Reorder, func(m *Mem) string {
		b, err := m.Contents("file")
		must(t, err)
		return fmt.Sprintf("%d of %d", bytes.Count(b, []byte("x")), len(b))
	})
	wantOutcomes(t, seen, "1024 of 1024", "612 of 1024", "100 of 100")
}

func TestTheSameSeedGivesTheSameCrash(t *testing.T) {
	t.Parallel()
	m := NewMem()
	for i := range 20 {
		f := create(t, m, fmt.Sprint(i))
		write(t, f, int64(i)*1000, bytes.Repeat([]byte{byte(i)}, 5000))
	}
	render := func(m *Mem) string {
		s := names(m)
		list, err := m.List("")
		must(t, err)
		for _, name := range list {
			b, err := m.Contents(name)
			must(t, err)
			s += string(b)
		}
		return s
	}
	for _, kind := range []CrashKind{KeepPrefix, Reorder} {
		var seen []string
		for seed := range uint64(10) {
			a := render(m.Crash(CrashPlan{Rand: rand.New(rand.NewPCG(seed, 0)), Kind: kind})) // of the crashed one too
			b := render(m.Snapshot().Crash(CrashPlan{Rand: rand.New(rand.NewPCG(seed, 0)), Kind: kind}))
			if a != b {
				t.Errorf("%v: seed %d has two outcomes", kind, seed)
			}
			seen = append(seen, a)
		}
		slices.Sort(seen)
		if len(slices.Compact(seen)) < 5 {
			t.Errorf("%v: ten seeds have %d outcomes", kind, len(slices.Compact(seen)))
		}
	}
}

func TestACrashFreezesTheOldFileSystem(t *testing.T) {
	t.Parallel()
	m := NewMem()
	must(t, m.Put("file", []byte("data")))
	f, err := m.OpenWrite("file")
	must(t, err)
	lock, err := m.Lock("lock")
	must(t, err)
	must(t, m.SyncDir(""))
	c := m.Crash(CrashPlan{})
	for what, op := range map[string]func() error{
		"Create":      func() error { _, err := m.Create("new"); return err },
		"Open":        func() error { _, err := m.Open("file"); return err },
		"OpenWrite":   func() error { _, err := m.OpenWrite("file"); return err },
		"Remove":      func() error { return m.Remove("file") },
		"Rename":      func() error { return m.Rename("file", "new") },
		"List":        func() error { _, err := m.List(""); return err },
		"MkdirAll":    func() error { return m.MkdirAll("dir") },
		"SyncDir":     func() error { return m.SyncDir("") },
		"Stat":        func() error { _, err := m.Stat("file"); return err },
		"Lock":        func() error { _, err := m.Lock("lock"); return err },
		"Free":        func() error { _, err := m.Free(""); return err },
		"Contents":    func() error { _, err := m.Contents("file"); return err },
		"Put":         func() error { return m.Put("file", nil) },
		"Corrupt":     func() error { return m.Corrupt("file", 0, 1) },
		"ReadAt":      func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		"WriteAt":     func() error { _, err := f.WriteAt(make([]byte, 1), 0); return err },
		"Sync":        f.Sync,
		"Truncate":    func() error { return f.Truncate(0) },
		"Preallocate": func() error { return f.Preallocate(1) },
		"Size":        func() error { _, err := f.Size(); return err },
		"Close":       f.Close,
		"Unlock":      lock.Close,
	} {
		if err := op(); !errors.Is(err, ErrCrashed) {
			t.Errorf("%s: %v, want ErrCrashed", what, err)
		}
	}
	want(t, c, "file", []byte("data"))
	if c.OpenHandles() != 0 {
		t.Errorf("%d handles are open after the crash", c.OpenHandles())
	}
	lock, err = c.Lock("lock")
	must(t, err)
	must(t, lock.Close())
	if s := m.Snapshot(); names(s) != "[file lock]" {
		t.Errorf("a snapshot of the frozen one has %s", names(s))
	}
}
