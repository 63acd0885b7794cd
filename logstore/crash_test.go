package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"polylog/logstore/record"
	"polylog/logstore/seed"
	"polylog/logstore/vfs"
)

// TestEveryCrashLeavesAWholePrefix runs random transactions against a naive model, with crashes at random operations of the disk. After each,
// every durable transaction is there whole, none is there by half, and the state is that of the transactions up to some point. POLYLOG_SEED repeats one
// history, POLYLOG_SEEDS runs that many.
func TestEveryCrashLeavesAWholePrefix(t *testing.T) {
	t.Parallel()
	n := 24
	if v, err := strconv.Atoi(os.Getenv("POLYLOG_SEEDS")); err == nil {
		n = v
	}
	if testing.Short() {
		n = 5
	}
	for _, of := range seed.Draw(n) {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			t.Parallel()
			seed.Tell(t, of)
			h := &history{t: t, r: rand.New(rand.NewPCG(of, 1)), disk: vfs.NewMem(), m: newModel(), hashes: map[uint64]uint64{}}
			h.gen = &txns{r: h.r, builder: record.NewBuilder(), big: h.r.IntN(2) == 0}
			h.policy = []SyncPolicy{SyncAlways, SyncAlways, SyncInterval, SyncOS}[h.r.IntN(4)]
			h.aheadBytes = []int{1, 4 << 10, aheadBytes}[h.r.IntN(3)]
			h.spareMemory = []time.Duration{time.Nanosecond, time.Minute}[h.r.IntN(2)]
			for range 6 {
				h.life()
				if t.Failed() {
					return
				}
			}
		})
	}
}

// history is a store that lives and crashes, beside its model.
type history struct {
	t      *testing.T
	r      *rand.Rand
	gen    *txns
	disk   *vfs.Mem
	policy SyncPolicy
	s      *Store

	aheadBytes  int
	spareMemory time.Duration

	m      *model
	past   []Txn // that took effect, in order: number i has seq i+1
	hashes map[uint64]uint64
	// confirmed is the last transaction that was answered as durable.
	confirmed uint64
}

// life opens the store, runs transactions until a crash or an orderly end, and sees what the next life finds.
func (h *history) life() {
	h.checkOffline()
	crashAt := int64(1 + h.r.IntN(400))
	if h.r.IntN(4) == 0 {
		crashAt = 1 << 40
	}
	var ops atomic.Int64
	disk := h.disk
	fault := vfs.NewFault(disk, func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpSyncDir, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpCreate, vfs.OpRemove:
			if ops.Add(1) >= crashAt {
				return vfs.ErrCrashed
			}
		}
		return nil
	})
	s, err := Open(Options{
		Dir: "d", FS: fault, SegmentBytes: minSegmentBytes, CheckpointBytes: 16 << 10, CleanRate: -1, OpenFiles: 3,
		Sync: h.policy, SyncInterval: time.Millisecond, Logf: h.t.Logf,
		aheadBytes: h.aheadBytes, spareMemory: h.spareMemory,
	})
	if err != nil {
		if ops.Load() < crashAt {
			h.t.Fatalf("opening: %v", err)
		}
		h.crash()
		return
	}
	h.s = s
	h.recovered()
	steps := 20 + h.r.IntN(400)
	for i := 0; i < steps && !h.t.Failed(); i++ {
		if !h.step() {
			break
		}
	}
	if h.t.Failed() {
		s.Close()
		return
	}
	crashed := ops.Load() >= crashAt || s.Failure() != nil
	if !crashed && h.r.IntN(2) == 0 {
		if err := s.Close(); err == nil {
			h.confirmed = uint64(len(h.past))
			h.expectCleanShutdown()
			return
		} else if ops.Load() < crashAt {
			h.t.Fatalf("closing: %v", err)
		}
	}
	// The crash comes in the middle of whatever the background does.
	h.crash()
	s.Close() // of a dead disk: ends the goroutines
}

// checkOffline sees that the check finds nothing wrong in what a crash or an orderly end has left.
func (h *history) checkOffline() {
	if holdsLog(h.disk, "d") != nil {
		return
	}
	report, err := Check(context.Background(), h.disk, "d", nil)
	if err != nil {
		h.t.Fatalf("checking: %v", err)
	}
	if !report.OK() {
		h.t.Fatalf("the check found %v; notes %q", report.Problems, report.Notes)
	}
}

// crash takes the power away.
func (h *history) crash() {
	kind := vfs.CrashKind(h.r.IntN(4))
	h.disk = h.disk.Crash(vfs.CrashPlan{Kind: kind, Rand: h.r})
	if h.policy != SyncAlways && kind != vfs.KeepAll {
		h.confirmed = 0 // these policies promise nothing over a power loss
	}
}

// recovered sees that what was found is the state after some transaction, and no earlier one than was confirmed.
func (h *history) recovered() {
	seq, hash := h.s.Hash()
	if seq < h.confirmed || seq > uint64(len(h.past)) {
		h.t.Fatalf("recovered up to transaction %d, confirmed were %d of %d: %+v", seq, h.confirmed, len(h.past), h.s.Recovery)
	}
	if want, known := h.hashes[seq]; known && want != hash {
		h.t.Fatalf("the state after transaction %d has hash %x, it had %x", seq, hash, want)
	}
	h.past = h.past[:seq]
	for q := range h.hashes {
		if q > seq {
			delete(h.hashes, q)
		}
	}
	h.m = newModel()
	for _, t := range h.past {
		h.m.commit(t)
	}
	h.confirmed = seq
	if err := h.m.compare(h.s, h.r); err != nil {
		h.t.Fatalf("after recovery at transaction %d: %v", seq, err)
	}
}

// expectCleanShutdown opens what Close left: nothing is to be replayed.
func (h *history) expectCleanShutdown() {
	s, err := Open(Options{Dir: "d", FS: h.disk, SegmentBytes: minSegmentBytes, Logf: h.t.Logf})
	if err != nil {
		h.t.Fatalf("opening after a clean shutdown: %v", err)
	}
	if n := s.Recovery.ReplayedEntries; n != 0 || s.Recovery.TornFile != "" {
		h.t.Errorf("a clean shutdown left %d entries to replay, torn %q", n, s.Recovery.TornFile)
	}
	if err := s.Close(); err != nil {
		h.t.Fatal(err)
	}
}

// step does one thing and reports whether the store still works.
func (h *history) step() bool {
	switch n := h.r.IntN(100); {
	case n < 3:
		return h.s.Checkpoint() == nil
	case n < 6:
		h.s.cleaner.wake()
		return true
	case n < 8:
		seq, hash := h.s.Hash()
		h.hashes[seq] = hash
		return true
	case n < 12:
		return h.quiesceAndCompare()
	case n < 13:
		return awaitCleaning(h.t, h.s)
	}
	t := h.gen.txn(h.m)
	before := h.m.clone()
	bases, shards, refused := h.m.commit(t)
	res, err := h.s.Commit(context.Background(), t)
	if err == nil && refused == "" && len(t.Do) > 0 {
		h.past = append(h.past, t)
	}
	var failed *FailedError
	if errors.As(err, &failed) {
		if refused == "" && len(t.Do) > 0 {
			h.past = append(h.past, t) // it may or may not have effect
		}
		return false
	}
	if got := kindOf(err); got != refused {
		h.m = before
		h.t.Errorf("transaction %d gave %v, want %q", len(h.past), err, refused)
		return false
	}
	if err != nil {
		return true
	}
	for i, b := range bases {
		if res.Base(i) != b {
			h.t.Errorf("append %d of transaction %d got offset %d, want %d", i, res.Seq, res.Base(i), b)
		}
	}
	for i, sh := range shards {
		if res.Shard(i) != sh {
			h.t.Errorf("create %d of transaction %d got shard %d, want %d", i, res.Seq, res.Shard(i), sh)
		}
	}
	if len(t.Do) > 0 && res.Seq != uint64(len(h.past)) {
		h.t.Errorf("transaction %d got seq %d", len(h.past), res.Seq)
	}
	if t.Wait == Durable {
		h.confirmed = res.Seq
	}
	return true
}

// quiesceAndCompare waits for everything to be readable and compares with the model.
func (h *history) quiesceAndCompare() bool {
	if h.s.Sync(context.Background()) != nil {
		return false
	}
	h.confirmed = uint64(len(h.past))
	if err := h.m.compare(h.s, h.r); err != nil && h.s.Failure() == nil && !errors.Is(err, vfs.ErrCrashed) {
		h.t.Errorf("after transaction %d: %v", len(h.past), err)
	}
	return true
}

// awaitCleaning waits until the cleaner has looked twice.
func awaitCleaning(t testing.TB, s *Store) bool {
	for range 2 {
		seen := s.Stats().CleaningRounds
		s.cleaner.wake()
		if !await(t, func() bool { return s.Stats().CleaningRounds > seen || s.Failure() != nil }) {
			return false
		}
	}
	return s.Failure() == nil
}

// await waits until a condition holds, and fails the test when it does not within a generous time.
func await(t testing.TB, ok func() bool) bool {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		if ok() {
			return true
		}
	}
	t.Errorf("waited for a minute")
	return false
}

// kindOf names the kinds of refusal as the model does.
func kindOf(err error) string {
	var unknown *UnknownShardError
	var out *OffsetRangeError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrConflict):
		return "conflict"
	case errors.As(err, &unknown):
		return "unknown shard"
	case errors.As(err, &out):
		return "offset range"
	}
	return err.Error()
}
