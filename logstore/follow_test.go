package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"polylog/logstore/record"
	"polylog/logstore/vfs"
)

// sharedOrder is an order outside the stores: a list that all of them follow. Its numbers have gaps.
type sharedOrder struct {
	mu        sync.Mutex
	proposals [][]byte
	grown     chan struct{} // closed and replaced when the list grows
	stall     error         // what Follow fails with now and then
}

func newSharedOrder() *sharedOrder { return &sharedOrder{grown: make(chan struct{})} }

func (o *sharedOrder) seq(i int) uint64 { return uint64(i+1)*3 + uint64(i%2) }

func (o *sharedOrder) Propose(_ context.Context, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.proposals = append(o.proposals, append([]byte(nil), p...))
	close(o.grown)
	o.grown = make(chan struct{})
	return nil
}

func (o *sharedOrder) Attach(*Store) error { return nil }
func (o *sharedOrder) Available() error    { return nil }

func (o *sharedOrder) Follow(ctx context.Context, after uint64, deliver func(uint64, []byte) error) error {
	for i, n := 0, 0; ; {
		o.mu.Lock()
		list, grown := o.proposals, o.grown
		o.mu.Unlock()
		for ; i < len(list); i++ {
			if o.seq(i) <= after {
				continue
			}
			if n++; o.stall != nil && n > 50 {
				return o.stall
			}
			if err := deliver(o.seq(i), list[i]); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		}
	}
}

// caughtUp waits until the store has applied the whole order.
func (o *sharedOrder) caughtUp(t *testing.T, s *Store) {
	t.Helper()
	o.mu.Lock()
	n := len(o.proposals)
	o.mu.Unlock()
	await(t, func() bool {
		s.follower.mu.Lock()
		defer s.follower.mu.Unlock()
		return s.follower.delivered == o.seq(n-1) && s.follower.ahead == 0
	})
}

// TestStoresThatFollowTheSameOrderAreEqual has two stores, one of which is killed in the middle again and again, follow what both propose.
func TestStoresThatFollowTheSameOrderAreEqual(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 9))
			order := newSharedOrder()
			if seed%2 == 1 {
				order.stall = errors.New("the connection was lost")
			}
			follow := func(o *Options) { o.Sequencer, o.CleanRate, o.CheckpointBytes = order, -1, 16<<10 }
			disk := vfs.NewMem()
			a, b := openMem(t, vfs.NewMem(), follow), openMem(t, disk, follow)
			m := newModel()
			gen := &txns{r: r, builder: record.NewBuilder(), big: true}
			for i := range 600 {
				tx := gen.txn(m)
				bases, shards, refused := m.commit(tx)
				by := a
				if r.IntN(2) == 0 {
					by = b
				}
				res, err := by.Commit(context.Background(), tx)
				if got := kindOf(err); got != refused {
					t.Fatalf("transaction %d gave %v, want %q", i, err, refused)
				}
				if err == nil && len(bases) > 0 && res.Base(len(bases)-1) != bases[len(bases)-1] || err == nil && len(shards) > 0 && res.Shard(0) != shards[0] {
					t.Fatalf("transaction %d gave other offsets or shards than the model", i)
				}
				if r.IntN(120) == 0 {
					disk = disk.Crash(vfs.CrashPlan{Kind: vfs.CrashKind(r.IntN(4)), Rand: r})
					b.Close()
					b = openMem(t, disk, follow)
				}
			}
			order.caughtUp(t, a)
			order.caughtUp(t, b)
			_, ha := a.Hash()
			_, hb := b.Hash()
			if ha != hb {
				t.Errorf("the hashes are %x and %x", ha, hb)
			}
			for _, s := range []*Store{a, b} {
				await(t, func() bool { return m.compare(s, r) == nil || t.Failed() })
				if err := m.compare(s, r); err != nil {
					t.Error(err)
				}
				mustClose(t, s)
			}
		})
	}
}

func TestAProposalThatDoesNotComeBackHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	order := &blackHole{}
	s := openMem(t, vfs.NewMem(), func(o *Options) { o.Sequencer = order })
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	var unknown *UnknownOutcomeError
	if _, err := s.Commit(ctx, Txn{Do: []Op{Put("k", nil)}}); !errors.As(err, &unknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a commit that timed out gave %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Commit(context.Background(), Txn{Do: []Op{Put("k", nil)}})
		done <- err
	}()
	await(t, func() bool { s.follower.mu.Lock(); defer s.follower.mu.Unlock(); return len(s.follower.waiting) == 1 })
	mustClose(t, s)
	if err := <-done; !errors.As(err, &unknown) {
		t.Errorf("a commit that the closing cut off gave %v", err)
	}
	if _, err := s.Commit(context.Background(), Txn{Do: []Op{Put("k", nil)}}); !errors.Is(err, ErrClosed) {
		t.Errorf("a commit after closing gave %v", err)
	}
}

// blackHole takes proposals and delivers nothing.
type blackHole struct{}

func (*blackHole) Attach(*Store) error                   { return nil }
func (*blackHole) Available() error                      { return nil }
func (*blackHole) Propose(context.Context, []byte) error { return nil }
func (*blackHole) Follow(ctx context.Context, _ uint64, _ func(uint64, []byte) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestADamagedProposalHasNoEffectAnywhere(t *testing.T) {
	t.Parallel()
	order := newSharedOrder()
	s := openMem(t, vfs.NewMem(), func(o *Options) { o.Sequencer = order })
	defer mustClose(t, s)
	good := encodeProposal(nil, ProposalID{1, 1}, &Txn{Do: []Op{Put("k", []byte("v"))}})
	for i := 1; i < len(good); i++ {
		order.Propose(context.Background(), good[:i]) //nolint:errcheck // cannot fail
	}
	order.Propose(context.Background(), good) //nolint:errcheck // cannot fail
	order.caughtUp(t, s)
	if v, _ := s.Get("k"); string(v) != "v" {
		t.Errorf("after the good proposal the key is %q", v)
	}
	if seq, _ := s.Hash(); seq != order.seq(len(good)-1) {
		t.Errorf("the last transaction with effect is %d", seq)
	}
}
