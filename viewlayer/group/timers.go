package group

import (
	"container/heap"
	"time"
)

// timers are the groups that have something to do at some time, the earliest first.
type timers []*group

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].due.Before(t[j].due) }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

func (t *timers) Push(x any) {
	g := x.(*group)
	g.index = len(*t)
	*t = append(*t, g)
}

func (t *timers) Pop() any {
	last := len(*t) - 1
	g := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	g.index = -1
	return g
}

// take removes the group, if it is there.
func (t *timers) take(g *group) {
	if g.index >= 0 {
		heap.Remove(t, g.index)
		g.due = time.Time{}
	}
}

// schedule sees to it that the group, which is locked, is ticked in time. Sessions are put off all the time, so what stands there is only moved when it is too
// late: a tick that comes too early finds nothing to do and says when to come again. It reports whether Tick must be called earlier than it last said.
func (c *Coordinator) schedule(g *group) (wake bool) {
	next := g.next()
	c.mu.Lock()
	defer c.mu.Unlock()
	if next.IsZero() || g.index >= 0 && !next.Before(g.due) {
		return false
	}
	g.due = next
	if g.index >= 0 {
		heap.Fix(&c.timers, g.index)
	} else {
		heap.Push(&c.timers, g)
	}
	if !c.told.IsZero() && !next.Before(c.told) {
		return false
	}
	c.told = next
	return true
}

// ticksMost bounds the groups that one call of Tick looks after. Each may wait for its place in the order.
const ticksMost = 256

// busyPause is after what time Tick looks again for a group that somebody else has.
const busyPause = 50 * time.Millisecond

// Tick does what has become due by now: sessions that end, rebalances that wait no longer. It returns when it wants to be called again, the zero time for never;
// Options.Wake tells when that changes. It does a bounded number of things, one after another, and each may wait for its place in the order; while there is no
// majority it does none, and the groups have that time more.
func (c *Coordinator) Tick(now time.Time) (next time.Time) {
	if err := c.opts.Store.Available(); err != nil {
		return c.sitOut(now, err)
	}
	c.goOn(now)
	whole := c.takeOver()
	c.readLost()
	var due []*group // each once: what a tick makes due again at once waits for the next call
	c.mu.Lock()
	for len(due) < ticksMost && len(c.timers) > 0 && !c.timers[0].due.After(now) {
		due = append(due, c.timers[0])
		c.timers.take(c.timers[0])
	}
	c.mu.Unlock()
	for _, g := range due {
		if !g.turn.tryLock() {
			c.postpone(g, now.Add(busyPause))
			continue
		}
		switch {
		case g.gone:
		case !c.opts.Mine(g.name.namespace, g.name.group):
			g.giveUp(&NotCoordinatorError{g.name.group})
		case !g.sameHead():
			g.lose()
		default:
			g.tick(now)
		}
		c.unlock(g)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = time.Time{}
	if len(c.timers) > 0 {
		c.told = c.timers[0].due
	}
	if soon := now.Add(outageLook); !whole && (c.told.IsZero() || soon.Before(c.told)) {
		c.told = soon
	}
	return c.told
}

// postpone has a group ticked later that somebody else has at the moment.
func (c *Coordinator) postpone(g *group, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[g.name] != g || g.index >= 0 && !at.Before(g.due) {
		return
	}
	g.due = at
	if g.index >= 0 {
		heap.Fix(&c.timers, g.index)
	} else {
		heap.Push(&c.timers, g)
	}
}
