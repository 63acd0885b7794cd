package group

import (
	"fmt"
	"slices"
	"time"
)

// State is where a group is in its life.
type State uint8

const (
	Empty               State = iota // has no members, but may have bookmarks
	PreparingRebalance               // waits for the members to join
	CompletingRebalance              // a generation has begun; waits for the leader to say who reads what
	Stable                           // every member can have its assignment
	Dead                             // does not exist
)

func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// Protocol is a way of sharing out the work that a member can follow, and what it has to say to the leader about itself.
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinRequest asks to become or stay a member.
type JoinRequest struct {
	Namespace, Group string
	MemberID         string // empty: a new member
	InstanceID       string // of a static member, else empty
	ClientID, Host   string
	Session          time.Duration // without a heartbeat after which the member is taken for dead
	Rebalance        time.Duration // that the group waits for the member in a rebalance
	ProtocolType     string
	Protocols        []Protocol // the preferred first
	RequireID        bool       // the client knows KIP-394: a new member is given an id first and joins with it
	KnowsSkip        bool       // the client knows KIP-814: a static leader that comes back can be told to leave the assignment as it is
	Reason           string     // for the log
}

// JoinResult is the membership that was asked for.
type JoinResult struct {
	MemberID               string
	Generation             int32
	ProtocolType, Protocol string
	Leader                 string
	Members                []JoinedMember // for the leader only
	SkipAssignment         bool
}

// JoinedMember is a member as the leader sees it.
type JoinedMember struct {
	ID, InstanceID string
	Metadata       []byte // of the protocol that was chosen
}

// SyncRequest asks for the member's assignment, and brings all of them if the member is the leader.
type SyncRequest struct {
	Namespace, Group       string
	MemberID, InstanceID   string
	Generation             int32
	ProtocolType, Protocol string // as the member knows them; empty: not said
	Assignments            []Assignment
}

// Assignment is what a member is to do, in the words of the protocol.
type Assignment struct {
	MemberID   string
	Assignment []byte
}

// SyncResult is what the member is to do.
type SyncResult struct {
	ProtocolType, Protocol string
	Assignment             []byte
}

// member of a group. It is in a generation when its join was answered with it.
type member struct {
	id, instance, clientID, host string
	session, rebalance           time.Duration
	protocols                    []Protocol
	assignment                   []byte

	deadline time.Time // when it is taken for dead, unless an answer to it is outstanding
	fresh    bool      // has not been in any generation yet: it is patient for newMemberPatience and no longer
	synced   bool      // has asked for its assignment in this generation
	join     func(JoinResult, error)
	sync     func(SyncResult, error)
}

// newMemberPatience is how long a new member's join may wait for the others. Clients give up after 5 minutes or so, without a word.
const newMemberPatience = 5 * time.Minute

// rules are what is the same for all groups.
type rules struct {
	initialDelay           time.Duration
	sessionMin, sessionMax time.Duration
	membersMax             int
}

// classic is the state machine of a group whose members assign the work among themselves (KIP-62; static members: KIP-345; member ids: KIP-394; protocol
// checks of SyncGroup: KIP-559).
//
// It has no clock, lock or goroutine: the time comes with each call, tick is called when next says so, and what is to be answered is gathered in out and called
// by whoever holds the lock, after giving it back. Every answer that was handed in is called exactly once.
//
// Invariants: leader is a member's id, or empty when there are no members; the generation ascends by one with each rebalance; in Stable every member has
// its assignment; in Empty there are no members, though there may be pending ids.
type classic struct {
	name string
	surroundings

	state                  State
	since                  time.Time // of being Empty
	generation             int32
	protocolType, protocol string
	leader                 string
	members                []*member // in the order of their joining
	byID                   map[string]*member
	byInstance             map[string]*member
	pending                map[string]time.Time // ids given out and not joined with yet, and until when they are good

	deadline time.Time     // PreparingRebalance: who has not joined by then is out. Otherwise, if set: who has not synced by then is out.
	initial  bool          // the first members of a group gather until the deadline, even if all known ones are there
	room     time.Duration // by which the deadline of an initial rebalance may still be put off
	grown    bool          // somebody joined since it was last put off

	said int // bytes that the members say of themselves
	out  []func()
}

// surroundings are what a machine has from outside.
type surroundings struct {
	rules *rules
	count *counters
	newID func() string
	// save stores the group as it is, so that it comes back after a restart. When it fails, what it was to store has not happened.
	save func() error
	// note is told what somebody may ask later: why the members joined anew.
	note func(format string, args ...any)
}

func newClassic(name string, s surroundings) *classic {
	return &classic{name: name, surroundings: s,
		byID: map[string]*member{}, byInstance: map[string]*member{}, pending: map[string]time.Time{}}
}

// later has f called once the lock is given back.
func (g *classic) later(f func()) { g.out = append(g.out, f) }

// answerJoin ends the member's waiting join, if there is one.
func (g *classic) answerJoin(m *member, r JoinResult, err error) {
	if f := m.join; f != nil {
		m.join = nil
		g.later(func() { f(r, err) })
	}
}

// answerSync ends the member's waiting sync, if there is one.
func (g *classic) answerSync(m *member, r SyncResult, err error) {
	if f := m.sync; f != nil {
		m.sync = nil
		g.later(func() { f(r, err) })
	}
}

// check finds the member that is spoken of.
func (g *classic) check(memberID, instanceID string) (*member, error) {
	if instanceID != "" {
		m := g.byInstance[instanceID]
		if m == nil {
			return nil, &UnknownMemberError{g.name, memberID, instanceID}
		}
		if m.id != memberID {
			return nil, &FencedInstanceError{g.name, instanceID}
		}
		return m, nil
	}
	m := g.byID[memberID]
	if m == nil {
		return nil, &UnknownMemberError{g.name, memberID, ""}
	}
	return m, nil
}

// checkGeneration finds the member that speaks of its generation.
func (g *classic) checkGeneration(memberID, instanceID string, generation int32) (*member, error) {
	m, err := g.check(memberID, instanceID)
	if err == nil && generation != g.generation {
		err = &IllegalGenerationError{g.name, generation, g.generation}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// alive puts the member's session off.
func (m *member) alive(now time.Time) { m.deadline = now.Add(m.session) }

// expires says when the member is taken for dead; false: it waits for an answer and lives.
func (m *member) expires() (time.Time, bool) {
	return m.deadline, m.fresh || m.join == nil && m.sync == nil
}

// remove takes the member out, without a rebalance.
func (g *classic) remove(m *member) {
	err := &UnknownMemberError{g.name, m.id, m.instance}
	g.answerJoin(m, JoinResult{}, err)
	g.answerSync(m, SyncResult{}, err)
	g.said -= m.size()
	delete(g.byID, m.id)
	if m.instance != "" {
		delete(g.byInstance, m.instance)
	}
	i := slices.Index(g.members, m)
	g.members = slices.Delete(g.members, i, i+1)
	if g.leader == m.id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

// removeAndRebalance takes the member out and shares its work out among the others.
func (g *classic) removeAndRebalance(now time.Time, m *member, why string) {
	g.remove(m)
	switch g.state {
	case Stable, CompletingRebalance:
		g.rebalance(now, "member "+m.id+" "+why)
	case PreparingRebalance:
		g.completeIfAllJoined(now)
	}
}

// heartbeat says that the member lives.
func (g *classic) heartbeat(now time.Time, memberID, instanceID string, generation int32) error {
	m, err := g.checkGeneration(memberID, instanceID, generation)
	if err != nil {
		return err
	}
	m.alive(now)
	if g.state == PreparingRebalance {
		return &RebalanceInProgressError{g.name}
	}
	return nil
}

// leave takes a member out by its id, or a static one by its instance id alone.
func (g *classic) leave(now time.Time, memberID, instanceID, reason string) error {
	if memberID == "" {
		m := g.byInstance[instanceID]
		if m == nil || instanceID == "" {
			return &UnknownMemberError{g.name, memberID, instanceID}
		}
		g.removeAndRebalance(now, m, "was told to leave"+because(reason))
		return nil
	}
	if _, ok := g.pending[memberID]; ok && instanceID == "" {
		delete(g.pending, memberID)
		g.completeIfAllJoined(now)
		return nil
	}
	m, err := g.check(memberID, instanceID)
	if err != nil {
		return err
	}
	g.removeAndRebalance(now, m, "left"+because(reason))
	return nil
}

// because is a reason that a client gives, as a part of a sentence. It comes from outside, so it is quoted and not too long.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%.200q)", reason)
}

// checkCommit says whether the one who speaks may move the group's bookmarks. Generation -1 without a member is a simple consumer, or a tool.
func (g *classic) checkCommit(now time.Time, memberID, instanceID string, generation int32) error {
	if generation < 0 && g.state == Empty {
		return nil
	}
	if generation < 0 && memberID == "" && instanceID == "" {
		return &UnknownMemberError{g.name, "", ""} // members are at work; they alone may say how far they are
	}
	m, err := g.checkGeneration(memberID, instanceID, generation)
	if err != nil {
		return err
	}
	m.alive(now)
	if g.state == CompletingRebalance {
		return &RebalanceInProgressError{g.name}
	}
	return nil
}

// dissolve ends every wait with the error. The machine is not used after it.
func (g *classic) dissolve(err error) {
	for _, m := range g.members {
		g.answerJoin(m, JoinResult{}, err)
		g.answerSync(m, SyncResult{}, err)
	}
}

// tick does what has become due.
func (g *classic) tick(now time.Time) {
	for id, until := range g.pending {
		if !now.Before(until) {
			delete(g.pending, id)
		}
	}
	for _, m := range slices.Clone(g.members) {
		if g.byID[m.id] != m {
			continue // the end of another took it along
		}
		if at, ok := m.expires(); ok && !now.Before(at) {
			g.count.membersLost.Add(1)
			g.removeAndRebalance(now, m, fmt.Sprintf("was not heard of for %v", m.session))
		}
	}
	if !g.deadline.IsZero() && !now.Before(g.deadline) {
		if g.state == PreparingRebalance {
			g.joinDeadline(now)
		} else {
			g.syncDeadline(now)
		}
	}
	g.completeIfAllJoined(now)
}

// next says when tick has something to do; the zero time: never, as things are.
func (g *classic) next() time.Time {
	next := g.deadline
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, until := range g.pending {
		sooner(until)
	}
	for _, m := range g.members {
		if at, ok := m.expires(); ok {
			sooner(at)
		}
	}
	return next
}

// idle reports whether nothing would be lost if the machine were made anew from what is stored.
func (g *classic) idle() bool {
	return g.state == Empty && len(g.members) == 0 && len(g.pending) == 0
}
