package logstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/vfs"
)

// TestHundredsWorkSideBySide has committers, readers, deleters, watchers, checkpoints and the cleaner at work at once. What each committer was told must be what
// every reader sees: its values at its offsets, in its order, none twice, none missing that was not deleted.
func TestHundredsWorkSideBySide(t *testing.T) {
	t.Parallel()
	const (
		shards, committers, perCommitter = 10, 200, 40
	)
	s := openMem(t, vfs.NewMem(), func(o *Options) { o.CleanRate = -1; o.Logf = func(string, ...any) {} })
	var ids []Shard
	for i := range shards {
		ids = append(ids, newShard(t, s, fmt.Sprint("shard ", i)))
	}
	var mu sync.Mutex
	told := make([]map[int64]uint64, shards) // offset -> value that a committer was told to be there
	for i := range told {
		told[i] = map[int64]uint64{}
	}
	var committing, others sync.WaitGroup
	stop := make(chan struct{})
	running := func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	for c := range committers {
		committing.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 1))
			b := record.NewBuilder()
			for n := range perCommitter {
				i := r.IntN(shards)
				value := uint64(c)<<32 | uint64(n)
				payload := binary.BigEndian.AppendUint64(nil, value)
				b.Reset()
				b.Append(int64(n), nil, append(payload, make([]byte, r.IntN(600))...), nil)
				batch, err := b.Build()
				if err != nil {
					t.Error(err)
					return
				}
				// The batch's memory is used again for the next: the store must be done with it when Commit returns.
				res, err := s.Commit(context.Background(), Txn{
					Do:   []Op{AppendBatch(ids[i], batch), Put(fmt.Sprint("committer ", c), payload)},
					Wait: Durability(r.IntN(2)),
				})
				if err != nil {
					t.Errorf("committer %d: %v", c, err)
					return
				}
				mu.Lock()
				if _, twice := told[i][res.Base(0)]; twice {
					t.Errorf("offset %d of shard %d was given out twice", res.Base(0), i)
				}
				told[i][res.Base(0)] = value
				mu.Unlock()
			}
		})
	}
	var deletedUpTo [shards]atomic.Int64
	for i := range shards {
		others.Go(func() { // takes every second record away, behind the readers' backs
			for running() {
				_, next, err := s.Bounds(ids[i])
				if err != nil {
					t.Error(err)
					return
				}
				from := deletedUpTo[i].Load()
				if next < from+2 {
					continue
				}
				if _, err := s.Commit(context.Background(), Txn{Do: []Op{Delete(ids[i], Range{from, from + 1})}, Wait: Relaxed}); err != nil {
					t.Error(err)
					return
				}
				deletedUpTo[i].Store(from + 2)
			}
		})
	}
	for range 40 {
		others.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for running() {
				i := r.IntN(shards)
				if err := readSome(s, ids[i], r); err != nil {
					t.Errorf("reading: %v", err)
					return
				}
			}
		})
	}
	others.Go(func() {
		for running() {
			if err := s.Checkpoint(); err != nil {
				t.Error(err)
				return
			}
			s.cleaner.wake()
			s.Hash()
			s.Stats()
		}
	})
	w := s.Watch("committer ")
	others.Go(func() {
		last := uint64(0)
		for {
			e, err := w.Next(context.Background())
			if err != nil {
				if !errors.Is(err, ErrClosed) {
					t.Errorf("watching: %v", err)
				}
				return
			}
			if e.Seq < last {
				t.Errorf("event %d after %d", e.Seq, last)
			}
			last = e.Seq
		}
	})
	committing.Wait()
	close(stop)
	if err := s.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.Stop()
	others.Wait()
	check := func(s *Store) {
		t.Helper()
		for i, id := range ids {
			got, err := readAll(s, id, mustFirst(t, s, id), 1<<16)
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for o, value := range told[i] {
				if o < deletedUpTo[i].Load() && o%2 == 0 {
					continue
				}
				want++
				if v, has := got[o]; !has || binary.BigEndian.Uint64([]byte(v)) != value {
					t.Errorf("offset %d of shard %d: %v, value %.8x, want %x", o, i, has, v, value)
				}
			}
			if len(got) != want {
				t.Errorf("shard %d has %d records, want %d", i, len(got), want)
			}
		}
	}
	check(s)
	mustClose(t, s)
}

// readSome reads a piece at a random place and sees that it is well formed.
func readSome(s *Store, sh Shard, r *rand.Rand) error {
	first, next, err := s.Bounds(sh)
	if err != nil || next == first {
		return err
	}
	from := first + r.Int64N(next-first)
	c, err := s.Read(sh, from, 1+r.IntN(20000), nil)
	var out *OffsetRangeError
	if errors.As(err, &out) && out.First > from {
		return nil // it was deleted meanwhile
	}
	if err != nil {
		return err
	}
	last := int64(-1)
	for _, b := range c.Batches {
		it := b.Iter(nil)
		for it.Next() {
			if it.Offset() <= last || len(it.Record().Value) < 8 {
				return fmt.Errorf("offset %d of %d bytes after %d", it.Offset(), len(it.Record().Value), last)
			}
			last = it.Offset()
		}
		if it.Err() != nil {
			return it.Err()
		}
	}
	if c.Next < from {
		return fmt.Errorf("reading at %d goes on at %d", from, c.Next)
	}
	return nil
}

// A committer that stops waiting finds out what it may think: nothing happened, or it is not known.
func TestCancelledCommitsAreWithdrawnOrUnknown(t *testing.T) {
	t.Parallel()
	s := openMem(t, vfs.NewMem())
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	var wg sync.WaitGroup
	var withdrawn, unknown, done atomic.Int64
	for i := range 300 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			go cancel()
			_, err := s.Commit(ctx, Txn{Do: []Op{AppendBatch(sh, batchOf(1, fmt.Sprint(i)))}})
			var u *UnknownOutcomeError
			switch {
			case err == nil:
				done.Add(1)
			case errors.As(err, &u):
				unknown.Add(1)
			case errors.Is(err, context.Canceled):
				withdrawn.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := s.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, next, err := s.Bounds(sh)
	if err != nil || next < done.Load() || next > done.Load()+unknown.Load() {
		t.Errorf("%d records, with %d done, %d unknown, %d withdrawn (%v)", next, done.Load(), unknown.Load(), withdrawn.Load(), err)
	}
}

func TestWatchersSeeWhatIsThereAndThenEveryChangeInOrder(t *testing.T) {
	t.Parallel()
	s := openMem(t, vfs.NewMem())
	defer mustClose(t, s)
	mustCommit(t, s, Put("a/1", []byte("x")), Put("a/2", nil), Put("b", nil))
	w := s.Watch("a/")
	sh := newShard(t, s, "a/shard")
	mustCommit(t, s, Put("a/1", []byte("y")), Remove("a/2"), Put("c", nil))
	mustCommit(t, s, Remove("a/none"))
	want := []string{"a/1=x", "a/2=", fmt.Sprintf("a/shard=%s", ShardValue(sh)), "a/1=y", "-a/2", "-a/none"}
	for _, want := range want {
		e, err := w.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got := e.Key + "=" + string(e.Value)
		if e.Removed {
			got = "-" + e.Key
		}
		if got != want {
			t.Errorf("event %q, want %q", got, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a cancelled context gave %v", err)
	}
	// A watcher that does not keep up is told so, and holds no more memory.
	for range watchBacklog + 1 {
		if _, err := s.Commit(context.Background(), Txn{Do: []Op{Put("a/1", nil)}, Wait: Relaxed}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Next(context.Background()); !errors.Is(err, ErrWatchLagged) {
		t.Errorf("a slow watcher got %v", err)
	}
	if len(s.watchers) != 0 {
		t.Error("the slow watcher is still fed")
	}
	w = s.Watch("")
	w.Stop()
	for range s.Stats().Keys {
		if _, err := w.Next(context.Background()); err != nil {
			t.Errorf("a key that was there: %v", err)
		}
	}
	if _, err := w.Next(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Stop: %v", err)
	}
}

func TestAppendAllocatesAtMostTwice(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; `make test` runs this without it")
		return
	}
	for _, size := range []int{100, 60000} {
		s := openMem(t, vfs.OS, func(o *Options) { o.Dir, o.SegmentBytes, o.CheckpointBytes, o.Sync = t.TempDir(), 0, 1<<40, SyncOS })
		sh := newShard(t, s, "q")
		batch := batchOf(1, string(make([]byte, size)))
		ops := []Op{AppendBatch(sh, batch)}
		appendOne := func() {
			if _, err := s.Commit(context.Background(), Txn{Do: ops}); err != nil {
				t.Fatal(err)
			}
		}
		for range 200 {
			appendOne() // buffers reach their size
		}
		if n := testing.AllocsPerRun(500, appendOne); n > 2 {
			t.Errorf("appending %d bytes allocates %v times", size, n)
		}
		mustClose(t, s)
	}
}
