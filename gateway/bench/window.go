package bench

import (
	"context"
	"sync/atomic"
	"time"
)

// window is what a producer has sent and not been told about yet. One goroutine sends, another one settles. The newest message is less than the window's length
// ahead of the oldest that is unsettled.
type window struct {
	at   []atomic.Int64 // of message n at n modulo the length: when it was sent, plus 1; 0: it is settled
	sent atomic.Uint64  // all messages below this number have been sent
	low  atomic.Uint64  // all messages below this number are settled
	wake chan struct{}  // holds one token when low has moved
}

func newWindow(length int) *window {
	return &window{at: make([]atomic.Int64, length), wake: make(chan struct{}, 1)}
}

// room waits until a message may be sent and returns how many may; 0 when ctx is over.
func (w *window) room(ctx context.Context) int {
	for {
		if n := len(w.at) - int(w.sent.Load()-w.low.Load()); n > 0 {
			return n
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return 0
		}
	}
}

// send notes that the next message is about to be sent.
func (w *window) send(at time.Duration) {
	n := w.sent.Load()
	w.at[n%uint64(len(w.at))].Store(int64(at) + 1)
	w.sent.Store(n + 1)
}

// settle notes that message n is settled, and returns when it was sent; false: it was not sent, or is settled already.
func (w *window) settle(n uint64) (at time.Duration, ok bool) {
	if n < w.low.Load() || n >= w.sent.Load() {
		return 0, false
	}
	v := w.at[n%uint64(len(w.at))].Swap(0)
	return time.Duration(v - 1), v != 0
}

// advance has the sender make use of what was settled.
func (w *window) advance() {
	low, sent := w.low.Load(), w.sent.Load()
	for low < sent && w.at[low%uint64(len(w.at))].Load() == 0 {
		low++
	}
	w.low.Store(low)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// drain waits until all is settled; false: nothing was for as long as patience, or ctx is over.
func (w *window) drain(ctx context.Context, patience time.Duration) bool {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for w.low.Load() < w.sent.Load() {
		select {
		case <-w.wake:
			limit.Reset(patience)
		case <-limit.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}
