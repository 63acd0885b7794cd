package group

import "time"

// turn is a group's lock. Unlike a mutex it can be given up on: who holds it may be waiting for the outcome of a change that nobody can tell before there is a
// majority again.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) tryLock() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turn) lock()   { t <- struct{}{} }
func (t turn) unlock() { <-t }

// turnLook is how often one who waits for a group looks whether there is a majority.
const turnLook = time.Second / 2

// acquire locks the group, or says that it cannot be had for want of a majority.
func (c *Coordinator) acquire(g *group) error {
	for !g.turn.tryLock() {
		select {
		case g.turn <- struct{}{}:
			return nil
		case <-c.opts.After(turnLook):
			if err := c.opts.Store.Available(); err != nil {
				return &UnavailableError{g.name.group, err}
			}
		}
	}
	return nil
}
