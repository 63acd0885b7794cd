package stream

import (
	"context"
	"sync"
)

// Roster is the connections that a server serves, and how they all end. Its methods may be called from any goroutine.
type Roster[C comparable] struct {
	mu       sync.Mutex
	members  map[C]struct{}
	draining bool
	empty    chan struct{} // closed when draining and the last one is gone
}

// NewRoster returns an empty roster.
func NewRoster[C comparable]() *Roster[C] {
	return &Roster[C]{members: map[C]struct{}{}, empty: make(chan struct{})}
}

// Enter takes a connection in; it reports false when none are taken any more. Who entered must Leave.
func (r *Roster[C]) Enter(c C) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return false
	}
	r.members[c] = struct{}{}
	return true
}

// Leave takes a connection out.
func (r *Roster[C]) Leave(c C) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, c)
	if r.draining && len(r.members) == 0 {
		close(r.empty)
	}
}

// Drain takes in nobody any more, says farewell to all and returns when they have left. When ctx ends first it cuts off those that are left, and returns the
// context's error once they have left too. Neither farewell nor cut may block or call the roster.
func (r *Roster[C]) Drain(ctx context.Context, farewell, cut func(C)) error {
	r.mu.Lock()
	if !r.draining {
		r.draining = true
		if len(r.members) == 0 {
			close(r.empty)
		}
	}
	r.each(farewell)
	r.mu.Unlock()
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.each(cut)
	r.mu.Unlock()
	<-r.empty
	return ctx.Err()
}

// Each calls f for every connection, under the same conditions as Drain calls what it is given.
func (r *Roster[C]) Each(f func(C)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.each(f)
}

func (r *Roster[C]) each(f func(C)) {
	for c := range r.members {
		f(c)
	}
}
