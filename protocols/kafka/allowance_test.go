package kafka

import (
	"sync"
	"sync/atomic"
	"testing"

	"polylog/logstore/seed"
)

// No more is given than there is, nobody is passed over, and who wishes for more than all gets all.
func TestAllowanceIsShared(t *testing.T) {
	t.Parallel()
	const size = 100
	rng := seed.Rand(t)
	a := newAllowance(size)
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		wishes := make([]int64, 100)
		for i := range wishes {
			wishes[i] = rng.Int64N(2 * size)
		}
		all.Go(func() {
			for _, w := range wishes {
				n, ok := a.take(w, nil)
				if !ok || n != min(w, size) {
					t.Errorf("wished for %d, got %d, %t", w, n, ok)
				}
				if now := taken.Add(n); now > size {
					t.Errorf("%d are given of %d", now, size)
				}
				taken.Add(-n)
				a.give(n)
			}
		})
	}
	all.Wait()
	if a.left != size || len(a.waiting) > 0 {
		t.Errorf("%d are left, %d wait", a.left, len(a.waiting))
	}
}

// Who gives up waiting leaves nothing behind and lets the next one on.
func TestAllowanceCanBeGivenUp(t *testing.T) {
	t.Parallel()
	a := newAllowance(10)
	a.take(6, nil)
	gone := make(chan struct{})
	result := make(chan bool)
	go func() {
		_, ok := a.take(10, gone)
		result <- ok
	}()
	waiting := func(n int) func() bool {
		return func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.waiting) == n
		}
	}
	eventually(t, "the large wish waits", waiting(1))
	go func() {
		_, ok := a.take(3, nil)
		result <- ok
	}()
	eventually(t, "the small wish waits behind it", waiting(2))
	close(gone)
	if first, second := <-result, <-result; first == second {
		t.Errorf("both got %t", first)
	}
	a.give(6)
	a.give(3)
	if a.left != 10 {
		t.Errorf("%d are left", a.left)
	}
}
