package logstore

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"polylog/logstore/record"
	"polylog/logstore/vfs"
)

// batchOf builds a batch with one record for each value, all with the same timestamp.
func batchOf(ts int64, values ...string) record.Batch {
	b := record.NewBuilder()
	for _, v := range values {
		b.Append(ts, nil, []byte(v), nil)
	}
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return batch
}

// openMem opens a store on an in-memory disk with small segments.
func openMem(t testing.TB, m vfs.FS, change ...func(*Options)) *Store {
	t.Helper()
	o := Options{Dir: "d", FS: m, SegmentBytes: minSegmentBytes, CheckpointBytes: 64 << 10, Logf: t.Logf, spareMemory: 10 * time.Millisecond}
	for _, f := range change {
		f(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	return s
}

func mustCommit(t testing.TB, s *Store, ops ...Op) Result {
	t.Helper()
	r, err := s.Commit(context.Background(), Txn{Do: ops})
	if err != nil {
		t.Fatalf("committing: %v", err)
	}
	return r
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
}

func newShard(t testing.TB, s *Store, key string) Shard {
	t.Helper()
	r := mustCommit(t, s, CreateShard(key))
	return r.Shard(0)
}

// values reads all records of a shard from offset from on, as "offset=value".
func values(t testing.TB, s *Store, sh Shard, from int64, max int) []string {
	t.Helper()
	var got []string
	var buf Buffer
	for {
		c, err := s.Read(sh, from, max, &buf)
		if err != nil {
			t.Fatalf("reading shard %d at %d: %v", sh, from, err)
		}
		for _, b := range c.Batches {
			it := b.Iter(nil)
			for it.Next() {
				if it.Offset() >= from {
					got = append(got, fmt.Sprintf("%d=%s", it.Offset(), it.Record().Value))
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		}
		if c.Next == from {
			return got
		}
		from = c.Next
	}
}

func TestRecordsAreReadAsAppendedAndAfterReopening(t *testing.T) {
	t.Parallel()
	for _, fs := range []string{"mem", "os"} {
		t.Run(fs, func(t *testing.T) {
			t.Parallel()
			var disk vfs.FS = vfs.NewMem()
			dir := func(o *Options) {}
			if fs == "os" {
				disk = vfs.OS
				d := t.TempDir()
				dir = func(o *Options) { o.Dir = d }
			}
			s := openMem(t, disk, dir)
			a, b := newShard(t, s, "a"), newShard(t, s, "b")
			var want []string
			for i := range 500 {
				v := fmt.Sprintf("value %d %0200d", i, i)
				r := mustCommit(t, s, AppendBatch(a, batchOf(int64(i), v, v+"x")), AppendBatch(b, batchOf(1, "b")))
				if r.Base(0) != int64(2*i) || r.Base(1) != int64(i) {
					t.Fatalf("bases %d and %d in round %d", r.Base(0), r.Base(1), i)
				}
				want = append(want, fmt.Sprintf("%d=%s", 2*i, v), fmt.Sprintf("%d=%sx", 2*i+1, v))
			}
			mustCommit(t, s, Put("k", []byte("v")))
			check := func(s *Store) {
				t.Helper()
				for _, max := range []int{1, 1000, 1 << 20} {
					if got := values(t, s, a, 0, max); fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("max %d: read %d records, want %d", max, len(got), len(want))
					}
				}
				if v, ok := s.Get("k"); !ok || string(v) != "v" {
					t.Fatalf("key k is %q, %v", v, ok)
				}
			}
			check(s)
			seq, hash := s.Hash()
			mustClose(t, s)
			s = openMem(t, disk, dir)
			defer mustClose(t, s)
			check(s)
			if q, h := s.Hash(); q != seq || h != hash {
				t.Fatalf("after reopening: seq %d hash %x, before: %d %x", q, h, seq, hash)
			}
			if s.Recovery.ReplayedEntries != 0 {
				t.Errorf("a clean shutdown left %d entries to replay", s.Recovery.ReplayedEntries)
			}
		})
	}
}

func TestAClosedStoreSaysSoAndLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	for _, failed := range []bool{false, true} {
		var f faults
		m := vfs.NewMem()
		s := openMem(t, vfs.NewFault(m, f.hook))
		sh := newShard(t, s, "q")
		fill(t, s, sh, 200, 1)
		if failed {
			f.set(func(op vfs.Op) error {
				if op.Kind == vfs.OpSync {
					return syscall.EIO
				}
				return nil
			})
			if _, err := s.Commit(context.Background(), Txn{Do: []Op{Put("k", nil)}}); err == nil {
				t.Error("a failed sync was confirmed")
			}
		}
		s.Close() //nolint:errcheck // fails when the disk did
		s.Close() //nolint:errcheck // twice is no harm
		if n := m.OpenHandles(); n != 0 {
			t.Errorf("failed %v: %d files are open after closing", failed, n)
		}
		if _, err := s.Commit(context.Background(), Txn{Do: []Op{Put("k", nil)}}); err == nil || !failed && !errors.Is(err, ErrClosed) {
			t.Errorf("a commit after closing gave %v", err)
		}
		if _, err := s.Read(sh, 0, 1, nil); err == nil {
			t.Error("reading after closing gave no error")
		}
		if n := m.OpenHandles(); n != 0 {
			t.Errorf("failed %v: reading after closing opened %d files", failed, n)
		}
	}
}
