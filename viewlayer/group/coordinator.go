package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// Options are what a Coordinator works with.
type Options struct {
	Store *logstore.Store
	// TopicExists tells whether a topic is still there; the bookmarks of others are forgotten. Default: all are.
	TopicExists func(topic.ID) bool
	Now         func() time.Time // required
	NewID       func() string    // required: something that nobody can guess and that never repeats, for member ids
	// Wake is called when Tick should be called earlier than it said, and must not block. Default: nobody is; Tick is then to be called every 100 ms or so.
	Wake func()
	Logf func(format string, args ...any) // is told what an operator may want to know; default: nobody is

	// Mine tells whether this coordinator coordinates the group; where there are several, they share the groups (CoordinatorOf). When its answers change, Reassigned
	// is called at once. Default: all groups are.
	Mine func(namespace, group string) bool
	// After sends the time after a while, as time.After does. It lets callers go that wait for a group while there is no majority. Default: it never does, and they wait.
	After func(time.Duration) <-chan time.Time

	InitialDelay           time.Duration // that the first members of a group wait for others; default 3 s, negative: none
	SessionMin, SessionMax time.Duration // session timeouts that a member may ask for; default 6 s and 30 min
	GroupsMax              int           // groups that have members, or wait for some; default 100,000
	MembersMax             int           // of a group; default 10,000
	MetadataMax            int           // bytes of text that goes with a bookmark; default 4096
	OffsetsRetention       time.Duration // how long the bookmarks of a group without members are kept; default 7 days, negative: for ever
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (o *Options) setDefaults() {
	orDefault(&o.InitialDelay, 3*time.Second)
	orDefault(&o.SessionMin, 6*time.Second)
	orDefault(&o.SessionMax, 30*time.Minute)
	orDefault(&o.GroupsMax, 100_000)
	orDefault(&o.MembersMax, 10_000)
	orDefault(&o.MetadataMax, 4096)
	orDefault(&o.OffsetsRetention, 7*24*time.Hour)
	o.InitialDelay = max(o.InitialDelay, 0)
	if o.TopicExists == nil {
		o.TopicExists = func(topic.ID) bool { return true }
	}
	if o.Mine == nil {
		o.Mine = func(string, string) bool { return true }
	}
	if o.After == nil {
		o.After = func(time.Duration) <-chan time.Time { return nil }
	}
	if o.Wake == nil {
		o.Wake = func() {}
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
}

// Coordinator keeps the groups. All methods may be called from any goroutine. Answers are functions that are called once, on whatever goroutine brings the
// decision, with no lock held; they must not block.
//
// A group is in memory while it has members or waits for some. All others are only keys of the store.
type Coordinator struct {
	opts     Options
	rules    rules
	counters counters
	ctx      context.Context // ends with the coordinator
	cancel   context.CancelFunc

	owner  atomic.Uint64 // the mark of this coordinator in the heads that it writes; drawn anew when the outcome of a commit is not known
	term   atomic.Uint64 // how often Mine has changed
	passed atomic.Uint64 // the term that the store has caught up with

	// mu guards what follows. A group's own lock is taken before it, never while it is held.
	mu     sync.Mutex
	groups map[groupName]*group
	lost   map[groupName]struct{} // to be read anew by Tick
	timers timers
	told   time.Time // what Tick said last; zero: nothing is due
	cutOff time.Time // when Tick found that there is no majority; zero: there is one
	closed bool

	taking sync.Mutex // guards taken; held while groups are taken over
	taken  uint64     // the term whose groups are in memory

	sweeping sweepPlace
}

// group is a classic group with its lock and what is known of its stored state.
type group struct {
	turn turn // guards what follows, save for what says otherwise
	name groupName
	c    *Coordinator
	classic

	gone     bool        // not in Coordinator.groups any more: look it up again
	unwanted atomic.Bool // to be given up by who has it; not guarded
	detached bool        // a copy for a sweep, never in Coordinator.groups
	headKey  string
	stored   head   // as it is in the store
	raw      []byte // stored, encoded; nil: the group is not in the store

	// Guarded by Coordinator.mu.
	due   time.Time // when tick is to be called; zero: not in timers
	index int       // in timers
}

// Open brings back the groups that have members and are this coordinator's. Their sessions begin now.
func Open(opts Options) (*Coordinator, error) {
	opts.setDefaults()
	if opts.Store == nil || opts.Now == nil || opts.NewID == nil {
		return nil, &logstore.InvalidError{What: "group.Open: Store, Now and NewID must be set"}
	}
	c := &Coordinator{opts: opts, groups: map[groupName]*group{}, lost: map[groupName]struct{}{}, rules: rules{
		initialDelay: opts.InitialDelay, sessionMin: opts.SessionMin, sessionMax: opts.SessionMax, membersMax: opts.MembersMax,
	}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.drawOwner()
	if err := c.readAll(); err != nil {
		c.cancel()
		return nil, fmt.Errorf("the groups' stored state: %w", err)
	}
	return c, nil
}

// drawOwner makes all heads that are stored somebody else's, so that each is written once more before a bookmark is moved under it.
func (c *Coordinator) drawOwner() { c.owner.Store(xxhash.Sum64String(c.opts.NewID()) | 1) }

// lock returns the group, locked, made from the store if it is not in memory, if it is this coordinator's to serve. unlock must follow.
func (c *Coordinator) lock(n groupName) (*group, error) {
	if err := c.serves(n); err != nil {
		return nil, err
	}
	return c.take(n)
}

// take is lock without the question of whose group it is.
func (c *Coordinator) take(n groupName) (*group, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, &UnavailableError{n.group, nil}
		}
		g := c.groups[n]
		if g == nil && len(c.groups) >= c.opts.GroupsMax {
			c.mu.Unlock()
			return nil, &UnavailableError{n.group, &logstore.LimitError{What: "groups with members", Got: c.opts.GroupsMax + 1, Max: c.opts.GroupsMax}}
		}
		if g == nil {
			g = c.newGroup(n)
			c.groups[n] = g
			g.turn.lock() // nobody else has it yet
			c.mu.Unlock()
			if err := g.load(c.opts.Now()); err != nil {
				c.unload(g)
				g.turn.unlock()
				return nil, err
			}
			return g, nil
		}
		c.mu.Unlock()
		if err := c.acquire(g); err != nil {
			return nil, err
		}
		switch {
		case g.gone:
			g.turn.unlock()
		case g.sameHead():
			return g, nil
		default: // another coordinator had it in between; its word counts
			g.lose()
			c.unlock(g)
		}
	}
}

func (c *Coordinator) newGroup(n groupName) *group {
	g := &group{name: n, c: c, headKey: n.headKey(), index: -1, turn: newTurn()}
	g.classic = *newClassic(n.group, surroundings{&c.rules, &c.counters, c.opts.NewID, g.save, c.opts.Logf})
	return g
}

// unlock gives the group back, sees to its next tick, and calls what it has to answer.
func (c *Coordinator) unlock(g *group) { c.release(g, true) }

// unlockLater is unlock after calls that put deadlines off at most: the next tick comes too early then, and costs nothing here.
func (c *Coordinator) unlockLater(g *group) { c.release(g, false) }

func (c *Coordinator) release(g *group, reschedule bool) {
	wake := false
	switch {
	case g.gone || g.detached:
	case g.unwanted.Load():
		g.giveUp(&NotCoordinatorError{g.name.group})
	case g.idle():
		c.unload(g)
	case reschedule:
		wake = c.schedule(g)
	}
	out := g.out
	g.out = nil
	gone := g.gone
	g.turn.unlock()
	if !gone && g.unwanted.Load() && g.turn.tryLock() { // it became so just now, and nobody else will see to it
		c.release(g, false)
	}
	for _, f := range out {
		f()
	}
	if wake {
		c.opts.Wake()
	}
}

// unload takes the group out of memory. It is locked.
func (c *Coordinator) unload(g *group) {
	g.gone = true
	if g.detached {
		return
	}
	c.mu.Lock()
	delete(c.groups, g.name)
	c.timers.take(g)
	c.mu.Unlock()
}

// lose gives the group up: another coordinator has it, or had it and it is to be read anew.
func (g *group) lose() error {
	err := &NotCoordinatorError{g.name.group}
	g.giveUp(err)
	if !g.detached {
		g.c.mu.Lock()
		g.c.lost[g.name] = struct{}{}
		g.c.mu.Unlock()
		g.c.opts.Wake()
	}
	g.c.opts.Logf("group '%s' in '%s' was changed by another coordinator; its members are told to look for it", g.name.group, g.name.namespace)
	return err
}

// load makes the machine what the store knows of it.
func (g *group) load(now time.Time) error {
	key := g.headKey
	raw, ok := g.c.opts.Store.Get(key)
	if !ok {
		return nil
	}
	h, err := decodeHead(key, raw)
	if err != nil {
		return err
	}
	g.stored, g.raw = h, raw
	g.generation, g.protocolType, g.since = h.generation, h.protocolType, time.UnixMilli(h.since)
	if h.members == 0 {
		return nil
	}
	for i := range h.members {
		key := g.name.memberKey(i)
		v, ok := g.c.opts.Store.Get(key)
		if !ok {
			return &CorruptValueError{key, "it is missing, though the group's head counts it"}
		}
		m, err := decodeMember(key, v)
		if err != nil {
			return err
		}
		m.synced = true
		m.alive(now)
		g.members = append(g.members, m)
		g.said += m.size()
		g.byID[m.id] = m
		if m.instance != "" {
			g.byInstance[m.instance] = m
		}
	}
	if g.byID[h.leader] == nil {
		return &CorruptValueError{key, "its leader is not one of its members"}
	}
	g.state, g.protocol, g.leader = Stable, h.protocol, h.leader
	return nil
}

// opsPerTxn bounds the operations of one transaction of this view.
const opsPerTxn = 4096

// save stores the group as it is now: a generation with its assignment, or that there are no members. It holds if nobody else changed the group.
func (g *group) save() error {
	h := head{writes: g.stored.writes + 1, generation: g.generation, members: len(g.members), protocolType: g.protocolType, protocol: g.protocol, leader: g.leader}
	if g.state == Empty {
		h.since = g.since.UnixMilli()
	}
	h.owner = g.mark()
	raw := h.encode()
	ops := []logstore.Op{logstore.Put(g.headKey, raw)}
	for i, m := range g.members {
		ops = append(ops, logstore.Put(g.name.memberKey(i), m.encode()))
	}
	for i := len(g.members); i < g.stored.members; i++ {
		ops = append(ops, logstore.Remove(g.name.memberKey(i)))
	}
	if err := g.write(ops); err != nil {
		return err
	}
	g.stored, g.raw = h, raw
	return nil
}

// write orders a change of the group, on condition that its head is as it is known here.
func (g *group) write(ops []logstore.Op) error {
	// Relaxed: it waits for its place in the order and not for the disk, since the group is locked. Who answers a client because of it waits for the disk then.
	// Patient: what is not known to have happened could not be taken back here.
	_, err := g.c.opts.Store.Commit(g.c.ctx, logstore.Txn{If: []logstore.Condition{g.condition()}, Do: ops, Wait: logstore.Relaxed, Patient: true})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, logstore.ErrConflict):
		return g.lose()
	case errors.As(err, new(*logstore.LimitError)):
		return err // it is no use to try again
	}
	g.c.opts.Logf("group '%s' in '%s' could not be stored: %v", g.name.group, g.name.namespace, err)
	return &UnavailableError{g.name.group, err}
}

// condition holds as long as nobody but this coordinator changed the group.
func (g *group) condition() logstore.Condition {
	if g.raw == nil {
		return logstore.KeyAbsent(g.headKey)
	}
	return logstore.KeyIs(g.headKey, g.raw)
}

// mark is what this coordinator writes into heads. A sweep of a group that is another's has a mark of its own, so that not even the coordinator beside it moves
// bookmarks under its head.
func (g *group) mark() uint64 {
	if g.detached {
		return ^g.c.owner.Load()
	}
	return g.c.owner.Load()
}

// claim makes sure that the head, which there is, was written by this coordinator.
func (g *group) claim() error {
	if g.stored.owner == g.mark() {
		return nil
	}
	return g.fence()
}

// exists reports whether the group is more than a name that somebody asked for.
func (g *group) exists() bool { return g.raw != nil || !g.idle() }

// Join makes the client a member, or keeps it one. The answer comes when the group has gathered; its error may be a *MemberIDRequiredError.
func (c *Coordinator) Join(r *JoinRequest, answer func(JoinResult, error)) {
	n := groupName{r.Namespace, r.Group}
	g, err := c.lockNamed(n)
	if err == nil && r.MemberID != "" && !g.exists() {
		c.unlock(g)
		err = &UnknownMemberError{r.Group, r.MemberID, r.InstanceID}
	}
	if err != nil {
		answer(JoinResult{}, err)
		return
	}
	g.joinGroup(c.opts.Now(), r, answer)
	c.unlock(g)
}

// Sync answers with the member's assignment when the leader has brought it.
func (c *Coordinator) Sync(r *SyncRequest, answer func(SyncResult, error)) {
	g, err := c.lockNamed(groupName{r.Namespace, r.Group})
	if err != nil {
		answer(SyncResult{}, err)
		return
	}
	g.syncGroup(c.opts.Now(), r, answer)
	c.unlock(g)
}

// Heartbeat says that the member lives, and learns whether the group goes on as it is.
func (c *Coordinator) Heartbeat(namespace, group, memberID, instanceID string, generation int32) error {
	n := groupName{namespace, group}
	g, err := c.lockNamed(n)
	if err != nil {
		if errors.As(err, new(*UnavailableError)) {
			c.noticed(n, memberID, instanceID, generation)
		}
		return err
	}
	defer c.unlockLater(g)
	return g.heartbeat(c.opts.Now(), memberID, instanceID, generation)
}

// noticed puts the member's session off, though it cannot be told how its group is.
func (c *Coordinator) noticed(n groupName, memberID, instanceID string, generation int32) {
	c.mu.Lock()
	g := c.groups[n]
	c.mu.Unlock()
	if g == nil || !g.turn.tryLock() {
		return
	}
	defer c.unlockLater(g)
	if m, err := g.checkGeneration(memberID, instanceID, generation); err == nil {
		m.alive(c.opts.Now())
	}
}

// Leaver is a member that leaves: by its id, or, if it is a static one, by its instance id alone.
type Leaver struct{ MemberID, InstanceID, Reason string }

// Leave takes members out. The errors are those of the single members, nil where it left.
func (c *Coordinator) Leave(namespace, group string, who []Leaver) ([]error, error) {
	g, err := c.lockNamed(groupName{namespace, group})
	if err != nil {
		return nil, err
	}
	defer c.unlock(g)
	errs := make([]error, len(who))
	for i, l := range who {
		errs[i] = g.leave(c.opts.Now(), l.MemberID, l.InstanceID, l.Reason)
	}
	return errs, nil
}

// lockNamed is lock for a group that members are in: it must have a name.
func (c *Coordinator) lockNamed(n groupName) (*group, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	return c.lock(n)
}

// Close answers everybody who waits, and takes no more requests. The groups stay in the store.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel() // who waits for the outcome of a change waits no longer
	for _, g := range c.loaded() {
		g.turn.lock()
		if !g.gone {
			g.giveUp(&UnavailableError{g.name.group, nil})
		}
		c.unlock(g)
	}
}

// sameHead reports whether the store has the group as it is known here.
func (g *group) sameHead() bool {
	raw, ok := g.c.opts.Store.Get(g.headKey)
	return ok == (g.raw != nil) && bytes.Equal(raw, g.raw)
}
