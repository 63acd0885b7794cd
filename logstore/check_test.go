package logstore

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/seed"
	"polylog/logstore/vfs"
)

// grownLog is a log on a disk, beside the model of what is in it.
type grownLog struct {
	disk *vfs.Mem
	m    *model
	seq  uint64
	hash uint64
}

// growLog runs transactions of all kinds, with large records, keys, deletions and checkpoints, until the log has several segments. closed: the store ends in order, with
// two checkpoints of different entries; else the disk is as it is while the store runs, with transactions behind the newest checkpoint.
func growLog(t testing.TB, seed uint64, closed bool) *grownLog {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	l := &grownLog{disk: vfs.NewMem(), m: newModel()}
	g := &txns{r: r, builder: record.NewBuilder(), big: true}
	s := openMem(t, l.disk, func(o *Options) { o.checkpointsByHand = true })
	for i := range 700 {
		txn := g.txn(l.m)
		txn.Do = slices.DeleteFunc(txn.Do, func(o Op) bool {
			return o.kind == opDropShard || o.kind == opTrimBefore && r.IntN(3) > 0 // what is there to be damaged should be live, most of it
		})
		_, _, refused := l.m.commit(txn)
		if _, err := s.Commit(context.Background(), txn); (err == nil) != (refused == "") {
			t.Fatalf("transaction %d gave %v, want %q", i, err, refused)
		}
		if i == 300 || i == 500 {
			if err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	l.seq, l.hash = s.Hash()
	if closed {
		mustClose(t, s)
		return l
	}
	running := l.disk
	l.disk = running.Snapshot()
	mustClose(t, s)
	return l
}

func mustCheck(t testing.TB, disk vfs.FS) *Report {
	t.Helper()
	r, err := Check(context.Background(), disk, "d", nil)
	if err != nil {
		t.Fatalf("checking: %v", err)
	}
	return r
}

// wantOK fails the test if the check finds damage, or another state than the log has.
func (l *grownLog) wantOK(t testing.TB, r *Report) {
	t.Helper()
	if !r.OK() {
		t.Errorf("%d problems: %v; notes: %q", r.ProblemCount, r.Problems, r.Notes)
	}
	if r.LastSeq != l.seq || r.Hash != l.hash {
		t.Errorf("the report is of entry %d, hash %016x; want %d, %016x", r.LastSeq, r.Hash, l.seq, l.hash)
	}
}

// files returns the contents of all files.
func files(t testing.TB, disk *vfs.Mem) map[string][]byte {
	t.Helper()
	names, err := disk.List("d")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, n := range names {
		if all[n], err = disk.Contents(filepath.Join("d", n)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// withSuffix returns the names with this end, in order.
func withSuffix(t testing.TB, disk *vfs.Mem, suffix string) []string {
	t.Helper()
	var names []string
	for n := range files(t, disk) {
		if strings.HasSuffix(n, suffix) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

func TestCheckOfAGoodLogHasItsFigures(t *testing.T) {
	t.Parallel()
	l := growLog(t, 1, true)
	before := files(t, l.disk)
	var told []int64
	var total int64
	r, err := Check(context.Background(), l.disk, "d", func(done, all int64) { told, total = append(told, done), all })
	if err != nil {
		t.Fatal(err)
	}
	l.wantOK(t, r)
	var size, keyBytes, live int64
	sealed := 0
	for n, b := range before {
		if strings.HasSuffix(n, segmentSuffix) {
			sealed++
			size += int64(len(b))
		}
	}
	for k, v := range l.m.keys {
		keyBytes += int64(len(k) + len(v))
	}
	for _, sh := range l.m.shards {
		live += int64(len(sh.live))
	}
	if sealed < 4 || r.Segments != sealed || r.Sealed != sealed || r.Unsealed+r.Unused+r.Replaced != 0 || r.SegmentBytes != size {
		t.Errorf("%d segments, %d sealed, %d bytes; want %d, all sealed, of %d bytes: %+v", r.Segments, r.Sealed, r.SegmentBytes, sealed, size, r)
	}
	if r.Shards != len(l.m.shards) || r.Keys != len(l.m.keys) || r.KeyBytes != keyBytes || r.LiveRecords != live {
		t.Errorf("%d shards, %d keys of %d bytes, %d live; want %d, %d, %d, %d", r.Shards, r.Keys, r.KeyBytes, r.LiveRecords, len(l.m.shards), len(l.m.keys), keyBytes, live)
	}
	if len(r.Notes) != 0 || len(r.Checkpoints) != keptCheckpoints || !r.Checkpoints[0].Good || r.Checkpoints[1].Seq != l.seq {
		t.Errorf("notes %q, checkpoints %+v", r.Notes, r.Checkpoints)
	}
	if r.DeadRecords == 0 || r.DeadBytes == 0 || r.LiveBytes+r.DeadBytes > size || r.Entries == 0 || r.Batches == 0 || r.Records < r.Batches {
		t.Errorf("dead: %d of %d bytes; live: %d bytes; %d entries, %d batches, %d records", r.DeadRecords, r.DeadBytes, r.LiveBytes, r.Entries, r.Batches, r.Records)
	}
	if !slices.IsSorted(told) || len(told) == 0 || told[len(told)-1] != total {
		t.Errorf("progress went %v of %d", told, total)
	}
	for i, sh := range r.Largest {
		m := l.m.shards[sh.Shard]
		if sh.Live != int64(len(m.live)) || sh.First != m.first() || sh.Next != m.next || i > 0 && sh.Live > r.Largest[i-1].Live {
			t.Errorf("shard %d of the largest is %+v", i, sh)
		}
		if v := ShardValue(sh.Shard); sh.Key == "" || l.m.keys[sh.Key] != string(v) {
			t.Errorf("shard %d is named %q", sh.Shard, sh.Key)
		}
	}
	if want := min(len(l.m.shards), largestListed); len(r.Largest) != want {
		t.Errorf("%d largest shards are listed, want %d", len(r.Largest), want)
	}
	for n, b := range files(t, l.disk) {
		if !bytes.Equal(b, before[n]) {
			t.Errorf("the check changed %s", n)
		}
		delete(before, n)
	}
	if len(before) > 0 {
		t.Errorf("the check removed %d files", len(before))
	}
}

func TestCheckSaysWhyThereIsNothingToCheck(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	if _, err := Check(context.Background(), disk, "d", nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "there is no directory d") {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := disk.List("d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the check made the directory (%v)", err)
	}
	if err := disk.Put("d/readme", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(context.Background(), disk, "d", nil); err == nil || !strings.Contains(err.Error(), "holds no log") {
		t.Errorf("without a log: %v", err)
	}
	if names, err := disk.List("d"); err != nil || len(names) != 1 {
		t.Errorf("the check left %q (%v)", names, err)
	}
	s := openMem(t, disk)
	newShard(t, s, "a")
	if _, err := Check(context.Background(), disk, "d", nil); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("of an open store: %v", err)
	}
	mustClose(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Check(ctx, disk, "d", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if r := mustCheck(t, disk); !r.OK() || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "readme is not a file of the log") {
		t.Errorf("problems %v, notes %q", r.Problems, r.Notes)
	}
	if n := disk.OpenHandles(); n != 0 {
		t.Errorf("%d files or locks are still open", n)
	}
}

func TestCheckOfAKilledStoreIsGoodAndSeesWhatOpenSees(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	killed := growLog(t, 2, false)
	for i := range rounds(60) {
		kind := vfs.CrashKind(i % 4)
		disk := killed.disk.Snapshot().Crash(vfs.CrashPlan{Kind: kind, Rand: r})
		report := mustCheck(t, disk)
		killed.wantOK(t, report)
		if len(report.Notes) == 0 || report.Unsealed == 0 {
			t.Errorf("%v: %d unsealed segments, notes %q", kind, report.Unsealed, report.Notes)
		}
		s := openMem(t, disk)
		if seq, hash := s.Hash(); seq != report.LastSeq || hash != report.Hash {
			t.Errorf("%v: Open comes to entry %d, hash %016x; the check to %d, %016x", kind, seq, hash, report.LastSeq, report.Hash)
		}
		mustClose(t, s)
		if report = mustCheck(t, disk); !report.OK() || len(report.Notes) > 0 {
			t.Errorf("%v: after an orderly end: %v, notes %q", kind, report.Problems, report.Notes)
		}
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
}
