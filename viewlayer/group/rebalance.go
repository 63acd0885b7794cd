package group

import (
	"slices"
	"time"

	"polylog/logstore"
)

// joinAnswer is what a joining client waits for.
type joinAnswer = func(JoinResult, error)

// joinGroup takes in a new member or one that comes again. The answer may come at once or when the group has gathered.
func (g *classic) joinGroup(now time.Time, r *JoinRequest, answer joinAnswer) {
	if err := g.admit(now, r, answer); err != nil {
		g.later(func() { answer(JoinResult{}, err) })
	}
}

func (g *classic) admit(now time.Time, r *JoinRequest, answer joinAnswer) error {
	if r.Session < g.rules.sessionMin || r.Session > g.rules.sessionMax {
		return &InvalidSessionTimeoutError{r.Session, g.rules.sessionMin, g.rules.sessionMax}
	}
	_, isPending := g.pending[r.MemberID]
	known := g.byID[r.MemberID]
	if known == nil && !isPending && g.byInstance[r.InstanceID] == nil && len(g.members)+len(g.pending) >= g.rules.membersMax {
		return &FullGroupError{g.name, g.rules.membersMax}
	}
	if err := g.agrees(r); err != nil {
		return err
	}
	if err := g.fits(r, known); err != nil {
		return err
	}
	if r.MemberID == "" {
		return g.admitNew(now, r, answer)
	}
	if isPending && r.InstanceID == "" {
		delete(g.pending, r.MemberID)
		g.add(now, r.MemberID, r, answer)
		return nil
	}
	m, err := g.check(r.MemberID, r.InstanceID)
	if err != nil {
		return err
	}
	g.rejoin(now, m, r, answer)
	return nil
}

// What members may say of themselves, in bytes: one, and all of a group together. A group is stored as one transaction, one member as one value.
const (
	sayMax    = 512 << 10
	allSayMax = 32 << 20
)

// fits checks that what the member says of itself can be kept; known is the member as it is, or nil.
func (g *classic) fits(r *JoinRequest, known *member) error {
	size := (&member{clientID: r.ClientID, instance: r.InstanceID, protocols: r.Protocols}).size()
	if size > sayMax {
		return &logstore.LimitError{What: "bytes that a member of group '" + g.name + "' says of itself", Got: size, Max: sayMax}
	}
	if known != nil {
		size -= known.size()
	}
	if all := g.said + size; all > allSayMax {
		return &logstore.LimitError{What: "bytes that all members of group '" + g.name + "' say of themselves", Got: all, Max: allSayMax}
	}
	return nil
}

// size is how much the member says of itself.
func (m *member) size() int {
	n := 2*len(m.clientID) + 2*len(m.instance) // the id begins with one of them
	for _, p := range m.protocols {
		n += len(p.Name) + len(p.Metadata)
	}
	return n
}

// agrees checks that the member can work with the others: the same kind of group, and a protocol that all of them have.
func (g *classic) agrees(r *JoinRequest) error {
	if r.ProtocolType == "" || len(r.Protocols) == 0 {
		return &InconsistentProtocolError{g.name, "a member must name a protocol type and at least one protocol"}
	}
	if g.state == Empty {
		return nil
	}
	if r.ProtocolType != g.protocolType {
		return &InconsistentProtocolError{g.name, "its protocol type is '" + g.protocolType + "', not '" + r.ProtocolType + "'"}
	}
	if !slices.ContainsFunc(r.Protocols, func(p Protocol) bool { return g.allHave(p.Name) }) {
		return &InconsistentProtocolError{g.name, "none of the protocols is one that all members have; set the same assignment strategies on all of them"}
	}
	return nil
}

// allHave reports whether every member can follow the protocol.
func (g *classic) allHave(protocol string) bool {
	for _, m := range g.members {
		if !slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol }) {
			return false
		}
	}
	return true
}

func (g *classic) admitNew(now time.Time, r *JoinRequest, answer joinAnswer) error {
	prefix := r.ClientID
	if r.InstanceID != "" {
		prefix = r.InstanceID
	}
	id := prefix + "-" + g.newID()
	switch old := g.byInstance[r.InstanceID]; {
	case r.InstanceID != "" && old != nil:
		g.replace(now, old, id, r, answer)
	case r.InstanceID == "" && r.RequireID:
		g.pending[id] = now.Add(r.Session)
		return &MemberIDRequiredError{id}
	default:
		g.add(now, id, r, answer)
	}
	return nil
}

// add takes in a new member, and everybody joins anew.
func (g *classic) add(now time.Time, id string, r *JoinRequest, answer joinAnswer) {
	if len(g.members) == 0 {
		g.protocolType = r.ProtocolType
	}
	m := &member{id: id, instance: r.InstanceID, fresh: true, deadline: now.Add(newMemberPatience)}
	g.members = append(g.members, m)
	g.byID[id] = m
	if m.instance != "" {
		g.byInstance[m.instance] = m
	}
	if g.leader == "" {
		g.leader = id
	}
	g.grown = true
	g.said += m.size()
	g.update(m, r)
	m.join = answer
	g.rebalance(now, "member "+id+" joined"+because(r.Reason))
}

func (g *classic) update(m *member, r *JoinRequest) {
	g.said -= m.size()
	m.clientID, m.host = r.ClientID, r.Host
	m.session, m.rebalance = r.Session, r.Rebalance
	m.protocols = r.Protocols
	g.said += m.size()
}

// says reports whether the member said the same before.
func (m *member) says(ps []Protocol) bool {
	return slices.EqualFunc(m.protocols, ps, func(a, b Protocol) bool { return a.Name == b.Name && string(a.Metadata) == string(b.Metadata) })
}

// rejoin lets a member that is in the group join again: in a rebalance, or because it has something new to say, or because it missed the answer.
func (g *classic) rejoin(now time.Time, m *member, r *JoinRequest, answer joinAnswer) {
	same := m.says(r.Protocols)
	if g.state == CompletingRebalance && same || g.state == Stable && same && m.id != g.leader {
		m.alive(now)
		res := g.resultFor(m)
		g.later(func() { answer(res, nil) })
		return
	}
	g.update(m, r)
	g.answerJoin(m, JoinResult{}, &RebalanceInProgressError{g.name}) // the same member asked before and has not read the answer
	m.join = answer
	g.rebalance(now, "member "+m.id+" joined again"+because(r.Reason))
}

// replace puts a static member that comes back, in a new process, in the old one's place. If nothing changes for the others they do not join anew.
func (g *classic) replace(now time.Time, m *member, id string, r *JoinRequest, answer joinAnswer) {
	fenced := &FencedInstanceError{g.name, m.instance}
	g.answerJoin(m, JoinResult{}, fenced)
	g.answerSync(m, SyncResult{}, fenced)
	before, leader := *m, g.leader
	rename := func(to string) {
		delete(g.byID, m.id)
		m.id = to
		g.byID[to] = m
	}
	rename(id)
	if g.leader == before.id {
		g.leader = id
	}
	g.update(m, r)
	m.alive(now)
	if g.state != Stable || g.choose() != g.protocol || !g.sameTopics(before.metadata(g.protocol), m.metadata(g.protocol)) {
		m.join = answer
		g.rebalance(now, "static member "+id+" took the place of "+before.id+because(r.Reason))
		return
	}
	if err := g.save(); err != nil {
		rename(before.id)
		g.said -= m.size()
		*m, g.leader = before, leader
		g.said += m.size()
		g.later(func() { answer(JoinResult{}, err) })
		return
	}
	res := g.resultFor(m)
	switch {
	case r.KnowsSkip:
		res.SkipAssignment = g.leader == id
	default:
		// KIP-814: an older client that is told it leads would assign anew, and nobody would hear of it. So it is told of the leader it does not know itself to be.
		res.Leader, res.Members = leader, nil
	}
	g.later(func() { answer(res, nil) })
}

// rebalance has all members join anew.
func (g *classic) rebalance(now time.Time, why string) {
	switch g.state {
	case PreparingRebalance:
		g.completeIfAllJoined(now)
		return
	case CompletingRebalance:
		for _, m := range g.members {
			if m.sync != nil {
				m.alive(now)
			}
			g.answerSync(m, SyncResult{}, &RebalanceInProgressError{g.name})
		}
	}
	g.note("group '%s' rebalances after generation %d: %s", g.name, g.generation, why)
	patience := g.patience()
	g.initial = g.state == Empty
	g.state = PreparingRebalance
	if g.initial {
		wait := min(g.rules.initialDelay, patience)
		g.deadline, g.room, g.grown = now.Add(wait), patience-wait, false
		if wait <= 0 {
			g.joinDeadline(now)
		}
		return
	}
	g.deadline = now.Add(patience)
	g.completeIfAllJoined(now)
}

// patience is how long the group waits for its members: as long as the most patient one.
func (g *classic) patience() time.Duration {
	var most time.Duration
	for _, m := range g.members {
		most = max(most, m.rebalance)
	}
	return most
}

// completeIfAllJoined begins the next generation as soon as nobody is missing.
func (g *classic) completeIfAllJoined(now time.Time) {
	if g.state != PreparingRebalance || g.initial || len(g.pending) > 0 {
		return
	}
	if !slices.ContainsFunc(g.members, func(m *member) bool { return m.join == nil }) {
		g.begin(now)
	}
}

// joinDeadline begins the next generation with those who are there, or, if it is the first, gives late ones a little more time.
func (g *classic) joinDeadline(now time.Time) {
	if g.initial && g.grown && g.room > 0 && g.generation == 0 {
		wait := min(g.rules.initialDelay, g.room)
		if wait > 0 {
			g.deadline, g.room, g.grown = now.Add(wait), g.room-wait, false
			return
		}
	}
	g.begin(now)
}

// begin starts a generation with the members that joined and with the static ones, whose place is kept until their session ends.
func (g *classic) begin(now time.Time) {
	for _, m := range slices.Clone(g.members) {
		if m.join == nil && m.instance == "" {
			g.note("group '%s' goes on without member %s, which did not join anew in time", g.name, m.id)
			g.count.membersLost.Add(1)
			g.remove(m)
		}
	}
	if len(g.members) > 0 && g.byID[g.leader].join == nil {
		i := slices.IndexFunc(g.members, func(m *member) bool { return m.join != nil })
		if i < 0 { // only static members, none of which came: either their sessions end, or they come after all
			g.initial, g.deadline = false, now.Add(max(g.patience(), time.Second))
			return
		}
		g.leader = g.members[i].id
	}
	g.generation++
	g.count.generations.Add(1)
	g.initial, g.deadline = false, time.Time{}
	if len(g.members) == 0 {
		g.becomeEmpty(now)
		return
	}
	g.protocol = g.choose()
	g.state = CompletingRebalance
	g.note("group '%s' has generation %d: members %d, leader %s, protocol %s", g.name, g.generation, len(g.members), g.leader, g.protocol)
	g.deadline = now.Add(g.patience())
	for _, m := range g.members {
		m.fresh, m.synced = false, m.join == nil // a static member that has not come is not waited for
		if m.join != nil {
			m.alive(now)
			g.answerJoin(m, g.resultFor(m), nil)
		}
	}
}

// becomeEmpty is a generation of nobody. If it cannot be stored, a restart finds the members of the last one and lets their sessions end, which is as good.
func (g *classic) becomeEmpty(now time.Time) {
	g.state, g.since, g.protocol, g.leader = Empty, now, "", ""
	g.note("group '%s' has generation %d: no members", g.name, g.generation)
	g.save()
}

// choose elects the protocol: of those that all members have, each votes for the one it likes best; the older member decides a tie.
func (g *classic) choose() string {
	votes := map[string]int{}
	best := ""
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.allHave(p.Name) {
				votes[p.Name]++
				break
			}
		}
	}
	for _, p := range g.members[0].protocols {
		if n := votes[p.Name]; n > 0 && (best == "" || n > votes[best]) {
			best = p.Name
		}
	}
	return best
}

// resultFor is the answer to the join of a member of the current generation.
func (g *classic) resultFor(m *member) JoinResult {
	r := JoinResult{MemberID: m.id, Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader}
	if m.id == g.leader {
		r.Members = make([]JoinedMember, len(g.members))
		for i, o := range g.members {
			r.Members[i] = JoinedMember{o.id, o.instance, o.metadata(g.protocol)}
		}
	}
	return r
}

// metadata is what the member has to say in the protocol.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}
