package group

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"polylog/logstore/seed"
)

// actor is a client that does what it is told, and now and then something else.
type actor struct {
	name, instance string
	member         string
	generation     int32 // -1: none
	leads          []JoinedMember
	joining        int // joins and syncs without an answer
	syncing        int
	protocols      []string
}

// run is a random run with what must hold in it.
type run struct {
	*stage
	r       *rand.Rand
	life    *group // the group as it is in memory, from when it was read to when it was given up
	actors  []*actor
	asked   int              // answers that were asked for and did not come yet
	leaders map[int32]string // generation -> who was told to assign; of this life
	top     int32            // the highest generation seen, of this life
	offsets map[TopicPartition]int64
	log     []string
}

func (u *run) note(format string, args ...any) {
	u.log = append(u.log, fmt.Sprintf("%v ", u.now.Sub(time.Unix(1_000_000, 0)))+fmt.Sprintf(format, args...))
	if len(u.log) > 60 {
		u.log = u.log[1:]
	}
}

func (u *run) fatalf(format string, args ...any) {
	u.t.Helper()
	u.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(u.log, "\n"))
}

// once wraps an answer so that a second one is noticed.
func (u *run) once(what string) func() {
	u.asked++
	answered := false
	return func() {
		if answered {
			u.fatalf("%s was answered twice", what)
		}
		answered = true
		u.asked--
	}
}

func (u *run) join(a *actor) {
	r := &JoinRequest{Namespace: "/", Group: "g", MemberID: a.member, InstanceID: a.instance, ClientID: a.name, Session: 10 * time.Second, Rebalance: 20 * time.Second,
		ProtocolType: "consumer", RequireID: u.r.IntN(2) == 0, KnowsSkip: u.r.IntN(2) == 0}
	for _, p := range a.protocols {
		r.Protocols = append(r.Protocols, Protocol{p, consumerMetadata("t")})
	}
	done := u.once(a.name + "'s join")
	a.joining++
	u.c.Join(r, func(res JoinResult, err error) {
		done()
		a.joining--
		u.note("%s join: %+v %v", a.name, res, err)
		if err != nil {
			if e := (*MemberIDRequiredError)(nil); errors.As(err, &e) {
				a.member = e.MemberID
			} else if !errors.As(err, new(*RebalanceInProgressError)) && !errors.As(err, new(*UnavailableError)) {
				a.member, a.generation = "", -1
			}
			return
		}
		if g := u.inside(); g != u.life { // it was read anew from what is stored
			u.life, u.leaders, u.top = g, map[int32]string{}, 0
		}
		if res.Generation < u.top {
			u.fatalf("%s was told of generation %d after %d", a.name, res.Generation, u.top)
		}
		u.top = res.Generation
		a.member, a.generation, a.leads = res.MemberID, res.Generation, nil
		if res.Leader == res.MemberID && !res.SkipAssignment {
			a.leads = res.Members
			if l := u.leaders[res.Generation]; l != "" && l != res.MemberID {
				u.fatalf("generation %d has the leaders %s and %s", res.Generation, l, res.MemberID)
			}
			u.leaders[res.Generation] = res.MemberID
			if !slices.ContainsFunc(res.Members, func(m JoinedMember) bool { return m.ID == res.MemberID }) {
				u.fatalf("%s leads a generation that it is not in", res.MemberID)
			}
		}
		if !slices.Contains(a.protocols, res.Protocol) {
			u.fatalf("%s is to follow '%s', which it does not know", a.name, res.Protocol)
		}
	})
}

func (u *run) sync(a *actor) {
	r := &SyncRequest{Namespace: "/", Group: "g", MemberID: a.member, InstanceID: a.instance, Generation: a.generation}
	generation := a.generation
	for _, m := range a.leads {
		r.Assignments = append(r.Assignments, Assignment{m.ID, fmt.Appendf(nil, "%d %s", generation, m.ID)})
	}
	done := u.once(a.name + "'s sync")
	a.syncing++
	u.c.Sync(r, func(res SyncResult, err error) {
		done()
		a.syncing--
		u.note("%s sync: %s %v", a.name, res.Assignment, err)
		if err != nil {
			u.told(a, err)
			return
		}
		// A static member that came back has what its place was given.
		if got := string(res.Assignment); got != "" && !strings.HasPrefix(got, fmt.Sprintf("%d ", generation)) {
			u.fatalf("%s in generation %d got the assignment %q", a.name, generation, got)
		}
	})
}

// told is what a client does on an error.
func (u *run) told(a *actor, err error) {
	switch {
	case errors.As(err, new(*UnknownMemberError)), errors.As(err, new(*FencedInstanceError)):
		a.member, a.generation = "", -1
	case errors.As(err, new(*IllegalGenerationError)):
		a.generation = -1
	}
}

func (u *run) commit(a *actor) {
	g := u.inside()
	if g != nil && !g.sameHead() {
		g = nil // it will be read anew first
	}
	r := &CommitRequest{Namespace: "/", Group: "g", MemberID: a.member, InstanceID: a.instance, Generation: a.generation, Retention: -1}
	if u.r.IntN(10) == 0 {
		r.MemberID, r.InstanceID, r.Generation = "", "", -1
	}
	if u.r.IntN(10) == 0 {
		r.Generation -= int32(u.r.IntN(3))
	}
	for range 1 + u.r.IntN(3) {
		r.Bookmarks = append(r.Bookmarks, Bookmark{TopicPartition: TopicPartition{u.topicID("t"), u.r.Int32N(3)}, Offset: u.r.Int64N(1000)})
	}
	_, err := u.c.Commit(context.Background(), r)
	u.note("%s commit as %q in %d: %v", a.name, r.MemberID, r.Generation, err)
	if err != nil {
		u.told(a, err)
		return
	}
	if g != nil && g.state != Empty && r.Generation != g.generation {
		u.fatalf("a commit of generation %d was taken in generation %d", r.Generation, g.generation)
	}
	for _, b := range r.Bookmarks {
		u.offsets[b.TopicPartition] = b.Offset
	}
}

// inside is the group as it is in memory, nil if it is not.
func (u *run) inside() *group { return u.c.groups[groupName{"/", "g"}] }

func (u *run) check() {
	all, err := u.c.FetchAll("/", "g")
	if err != nil {
		u.fatalf("%v", err)
	}
	got := map[TopicPartition]int64{}
	for _, b := range all {
		got[b.TopicPartition] = b.Offset
	}
	if !reflect.DeepEqual(got, u.offsets) {
		u.fatalf("the bookmarks are %v, and what was committed is %v", got, u.offsets)
	}
	keys, n := 0, groupName{"/", "g"}
	u.store.Scan(n.key(memberPrefix), func(string, []byte) bool {
		keys++
		return true
	})
	if raw, ok := u.store.Get(n.headKey()); ok {
		if h, err := decodeHead("", raw); err != nil || h.members != keys {
			u.fatalf("the head counts %d members, and %d are stored, %v", h.members, keys, err)
		}
	} else if keys > 0 {
		u.fatalf("%d members are stored without a head", keys)
	}
	g := u.inside()
	if g == nil {
		return
	}
	if (g.leader == "") != (len(g.members) == 0) || g.leader != "" && g.byID[g.leader] == nil {
		u.fatalf("the leader is %q among %d members", g.leader, len(g.members))
	}
	if (g.state == Empty) != (len(g.members) == 0) && g.state != PreparingRebalance {
		u.fatalf("the group is %v and has %d members", g.state, len(g.members))
	}
	said := 0
	for _, m := range g.members {
		said += m.size()
	}
	if said != g.said {
		u.fatalf("the members say %d bytes of themselves, and %d are counted", said, g.said)
	}
	if len(g.byID) != len(g.members) {
		u.fatalf("%d members and %d ids", len(g.members), len(g.byID))
	}
	waiting := 0
	for _, m := range g.members {
		if m.join != nil {
			waiting++
			if g.state != PreparingRebalance {
				u.fatalf("%s waits to join in state %v", m.id, g.state)
			}
		}
		if m.sync != nil {
			waiting++
			if g.state != CompletingRebalance {
				u.fatalf("%s waits for its assignment in state %v", m.id, g.state)
			}
		}
		if m.instance != "" && g.byInstance[m.instance] != m {
			u.fatalf("the place of instance %s is not %s", m.instance, m.id)
		}
	}
	if waiting != u.asked {
		u.fatalf("%d answers are asked for, and %d members wait", u.asked, waiting)
	}
}

func (u *run) newLife() {
	u.restart()
	if u.asked != 0 {
		u.fatalf("%d answers did not come before the end", u.asked)
	}
	u.note("restart")
}

func (u *run) step() {
	a := u.actors[u.r.IntN(len(u.actors))]
	switch n := u.r.IntN(100); {
	case n < 25:
		u.join(a)
	case n < 45:
		if a.member != "" && a.generation >= 0 {
			u.sync(a)
		}
	case n < 60:
		err := u.c.Heartbeat("/", "g", a.member, a.instance, a.generation)
		u.note("%s heartbeat: %v", a.name, err)
		if err != nil {
			u.told(a, err)
		}
	case n < 75:
		u.commit(a)
	case n < 92:
		d := time.Duration(u.r.IntN(3000)) * time.Millisecond
		if u.r.IntN(10) == 0 {
			d *= 10
		}
		u.pass(d)
	case n < 95:
		errs, err := u.c.Leave("/", "g", []Leaver{{MemberID: a.member, InstanceID: a.instance}})
		u.note("%s leave: %v %v", a.name, errs, err)
	case n < 97:
		a.member, a.generation = "", -1
		u.note("%s is a new process", a.name)
	case n < 98:
		if _, err := u.c.Sweep(); err != nil {
			u.fatalf("%v", err)
		}
	case n < 99:
		u.play("rival")
		u.said = nil
		u.note("rival")
	default:
		u.newLife()
	}
}

// settle lets all behave as clients do, and wants a stable group from it.
func (u *run) settle() {
	for range 200 {
		stable := true
		for _, a := range u.actors {
			if a.joining+a.syncing > 0 {
				stable = false
				continue
			}
			if a.member != "" && a.generation >= 0 {
				if err := u.c.Heartbeat("/", "g", a.member, a.instance, a.generation); err != nil {
					u.told(a, err)
					a.generation = -1
				} else if g := u.inside(); g == nil || g.state != Stable {
					u.sync(a)
				}
			}
			if a.member == "" || a.generation < 0 {
				u.join(a)
				stable = false
			}
		}
		u.check()
		u.pass(time.Second)
		if g := u.inside(); stable && g != nil && g.state == Stable {
			return
		}
	}
	u.fatalf("the group does not become stable, though all behave")
}

// Whatever clients do in whatever order: one leader, ascending generations, every answer exactly once, bookmarks that only accepted commits move, and a stable
// group once all behave.
func TestGroupHoldsWhateverClientsDo(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 30 {
		u := &run{stage: newStage(t, Options{}), r: r, leaders: map[int32]string{}, offsets: map[TopicPartition]int64{}}
		for i := range 5 {
			a := &actor{name: string(rune('a' + i)), generation: -1, protocols: [][]string{{"range", "sticky"}, {"sticky", "range"}, {"sticky"}}[r.IntN(3)]}
			if i >= 3 {
				a.instance = "static-" + a.name
			}
			u.actors = append(u.actors, a)
		}
		// The rival needs a group to write.
		u.commit(&actor{name: "tool", generation: -1})
		for range 300 {
			u.step()
			u.check()
		}
		u.settle()
		u.newLife()
		u.settle()
	}
}
