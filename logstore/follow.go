package logstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// followAhead bounds the proposals, and followBytes their bytes, that were delivered and are not applied yet.
	followAhead = 4096
	followBytes = 32 << 20
	// followRetry is how long to wait before following anew when the sequencer has failed.
	followRetry = 100 * time.Millisecond
)

// follower applies an order that is made outside. A proposal travels with its conditions, and they are judged where it arrives: on every
// store, with the same outcome.
type follower struct {
	s      *Store
	seq    Sequencer
	writer uint64
	cancel context.CancelFunc
	ctx    context.Context
	done   chan struct{}

	mu        sync.Mutex
	room      sync.Cond // of ahead and bytes
	ahead     int
	bytes     int
	number    uint64
	waiting   map[uint64]*request // by proposal number
	delivered uint64              // the last sequence number
	stopped   bool
}

func newFollower(s *Store, seq Sequencer) *follower {
	var w [8]byte
	rand.Read(w[:]) //nolint:errcheck // crypto/rand does not fail
	f := &follower{
		s: s, seq: seq, writer: binary.LittleEndian.Uint64(w[:]), done: make(chan struct{}),
		waiting: map[uint64]*request{}, delivered: s.st.seq,
	}
	f.room.L = &f.mu
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

func (f *follower) start() { go f.run() }

func (f *follower) run() {
	defer close(f.done)
	defer f.abandon()
	for f.ctx.Err() == nil {
		f.mu.Lock()
		after := f.delivered
		f.mu.Unlock()
		err := f.seq.Follow(f.ctx, after, f.deliver)
		if f.ctx.Err() != nil || f.s.Failure() != nil {
			return
		}
		f.s.opts.Logf("following the order after %d: %v; trying again", after, err)
		select {
		case <-f.ctx.Done():
		case <-time.After(followRetry):
		}
	}
}

// stop ends the following.
func (f *follower) stop() {
	f.cancel()
	f.mu.Lock()
	f.stopped = true
	f.room.Broadcast()
	f.mu.Unlock()
	<-f.done
}

// abandon tells those who wait for their proposals to come back that they will not hear of them here.
func (f *follower) abandon() {
	err := f.s.Failure()
	if err == nil {
		err = &UnknownOutcomeError{ErrClosed}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for n, r := range f.waiting {
		delete(f.waiting, n)
		r.fail(err)
	}
}

// propose sends a transaction into the order and waits until it comes back and is applied here.
func (f *follower) propose(ctx context.Context, r *request) (Result, error) {
	f.mu.Lock()
	if f.stopped {
		f.mu.Unlock()
		r.free()
		if err := f.s.Failure(); err != nil {
			return Result{}, err
		}
		return Result{}, ErrClosed
	}
	f.number++
	id := ProposalID{f.writer, f.number}
	f.waiting[id.Number] = r
	f.mu.Unlock()
	buf := proposalBuffers.Get().(*[]byte)
	*buf = encodeProposal((*buf)[:0], id, &r.txn)
	err := f.seq.Propose(ctx, *buf)
	if cap(*buf) <= 1<<20 {
		proposalBuffers.Put(buf)
	}
	if err != nil && f.forget(id.Number) {
		return Result{}, err
	}
	select {
	case <-r.answer:
	case <-ctx.Done():
		if f.forget(id.Number) {
			return Result{}, &UnknownOutcomeError{ctx.Err()}
		}
		<-r.answer // it is being applied
	}
	res, err := r.res, r.err
	r.free()
	return res, err
}

var proposalBuffers = sync.Pool{New: func() any { return new([]byte) }}

// interrupt ends the waiting for proposals whose outcome need not be known, or for all.
func (f *follower) interrupt(err error, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, r := range f.waiting {
		if all || !r.txn.Patient {
			delete(f.waiting, n)
			r.fail(&UnknownOutcomeError{err})
		}
	}
}

// forget takes a proposal off the list and reports whether it was there: it has not come back yet.
func (f *follower) forget(number uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, was := f.waiting[number]
	delete(f.waiting, number)
	return was
}

// deliver hands the next proposal of the order to the ordering goroutine.
func (f *follower) deliver(seq uint64, p []byte) error {
	if seq <= f.delivered {
		return fmt.Errorf("the order delivered %d after %d", seq, f.delivered)
	}
	id, t, err := decodeProposal(p)
	var limit *LimitError
	var invalid *InvalidError
	var size int
	if err == nil {
		size, err = t.validate()
	}
	switch {
	case errors.As(err, &limit) || errors.As(err, &invalid) || errors.Is(err, errBadProposal):
		// Every node refuses it for the same reason.
		f.s.opts.Logf("proposal %d has no effect: %v", seq, err)
		f.mu.Lock()
		f.delivered = seq
		f.mu.Unlock()
		return nil
	case err != nil:
		return fmt.Errorf("proposal %d: %w", seq, err)
	}
	f.mu.Lock()
	for !f.stopped && (f.ahead >= followAhead || f.bytes > 0 && f.bytes+len(p) > followBytes) {
		f.room.Wait()
	}
	if f.stopped {
		f.mu.Unlock()
		return ErrClosed
	}
	r := newRequest(t)
	r.size, r.seq = size, seq
	r.delivered = func() { f.applied(len(p)) }
	r.txn.Wait = Relaxed // nobody waits for it
	if id.Writer == f.writer {
		if r.forward = f.waiting[id.Number]; r.forward != nil {
			r.txn.Wait = r.forward.txn.Wait
			delete(f.waiting, id.Number)
		}
	}
	f.ahead++
	f.bytes += len(p)
	f.delivered = seq
	f.mu.Unlock()
	if err := f.s.intake.put(r); err != nil {
		r.fail(err)
		return err
	}
	return nil
}

func (f *follower) applied(bytes int) {
	f.mu.Lock()
	f.ahead--
	f.bytes -= bytes
	f.room.Signal()
	f.mu.Unlock()
}
