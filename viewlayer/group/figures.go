package group

import "sync/atomic"

// Figures are what a Coordinator holds and did since it was opened.
type Figures struct {
	Groups             int64 // in memory: with members, or waiting for some
	Generations        int64 // that began, empty ones included
	MembersLost        int64 // taken for dead, or too late to join or sync
	BookmarksMoved     int64 // by commits that were ordered
	BookmarksForgotten int64 // by sweeps: of topics that are gone, and of groups that nobody used
}

// counters are the counting part of Figures.
type counters struct {
	generations, membersLost, bookmarksMoved, bookmarksForgotten atomic.Int64
}

// Figures returns what the coordinator holds and did.
func (c *Coordinator) Figures() Figures {
	c.mu.Lock()
	groups := len(c.groups)
	c.mu.Unlock()
	return Figures{int64(groups), c.counters.generations.Load(), c.counters.membersLost.Load(), c.counters.bookmarksMoved.Load(), c.counters.bookmarksForgotten.Load()}
}
