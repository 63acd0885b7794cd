package group

import (
	"slices"
	"time"
)

// syncAnswer is what a member waits for that wants its assignment.
type syncAnswer = func(SyncResult, error)

// syncGroup gives the member its assignment when the leader has brought it.
func (g *classic) syncGroup(now time.Time, r *SyncRequest, answer syncAnswer) {
	m, err := g.checkSync(r)
	if err != nil {
		g.later(func() { answer(SyncResult{}, err) })
		return
	}
	m.synced = true
	if g.state == Stable {
		m.alive(now)
		res := g.assignmentOf(m)
		g.later(func() { answer(res, nil) })
		g.endSyncDeadline()
		return
	}
	g.answerSync(m, SyncResult{}, &RebalanceInProgressError{g.name}) // the same member asked before and has not read the answer
	m.sync = answer
	if m.id == g.leader {
		g.assign(now, r.Assignments)
	}
}

func (g *classic) checkSync(r *SyncRequest) (*member, error) {
	m, err := g.checkGeneration(r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return nil, err
	}
	if r.ProtocolType != "" && r.ProtocolType != g.protocolType || r.Protocol != "" && r.Protocol != g.protocol {
		return nil, &InconsistentProtocolError{g.name,
			"it follows '" + g.protocol + "' of '" + g.protocolType + "', not '" + r.Protocol + "' of '" + r.ProtocolType + "'"}
	}
	if g.state == PreparingRebalance {
		return nil, &RebalanceInProgressError{g.name}
	}
	return m, nil
}

// assign takes the leader's word on who does what, stores it, and tells all who wait for it. Who comes later asks a stable group.
func (g *classic) assign(now time.Time, as []Assignment) {
	given := make(map[string][]byte, len(as))
	for _, a := range as {
		given[a.MemberID] = a.Assignment
	}
	for _, m := range g.members {
		m.assignment = given[m.id]
	}
	g.state = Stable
	if err := g.save(); err != nil {
		g.state = CompletingRebalance
		for _, m := range g.members {
			if m.sync != nil {
				m.alive(now)
			}
			g.answerSync(m, SyncResult{}, err)
		}
		g.rebalance(now, "its assignment could not be stored")
		return
	}
	for _, m := range g.members {
		if m.sync != nil {
			m.alive(now)
			g.answerSync(m, g.assignmentOf(m), nil)
		}
	}
	g.endSyncDeadline()
}

func (g *classic) assignmentOf(m *member) SyncResult {
	return SyncResult{g.protocolType, g.protocol, m.assignment}
}

// endSyncDeadline takes the deadline away when nobody is missing.
func (g *classic) endSyncDeadline() {
	if !slices.ContainsFunc(g.members, func(m *member) bool { return !m.synced }) {
		g.deadline = time.Time{}
	}
}

// syncDeadline takes out those who joined and then did not ask for their assignment: their heartbeats go on, but they do not work.
func (g *classic) syncDeadline(now time.Time) {
	g.deadline = time.Time{}
	gone := false
	for _, m := range slices.Clone(g.members) {
		if !m.synced {
			g.note("group '%s' goes on without member %s, which did not ask for its assignment in time", g.name, m.id)
			g.count.membersLost.Add(1)
			g.remove(m)
			gone = true
		}
	}
	if gone {
		g.rebalance(now, "members did not ask for their assignment")
	}
}
