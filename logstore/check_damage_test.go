package logstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// damage is one way to harm a file. It returns the file that a check should name.
type damage struct {
	name string
	do   func(t *testing.T, disk *vfs.Mem) string
}

// flip damages the byte that at finds in a file.
func flip(name string, which func(names []string) string, at func(b []byte) int64) damage {
	return damage{name, func(t *testing.T, disk *vfs.Mem) string {
		file := which(withSuffix(t, disk, segmentSuffix))
		path := filepath.Join("d", file)
		b, err := disk.Contents(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := disk.Corrupt(path, at(b), 0x10); err != nil {
			t.Fatal(err)
		}
		return file
	}}
}

// entriesOf scans the entries of a segment file.
func entriesOf(b []byte) *segment.Scanner {
	salt := uint32(0)
	if len(b) >= segment.HeaderSize {
		salt = binary.LittleEndian.Uint32(b[56:])
	}
	return segment.NewScanner(bytes.NewReader(b), salt, segment.HeaderSize, int64(len(b)))
}

// entryWith returns an entry in the middle of the file that has a batch.
func entryWith(b []byte) segment.Entry {
	var last segment.Entry
	sc := entriesOf(b)
	for {
		e, err := sc.Next()
		if err != nil || int(e.Pos) > len(b)/2 && len(last.Body) > 0 {
			return last
		}
		if len(e.Body) > record.HeaderSize+10 {
			last = e
		}
	}
}

func inTrailer(field int) func(b []byte) int64 {
	return func(b []byte) int64 {
		return int64(binary.LittleEndian.Uint32(b[len(b)-segment.TrailerSize+field:]))
	}
}

func plus(f func(b []byte) int64, n int64) func(b []byte) int64 {
	return func(b []byte) int64 { return f(b) + n }
}

// damages are all kinds of harm to a file of segments, some of them to a file with others behind it, some to the last.
func damages() (all []damage) {
	second := func(names []string) string { return names[1] }
	last := func(names []string) string { return names[len(names)-1] }
	for which, pick := range map[string]func([]string) string{"a middle": second, "the last": last} {
		for _, d := range []struct {
			part string
			at   func(b []byte) int64
		}{
			{"header", func([]byte) int64 { return 20 }},
			{"first entry", func([]byte) int64 { return segment.HeaderSize + 9 }},
			{"entry header", func(b []byte) int64 { return int64(entryWith(b).Pos) + 9 }},
			{"entry length", func(b []byte) int64 { return int64(entryWith(b).Pos) + 6 }},
			{"metadata", func(b []byte) int64 { return int64(entryWith(b).Pos) + segment.EntryHeaderSize + 1 }},
			{"base offset of a batch", func(b []byte) int64 { e := entryWith(b); return int64(e.BodyPos()) + 6 }},
			{"batch", func(b []byte) int64 { e := entryWith(b); return int64(e.BodyPos()) + record.HeaderSize + 5 }},
			{"index block", plus(inTrailer(40), 3)},
			{"directory", plus(inTrailer(44), 5)},
			{"bitmap", plus(inTrailer(48), 2)},
			{"trailer magic", func(b []byte) int64 { return int64(len(b)) - segment.TrailerSize + 3 }},
			{"trailer", func(b []byte) int64 { return int64(len(b)) - segment.TrailerSize + 20 }},
			{"trailer CRC", func(b []byte) int64 { return int64(len(b)) - 1 }},
		} {
			all = append(all, flip(d.part+" of "+which+" segment", pick, d.at))
		}
		for _, size := range []float64{0, 0.0001, 0.1, 0.5, 0.9999} {
			all = append(all, damage{fmt.Sprintf("%s segment cut to %g of its size", which, size), func(t *testing.T, disk *vfs.Mem) string {
				file := pick(withSuffix(t, disk, segmentSuffix))
				cut(t, disk, file, size)
				return file
			}})
		}
		all = append(all, damage{which + " segment removed", func(t *testing.T, disk *vfs.Mem) string {
			file := pick(withSuffix(t, disk, segmentSuffix))
			if err := disk.Remove(filepath.Join("d", file)); err != nil {
				t.Fatal(err)
			}
			return file
		}})
	}
	return append(all,
		damage{"two segments swapped", func(t *testing.T, disk *vfs.Mem) string {
			names := withSuffix(t, disk, segmentSuffix)
			swap(t, disk, names[1], names[2])
			return names[1]
		}},
		damage{"two checkpoints swapped", func(t *testing.T, disk *vfs.Mem) string {
			names := withSuffix(t, disk, checkpointSuffix)
			swap(t, disk, names[0], names[1])
			return names[1]
		}},
		damage{"newest checkpoint", func(t *testing.T, disk *vfs.Mem) string {
			names := withSuffix(t, disk, checkpointSuffix)
			if err := disk.Corrupt(filepath.Join("d", names[1]), 100, 1); err != nil {
				t.Fatal(err)
			}
			return names[1]
		}},
		damage{"older checkpoint cut", func(t *testing.T, disk *vfs.Mem) string {
			names := withSuffix(t, disk, checkpointSuffix)
			cut(t, disk, names[0], 0.9)
			return names[0]
		}},
	)
}

func cut(t *testing.T, disk *vfs.Mem, file string, to float64) {
	t.Helper()
	b := files(t, disk)[file]
	if err := disk.Put(filepath.Join("d", file), b[:int(float64(len(b))*to)]); err != nil {
		t.Fatal(err)
	}
}

func swap(t *testing.T, disk *vfs.Mem, a, b string) {
	t.Helper()
	all := files(t, disk)
	for name, content := range map[string][]byte{a: all[b], b: all[a]} {
		if err := disk.Put(filepath.Join("d", name), content); err != nil {
			t.Fatal(err)
		}
	}
}

// names reports whether a problem is said to be in the file. Those that are missing are named without their generation, and as a range where several are.
func (r *Report) names(file string) bool {
	id, _, _ := strings.Cut(file, "-")
	return slices.ContainsFunc(r.Problems, func(p Problem) bool {
		first, last, several := strings.Cut(p.File, " to ")
		if !several {
			last = first
		}
		return p.File == file || strings.Contains(first, "-*") && first[:len(id)] <= id && id <= last[:len(id)]
	})
}

func TestCheckNamesTheDamagedFileAndRepairLosesOnlyWhatItSays(t *testing.T) {
	t.Parallel()
	l := growLog(t, 3, true)
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			disk := l.disk.Snapshot()
			file := d.do(t, disk)
			r := mustCheck(t, disk)
			if isNoted := len(r.Notes) > 0 && r.Hash == l.hash && strings.Contains(d.name, "0.9999"); !r.names(file) && !isNoted {
				t.Errorf("%s is damaged; problems: %v, notes: %q", file, r.Problems, r.Notes)
			}
			if strings.Contains(d.name, "checkpoints") {
				return // without one nobody knows what was deleted
			}
			l.repair(t, disk)
		})
	}
}

// repair repairs a log that was closed before it was damaged, and sees that all records are as they were but those that are said to be lost.
func (l *grownLog) repair(t *testing.T, disk *vfs.Mem) {
	t.Helper()
	s := openMem(t, disk, func(o *Options) { o.Repair = true })
	for _, lost := range s.Recovery.Lost {
		sh := l.m.shards[lost.Shard]
		for o := lost.From; o < lost.To; o++ {
			if sh == nil || o >= sh.next {
				t.Fatalf("%v is said to be lost, and was never there", lost)
			}
			if _, live := sh.live[o]; !live {
				t.Fatalf("%v is said to be lost; offset %d was not live", lost, o)
			}
		}
	}
	isLost := func(id Shard, o int64) bool {
		return slices.ContainsFunc(s.Recovery.Lost, func(l LostRange) bool { return l.Shard == id && l.From <= o && o < l.To })
	}
	for id, sh := range l.m.shards {
		first, _, err := s.Bounds(id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(s, id, first, 1<<20)
		if err != nil {
			t.Fatalf("%v, after %+v", err, s.Recovery)
		}
		for o, v := range sh.live {
			have, is := got[o]
			switch lost := isLost(id, o); {
			case lost && is:
				t.Errorf("offset %d of shard %d is said to be lost and can be read", o, id)
			case !lost && v != noRecord && (!is || have != v):
				t.Errorf("offset %d of shard %d is not said to be lost, and is %q (%v), want %q: %+v", o, id, have, is, v, s.Recovery)
			}
			delete(got, o)
		}
		if len(got) > 0 {
			t.Errorf("shard %d has %d records more than before", id, len(got))
		}
	}
	mustClose(t, s)
	if r := mustCheck(t, disk); !r.OK() {
		t.Errorf("after the repair (%+v): %v", s.Recovery, r.Problems)
	}
	s = openMem(t, disk)
	defer mustClose(t, s)
	id := newShard(t, s, "a shard from after the repair")
	mustCommit(t, s, AppendBatch(id, batchOf(1, "x")))
}

func TestCheckAndRepairOfALogOfWhichOnlyCheckpointsAreLeft(t *testing.T) {
	t.Parallel()
	l := growLog(t, 4, true)
	for _, name := range withSuffix(t, l.disk, segmentSuffix) {
		if err := l.disk.Remove(filepath.Join("d", name)); err != nil {
			t.Fatal(err)
		}
	}
	r := mustCheck(t, l.disk)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, fmt.Sprintf("it is missing, with %d live records", r.LiveRecords)) {
		t.Errorf("%d live records are gone; problems: %v", r.LiveRecords, r.Problems)
	}
	l.repair(t, l.disk)
}
