package group

import (
	"context"
	"errors"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// SweepInterval is how long after a whole sweep the next one begins.
const SweepInterval = 10 * time.Minute

// sweepStep bounds the groups that one step of a sweep looks at.
const sweepStep = 4096

// sweepPlace is where the last step of a sweep ended. One goroutine at a time sweeps.
type sweepPlace struct{ last string }

// Sweep forgets bookmarks: those of topics that are gone, and those of groups without members that nobody used for as long as Options say; and groups that have
// neither members nor bookmarks. It does one bounded step and says when it wants to be called again. One goroutine calls it. Where there are several coordinators, one of
// them sweeps all groups, those of the others by what is stored of them; if two do, each thing is forgotten once.
func (c *Coordinator) Sweep() (next time.Duration, err error) {
	if c.opts.Store.Available() != nil {
		return outageLook, nil
	}
	var names []groupName
	place := &c.sweeping
	more := false
	c.opts.Store.Scan(headPrefix, func(key string, _ []byte) bool {
		if key <= place.last {
			return true
		}
		if more = len(names) == sweepStep; more {
			return false
		}
		place.last = key
		if n, _, err := parseName(headPrefix, key); err == nil {
			names = append(names, n)
		}
		return true
	})
	for _, n := range names {
		if e := c.sweepGroup(n); e != nil && !errors.As(e, new(*NotCoordinatorError)) { // somebody uses it
			err = errors.Join(err, e)
		}
	}
	if more {
		return time.Second, err
	}
	place.last = ""
	return SweepInterval, err
}

// sweepGroup forgets what is to be forgotten of one group. It is not locked while its bookmarks are looked at: the condition of what is then removed is that the
// bookmark is as it was.
func (c *Coordinator) sweepGroup(n groupName) error {
	g, err := c.borrow(n)
	if err != nil {
		return err
	}
	now := c.opts.Now()
	due := g.expiry(now, c.opts.OffsetsRetention)
	unchanged := g.condition() // else somebody uses the group
	c.unlockLater(g)

	var topicID topic.ID // of the last bookmark; they come topic by topic
	exists := c.opts.TopicExists(topicID)
	var txn logstore.Txn
	left := false
	prefix := n.key(bookmarkPrefix)
	flush := func() {
		if len(txn.Do) == 0 || err != nil {
			return
		}
		switch _, e := c.opts.Store.Commit(context.Background(), txn); {
		case errors.Is(e, logstore.ErrConflict): // one of them moved just now; the next sweep sees them again
			left = true
		case e != nil:
			err = &UnavailableError{n.group, e}
		default:
			c.counters.bookmarksForgotten.Add(int64(len(txn.Do)))
		}
		txn = logstore.Txn{}
	}
	c.opts.Store.Scan(prefix, func(key string, v []byte) bool {
		var b Bookmark
		if b, err = decodeBookmarkAt(prefix, key, v); err != nil {
			return false
		}
		if b.Topic != topicID {
			topicID, exists = b.Topic, c.opts.TopicExists(b.Topic)
		}
		if !due(&b) && exists {
			left = true
			return true
		}
		if len(txn.If) == 0 {
			txn.If = append(txn.If, unchanged)
		}
		txn.If, txn.Do = append(txn.If, logstore.KeyIs(key, v)), append(txn.Do, logstore.Remove(key))
		if txn.Wait = logstore.Relaxed; len(txn.Do) == sweepTxn {
			flush()
		}
		return err == nil
	})
	flush()
	if err != nil || left {
		return err
	}
	if g, err = c.borrow(n); err != nil {
		return err
	}
	defer c.unlock(g)
	if g.raw == nil || !g.idle() || g.detached && now.Sub(g.since) < SweepInterval { // members may be gathering at its coordinator
		return nil
	}
	if err := g.fence(); err != nil || c.anyBookmark(n) {
		return err
	}
	return g.forget(nil)
}

// borrow returns the group, locked, for a sweep: a copy of what is stored if it is another coordinator's.
func (c *Coordinator) borrow(n groupName) (*group, error) {
	if c.opts.Mine(n.namespace, n.group) {
		return c.lock(n)
	}
	g := c.newGroup(n)
	g.detached = true
	g.turn.lock()
	return g, g.load(c.opts.Now())
}

// sweepTxn bounds the bookmarks that one transaction of a sweep removes.
const sweepTxn = 512

// expiry returns a function that tells whether a bookmark of the group is kept no longer. In a group that had members all expire together, some time after the
// last member left; in one that never had any, each on its own.
func (g *group) expiry(now time.Time, retention time.Duration) func(*Bookmark) bool {
	ms := now.UnixMilli()
	if !g.idle() {
		return func(*Bookmark) bool { return false }
	}
	since, simple := g.since.UnixMilli(), g.protocolType == ""
	return func(b *Bookmark) bool {
		from := since
		if simple {
			from = b.Committed
		}
		if b.Expires > 0 {
			return ms >= b.Expires
		}
		return retention >= 0 && ms-from >= retention.Milliseconds()
	}
}

// anyBookmark reports whether the group has one.
func (c *Coordinator) anyBookmark(n groupName) (any bool) {
	c.opts.Store.Scan(n.key(bookmarkPrefix), func(string, []byte) bool {
		any = true
		return false
	})
	return any
}
