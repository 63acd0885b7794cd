package logstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/vfs"
)

// fill appends n records of about a kilobyte each in batches of the given number of records.
func fill(t testing.TB, s *Store, sh Shard, n, perBatch int) {
	t.Helper()
	for i := 0; i < n; i += perBatch {
		var vs []string
		for j := range perBatch {
			vs = append(vs, fmt.Sprintf("%d %s", i+j, strings.Repeat("x", 1000)))
		}
		if _, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(int64(i), vs...))}, Wait: Relaxed}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// diskUse is what the files of the log take.
func diskUse(t testing.TB, fs vfs.FS, dir string) (total int64) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := fs.Stat(dir + "/" + name)
		if err != nil {
			continue // removed meanwhile
		}
		total += info.Allocated
	}
	return total
}

func TestDiskSpaceComesBackWhenEverythingIsDeleted(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	s := openMem(t, m)
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	fill(t, s, sh, 1000, 1)
	if used := diskUse(t, m, "d"); used < 1<<20 {
		t.Fatalf("1000 records of a kilobyte take %d bytes", used)
	}
	mustCommit(t, s, TrimBefore(sh, 1000))
	await(t, func() bool { return diskUse(t, m, "d") < 4*minSegmentBytes+s.reserveBytes() })
	if st := s.Stats(); st.RemovedSegments == 0 || st.ReclaimedBytes < 800<<10 {
		t.Errorf("stats say %d segments removed, %d bytes reclaimed", st.RemovedSegments, st.ReclaimedBytes)
	}
}

func TestWhatIsMostlyDeadIsCopiedAndStaysReadable(t *testing.T) {
	t.Parallel()
	for _, perBatch := range []int{1, 10} {
		t.Run(fmt.Sprintf("%d records a batch", perBatch), func(t *testing.T) {
			t.Parallel()
			m := vfs.NewMem()
			s := openMem(t, m, func(o *Options) { o.CleanRate = -1 })
			a, b := newShard(t, s, "a"), newShard(t, s, "b")
			for range 10 {
				fill(t, s, a, 100, perBatch)
				fill(t, s, b, 20, perBatch)
			}
			var ranges []Range
			for o := int64(0); o < 1000; o++ {
				if o%9 != 0 {
					ranges = append(ranges, Range{o, o + 1})
				}
			}
			before := diskUse(t, m, "d")
			mustCommit(t, s, Delete(a, ranges...))
			await(t, func() bool { return s.Stats().RewrittenSegments > 5 && diskUse(t, m, "d") < before/2 })
			check := func() {
				t.Helper()
				got := values(t, s, a, 0, 1<<20)
				for i, v := range got {
					if want := fmt.Sprintf("%d=%d ", i*9, i*9%100); !strings.HasPrefix(v, want) {
						t.Fatalf("record %d is %.20q, want %q", i, v, want)
					}
				}
				if len(got) != 112 {
					t.Fatalf("%d records are left, want 112", len(got))
				}
				if got := values(t, s, b, 0, 5000); len(got) != 200 {
					t.Fatalf("the untouched shard has %d records, want 200", len(got))
				}
			}
			check()
			mustClose(t, s)
			s = openMem(t, m)
			defer mustClose(t, s)
			check()
			if s.Recovery.ReplayedEntries != 0 {
				t.Errorf("%d entries replayed", s.Recovery.ReplayedEntries)
			}
		})
	}
}

func TestSmallSegmentsAreMerged(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	var sh Shard
	for i := range 12 {
		s := openMem(t, m, func(o *Options) { o.CleanRate = -1 })
		if i == 0 {
			sh = newShard(t, s, "q")
		}
		fill(t, s, sh, 3, 1)
		mustClose(t, s) // each life leaves a small segment
	}
	s := openMem(t, m, func(o *Options) { o.CleanRate = -1 })
	defer mustClose(t, s)
	await(t, func() bool { return s.Stats().Segments < 5 })
	if got := values(t, s, sh, 0, 1<<20); len(got) != 36 {
		t.Errorf("%d records after merging, want 36", len(got))
	}
}

// A record's file may go only when its deletion cannot be taken back: under these policies a power loss takes what was not synced.
func TestCleaningWaitsForDeletionsToBeDurable(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncAlways, SyncInterval, SyncOS} {
		for _, kind := range []vfs.CrashKind{vfs.DropUnsynced, vfs.Reorder, vfs.KeepPrefix} {
			t.Run(fmt.Sprintf("%v, %v", policy, kind), func(t *testing.T) {
				t.Parallel()
				m := vfs.NewMem()
				s := openMem(t, m, func(o *Options) { o.Sync, o.SyncInterval = policy, maxSyncInterval })
				sh := newShard(t, s, "q")
				fill(t, s, sh, 300, 1)
				for range 2 {
					mustCommit(t, s, Put("k", nil))
					if err := s.Checkpoint(); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.Commit(context.Background(), Txn{Do: []Op{TrimBefore(sh, 290)}, Wait: Relaxed}); err != nil {
					t.Fatal(err)
				}
				await(t, func() bool { return s.Stats().RemovedSegments > 0 })
				after := m.Crash(vfs.CrashPlan{Kind: kind, Rand: rand.New(rand.NewPCG(1, 2))})
				s.Close()
				s = openMem(t, after)
				defer mustClose(t, s)
				first, next, err := s.Bounds(sh)
				if err != nil || first != 290 || next != 300 {
					t.Fatalf("bounds after the crash are %d to %d (%v), want 290 to 300", first, next, err)
				}
				if got := values(t, s, sh, first, 1<<20); len(got) != 10 {
					t.Errorf("%d records, want 10", len(got))
				}
			})
		}
	}
}

func TestCleaningKeepsToItsRate(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	s := openMem(t, m, func(o *Options) { o.CleanRate = 1 })
	sh := newShard(t, s, "q")
	fill(t, s, sh, 400, 1)
	var ranges []Range
	for o := int64(0); o < 400; o += 4 {
		ranges = append(ranges, Range{o, o + 3})
	}
	mustCommit(t, s, Delete(sh, ranges...))
	mustCommit(t, s, Put("k", nil))
	// At a byte a second the first piece would take days: closing must not wait for it, and nothing may be lost.
	await(t, func() bool { return s.Stats().CleaningRounds > 0 })
	mustClose(t, s)
	s = openMem(t, m, func(o *Options) { o.CleanRate = 1 })
	defer mustClose(t, s)
	if got := values(t, s, sh, mustFirst(t, s, sh), 1<<20); len(got) != 100 {
		t.Errorf("%d records, want 100", len(got))
	}
}

func TestRetentionTrimsByAgeAndSize(t *testing.T) {
	t.Parallel()
	s := openMem(t, vfs.NewMem())
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	fill(t, s, sh, 200, 2) // timestamps are the offsets of the batches' first records
	ctx := context.Background()
	first, err := s.Retain(ctx, sh, Retention{Before: 51})
	if err != nil || first != 52 {
		t.Fatalf("after retention by age the first offset is %d (%v), want 52", first, err)
	}
	size := 0
	c, err := s.Read(sh, 198, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	size = c.Batches[0].Len()
	first, err = s.Retain(ctx, sh, Retention{MaxBytes: int64(10*size + 20)})
	if err != nil || first != 180 {
		t.Fatalf("after retention by size the first offset is %d (%v), want 180", first, err)
	}
	if first, err = s.Retain(ctx, sh, Retention{Before: 1 << 40}); err != nil || first != 200 {
		t.Fatalf("after everything is too old the first offset is %d (%v), want 200", first, err)
	}
	if _, err := s.Retain(ctx, 99, Retention{Before: 1}); err == nil {
		t.Error("retention of an unknown shard gave no error")
	}
}

func TestCompactionKeepsTheNewestOfEachKey(t *testing.T) {
	t.Parallel()
	for _, maxKeys := range []int{0, 7} {
		s := openMem(t, vfs.NewMem(), func(o *Options) { o.CleanRate = -1 })
		sh := newShard(t, s, "q")
		r := rand.New(rand.NewPCG(5, 6))
		b := record.NewBuilder()
		newest, all := map[string]int64{}, map[int64]string{}
		for next := int64(0); next < 2000; {
			b.Reset()
			n := 1 + r.IntN(5)
			for i := range n {
				key := fmt.Sprintf("key %d", r.IntN(50))
				switch o := next + int64(i); {
				case r.IntN(20) == 0:
					b.Append(o, nil, []byte("no key"), nil)
					all[o] = ""
				case r.IntN(20) == 0:
					b.Append(o, []byte(key), nil, nil) // a tombstone
					newest[key], all[o] = o, key
				default:
					b.Append(o, []byte(key), []byte("value"), nil)
					newest[key], all[o] = o, key
				}
			}
			batch, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, s, AppendBatch(sh, copyBatch(batch)))
			next += int64(n)
		}
		deleted, err := s.CompactKeys(context.Background(), sh, Compaction{MaxKeys: maxKeys})
		if err != nil {
			t.Fatal(err)
		}
		want := map[int64]bool{}
		for o, key := range all {
			if key == "" || newest[key] == o {
				want[o] = true
			}
		}
		got, err := readAll(s, sh, mustFirst(t, s, sh), 3000)
		if err != nil {
			t.Fatal(err)
		}
		for o := range want {
			if _, has := got[o]; !has {
				t.Errorf("offset %d of key %q is gone", o, all[o])
			}
		}
		if len(got) != len(want) || deleted != int64(len(all)-len(want)) {
			t.Errorf("%d records are left (%d deleted), want %d of %d", len(got), deleted, len(want), len(all))
		}
		// Old tombstones go too.
		if _, err = s.CompactKeys(context.Background(), sh, Compaction{TombstonesBefore: 1 << 40}); err != nil {
			t.Fatal(err)
		}
		got, err = readAll(s, sh, mustFirst(t, s, sh), 3000)
		if err != nil {
			t.Fatal(err)
		}
		for o := range got {
			if c, _ := s.Read(sh, o, 1, nil); all[o] != "" && tombstoneAt(c, o) {
				t.Errorf("the tombstone at %d is still there", o)
			}
		}
		mustClose(t, s)
	}
}

func tombstoneAt(c Chunk, o int64) bool {
	for _, b := range c.Batches {
		it := b.Iter(nil)
		for it.Next() {
			if it.Offset() == o {
				return it.Record().Value == nil
			}
		}
	}
	return false
}

func mustFirst(t testing.TB, s *Store, sh Shard) int64 {
	t.Helper()
	first, _, err := s.Bounds(sh)
	if err != nil {
		t.Fatal(err)
	}
	return first
}
