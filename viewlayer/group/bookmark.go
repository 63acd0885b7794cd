package group

import (
	"context"
	"errors"
	"time"

	"polylog/logstore"
)

// Bookmark is how far a group has read a partition. Moving it deletes nothing, and nothing that is deleted moves it.
type Bookmark struct {
	TopicPartition
	Offset      int64  // of the next record to read
	LeaderEpoch int32  // of the last record that was read; -1: not known
	Metadata    string // what the client wanted to keep with it
	Committed   int64  // Unix milliseconds; Commit sets it
	Expires     int64  // Unix milliseconds; 0: as the broker is configured; Commit sets it
}

// CommitRequest moves bookmarks. Without a member (generation -1) it is for groups that have no members.
type CommitRequest struct {
	Namespace, Group     string
	MemberID, InstanceID string
	Generation           int32
	Retention            time.Duration // that the client asks for; negative: as the broker is configured
	Bookmarks            []Bookmark
}

// commitTries is how often a commit is tried whose group changes in between; each change is somebody else's progress.
const commitTries = 10

// Commit moves the bookmarks, all of them or, of very many, in several steps. The errors are those of the single bookmarks, nil if none is refused; err is the
// error of all. When it returns the commit has its place in the order: it holds after a crash once an empty durable transaction was committed after it.
func (c *Coordinator) Commit(ctx context.Context, r *CommitRequest) (refused []error, err error) {
	now := c.opts.Now()
	var ops []logstore.Op
	n := groupName{r.Namespace, r.Group}
	for i := range r.Bookmarks {
		b := r.Bookmarks[i]
		if len(b.Metadata) > c.opts.MetadataMax {
			if refused == nil {
				refused = make([]error, len(r.Bookmarks))
			}
			refused[i] = &MetadataTooLargeError{len(b.Metadata), c.opts.MetadataMax}
			continue
		}
		b.Committed, b.Expires = now.UnixMilli(), 0
		if r.Retention >= 0 {
			b.Expires = now.Add(r.Retention).UnixMilli()
		}
		ops = append(ops, logstore.Put(n.bookmarkKey(b.TopicPartition), b.encode()))
	}
	if len(n.group) > NameMax { // the empty name is allowed here: clients that only keep bookmarks used it
		return nil, n.check()
	}
	check := func(g *group) error {
		if r.Generation >= 0 && !g.exists() {
			return &IllegalGenerationError{n.group, r.Generation, g.generation}
		}
		return g.checkCommit(now, r.MemberID, r.InstanceID, r.Generation)
	}
	if len(ops) == 0 {
		_, err = c.conditionFor(n, check)
		return refused, err
	}
	for len(ops) > 0 {
		some := ops[:min(len(ops), opsPerTxn)]
		if err := c.commit(ctx, n, check, some); err != nil {
			return nil, err
		}
		c.counters.bookmarksMoved.Add(int64(len(some)))
		ops = ops[len(some):]
	}
	return refused, nil
}

// commit orders changes of the group's bookmarks. The group is not locked meanwhile: its head as it was when the check passed is the condition, so a generation
// that was stored in between makes the check happen again.
func (c *Coordinator) commit(ctx context.Context, n groupName, check func(*group) error, ops []logstore.Op) error {
	for range commitTries {
		cond, err := c.conditionFor(n, check)
		if err != nil {
			return err
		}
		_, err = c.opts.Store.Commit(ctx, logstore.Txn{If: []logstore.Condition{cond}, Do: ops, Wait: logstore.Relaxed})
		if err == nil {
			return nil
		}
		if errors.As(err, new(*logstore.UnknownOutcomeError)) {
			c.drawOwner() // from the next commit of the group on, this one has no effect if it had none by then
		}
		if !errors.Is(err, logstore.ErrConflict) || ctx.Err() != nil {
			return &UnavailableError{n.group, err}
		}
		if err := c.verify(n); err != nil {
			return err
		}
	}
	return &RebalanceInProgressError{n.group}
}

// conditionFor checks a change of bookmarks against the group, and returns the condition under which what was checked still holds. A group that is not stored
// yet is stored first: there is no bookmark without a head.
func (c *Coordinator) conditionFor(n groupName, check func(*group) error) (logstore.Condition, error) {
	g, err := c.lock(n)
	if err != nil {
		return logstore.Condition{}, err
	}
	defer c.unlockLater(g)
	if err := check(g); err != nil {
		return logstore.Condition{}, err
	}
	if g.raw != nil {
		err := g.claim()
		return g.condition(), err
	}
	g.since = c.opts.Now()
	h := head{writes: 1, since: g.since.UnixMilli(), owner: g.mark()}
	raw := h.encode()
	if err := g.write([]logstore.Op{logstore.Put(n.headKey(), raw)}); err != nil {
		return logstore.Condition{}, err
	}
	g.stored, g.raw = h, raw
	return g.condition(), nil
}

// verify gives the group up if the store has it otherwise than it is known here, which only another coordinator can have done.
func (c *Coordinator) verify(n groupName) error {
	g, err := c.lock(n)
	if err != nil {
		return err
	}
	defer c.unlockLater(g)
	if !g.sameHead() {
		return g.lose()
	}
	return nil
}

// Fetch returns the group's bookmark in the partition, if there is one. It may have been ordered a moment ago and not be on the disk yet. Where there are several
// coordinators, CatchUp comes first.
func (c *Coordinator) Fetch(namespace, group string, p TopicPartition) (Bookmark, bool, error) {
	if !c.opts.Mine(namespace, group) {
		return Bookmark{}, false, &NotCoordinatorError{group}
	}
	key := groupName{namespace, group}.bookmarkKey(p)
	v, ok := c.opts.Store.Get(key)
	if !ok {
		return Bookmark{}, false, nil
	}
	b, err := decodeBookmark(key, p, v)
	return b, err == nil, err
}

// FetchAll returns all bookmarks of the group, by topic and partition. As with Fetch, CatchUp comes first.
func (c *Coordinator) FetchAll(namespace, group string) (all []Bookmark, err error) {
	if !c.opts.Mine(namespace, group) {
		return nil, &NotCoordinatorError{group}
	}
	prefix := groupName{namespace, group}.key(bookmarkPrefix)
	c.opts.Store.Scan(prefix, func(key string, v []byte) bool {
		var b Bookmark
		if b, err = decodeBookmarkAt(prefix, key, v); err == nil {
			all = append(all, b)
		}
		return err == nil
	})
	return all, err
}

// decodeBookmarkAt decodes a bookmark of the group whose keys begin with prefix.
func decodeBookmarkAt(prefix, key string, v []byte) (Bookmark, error) {
	p, ok := parsePartition(key[len(prefix):])
	if !ok {
		return Bookmark{}, &CorruptValueError{key, "the key does not end with a topic and a partition"}
	}
	return decodeBookmark(key, p, v)
}

// Removal names a bookmark that is to go. TopicName is what members subscribe to.
type Removal struct {
	TopicPartition
	TopicName string
}

// RemoveBookmarks removes bookmarks of a group, those of topics that no member reads. The errors are those of the single ones, nil if none is refused.
func (c *Coordinator) RemoveBookmarks(namespace, group string, what []Removal) (refused []error, err error) {
	n := groupName{namespace, group}
	g, err := c.lock(n)
	if err != nil {
		return nil, err
	}
	defer c.unlock(g)
	if !g.exists() {
		return nil, &NotFoundError{n.group}
	}
	reads := func(string) bool { return false }
	if g.state != Empty {
		if reads = g.subscription(); reads == nil {
			return nil, &NonEmptyGroupError{n.group}
		}
	}
	if g.raw != nil {
		if err := g.claim(); err != nil {
			return nil, err
		}
	}
	var ops []logstore.Op
	for i, r := range what {
		if reads(r.TopicName) {
			if refused == nil {
				refused = make([]error, len(what))
			}
			refused[i] = &SubscribedError{n.group, r.TopicName}
			continue
		}
		ops = append(ops, logstore.Remove(n.bookmarkKey(r.TopicPartition)))
	}
	for len(ops) > 0 { // locked, so that nobody subscribes meanwhile
		some := ops[:min(len(ops), opsPerTxn)]
		if err := g.write(some); err != nil {
			return nil, err
		}
		ops = ops[len(some):]
	}
	return refused, nil
}
