// Package sameorder makes one order for several stores of a test, as a cluster does, in memory. It can be cut off, as a cluster is that has lost its majority.
package sameorder

import (
	"context"
	"errors"
	"sync"

	"polylog/logstore"
)

// Order is a list of proposals that all stores follow. Its methods may be called from any goroutine.
type Order struct {
	mu        sync.Mutex
	proposals [][]byte
	grown     chan struct{} // closed and replaced when something changes
	stores    []*logstore.Store
	held      bool
	out       bool
}

// New returns an empty order, which is available.
func New() *Order { return &Order{grown: make(chan struct{})} }

var errCut = errors.New("the test says so")

// Cut refuses what is proposed from now on, and the stores wait no longer for what is on its way and not patient. Mend ends that.
func (o *Order) Cut() {
	o.change(func() { o.out = true })
	o.mu.Lock()
	stores := o.stores
	o.mu.Unlock()
	for _, s := range stores {
		s.Interrupt(errCut)
	}
}

// Hold delivers nothing more, and takes proposals still; they are delivered after Mend.
func (o *Order) Hold() { o.change(func() { o.held = true }) }

// Mend makes the order available again, with all that it took.
func (o *Order) Mend() { o.change(func() { o.out, o.held = false, false }) }

func (o *Order) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.grown)
	o.grown = make(chan struct{})
}

// Len returns how many proposals there are.
func (o *Order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.proposals)
}

// Attach implements logstore.Sequencer.
func (o *Order) Attach(s *logstore.Store) error {
	o.change(func() { o.stores = append(o.stores, s) })
	return nil
}

// Available implements logstore.Sequencer.
func (o *Order) Available() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.out {
		return &logstore.UnavailableError{Err: errCut}
	}
	return nil
}

// Propose implements logstore.Sequencer.
func (o *Order) Propose(_ context.Context, p []byte) (err error) {
	o.change(func() {
		if o.out {
			err = &logstore.UnavailableError{Err: errCut}
			return
		}
		o.proposals = append(o.proposals, append([]byte(nil), p...))
	})
	return err
}

// Follow implements logstore.Sequencer.
func (o *Order) Follow(ctx context.Context, after uint64, deliver func(uint64, []byte) error) error {
	for i := int(after); ; {
		o.mu.Lock()
		list, grown := o.proposals, o.grown
		if o.held {
			list = nil
		}
		o.mu.Unlock()
		for ; i < len(list); i++ {
			if err := deliver(uint64(i+1), append([]byte(nil), list[i]...)); err != nil {
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
