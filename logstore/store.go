package logstore

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"polylog/logstore/vfs"
)

// Store is an open log. All methods may be called from any goroutine.
//
// Who owns what: one goroutine orders (local.go), one writes and syncs (writer.go), one prepares and one seals segment files (roll.go), one takes
// checkpoints (checkpoint.go), one accounts and cleans (clean.go). What they and the readers have in common is guarded by mu.
type Store struct {
	opts  Options
	fs    vfs.FS
	dir   string
	lock  io.Closer
	files *fileCache
	// Recovery says what Open found and did.
	Recovery Recovery

	intake *intake
	growth growth

	mu       sync.RWMutex
	st       *state
	segs     segments
	freed    freedLog
	watchers []*Watcher

	visible    atomic.Uint64 // position up to which batches may be read
	durableSeq atomic.Uint64 // last entry that is known to be on the disk
	failure    atomic.Pointer[FailedError]
	diskFull   atomic.Bool                   // no segment file could be made
	stuck      atomic.Pointer[DiskFullError] // a write waits for room

	groups   chan *group      // from the ordering to the writing goroutine, taken when nothing is on its way to the disk
	ahead    chan *group      // taken also when something is
	spare    chan *group      // and back, to be filled again
	prepare  chan struct{}    // ask for the next segment file
	prepared chan preparation // and have it
	seal     chan *openSegment
	sealFree chan struct{} // holds one token while no segment is being sealed

	checkpoints checkpoints
	cleaner     cleaner
	spares      spares
	pins        pins
	follower    *follower // nil: the order is made here
	stats       counters

	closing   chan struct{} // closed first, when Close begins
	stopTasks chan struct{} // closed when the log is complete: background work ends
	tasks     sync.WaitGroup
	logTasks  sync.WaitGroup // ordering, writing, preparing, sealing
	closeOnce sync.Once
	closeErr  error
}

// Commit puts the transaction into the order and waits for its outcome, as t.Wait says. The error is a *ConflictError when a condition does not hold,
// *UnknownShardError, *OffsetRangeError, *LimitError or *InvalidError when the transaction cannot be applied (in all of these nothing was changed),
// *DiskFullError (nothing was changed), *FailedError (what was on its way may or may not survive), ErrClosed, the context's error when it
// ended before the transaction's turn (nothing was changed) or *UnknownOutcomeError when it ended later.
//
// A transaction without operations changes nothing: it judges its conditions, and with Durable waits until all that was ordered before is
// durable. With an outside order, one without conditions too does not travel: what this store has applied the order has for good. Errors are there also *UnavailableError (nothing
// was changed). The bytes that t points to are not used after Commit returns.
func (s *Store) Commit(ctx context.Context, t Txn) (Result, error) {
	r := newRequest(t)
	var err error
	if r.size, err = r.txn.validate(); err != nil {
		r.free()
		return Result{}, err
	}
	if s.follower != nil && len(t.If)+len(t.Do) > 0 {
		return s.follower.propose(ctx, r)
	}
	if err := s.intake.put(r); err != nil {
		r.free()
		return Result{}, err
	}
	return r.await(ctx, s.settled)
}

// settled returns when the ordering goroutine is between two requests.
func (s *Store) settled() {
	s.mu.RLock()
	//lint:ignore SA2001 waiting for the lock is the purpose
	s.mu.RUnlock()
}

// Sync returns when everything ordered so far is on the disk, whatever the sync policy.
func (s *Store) Sync(ctx context.Context) error {
	r := newRequest(Txn{})
	r.forceSync = true
	if err := s.intake.put(r); err != nil {
		r.free()
		return err
	}
	_, err := r.await(ctx, s.settled)
	return err
}

// Get returns the value of a key. It must not be changed.
func (s *Store) Get(key string) ([]byte, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.st.kv.get(key)
}

// Scan calls f for each key that begins with prefix, in the order of the keys, until f returns false. It sees the map as it is when Scan is
// called, whatever f does. Values must not be changed.
func (s *Store) Scan(prefix string, f func(key string, value []byte) bool) {
	s.mu.Lock() // copying the tree marks its nodes as shared
	view := s.st.kv.snapshot()
	s.mu.Unlock()
	view.scan(prefix, f)
}

// Bounds returns the shard's lowest live offset and the offset behind its last readable record; they are equal when there is nothing to
// read. Under SyncAlways a record is readable once it is on the disk.
func (s *Store) Bounds(sh Shard) (first, next int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.st.shards.get(sh)
	if p == nil {
		return 0, 0, &UnknownShardError{sh}
	}
	next = s.visibleNext(p)
	return min(p.first, next), next, nil
}

// Live returns how many of the shard's records are not deleted, counting those that are not readable yet.
func (s *Store) Live(sh Shard) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.st.shards.get(sh)
	if p == nil {
		return 0, &UnknownShardError{sh}
	}
	return p.live(), nil
}

// LiveBetween is Live for the records at from <= offset < to.
func (s *Store) LiveBetween(sh Shard, from, to int64) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.st.shards.get(sh)
	if p == nil {
		return 0, &UnknownShardError{sh}
	}
	from, to = max(from, p.first), min(to, p.next)
	if from >= to {
		return 0, nil
	}
	return to - from - p.deleted.count(from, to), nil
}

// Hash returns the sequence number of the last transaction that took effect, and a digest of the state: shards with their bounds, deletions and the checksums of all
// that was appended, and the key-value map. Two stores that applied the same order have equal hashes. Its cost grows with the state.
func (s *Store) Hash() (seq, hash uint64) {
	s.mu.Lock()
	st := s.st.snapshot()
	s.mu.Unlock()
	return st.seq, st.hash()
}

// DurableSeq returns the number of the last transaction that is known to be on the disk, with all before it.
func (s *Store) DurableSeq() uint64 { return s.durableSeq.Load() }

// Failure returns why the store takes no more writes, or nil.
func (s *Store) Failure() error {
	if f := s.failure.Load(); f != nil {
		return f
	}
	return nil
}

// fail makes the store refuse writes from now on.
func (s *Store) fail(op string, err error) {
	f := &FailedError{Op: op, Err: err}
	if s.failure.CompareAndSwap(nil, f) {
		s.opts.Logf("%v", f)
		if s.follower != nil {
			s.follower.cancel()
		}
	}
	s.intake.close(s.failure.Load())
}

// Close takes no more transactions, completes those it has, and leaves a log that needs no recovery. It returns the first thing that went wrong; the store is
// closed all the same.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		if s.follower != nil {
			s.follower.stop()
		}
		s.intake.close(ErrClosed)
		s.logTasks.Wait()
		close(s.stopTasks)
		s.tasks.Wait()
		s.closeWatchers()
		s.pins.close()
		s.closeErr = s.finish()
		s.files.close()
		if err := s.lock.Close(); s.closeErr == nil {
			s.closeErr = err
		}
	})
	return s.closeErr
}

// finish writes the last checkpoint and takes away what only a running store needs.
func (s *Store) finish() error {
	if f := s.Failure(); f != nil {
		return f // what is in memory is ahead of the disk, and must not be written down
	}
	return errors.Join(s.takeCheckpoint(), s.spares.close())
}
