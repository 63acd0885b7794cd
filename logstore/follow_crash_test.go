package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/logstore/record"
	"polylog/logstore/seed"
	"polylog/logstore/vfs"
)

// sparseOrder is an order outside the store with numbers as those of a stream of messages with several transactions in each: large, and with gaps. It forgets its
// beginning when told to.
type sparseOrder struct {
	mu        sync.Mutex
	r         *rand.Rand
	last      uint64
	numbers   []uint64
	proposals [][]byte
	forgotten uint64        // the last number that is not there any more
	grown     chan struct{} // closed and replaced when the list grows
}

func newSparseOrder(r *rand.Rand) *sparseOrder {
	return &sparseOrder{r: r, last: r.Uint64N(1 << 50), grown: make(chan struct{})}
}

func (o *sparseOrder) Attach(*Store) error { return nil }
func (o *sparseOrder) Available() error    { return nil }

func (o *sparseOrder) Propose(_ context.Context, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch n := o.r.IntN(100); {
	case n < 1: // many transactions that had no effect
		o.last += 1<<31 + o.r.Uint64N(1<<34)
	case n < 60:
		o.last++
	default:
		o.last = (o.last>>12 + 1 + o.r.Uint64N(50)) << 12
	}
	o.numbers, o.proposals = append(o.numbers, o.last), append(o.proposals, append([]byte(nil), p...))
	close(o.grown)
	o.grown = make(chan struct{})
	return nil
}

func (o *sparseOrder) Follow(ctx context.Context, after uint64, deliver func(uint64, []byte) error) error {
	for i := 0; ; {
		o.mu.Lock()
		numbers, proposals, grown, forgotten := o.numbers, o.proposals, o.grown, o.forgotten
		o.mu.Unlock()
		if i == 0 && after < forgotten {
			return fmt.Errorf("the order begins behind %d, the store wants what follows %d", forgotten, after)
		}
		for ; i < len(numbers); i++ {
			if numbers[i] > after {
				if err := deliver(numbers[i], proposals[i]); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		}
	}
}

// forget drops what a store says it has for good.
func (o *sparseOrder) forget(upTo uint64) {
	o.mu.Lock()
	o.forgotten = max(o.forgotten, upTo)
	o.mu.Unlock()
}

func (o *sparseOrder) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.numbers)
}

// TestAFollowerHasWhatItSaysItHas runs a store that leaves the time of writing to the system, with crashes at random operations of the disk in the middle of rolling,
// checkpoints and cleaning. After each it has all transactions up to the number that DurableSeq had said, takes no torn tail for damage, and comes to the state
// of the order again.
func TestAFollowerHasWhatItSaysItHas(t *testing.T) {
	t.Parallel()
	n := 16
	if testing.Short() {
		n = 4
	}
	for _, of := range seed.Draw(n) {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			t.Parallel()
			seed.Tell(t, of)
			r := rand.New(rand.NewPCG(of, 13))
			order := newSparseOrder(r)
			m := newModel()
			gen := &txns{r: r, builder: record.NewBuilder(), big: true}
			disk := vfs.NewMem()
			ahead := []int{1, 4 << 10, aheadBytes}[r.IntN(3)]
			options := func(fsys vfs.FS) Options {
				return Options{
					Dir: "d", FS: fsys, SegmentBytes: minSegmentBytes, CheckpointBytes: 16 << 10, CleanRate: -1, OpenFiles: 3, Sync: SyncOS, Logf: t.Logf,
					aheadBytes: ahead, spareMemory: time.Minute,
				}
			}
			for life := range 8 {
				var ops atomic.Int64
				crashAt := int64(20 + r.IntN(300))
				fault := vfs.NewFault(disk, func(op vfs.Op) error {
					if changes(op) && ops.Add(1) >= crashAt {
						return vfs.ErrCrashed
					}
					return nil
				})
				o := options(fault)
				o.Sequencer = order
				s, err := Open(o)
				if err != nil && ops.Load() < crashAt {
					t.Fatalf("life %d: opening: %v", life, err)
				}
				var durable uint64
				if err == nil {
					lived(t, r, s, order, gen, m, func() bool { return ops.Load() >= crashAt })
					durable = s.DurableSeq()
				}
				disk = disk.Crash(vfs.CrashPlan{Kind: vfs.CrashKind(r.IntN(4)), Rand: r})
				if err == nil {
					s.Close()
				}
				// What is there without the order.
				copied := disk.Snapshot()
				if holdsLog(copied, "d") == nil {
					if report, err := Check(context.Background(), copied, "d", nil); err != nil || !report.OK() {
						t.Fatalf("life %d: the check found %v (%v)", life, report.Problems, err)
					}
				}
				alone, err := Open(options(copied))
				if err != nil {
					t.Fatalf("life %d: opening after the crash: %v", life, err)
				}
				if seq, _ := alone.Hash(); seq < durable {
					t.Fatalf("life %d: the store has transactions up to %d, and had said that up to %d they are durable", life, seq, durable)
				}
				mustClose(t, alone)
				order.forget(durable)
			}
			o := options(disk)
			o.Sequencer = order
			s, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer mustClose(t, s)
			fresh := openMem(t, vfs.NewMem(), func(o *Options) { o.Sync = SyncOS })
			defer mustClose(t, fresh)
			for _, p := range order.proposals {
				_, tx, err := decodeProposal(p)
				if err != nil {
					t.Fatal(err)
				}
				fresh.Commit(context.Background(), tx) //nolint:errcheck // some are refused
			}
			await(t, func() bool {
				s.follower.mu.Lock()
				defer s.follower.mu.Unlock()
				return len(order.numbers) == 0 || s.follower.delivered == order.last && s.follower.ahead == 0
			})
			_, got := s.Hash()
			if _, want := fresh.Hash(); got != want {
				t.Errorf("after %d transactions the hash is %x, want %x", order.len(), got, want)
			}
			if err := m.compare(s, r); err != nil {
				t.Error(err)
			}
		})
	}
}

// lived runs transactions on a store until it dies, or long enough.
func lived(t *testing.T, r *rand.Rand, s *Store, order *sparseOrder, gen *txns, m *model, dead func() bool) {
	t.Helper()
	for range 300 {
		switch n := r.IntN(100); {
		case n < 4:
			s.Sync(context.Background()) //nolint:errcheck // it may be dead
		case n < 6:
			s.Checkpoint() //nolint:errcheck
		case n < 8:
			s.cleaner.wake()
		}
		tx := gen.txn(m)
		if r.IntN(30) == 0 { // so that whole segments die
			for id, sh := range m.shards {
				tx = Txn{Do: []Op{TrimBefore(id, sh.next)}}
			}
		}
		if len(tx.Do) == 0 {
			continue
		}
		was := m.clone()
		_, _, refused := m.commit(tx)
		before := order.len()
		_, err := s.Commit(context.Background(), tx)
		var failed *FailedError
		var unknown *UnknownOutcomeError
		switch {
		case errors.As(err, &failed) || errors.As(err, &unknown):
			if order.len() == before {
				*m = *was // it did not come into the order
			}
			if !dead() {
				t.Errorf("the commit gave %v", err)
			}
			return
		case kindOf(err) != refused:
			t.Errorf("the commit gave %v, want %q", err, refused)
			return
		}
	}
}

// TestATornTailBehindALargeGapIsNoDamage writes transactions whose numbers are further from what is durable than an entry can tell.
func TestATornTailBehindALargeGapIsNoDamage(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 100 {
		disk := vfs.NewMem()
		order := newSparseOrder(r)
		var f faults
		s := openMem(t, vfs.NewFault(disk, f.hook), func(o *Options) { o.Sequencer, o.checkpointsByHand = order, true })
		sh := newShard(t, s, "q")
		if err := s.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
		had := s.DurableSeq()
		f.set(func(op vfs.Op) error { // the power fails before the next sync
			if op.Kind == vfs.OpSync {
				return vfs.ErrCrashed
			}
			return nil
		})
		order.mu.Lock()
		order.last += 1<<32 + r.Uint64N(1<<40)
		order.mu.Unlock()
		for i := range 30 {
			tx := Txn{Do: []Op{AppendBatch(sh, batchOf(int64(i), "some", "records"))}, Wait: Relaxed}
			if err := order.Propose(context.Background(), EncodeProposal(&tx)); err != nil {
				t.Fatal(err)
			}
		}
		await(t, func() bool { return s.Failure() != nil || s.Stats().Entries == 31 })
		after := disk.Crash(vfs.CrashPlan{Kind: vfs.Reorder, Rand: r})
		s.Close()
		if report, err := Check(context.Background(), after, "d", nil); err != nil || !report.OK() {
			t.Fatalf("the check found %v (%v)", report.Problems, err)
		}
		s = openMem(t, after)
		if seq, _ := s.Hash(); seq < had {
			t.Errorf("the store is at %d, and %d was durable", seq, had)
		}
		mustClose(t, s)
	}
}

// TestALogThatCannotTellWhatIsDurableSyncs sees that only the entries of one group or so are ever too far from what is durable.
func TestALogThatCannotTellWhatIsDurableSyncs(t *testing.T) {
	t.Parallel()
	order := newSparseOrder(seed.Rand(t))
	s := openMem(t, vfs.NewMem(), func(o *Options) { o.Sequencer, o.checkpointsByHand = order, true })
	defer mustClose(t, s)
	mustCommit(t, s, Put("k", nil))
	order.mu.Lock()
	order.last += 1 << 33
	order.mu.Unlock()
	far := mustCommit(t, s, Put("k", nil)).Seq
	await(t, func() bool { return s.DurableSeq() >= far })
}
