package logstore

import (
	"context"
	"sync"
	"sync/atomic"
)

// request is one Commit on its way. It is pooled: after the answer the committer owns it again.
type request struct {
	txn  Txn // a copy, so that the committer's stays on its stack
	size int // upper bound of the entry's bytes
	// seq is the number that an outside order gave; 0: the store's own log is the order.
	seq uint64
	// forward is the committer of a transaction that came back from an outside order; nil: it is another node's.
	forward   *request
	delivered func() // tells the follower that there is room for one more; nil: the request is from this store
	forceSync bool   // answer when everything before is on the disk

	res    Result
	err    error
	answer chan struct{} // holds one token
	taken  atomic.Uint32 // who has the request: requestWaiting, requestTaken, requestWithdrawn
}

const (
	requestWaiting   = iota // in the intake
	requestTaken            // by the sequencing goroutine: it will have an outcome
	requestWithdrawn        // by the committer, whose context ended first
)

var requestPool = sync.Pool{New: func() any { return &request{answer: make(chan struct{}, 1)} }}

func newRequest(t Txn) *request {
	r := requestPool.Get().(*request)
	r.txn, r.size, r.seq = t, 0, 0
	r.forward, r.delivered, r.forceSync = nil, nil, false
	r.res, r.err = Result{}, nil
	r.taken.Store(requestWaiting)
	return r
}

// free gives an answered request back. A request whose committer left early is never given back.
func (r *request) free() {
	r.txn, r.forward, r.delivered = Txn{}, nil, nil
	requestPool.Put(r)
}

// finish hands the outcome to who waits for it.
func (r *request) finish() {
	if r.delivered == nil {
		r.answer <- struct{}{}
		return
	}
	if f := r.forward; f != nil {
		f.res, f.err = r.res, r.err
		f.answer <- struct{}{}
	}
	r.free()
}

func finishAll(rs []*request) {
	for _, r := range rs {
		r.finish()
	}
}

func (r *request) fail(err error) {
	r.err = err
	r.finish()
}

// isFreeing reports whether the transaction adds no records, or few that lead to deletions: on a full disk such transactions are still taken, for they are what
// makes room.
func (r *request) isFreeing() bool {
	if r.txn.MakesRoom && r.size <= makesRoomMax {
		return true
	}
	for i := range r.txn.Do {
		if k := r.txn.Do[i].kind; k == opAppend || k == opCreateShard {
			return false
		}
	}
	return true
}

// intake is where committers leave their requests for the sequencing goroutine. The lock is held for a few instructions only.
type intake struct {
	mu      sync.Mutex
	waiting []*request
	closed  error         // what a request that comes too late is told
	kick    chan struct{} // holds one token: there is something to look at
}

func newIntake() *intake { return &intake{kick: make(chan struct{}, 1)} }

// put leaves a request, or returns why none are taken.
func (in *intake) put(r *request) error {
	in.mu.Lock()
	if in.closed != nil {
		err := in.closed
		in.mu.Unlock()
		return err
	}
	in.waiting = append(in.waiting, r)
	first := len(in.waiting) == 1
	in.mu.Unlock()
	if first {
		in.wake()
	}
	return nil
}

func (in *intake) wake() {
	select {
	case in.kick <- struct{}{}:
	default:
	}
}

// take returns all waiting requests and leaves spare, an empty slice, for the next.
func (in *intake) take(spare []*request) []*request {
	in.mu.Lock()
	rs := in.waiting
	in.waiting = spare
	in.mu.Unlock()
	return rs
}

// close makes put return err from now on.
func (in *intake) close(err error) {
	in.mu.Lock()
	if in.closed == nil {
		in.closed = err
	}
	in.mu.Unlock()
	in.wake()
}

// isOver reports whether the intake is closed and empty: nothing will come any more.
func (in *intake) isOver() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.closed != nil && len(in.waiting) == 0
}

// await waits for the request's outcome and gives the request back. settled returns when the sequencing goroutine has done with the bytes of every
// request that it had taken.
func (r *request) await(ctx context.Context, settled func()) (Result, error) {
	done := ctx.Done()
	if done == nil {
		<-r.answer
	} else {
		select {
		case <-r.answer:
		case <-done:
			if r.taken.CompareAndSwap(requestWaiting, requestWithdrawn) {
				return Result{}, ctx.Err() // nothing happened, and nothing will
			}
			settled()
			select {
			case <-r.answer: // it was answered at the same moment
			default:
				return Result{}, &UnknownOutcomeError{ctx.Err()}
			}
		}
	}
	res, err := r.res, r.err
	r.free()
	return res, err
}
