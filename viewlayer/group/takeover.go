package group

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Several coordinators, each on a store of its own that follows one order, share the groups: Options.Mine says which. What keeps them apart:
//
//   - Every change of a group has the condition that the head is as the coordinator knows it, and a coordinator moves bookmarks only under a head that it wrote itself (claim).
//     So from the first change that one makes, nothing that another has checked before can take effect.
//   - A store may be a little behind the order. When Mine changes, a coordinator reads nothing of a group before its store has caught up with the order (catchUp). If
//     another one changes a group after that, the head in the store is not as it is known here, which is looked at each time a group is locked.
//   - Bookmarks are read after CatchUp, so that no reader goes back behind a commit that was answered, whoever took it.

// serves returns why calls for the group are not for this coordinator, or not now.
func (c *Coordinator) serves(n groupName) error {
	if !c.opts.Mine(n.namespace, n.group) {
		return &NotCoordinatorError{n.group}
	}
	if err := c.opts.Store.Available(); err != nil {
		return &UnavailableError{n.group, err}
	}
	if err := c.catchUp(); err != nil {
		return &UnavailableError{n.group, err}
	}
	return nil
}

// CatchUp returns when the store has applied all that had its place in the order before the call. Who then reads bookmarks sees every commit that was answered before.
func (c *Coordinator) CatchUp(ctx context.Context) error {
	if err := c.opts.Store.CatchUp(ctx); err != nil {
		return &UnavailableError{Err: err}
	}
	return nil
}

// catchUp sees to it that the store is at least as new as the last change of who coordinates what.
func (c *Coordinator) catchUp() error {
	term := c.term.Load()
	if c.passed.Load() >= term {
		return nil
	}
	if err := c.CatchUp(c.ctx); err != nil {
		return err
	}
	for {
		passed := c.passed.Load()
		if passed >= term || c.passed.CompareAndSwap(passed, term) {
			return nil
		}
	}
}

// Reassigned is called at once when Options.Mine answers otherwise than before. Groups that are not this coordinator's any more are given up: nothing is stored, and who
// waits in them is told to look for the coordinator. Groups with members that are its own now are read, once the store has caught up; their sessions begin anew, so that
// members that went down with their coordinator are missed. It waits for the order; what cannot be had for want of a majority is made up for by Tick.
func (c *Coordinator) Reassigned() {
	c.term.Add(1)
	for _, g := range c.loaded() {
		if c.opts.Mine(g.name.namespace, g.name.group) {
			continue
		}
		g.unwanted.Store(true)
		if g.turn.tryLock() { // else who has it gives it up
			c.unlock(g)
		}
	}
	c.takeOver()
}

// loaded returns the groups that are in memory.
func (c *Coordinator) loaded() []*group {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*group, 0, len(c.groups))
	for _, g := range c.groups {
		all = append(all, g)
	}
	return all
}

// takeOver reads the groups with members that came to this coordinator and are not in memory yet, and reports whether nothing is left to be taken over.
func (c *Coordinator) takeOver() bool {
	c.taking.Lock()
	defer c.taking.Unlock()
	term := c.term.Load()
	if c.taken >= term {
		return true
	}
	if err := c.catchUp(); err != nil {
		c.opts.Logf("groups are not taken over yet: %v", err)
		c.opts.Wake()
		return false
	}
	if err := c.readAll(); err != nil {
		c.opts.Logf("taking over groups: %v", err) // the request that needs such a group says so too
	}
	c.taken = term
	return true
}

// readAll brings all groups that have members and are this coordinator's into memory.
func (c *Coordinator) readAll() (err error) {
	var withMembers []groupName
	c.opts.Store.Scan(headPrefix, func(key string, value []byte) bool {
		n, _, e := parseName(headPrefix, key)
		if e == nil && !c.opts.Mine(n.namespace, n.group) {
			return true
		}
		var h head
		if e == nil {
			h, e = decodeHead(key, value)
		}
		if e == nil && h.members > 0 {
			withMembers = append(withMembers, n)
		}
		err = errors.Join(err, e)
		return true
	})
	c.mu.Lock()
	c.opts.GroupsMax = max(c.opts.GroupsMax, len(withMembers)) // what is there stays
	c.mu.Unlock()
	for _, n := range withMembers {
		err = errors.Join(err, c.read(n))
	}
	return err
}

// read brings a group into memory, if it has members.
func (c *Coordinator) read(n groupName) error {
	g, err := c.take(n)
	if err != nil {
		return fmt.Errorf("group '%s' in '%s': %w", n.group, n.namespace, err)
	}
	c.unlock(g)
	return nil
}

// readLost reads the groups anew that were lost to another coordinator and are still this one's: their members may never come back, and are to be missed then.
func (c *Coordinator) readLost() {
	c.mu.Lock()
	lost := c.lost
	c.lost = map[groupName]struct{}{}
	c.mu.Unlock()
	for n := range lost {
		if c.opts.Mine(n.namespace, n.group) {
			if err := c.read(n); err != nil {
				c.opts.Logf("%v", err)
			}
		}
	}
}

// giveUp takes the group out of memory and tells its members why.
func (g *group) giveUp(err error) {
	g.dissolve(err)
	g.c.unload(g)
}

// outageLook is how often Tick looks whether there is a majority again.
const outageLook = time.Second

// sitOut is Tick while there is no majority. Time stands still for the groups: who is not heard of may have been told to go elsewhere, and nothing could be stored.
// Who waits is told, and may find a coordinator that can be reached by others.
func (c *Coordinator) sitOut(now time.Time, cause error) (next time.Time) {
	c.mu.Lock()
	if c.cutOff.IsZero() {
		c.cutOff = now
	}
	c.told = now.Add(outageLook)
	next = c.told
	c.mu.Unlock()
	for _, g := range c.loaded() {
		if !g.turn.tryLock() {
			continue
		}
		if !g.gone {
			g.turnAway(now, &UnavailableError{g.name.group, cause})
		}
		c.unlockLater(g)
	}
	return next
}

// goOn ends an outage, if there was one: whatever was to happen by some time has so much more.
func (c *Coordinator) goOn(now time.Time) {
	c.mu.Lock()
	since := c.cutOff
	c.cutOff = time.Time{}
	c.mu.Unlock()
	if since.IsZero() {
		return
	}
	for _, g := range c.loaded() {
		if c.acquire(g) != nil {
			continue
		}
		if !g.gone {
			g.putOff(now.Sub(since))
		}
		c.unlock(g)
	}
}

// turnAway ends what members wait for. They stay members, and have a session's time to ask again.
func (g *classic) turnAway(now time.Time, err error) {
	for _, m := range g.members {
		if m.join != nil || m.sync != nil {
			m.fresh = false
			m.alive(now)
		}
		g.answerJoin(m, JoinResult{}, err)
		g.answerSync(m, SyncResult{}, err)
	}
}

// putOff moves everything that is to happen by some time.
func (g *classic) putOff(d time.Duration) {
	for _, m := range g.members {
		m.deadline = m.deadline.Add(d)
	}
	for id, until := range g.pending {
		g.pending[id] = until.Add(d)
	}
	if !g.deadline.IsZero() {
		g.deadline = g.deadline.Add(d)
	}
}
