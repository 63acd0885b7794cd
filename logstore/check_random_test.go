package logstore

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"polylog/logstore/seed"
	"polylog/logstore/segment"
)

// rounds is how often a random test goes round: less under the race detector, which slows it down and cares for another kind of mistake.
func rounds(n int) int {
	if raceEnabled || testing.Short() {
		return n / 5
	}
	return n
}

// TestCheckFindsEveryFlippedByte flips a random byte in a random file of a log that was closed. POLYLOG_SEED repeats one run.
func TestCheckFindsEveryFlippedByte(t *testing.T) {
	t.Parallel()
	of := seed.Of(t)
	r := rand.New(rand.NewPCG(of, 4))
	l := growLog(t, of, true)
	all := files(t, l.disk)
	delete(all, lockName)
	delete(all, reserveName) // means nothing
	var names []string
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	for i := range rounds(150) {
		name := names[r.IntN(len(names))]
		pos, mask := r.Int64N(int64(len(all[name]))), byte(1+r.IntN(255))
		disk := l.disk.Snapshot()
		if err := disk.Corrupt(filepath.Join("d", name), pos, mask); err != nil {
			t.Fatal(err)
		}
		report := mustCheck(t, disk)
		if report.OK() || !report.names(name) {
			t.Errorf("byte %d of %s (%d bytes) changed by %02x: problems %v, notes %q", pos, name, len(all[name]), mask, report.Problems, report.Notes)
		}
		if i%5 == 0 {
			l.repair(t, disk)
		}
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
}

// provenIn returns the last entry that others than the one at a position of a file prove to have been on the disk.
func provenIn(all map[string][]byte, names []string, file string, pos int64) (seq uint64) {
	for _, name := range names {
		sc := entriesOf(all[name])
		for {
			e, err := sc.Next()
			if err != nil {
				break
			}
			if at := pos - int64(e.Pos); e.Kind == segment.KindTxn && (name != file || at < 0 || at >= int64(e.Size())) {
				seq = max(seq, e.Durable())
			}
		}
	}
	return seq
}

// TestCheckTakesDamageForATornTailOnlyAtTheEnd flips a random byte of a log whose store was killed. It is damage, or behind the last entry that is known to have been
// on the disk, or where nothing is.
func TestCheckTakesDamageForATornTailOnlyAtTheEnd(t *testing.T) {
	t.Parallel()
	of := seed.Of(t)
	r := rand.New(rand.NewPCG(of, 5))
	l := growLog(t, of, false)
	names := withSuffix(t, l.disk, segmentSuffix)
	all := files(t, l.disk)
	found := 0
	for i := range rounds(150) {
		name := names[r.IntN(len(names))]
		pos := r.Int64N(int64(len(all[name])))
		disk := l.disk.Snapshot()
		if err := disk.Corrupt(filepath.Join("d", name), pos, byte(1+r.IntN(255))); err != nil {
			t.Fatal(err)
		}
		report := mustCheck(t, disk)
		switch proven := provenIn(all, names, name, pos); {
		case report.OK() && (report.LastSeq < proven || report.LastSeq < l.seq && len(report.Notes) == 0):
			t.Errorf("byte %d of %s changed: the check comes to entry %d of %d, proven are %d; notes %q", pos, name, report.LastSeq, l.seq, proven, report.Notes)
		case report.OK():
			s := openMem(t, disk)
			if seq, hash := s.Hash(); seq != report.LastSeq || hash != report.Hash {
				t.Errorf("byte %d of %s changed: Open comes to entry %d, hash %016x; the check to %d, %016x", pos, name, seq, hash, report.LastSeq, report.Hash)
			}
			mustClose(t, s)
		default:
			found++
			s := openMem(t, disk, func(o *Options) { o.Repair = true })
			mustClose(t, s)
			if report := mustCheck(t, disk); !report.OK() {
				t.Errorf("byte %d of %s changed, after a repair (%+v): %v", pos, name, s.Recovery, report.Problems)
			}
		}
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
	if found == 0 {
		t.Error("no damage was found")
	}
}
