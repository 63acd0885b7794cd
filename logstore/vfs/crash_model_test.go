package vfs

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"polylog/logstore/seed"
)

// fileHistory is a file and every content it had since it was last synced; the first is durable.
type fileHistory struct {
	name   string
	file   File
	states [][]byte
}

func (h *fileHistory) now() []byte { return h.states[len(h.states)-1] }

// step does something to a file and returns whether it is a write.
func (h *fileHistory) step(t *testing.T, r *rand.Rand) (isWrite bool) {
	const limit = 20_000
	next := slices.Clone(h.now())
	resize := func(size int64) {
		next = append(next, make([]byte, max(size-int64(len(next)), 0))...)[:size]
	}
	switch r.IntN(10) {
	case 0:
		size := r.Int64N(limit)
		must(t, h.file.Truncate(size))
		resize(size)
	case 1:
		size := r.Int64N(limit)
		must(t, h.file.Preallocate(size))
		resize(max(size, int64(len(next))))
	default:
		off, p := r.Int64N(limit), make([]byte, 1+r.IntN(3000))
		if r.IntN(2) == 0 {
			off = int64(len(next)) // as a log does
		}
		for i := range p {
			p[i] = byte(1 + r.IntN(255))
		}
		write(t, h.file, off, p)
		resize(max(off+int64(len(p)), int64(len(next))))
		copy(next[off:], p)
		isWrite = true
	}
	h.states = append(h.states, next)
	return isWrite
}

// sectorOf returns a sector of b, filled up with zeros.
func sectorOf(b []byte, s int) []byte {
	p := make([]byte, sectorSize)
	if s*sectorSize < len(b) {
		copy(p, b[s*sectorSize:])
	}
	return p
}

// reordered says what is wrong with a content as outcome of Reorder. Each sector is as it was at some time, but zero from where the file later
// ended, or ends now; and the file has a size that it had.
func (h *fileHistory) reordered(got []byte) error {
	if !slices.ContainsFunc(h.states, func(b []byte) bool { return len(b) == len(got) }) {
		return fmt.Errorf("size is %d, which it never was", len(got))
	}
	for s := 0; s*sectorSize < len(got); s++ {
		have := sectorOf(got, s)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(h.cutSectors(s, len(got)))), func(p string) bool { return p == string(have) }) {
			return fmt.Errorf("sector %d is like at no time", s)
		}
	}
	return nil
}

func (h *fileHistory) cutSectors(s, size int) map[string]bool {
	all := map[string]bool{}
	for i, b := range h.states {
		for _, later := range h.states[i:] {
			end := min(len(b), len(later), size)
			all[string(sectorOf(b[:end], s))] = true
		}
		all[string(sectorOf(b[:min(len(b), size)], s))] = true
	}
	return all
}

// torn says what is wrong with a content as what is left of a write that led from before to after.
func torn(got, before, after []byte) error {
	if len(got) < len(before) || len(got) > len(after) {
		return fmt.Errorf("size is %d after a write that led from %d to %d", len(got), len(before), len(after))
	}
	s := 0
	for s*sectorSize < len(got) && bytes.Equal(sectorOf(got, s), sectorOf(after[:len(got)], s)) {
		s++
	}
	for ; s*sectorSize < len(got); s++ {
		if !bytes.Equal(sectorOf(got, s), sectorOf(before, s)) {
			return fmt.Errorf("sector %d is neither what it was nor follows written ones", s)
		}
	}
	return nil
}

// issued is a change to a file that is not durable, in the order of issue over all files.
type issued struct {
	file    int
	state   int // of the file's history, after the change
	isWrite bool
}

// keptPrefix says what is wrong with contents as outcome of KeepPrefix.
func keptPrefix(got [][]byte, files []*fileHistory, order []issued) error {
	expected := make([][]byte, len(files))
	for i, h := range files {
		expected[i] = h.states[0]
	}
	var why error
	for kept := 0; ; kept++ {
		why = nil
		for i := range files {
			switch {
			case bytes.Equal(got[i], expected[i]):
			case kept > 0 && order[kept-1].file == i && order[kept-1].isWrite:
				why = torn(got[i], files[i].states[order[kept-1].state-1], expected[i])
			default:
				why = fmt.Errorf("file %d: %s", i, difference(got[i], expected[i]))
			}
			if why != nil {
				break
			}
		}
		if why == nil {
			return nil
		}
		if kept == len(order) {
			return fmt.Errorf("like after no number of %d changes; after all of them: %w", len(order), why)
		}
		expected[order[kept].file] = files[order[kept].file].states[order[kept].state]
	}
}

// TestCrashesLeaveOnlyWhatTheContractAllows changes some files at random and compares what crashes leave with all their past contents.
func TestCrashesLeaveOnlyWhatTheContractAllows(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 40 {
		m := NewMem()
		files := []*fileHistory{{name: "a"}, {name: "b"}, {name: "c"}}
		for _, h := range files {
			must(t, m.Put(h.name, nil))
			f, err := m.OpenWrite(h.name)
			must(t, err)
			h.file, h.states = f, [][]byte{{}}
		}
		var order []issued
		for range 1 + r.IntN(25) {
			i := r.IntN(len(files))
			h := files[i]
			if r.IntN(6) == 0 {
				must(t, h.file.Sync())
				h.states = [][]byte{h.now()}
				order = slices.DeleteFunc(order, func(c issued) bool { return c.file == i })
				continue
			}
			isWrite := h.step(t, r)
			order = append(order, issued{i, len(h.states) - 1, isWrite})
		}
		for range 10 {
			for _, kind := range allKinds {
				checkCrash(t, m.Snapshot().Crash(CrashPlan{Rand: r, Kind: kind}), kind, files, order)
			}
		}
	}
}

func checkCrash(t *testing.T, m *Mem, kind CrashKind, files []*fileHistory, order []issued) {
	t.Helper()
	checkSpace(t, m)
	var got [][]byte
	for _, h := range files {
		b, err := m.Contents(h.name)
		must(t, err)
		got = append(got, b)
	}
	if kind == KeepPrefix {
		if err := keptPrefix(got, files, order); err != nil {
			t.Fatalf("%v: %v", kind, err)
		}
		return
	}
	for i, h := range files {
		var err error
		switch {
		case kind == DropUnsynced && !bytes.Equal(got[i], h.states[0]):
			err = fmt.Errorf("%s", difference(got[i], h.states[0]))
		case kind == KeepAll && !bytes.Equal(got[i], h.now()):
			err = fmt.Errorf("%s", difference(got[i], h.now()))
		case kind == Reorder:
			err = h.reordered(got[i])
		}
		if err != nil {
			t.Fatalf("%v: file %s: %v", kind, h.name, err)
		}
	}
}

// TestCrashesLeaveOnlyNamesThatWere creates, renames and removes at random. Each file holds its number, so that it is known under every name.
func TestCrashesLeaveOnlyNamesThatWere(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	pool := []string{"a", "b", "c", "d"}
	for range 100 {
		m := NewMem()
		states := []map[string]string{{}}
		for n := range 1 + r.IntN(20) {
			now := maps.Clone(states[len(states)-1])
			name, to := pool[r.IntN(len(pool))], pool[r.IntN(len(pool))]
			_, taken := now[name]
			switch {
			case r.IntN(8) == 0:
				must(t, m.SyncDir(""))
				states = states[:0]
			case !taken:
				f := create(t, m, name)
				now[name] = fmt.Sprint(n)
				write(t, f, 0, []byte(now[name]))
				must(t, f.Sync())
			case r.IntN(2) == 0:
				must(t, m.Remove(name))
				delete(now, name)
			case name != to:
				must(t, m.Rename(name, to))
				now[to] = now[name]
				delete(now, name)
			}
			states = append(states, now)
		}
		for range 10 {
			for _, kind := range allKinds {
				checkNames(t, m.Snapshot().Crash(CrashPlan{Rand: r, Kind: kind}), kind, states)
			}
		}
	}
}

func checkNames(t *testing.T, m *Mem, kind CrashKind, states []map[string]string) {
	t.Helper()
	checkSpace(t, m)
	got := map[string]string{}
	list, err := m.List("")
	must(t, err)
	for _, name := range list {
		b, err := m.Contents(name)
		must(t, err)
		for other, number := range got {
			if number == string(b) {
				t.Fatalf("%v: file %s is %s and %s", kind, number, name, other)
			}
		}
		got[name] = string(b)
	}
	is := func(s map[string]string) bool { return maps.Equal(s, got) }
	var ok bool
	switch kind {
	case DropUnsynced:
		ok = is(states[0])
	case KeepAll:
		ok = is(states[len(states)-1])
	case KeepPrefix:
		ok = slices.ContainsFunc(states, is)
	case Reorder:
		ok = true
		for _, name := range []string{"a", "b", "c", "d"} {
			ok = ok && slices.ContainsFunc(states, func(s map[string]string) bool { return s[name] == got[name] })
		}
	}
	if !ok {
		t.Fatalf("%v left %v of %v", kind, got, states)
	}
}
