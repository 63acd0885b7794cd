package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/seed"
	"polylog/logstore/vfs"
)

// simStream is a stream whose way in is lossy: messages are lost, come twice, and overtake each other, as they do when the leader changes. What is in it stays as it is.
type simStream struct {
	mu       sync.Mutex
	rand     *rand.Rand
	messages [][]byte
	delayed  [][]byte
	grown    chan struct{}
	bad      bool // now: the way in is bad
}

func (s *simStream) publish(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b = bytes.Clone(b)
	n := 1
	if s.bad {
		switch s.rand.IntN(8) {
		case 0:
			n = 0
		case 1:
			n = 2
		case 2, 3:
			s.delayed = append(s.delayed, b)
			n = 0
		}
	}
	for range n {
		s.messages = append(s.messages, b)
	}
	if len(s.delayed) > 0 && s.rand.IntN(3) == 0 {
		i := s.rand.IntN(len(s.delayed))
		s.messages = append(s.messages, s.delayed[i])
		s.delayed = append(s.delayed[:i], s.delayed[i+1:]...)
	}
	close(s.grown)
	s.grown = make(chan struct{})
	return nil
}

// simOrder is a node's order on a simStream.
type simOrder struct {
	*order
	s *simStream
}

func (r *simOrder) Follow(ctx context.Context, after uint64, deliver func(uint64, []byte) error) error {
	r.begin(after)
	for {
		r.s.mu.Lock()
		all, grown := r.s.messages, r.s.grown
		r.s.mu.Unlock()
		for r.from <= uint64(len(all)) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := r.message(r.from, all[r.from-1], deliver); err != nil {
				return err
			}
			r.from++
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		}
	}
}

// simNode is a node whose disk forgets.
type simNode struct {
	t     *testing.T
	s     *simStream
	name  string
	disk  *vfs.Mem
	o     *Options
	order *simOrder
	store *logstore.Store
	epoch uint64

	events chan event
}

func (n *simNode) start() {
	n.t.Helper()
	n.o = &Options{Name: "sim", Node: n.name, Logf: func(string, ...any) {}}
	n.events = make(chan event, 64)
	r := &order{o: n.o, s: &stream{identity: "sim"}, events: n.events, incarnation: randomNumber(), joined: make(chan struct{})}
	r.out = newOutbox(n.name, r.incarnation, n.s.publish, 5*time.Millisecond, time.Millisecond)
	n.order = &simOrder{r, n.s}
	var err error
	n.store, err = logstore.Open(logstore.Options{
		Dir: "log", FS: n.disk, Sync: logstore.SyncOS, Sequencer: n.order, SegmentBytes: 256 << 10, CheckpointBytes: 32 << 10, CleanRate: -1,
	})
	if err != nil {
		n.t.Fatalf("opening the log of %s: %v", n.name, err)
	}
	var w writer
	if raw, ok := n.store.Get(writerPrefix + n.name); ok {
		if w, err = parseWriter(raw); err != nil {
			n.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if n.epoch, err = n.order.join(ctx, w.epoch, []byte("{}")); err != nil {
		n.t.Fatalf("%s joins: %v", n.name, err)
	}
}

func (n *simNode) stop() {
	n.order.out.end(logstore.ErrClosed)
	n.store.Close() //nolint:errcheck // what is left of it is looked at
	n.order.out.close()
}

// TestEachCommitTakesEffectOnceOnEveryNode has nodes commit through a bad way into the order while they crash, begin anew and declare each other gone. Every commit that was
// answered took effect exactly once, what was refused never did, and all nodes come to the same state.
func TestEachCommitTakesEffectOnceOnEveryNode(t *testing.T) {
	t.Parallel()
	for _, s := range seed.Draw(3) {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			seed.Tell(t, s)
			r := rand.New(rand.NewPCG(s, 4))
			stream := &simStream{rand: rand.New(rand.NewPCG(s, 5)), grown: make(chan struct{}), bad: true}
			nodes := make([]*simNode, 3)
			for i := range nodes {
				nodes[i] = &simNode{t: t, s: stream, name: fmt.Sprintf("n%d", i+1), disk: vfs.NewMem()}
				nodes[i].start()
			}
			answered, unknown := map[string]bool{}, map[string]bool{}
			var mu sync.Mutex
			for round := range 8 {
				var wg sync.WaitGroup
				for _, n := range nodes {
					store := n.store
					for w := range 4 {
						random := rand.New(rand.NewPCG(s, uint64(round)<<8|uint64(w)))
						wg.Go(func() {
							for i := range 20 {
								key := fmt.Sprintf("k/%s/%d/%d/%d", n.name, round, w, i)
								big := make([]byte, 0)
								if random.IntN(40) == 0 { // a proposal in pieces
									big = binary.LittleEndian.AppendUint64(make([]byte, 1<<20-16), random.Uint64())
								}
								ops := []logstore.Op{logstore.Put(key, []byte("1"))}
								if len(big) > 0 {
									ops = append(ops, logstore.Put("big/"+n.name, big), logstore.Put("big2/"+n.name, big))
								}
								_, err := store.Commit(context.Background(), logstore.Txn{If: []logstore.Condition{logstore.KeyAbsent(key)}, Do: ops})
								mu.Lock()
								switch {
								case err == nil:
									answered[key] = true
								case errors.As(err, new(*logstore.UnknownOutcomeError)), errors.As(err, new(*logstore.FailedError)):
									unknown[key] = true
								case errors.Is(err, logstore.ErrConflict):
									t.Errorf("%s took effect twice", key)
								}
								mu.Unlock()
							}
						})
					}
				}
				who := nodes[r.IntN(3)]
				switch r.IntN(4) {
				case 0: // power fails
					disk := who.disk.Crash(vfs.CrashPlan{Kind: vfs.CrashKind(r.IntN(4)), Rand: r})
					who.stop()
					who.disk = disk
					who.start()
				case 1: // in order
					who.stop()
					who.start()
				case 2: // declared gone by another one, though it lives
					by := nodes[r.IntN(3)]
					if by != who && by.order.out.control(kindGone, who.name, who.epoch) == nil {
						<-who.events
						who.store.Interrupt(ErrGone)
						who.stop()
						who.start()
					}
				}
				wg.Wait()
			}
			stream.mu.Lock()
			stream.bad = false
			stream.mu.Unlock()
			for _, n := range nodes { // what is on its way comes to its end
				if _, err := n.store.Commit(context.Background(), logstore.Txn{Do: []logstore.Op{logstore.Put("end/"+n.name, nil)}}); err != nil {
					t.Fatal(err)
				}
			}
			hashes := map[uint64]bool{}
			for _, n := range nodes {
				for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
					_, pending := n.store.Following()
					stream.mu.Lock()
					all := uint64(len(stream.messages))
					stream.mu.Unlock()
					if n.order.last.Load() == all && pending == 0 {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("%s has not caught up: %d of %d", n.name, n.order.last.Load(), all)
					}
				}
				_, h := n.store.Hash()
				hashes[h] = true
				for key := range answered {
					if _, ok := n.store.Get(key); !ok {
						t.Errorf("%s is not there on %s, though its commit was answered", key, n.name)
					}
				}
				n.store.Scan("k/", func(key string, _ []byte) bool {
					if !answered[key] && !unknown[key] {
						t.Errorf("%s is there on %s, though its commit was refused", key, n.name)
					}
					return true
				})
			}
			if len(hashes) != 1 {
				t.Errorf("the nodes have %d different states", len(hashes))
			}
			t.Logf("%d answered, %d of unknown outcome, %d chunks", len(answered), len(unknown), len(stream.messages))
			for _, n := range nodes {
				n.stop()
			}
		})
	}
}
