package group

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/logstore/seed"
	"polylog/viewlayer/topic"
)

var nobody JoinResult

// Every node coordinates as many groups, and when one comes or goes only its groups move.
func TestGroupsAreSpreadOverTheNodes(t *testing.T) {
	t.Parallel()
	const n = 3000
	all, fewer := []int32{7, 1, 100_000}, []int32{100_000, 7}
	count := map[int32]int{}
	for i := range n {
		name := fmt.Sprint("group ", i)
		is := CoordinatorOf(all, "/", name)
		count[is]++
		if CoordinatorOf([]int32{1, 7, 100_000}, "/", name) != is {
			t.Fatalf("the order of the nodes decides on %s", name)
		}
		if then := CoordinatorOf(fewer, "/", name); is != 1 && then != is || then == 1 {
			t.Fatalf("%s moved from node %d to %d when 1 went", name, is, then)
		}
	}
	for _, id := range all {
		if count[id] < n/3-n/15 || count[id] > n/3+n/15 {
			t.Errorf("node %d has %d of %d groups", id, count[id], n)
		}
	}
	if CoordinatorOf(nil, "/", "g") != -1 || CoordinatorOf(fewer[:1], "", "") != 100_000 {
		t.Error("no node, or one")
	}
}

// What a coordinator did before it lost a group is known to the next one, though its store was behind, and the members go on there as they were.
func TestNextCoordinatorBeginsWhereTheLastOneEnded(t *testing.T) {
	t.Parallel()
	o := newOrder()
	a, b := newOffice(t, o, true, nil), newOffice(t, o, false, nil)
	b.seat.hold()
	m := a.enter("g")
	for i := range int64(5) {
		if err := a.commit(t.Context(), "g", m, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.commit(t.Context(), "simple", nobody, 3); err != nil {
		t.Fatal(err)
	}
	a.reassign(false)
	wantError[*NotCoordinatorError](t, a.heartbeat("g", m))
	wantError[*NotCoordinatorError](t, a.commit(t.Context(), "g", m, 6))
	_, err := a.c.FetchAll("/", "g")
	wantError[*NotCoordinatorError](t, err)
	var wg sync.WaitGroup
	n := a.proposed()
	wg.Go(func() { b.reassign(true) })
	for !b.mine.Load() {
		time.Sleep(time.Millisecond)
	}
	wg.Go(func() {
		if err := b.heartbeat("g", m); err != nil {
			t.Errorf("the member at the next coordinator: %v", err)
		}
	})
	wg.Go(func() {
		if at := b.bookmark("g"); at < 4 {
			t.Errorf("the next coordinator tells of %d after 4 was committed", at)
		}
		if at := b.bookmark("simple"); at != 3 {
			t.Errorf("the next coordinator tells of %d after 3 was committed", at)
		}
	})
	for a.proposed() < n+3 && !t.Failed() { // all three wait for what is not here yet
		time.Sleep(time.Millisecond)
	}
	b.seat.letGo()
	wg.Wait()
	if err := b.commit(t.Context(), "g", m, 5); err != nil {
		t.Errorf("the member's commit at the next coordinator: %v", err)
	}
	if got, err := b.c.List("/"); err != nil || len(got) != 2 || got[0].State != Stable {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := a.c.List("/"); err != nil || len(got) != 0 {
		t.Errorf("the last one lists %v, %v", got, err)
	}
}

// Members that went down with their coordinator are missed by the next one; those that came along are not.
func TestMembersThatDoNotComeAlongAreMissed(t *testing.T) {
	t.Parallel()
	o := newOrder()
	a, b := newOffice(t, o, true, nil), newOffice(t, o, false, nil)
	a.enter("gone")
	m := a.enter("here")
	a.reassign(false)
	b.reassign(true)
	for range 4 {
		b.pass(5 * time.Second)
		if err := b.heartbeat("here", m); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := b.c.Describe("/", "gone"); err != nil || d.State != Empty {
		t.Errorf("%v, %v", d.State, err)
	}
	if d, err := b.c.Describe("/", "here"); err != nil || d.State != Stable {
		t.Errorf("%v, %v", d.State, err)
	}
}

// While two believe that a group is theirs, what one of them does not know of the other's doings it cannot undo.
func TestOfTwoCoordinatorsOneCounts(t *testing.T) {
	t.Parallel()
	o := newOrder()
	a, b := newOffice(t, o, true, nil), newOffice(t, o, true, nil)
	old := a.enter("g")
	if err := a.commit(t.Context(), "g", old, 1); err != nil {
		t.Fatal(err)
	}
	b.bookmark("g")
	if errs, err := b.c.Leave("/", "g", []Leaver{{MemberID: old.MemberID}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	m := b.enter("g") // another one, of a later generation
	if err := b.commit(t.Context(), "g", m, 7); err != nil {
		t.Fatal(err)
	}
	if at := a.bookmark("g"); at != 7 {
		t.Errorf("the bookmark is at %d", at)
	}
	if err := a.heartbeat("g", old); err == nil {
		t.Error("the member of a generation that is over hears that all is well")
	}
	if err := a.commit(t.Context(), "g", old, 2); err == nil {
		t.Error("a commit of a generation that is over was taken")
	}
	if at := a.bookmark("g"); at != 7 {
		t.Errorf("the bookmark is at %d", at)
	}
	a.c.Tick(a.now()) // reads the group as it is now
	if err := a.heartbeat("g", m); err != nil {
		t.Errorf("the member of the generation that counts: %v", err)
	}
}

// A commit whose outcome was not known has no effect any more once the next one is answered, however late it comes.
func TestLateCommitDoesNotMoveABookmarkBack(t *testing.T) {
	t.Parallel()
	for _, member := range []bool{false, true} {
		o := newOrder()
		a, b := newOffice(t, o, true, nil), newOffice(t, o, false, nil)
		m := nobody
		if member {
			m = a.enter("g")
		}
		if err := a.commit(t.Context(), "g", m, 1); err != nil {
			t.Fatal(err)
		}
		lose := func(f *office, offset int64) {
			t.Helper()
			f.seat.delay()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			wantError[*UnavailableError](t, f.commit(ctx, "g", m, offset))
		}
		lose(a, 5)
		if err := a.commit(t.Context(), "g", m, 9); err != nil {
			t.Fatal(err)
		}
		a.seat.arrive()
		if at := a.bookmark("g"); at != 9 {
			t.Errorf("the late commit moved the bookmark to %d", at)
		}
		lose(a, 6) // and the next one is another coordinator's
		a.reassign(false)
		b.reassign(true)
		if err := b.commit(t.Context(), "g", m, 11); err != nil {
			t.Fatal(err)
		}
		a.seat.arrive()
		if at := b.bookmark("g"); at != 11 {
			t.Errorf("the late commit of the last coordinator moved the bookmark to %d", at)
		}
	}
}

// A group whose change waits for a majority does not hold up who asks for it: they hear that it is not available. What waits goes on when there is a majority again.
func TestWaitingForAMajorityHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	a := newOffice(t, newOrder(), true, nil)
	m, err := a.join("g")
	if err != nil {
		t.Fatal(err)
	}
	a.seat.hold()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.sync("g", m); err != nil {
			t.Errorf("the assignment that waited: %v", err)
		}
	})
	for a.proposed() == 0 {
		time.Sleep(time.Millisecond)
	}
	beat := make(chan error)
	wg.Go(func() { beat <- a.heartbeat("g", m) })
	look := <-a.after // it waits for the group
	a.seat.cutOff(errNoMajority)
	look <- time.Time{}
	wantError[*UnavailableError](t, <-beat)
	wantError[*UnavailableError](t, a.heartbeat("g", m))
	wantError[*UnavailableError](t, a.commit(t.Context(), "other", nobody, 1))
	_, err = a.join("other")
	wantError[*UnavailableError](t, err)
	a.pass(time.Hour)
	a.seat.change(func() { a.seat.down, a.seat.held = nil, false })
	wg.Wait()
	a.c.Tick(a.now())
	if err := a.heartbeat("g", m); err != nil {
		t.Errorf("after an hour without a majority: %v", err)
	}
	a.pass(time.Minute)
	wantError[*UnknownMemberError](t, a.heartbeat("g", m))
}

// proposed is how many proposals the order has.
func (f *office) proposed() int {
	f.seat.mu.Lock()
	defer f.seat.mu.Unlock()
	return len(f.seat.proposals)
}

// Who waits for others to join, or for the assignment, is not left waiting while there is no majority, and neither is who waits when the coordinator is closed.
func TestOutageIsToldToThoseWhoWait(t *testing.T) {
	t.Parallel()
	a := newOffice(t, newOrder(), true, nil)
	m := a.enter("g")
	joined := make(chan error, 1)
	a.c.Join(&JoinRequest{Namespace: "/", Group: "g", ClientID: "c", Session: 10 * time.Second, Rebalance: time.Minute, ProtocolType: "consumer",
		Protocols: []Protocol{{"range", nil}}}, func(_ JoinResult, err error) { joined <- err })
	a.seat.cutOff(errNoMajority)
	a.c.Tick(a.now())
	wantError[*UnavailableError](t, <-joined)
	a.seat.cutOff(nil)
	a.c.Tick(a.now())
	wantError[*RebalanceInProgressError](t, a.heartbeat("g", m))

	a.seat.hold()
	synced := make(chan error, 1)
	go func() { synced <- a.commit(context.Background(), "new", nobody, 1) }()
	for n := a.proposed(); a.proposed() == n; {
		time.Sleep(time.Millisecond)
	}
	a.c.Close()
	wantError[*UnavailableError](t, <-synced)
}

// One node sweeps for all: what nobody used for long is forgotten, whoever coordinates it, and groups with members stay as they are.
func TestSweepForgetsForAllNodes(t *testing.T) {
	t.Parallel()
	o := newOrder()
	gone := topic.ID{9}
	sweeps := func(o *Options) {
		o.OffsetsRetention = 24 * time.Hour
		o.TopicExists = func(id topic.ID) bool { return id != gone }
	}
	a, b := newOffice(t, o, true, sweeps), newOffice(t, o, false, sweeps)
	m := a.enter("working")
	for _, f := range []error{a.commit(t.Context(), "working", m, 1), a.commit(t.Context(), "simple", nobody, 1)} {
		if f != nil {
			t.Fatal(f)
		}
	}
	if _, err := a.c.Commit(t.Context(), &CommitRequest{Namespace: "/", Group: "working", MemberID: m.MemberID, Generation: m.Generation, Retention: -1,
		Bookmarks: []Bookmark{{TopicPartition: TopicPartition{Topic: gone}, Offset: 1}}}); err != nil {
		t.Fatal(err)
	}
	b.clock.Add(int64(25 * time.Hour))
	if err := b.c.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, f := range []*office{a, b} {
		wg.Go(func() {
			if _, err := f.c.Sweep(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if at := a.bookmark("simple"); at != -1 {
		t.Errorf("the bookmark that nobody used is at %d", at)
	}
	if all, err := a.c.FetchAll("/", "working"); err != nil || len(all) != 1 {
		t.Errorf("the group that works has the bookmarks %v, %v", all, err)
	}
	if got, err := a.c.List("/"); err != nil || len(got) != 1 {
		t.Errorf("the groups are %v, %v", got, err)
	}
	if err := a.heartbeat("working", m); err != nil {
		t.Errorf("the member that works: %v", err)
	}
}

// Two that both believe all groups to be theirs, or take turns, while everything happens at once and now one, now the other is behind: every answer comes once, both
// stores are equal in the end, and no bookmark or member is without its group.
func TestTwoCoordinatorsAtOnce(t *testing.T) {
	t.Parallel()
	o := newOrder()
	begin := time.Now()
	now := func() time.Time { return begin.Add(100 * time.Since(begin)) }
	change := func(o *Options) { o.Now, o.After, o.OffsetsRetention = now, time.After, time.Second }
	both := []*office{newOffice(t, o, true, change), newOffice(t, o, true, change)}
	var asked, answered atomic.Int64
	var wg sync.WaitGroup
	deadline := begin.Add(time.Second)
	each := func(f func(r *rand.Rand, at *office)) {
		r := rand.New(rand.NewPCG(seed.Of(t), 0))
		wg.Go(func() {
			for time.Now().Before(deadline) {
				f(r, both[r.IntN(2)])
			}
		})
	}
	name := func(r *rand.Rand) string { return fmt.Sprint("g", r.IntN(3)) }
	for i := range 4 {
		var mu sync.Mutex
		is := map[string]JoinResult{}
		each(func(r *rand.Rand, f *office) {
			g := name(r)
			mu.Lock()
			m := is[g]
			mu.Unlock()
			asked.Add(1)
			if r.IntN(2) == 0 {
				f.c.Join(&JoinRequest{Namespace: "/", Group: g, MemberID: m.MemberID, ClientID: fmt.Sprint(i), Session: 10 * time.Second, Rebalance: 10 * time.Second,
					ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}}, func(res JoinResult, err error) {
					answered.Add(1)
					if err == nil || errors.As(err, new(*UnknownMemberError)) {
						mu.Lock()
						is[g] = res
						mu.Unlock()
					}
				})
			} else {
				f.c.Sync(&SyncRequest{Namespace: "/", Group: g, MemberID: m.MemberID, Generation: m.Generation}, func(SyncResult, error) { answered.Add(1) })
			}
			f.heartbeat(g, m)
			if m.MemberID != "" {
				f.commit(t.Context(), g, m, 1)
			}
			if r.IntN(20) == 0 {
				f.c.Leave("/", g, []Leaver{{MemberID: m.MemberID}})
			}
		})
	}
	each(func(r *rand.Rand, f *office) { f.commit(t.Context(), name(r), nobody, 2) })
	each(func(r *rand.Rand, f *office) { f.commit(t.Context(), "simple", nobody, 2) })
	each(func(r *rand.Rand, f *office) { f.c.Tick(now()) })
	each(func(r *rand.Rand, f *office) { f.c.Sweep() })
	each(func(r *rand.Rand, f *office) {
		f.c.Delete("/", "simple")
		f.c.Delete("/", name(r))
		f.c.List("/")
		f.c.Describe("/", name(r))
	})
	each(func(r *rand.Rand, f *office) {
		f.seat.hold()
		time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
		f.seat.letGo()
		if r.IntN(3) == 0 {
			f.reassign(r.IntN(3) > 0)
		}
	})
	wg.Wait()
	for _, f := range both {
		f.seat.letGo()
		if err := f.c.CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, f := range both {
		f.c.Close()
	}
	if asked.Load() != answered.Load() {
		t.Errorf("%d answers were asked for, and %d came", asked.Load(), answered.Load())
	}
	for _, f := range both {
		for _, prefix := range []string{bookmarkPrefix, memberPrefix} {
			f.store.Scan(prefix, func(key string, _ []byte) bool {
				n, _, err := parseName(prefix, key)
				if _, ok := f.store.Get(n.headKey()); err != nil || !ok {
					t.Errorf("group %q has %q and no head", n.group, key)
				}
				return true
			})
		}
		if len(f.c.groups) != 0 || len(f.c.timers) != 0 {
			t.Errorf("%d groups and %d timers are left", len(f.c.groups), len(f.c.timers))
		}
	}
	_, ha := both[0].store.Hash()
	_, hb := both[1].store.Hash()
	if ha != hb {
		t.Errorf("the hashes are %x and %x", ha, hb)
	}
}
