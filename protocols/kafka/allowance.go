package kafka

import "sync"

// allowance is an amount that many share and wait for in turn, so that a large wish is not passed over by small ones for ever.
type allowance struct {
	mu      sync.Mutex
	size    int64
	left    int64
	waiting []allowanceWish
}

type allowanceWish struct {
	n     int64
	ready chan struct{}
}

func newAllowance(size int64) *allowance { return &allowance{size: size, left: size} }

// take waits for n, or for all there is if n is more, and returns how much that was. It gives up when done is closed.
func (a *allowance) take(n int64, done <-chan struct{}) (int64, bool) {
	a.mu.Lock()
	n = min(n, a.size)
	if len(a.waiting) == 0 && a.left >= n {
		a.left -= n
		a.mu.Unlock()
		return n, true
	}
	w := allowanceWish{n, make(chan struct{})}
	a.waiting = append(a.waiting, w)
	a.mu.Unlock()
	select {
	case <-w.ready:
		return n, true
	case <-done:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.waiting {
		if a.waiting[i].ready == w.ready {
			a.waiting = append(a.waiting[:i], a.waiting[i+1:]...)
			a.serve()
			return 0, false
		}
	}
	a.left += n // it came at the same moment
	a.serve()
	return 0, false
}

// give returns what take gave.
func (a *allowance) give(n int64) {
	a.mu.Lock()
	a.left += n
	a.serve()
	a.mu.Unlock()
}

// serve lets those on whose turn there is enough go on. The lock is held.
func (a *allowance) serve() {
	for len(a.waiting) > 0 && a.left >= a.waiting[0].n {
		a.left -= a.waiting[0].n
		close(a.waiting[0].ready)
		a.waiting = a.waiting[1:]
	}
}
