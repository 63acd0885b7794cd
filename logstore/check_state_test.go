package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// Damage that no checksum shows: every part is whole, and they do not fit together.

func TestCheckHoldsTheNewestCheckpointToTheLog(t *testing.T) {
	t.Parallel()
	l := growLog(t, 11, true)
	for name, change := range map[string]func(st *state){
		"a key more":   func(st *state) { st.kv.put("unheard of", nil) },
		"an offset":    func(st *state) { st.shards.own(1).next++ },
		"other bytes":  func(st *state) { st.shards.own(1).digest++ },
		"a shard more": func(st *state) { st.createShard(st.nextShard, "unheard of") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := l.disk.Snapshot()
			ids := checkpointIDs(withSuffix(t, disk, checkpointSuffix))
			newest := ids[len(ids)-1]
			st, _, err := openCheckpoint(disk, "d", newest)
			if err != nil {
				t.Fatal(err)
			}
			change(st)
			putCheckpoint(t, disk, newest, st)
			r := mustCheck(t, disk)
			file := checkpointName(newest)
			if r.OK() || r.Problems[0].File != file || !strings.Contains(r.Problems[0].What, "the log behind entry") {
				t.Errorf("problems are %v", r.Problems)
			}
			// Where there is another of the same entry, there is no log between them.
			twin := checkpointID{newest.seq, newest.copy + 1}
			putCheckpoint(t, disk, twin, mustState(t, l.disk, newest))
			r = mustCheck(t, disk)
			if r.OK() || r.Problems[0].File != checkpointName(twin) || !strings.Contains(r.Problems[0].What, "both are of entry") {
				t.Errorf("problems are %v", r.Problems)
			}
		})
	}
}

func mustState(t *testing.T, disk *vfs.Mem, id checkpointID) *state {
	t.Helper()
	st, _, err := openCheckpoint(disk, "d", id)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func putCheckpoint(t *testing.T, disk *vfs.Mem, id checkpointID, st *state) {
	t.Helper()
	path := filepath.Join("d", checkpointName(id))
	if err := disk.Put(path, nil); err != nil {
		t.Fatal(err)
	}
	f, err := disk.OpenWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := writeCheckpoint(f, st); err != nil {
		t.Fatal(err)
	}
}

// simpleLog is a log of n batches of three records in one shard, in several segments, closed or killed.
func simpleLog(t *testing.T, n int, closed bool) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	s := openMem(t, disk, func(o *Options) { o.checkpointsByHand = true })
	id := newShard(t, s, "the shard")
	for i := range n {
		mustCommit(t, s, AppendBatch(id, batchOf(int64(i), fmt.Sprintf("%01000d", i), "x", "y")))
	}
	running := disk
	disk = disk.Snapshot()
	mustClose(t, s)
	if closed {
		return running
	}
	return disk
}

// rewriteSegment gives a segment file the header and entries that change makes of its own, and a new index. It returns the name that it has then.
func rewriteSegment(t *testing.T, disk *vfs.Mem, name string, change func(h *segment.Header, entries []byte) []byte) string {
	t.Helper()
	b := files(t, disk)[name]
	h, err := segment.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	x, err := segment.OpenSealed(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	entries := change(&h, bytes.Clone(b[segment.HeaderSize:x.DataEnd]))
	b = append(h.AppendTo(nil), entries...)
	var locs []segment.Loc
	first, last := uint64(0), h.LastSeq
	sc := entriesOf(b)
	for {
		e, err := sc.Next()
		if err != nil {
			break
		}
		ops, err := decodeEntry(&e, nil)
		if err != nil {
			t.Fatal(err)
		}
		locs = appendLocs(locs, ops)
		if first == 0 {
			first = e.Seq
		}
		last = max(last, e.Seq)
	}
	idx, _ := segment.BuildIndex(locs, uint32(len(b)), first, last)
	name = segmentName(h.ID, h.Generation)
	if err := disk.Put(filepath.Join("d", name), append(b, idx...)); err != nil {
		t.Fatal(err)
	}
	return name
}

func same(_ *segment.Header, entries []byte) []byte { return entries }

func TestCheckHoldsFilesToEachOther(t *testing.T) {
	t.Parallel()
	closed := simpleLog(t, 300, true)
	names := withSuffix(t, closed, segmentSuffix)
	if len(names) < 5 {
		t.Fatalf("%d segments", len(names))
	}
	secondEntry := func(entries []byte) int { return int(binary.LittleEndian.Uint32(entries[4:])) }
	for _, c := range []struct {
		name string
		do   func(t *testing.T, disk *vfs.Mem) (file string)
		what string
	}{
		{"nothing", func(t *testing.T, disk *vfs.Mem) string { rewriteSegment(t, disk, names[1], same); return "" }, ""},
		{"an older entry before", func(t *testing.T, disk *vfs.Mem) string {
			return rewriteSegment(t, disk, names[2], func(h *segment.Header, entries []byte) []byte { h.PrevSeq -= 3; return entries })
		}, "it follows entry"},
		{"a later entry before", func(t *testing.T, disk *vfs.Mem) string {
			return rewriteSegment(t, disk, names[2], func(h *segment.Header, entries []byte) []byte { h.PrevSeq += 1000; return entries })
		}, "the end of a segment is missing"},
		{"entries out of order", func(t *testing.T, disk *vfs.Mem) string {
			return rewriteSegment(t, disk, names[2], func(h *segment.Header, entries []byte) []byte {
				n := secondEntry(entries)
				return append(append(bytes.Clone(entries[n:2*n]), entries[:n]...), entries[2*n:]...)
			})
		}, "follows entry"},
		{"a batch is nowhere", func(t *testing.T, disk *vfs.Mem) string {
			return rewriteSegment(t, disk, names[0], func(h *segment.Header, entries []byte) []byte {
				n := secondEntry(entries) // of the shard's creation
				return append(entries[:n:n], entries[n+secondEntry(entries[n:]):]...)
			})
		}, "missing in it: 3 live records (shard 1, offsets 0 to 2)"},
		{"batches are in two files", func(t *testing.T, disk *vfs.Mem) string {
			rewriteSegment(t, disk, names[1], func(h *segment.Header, entries []byte) []byte {
				x := mustSeq(t, disk, names[2])
				h.ID, h.CoversTo, h.Generation, h.PrevSeq, h.LastSeq = 1000, 1000, 1, x, x
				return entries
			})
			return ""
		}, "in more than one batch: "},
		{"cleaned beyond the checkpoint", func(t *testing.T, disk *vfs.Mem) string {
			last := names[len(names)-1]
			file := rewriteSegment(t, disk, last, func(h *segment.Header, entries []byte) []byte {
				h.Generation, h.LastSeq = 1, 1<<40
				return entries
			})
			if err := disk.Remove(filepath.Join("d", last)); err != nil {
				t.Fatal(err)
			}
			return file
		}, "a checkpoint is lost"},
		{"a kept batch in a file never cleaned", func(t *testing.T, disk *vfs.Mem) string {
			return rewriteSegment(t, disk, names[1], func(h *segment.Header, entries []byte) []byte {
				e, err := segment.ParseEntry(entries, h.Salt)
				if err != nil {
					t.Fatal(err)
				}
				segment.FinishEntry(entries[:e.Size()], h.Salt, e.Seq, e.Unsynced, segment.KindKept, len(e.Meta))
				return entries
			})
		}, "never cleaned"},
		{"a record that cannot be read", func(t *testing.T, disk *vfs.Mem) string {
			return rewriteSegment(t, disk, names[1], func(h *segment.Header, entries []byte) []byte {
				e, err := segment.ParseEntry(entries, h.Salt)
				if err != nil {
					t.Fatal(err)
				}
				e.Body[record.HeaderSize] = 1 // the length of the first record
				binary.BigEndian.PutUint32(e.Body[17:], segment.Checksum(e.Body[21:]))
				b, _, err := record.Parse(e.Body)
				if err != nil {
					t.Fatal(err)
				}
				copy(e.Meta, encodeAppended(nil, 1, b.BaseOffset(), b.Len(), b.CRC()))
				segment.FinishEntry(entries[:e.Size()], h.Salt, e.Seq, e.Unsynced, segment.KindTxn, len(e.Meta))
				return entries
			})
		}, "its records cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			disk := closed.Snapshot()
			file := c.do(t, disk)
			r := mustCheck(t, disk)
			if c.what == "" {
				if !r.OK() {
					t.Errorf("problems are %v", r.Problems)
				}
				return
			}
			if !slices.ContainsFunc(r.Problems, func(p Problem) bool {
				return (file == "" || p.File == file) && strings.Contains(p.What, c.what)
			}) {
				t.Errorf("problems are %v, want in %q: %s", r.Problems, file, c.what)
			}
		})
	}
}

func mustSeq(t *testing.T, disk *vfs.Mem, name string) uint64 {
	t.Helper()
	b := files(t, disk)[name]
	x, err := segment.OpenSealed(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return x.LastSeq
}

func TestCheckNamesTheFileThatIsMissingBehindTheCheckpoint(t *testing.T) {
	t.Parallel()
	disk := simpleLog(t, 300, false)
	names := withSuffix(t, disk, segmentSuffix)
	if err := disk.Remove(filepath.Join("d", names[2])); err != nil {
		t.Fatal(err)
	}
	r := mustCheck(t, disk)
	if len(r.Problems) != 2 || r.Problems[0].File != names[2] || !strings.Contains(r.Problems[0].What, "it is missing: "+names[3]) ||
		!strings.Contains(r.Problems[1].What, "it is missing, with") {
		t.Errorf("%s is missing; problems: %v", names[2], r.Problems)
	}
	s := openMem(t, disk, func(o *Options) { o.Repair = true })
	if len(s.Recovery.Damage) != 1 || len(s.Recovery.Lost) != 1 {
		t.Errorf("the repair says %+v", s.Recovery)
	}
	mustClose(t, s)
	if r = mustCheck(t, disk); !r.OK() {
		t.Errorf("after the repair: %v", r.Problems)
	}
}

func TestCheckOfFilesThatOthersReplaceOrNobodyUsed(t *testing.T) {
	t.Parallel()
	disk := simpleLog(t, 300, true)
	names := withSuffix(t, disk, segmentSuffix)
	rewriteSegment(t, disk, names[1], func(h *segment.Header, entries []byte) []byte {
		h.Generation, h.LastSeq = 1, mustSeq(t, disk, names[1])
		return entries
	})
	for name, b := range map[string][]byte{segmentName(900, 0): make([]byte, 4096), segmentName(901, 0): nil, segmentName(902, 0) + tmpSuffix: nil} {
		if err := disk.Put(filepath.Join("d", name), b); err != nil {
			t.Fatal(err)
		}
	}
	r := mustCheck(t, disk)
	if !r.OK() || r.Replaced != 1 || r.Unused != 2 || len(r.Notes) != 4 || r.Segments != len(names) {
		t.Errorf("%d replaced, %d unused, %d segments of %d, problems %v, notes %q", r.Replaced, r.Unused, r.Segments, len(names), r.Problems, r.Notes)
	}
}

func TestCheckGoesOnBehindWhatTheDiskDoesNotGive(t *testing.T) {
	t.Parallel()
	disk := simpleLog(t, 300, true)
	names := withSuffix(t, disk, segmentSuffix)
	bad := errors.New("a sector is bad")
	for from, files := range map[int64][]string{0: {names[1]}, 10000: {names[1], names[3]}} {
		fault := vfs.NewFault(disk, func(op vfs.Op) error {
			if op.Kind == vfs.OpRead && slices.Contains(files, filepath.Base(op.Name)) && op.Offset+op.Size > from && op.Offset < from+20000 {
				return bad
			}
			return nil
		})
		r, err := Check(context.Background(), fault, "d", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.File == f && strings.Contains(p.What, bad.Error()) }) {
				t.Errorf("%s cannot be read; problems: %v", f, r.Problems)
			}
		}
	}
}

func TestCheckLeavesANewerFormatAlone(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{segmentSuffix, checkpointSuffix} {
		disk := simpleLog(t, 3, true)
		name := withSuffix(t, disk, suffix)[0]
		b := files(t, disk)[name]
		b[8]++ // the version, in both
		binary.LittleEndian.PutUint32(b[60:], segment.Checksum(b[:60]))
		if err := disk.Put(filepath.Join("d", name), b); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(context.Background(), disk, "d", nil); !errors.Is(err, segment.ErrVersion) || !strings.Contains(err.Error(), name) {
			t.Errorf("a newer %s gave %v", name, err)
		}
	}
}

func TestCheckOfALogWithAnOrderFromOutside(t *testing.T) {
	t.Parallel()
	order, disk := newSharedOrder(), vfs.NewMem()
	s := openMem(t, disk, func(o *Options) { o.Sequencer, o.CheckpointBytes = order, 1<<30 })
	id := newShard(t, s, "the shard")
	for i := range 300 {
		mustCommit(t, s, AppendBatch(id, batchOf(1, fmt.Sprintf("%01000d", i))))
		if i == 100 || i == 200 {
			if err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	seq, hash := s.Hash()
	running := disk.Snapshot()
	mustClose(t, s)
	for _, d := range []*vfs.Mem{running, disk} {
		if r := mustCheck(t, d); !r.OK() || r.LastSeq != seq || r.Hash != hash {
			t.Errorf("entry %d, hash %016x; want %d, %016x; problems %v", r.LastSeq, r.Hash, seq, hash, r.Problems)
		}
	}
}

func TestAReportListsABoundedNumberOfProblems(t *testing.T) {
	t.Parallel()
	r := newReport()
	for i := range 3 * maxProblems {
		r.problem("f", int64(i), "bad")
		r.note("odd")
	}
	if len(r.Problems) != maxProblems || r.ProblemCount != 3*maxProblems || len(r.Notes) != maxProblems || r.OK() {
		t.Errorf("%d of %d problems, %d notes, OK %v", len(r.Problems), r.ProblemCount, len(r.Notes), r.OK())
	}
}
