package queue

import (
	"context"
	"time"
)

// turn is a lock that is held while a transaction is on its way into the order. In a cluster that takes as long as the majority is out of reach, and nobody waits
// for the lock meanwhile: take ends with the store's *logstore.UnavailableError.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// turnCheck is how often one who waits looks whether there is a majority.
const turnCheck = 100 * time.Millisecond

func (t turn) take(ctx context.Context, v *View) error {
	if !v.shared {
		t <- struct{}{}
		return nil
	}
	for !t.try() {
		if err := v.store.Available(); err != nil {
			return err
		}
		select {
		case t <- struct{}{}:
			return nil
		case <-v.after(turnCheck):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// try takes the lock if it is free.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// pass lets the next one have it.
func (t turn) pass() { <-t }
