package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/seed"
	"polylog/logstore/vfs"
)

// joinAlone makes one member the whole group, and returns it.
func joinAlone(t *testing.T, s *stage, metadata []byte) (res JoinResult) {
	t.Helper()
	var err error
	s.c.Join(&JoinRequest{Namespace: "/", Group: "g", ClientID: "c", Session: 10 * time.Second, Rebalance: 10 * time.Second, ProtocolType: "consumer",
		Protocols: []Protocol{{"range", metadata}}}, func(r JoinResult, e error) { res, err = r, e })
	s.pass(5 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func syncAlone(s *stage, m JoinResult, assignment []byte) (res SyncResult, err error) {
	s.c.Sync(&SyncRequest{Namespace: "/", Group: "g", MemberID: m.MemberID, Generation: m.Generation, Assignments: []Assignment{{m.MemberID, assignment}}},
		func(r SyncResult, e error) { res, err = r, e })
	return res, err
}

// What cannot be kept is refused when it is said, and an assignment that cannot be is no assignment.
func TestWhatMembersSayIsBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	var err error
	s.c.Join(&JoinRequest{Namespace: "/", Group: "g", ClientID: "c", Session: 10 * time.Second, Rebalance: 10 * time.Second, ProtocolType: "consumer",
		Protocols: []Protocol{{"range", make([]byte, sayMax)}}}, func(_ JoinResult, e error) { err = e })
	wantError[*logstore.LimitError](t, err)

	m := joinAlone(t, s, make([]byte, sayMax/2))
	_, err = syncAlone(s, m, make([]byte, logstore.MaxValue))
	wantError[*logstore.LimitError](t, err)
	if d, err := s.c.Describe("/", "g"); err != nil || d.State != PreparingRebalance {
		t.Fatalf("the group is %v, %v", d.State, err)
	}
	wantError[*RebalanceInProgressError](t, s.c.Heartbeat("/", "g", m.MemberID, "", m.Generation))

	for _, name := range []string{"", string(make([]byte, NameMax+1))} {
		s.c.Join(&JoinRequest{Namespace: "/", Group: name}, func(_ JoinResult, e error) { err = e })
		wantError[*InvalidGroupError](t, err)
	}
}

func TestMembersAndGroupsAreCounted(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{MembersMax: 2, GroupsMax: 2})
	for _, c := range []struct{ command, said string }{
		{"join A", ""}, {"join B ask", "B join: MemberIDRequiredError B-2"}, {"join C ask", "C join: FullGroupError"}, {"join C", "C join: FullGroupError"},
		{"join B", ""}, {"join D group=h", ""}, {"join E group=i", "E join: UnavailableError"}, {"heartbeat A member=A-1 gen=0", "heartbeat: RebalanceInProgressError"},
	} {
		s.said = nil
		s.play(c.command)
		if got := fmt.Sprint(s.said); got != fmt.Sprintf("[%s]", c.said) {
			t.Errorf("%s: %s, want %s", c.command, got, c.said)
		}
	}
}

// A member with many topics, and many members: what is stored comes back byte by byte.
func TestLargeGroupComesBackWhole(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	const n = 1500
	members := make([]JoinResult, n)
	for i := range n {
		s.c.Join(&JoinRequest{Namespace: "/", Group: "g", InstanceID: fmt.Sprint(i), ClientID: "c", Session: 10 * time.Second, Rebalance: 10 * time.Second,
			ProtocolType: "consumer", Protocols: []Protocol{{"range", bytes.Repeat([]byte{byte(i)}, 2000)}}},
			func(r JoinResult, err error) {
				if err != nil {
					t.Error(err)
				}
				members[i] = r
			})
	}
	s.pass(9 * time.Second)
	var as []Assignment
	for _, m := range members[0].Members {
		as = append(as, Assignment{m.ID, []byte("work of " + m.InstanceID)})
	}
	done := 0
	for i := range n {
		i = n - 1 - i // the leader last
		s.c.Sync(&SyncRequest{Namespace: "/", Group: "g", MemberID: members[i].MemberID, Generation: 1, Assignments: as}, func(r SyncResult, err error) {
			if err != nil || string(r.Assignment) != fmt.Sprintf("work of %d", i) {
				t.Errorf("member %d: %q, %v", i, r.Assignment, err)
			}
			done++
		})
	}
	if done != n {
		t.Fatalf("%d of %d have their work", done, n)
	}
	before, err := s.c.Describe("/", "g")
	if err != nil {
		t.Fatal(err)
	}
	s.restart()
	after, err := s.c.Describe("/", "g")
	if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("the group is another after a restart: %v", err)
	}
}

// A store that takes nothing any more: everybody is told, nobody waits for ever, and nothing is claimed to be done.
func TestFailingStoreIsToldToMembers(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	m := joinAlone(t, s, nil)
	s.store.Close()
	_, err := syncAlone(s, m, []byte("work"))
	wantError[*UnavailableError](t, err)
	if !errors.Is(err, logstore.ErrClosed) {
		t.Errorf("the error does not say why: %v", err)
	}
	_, err = s.c.Commit(context.Background(), &CommitRequest{Namespace: "/", Group: "h", Generation: -1, Retention: -1, Bookmarks: []Bookmark{{}}})
	wantError[*UnavailableError](t, err)
	wantError[*NotFoundError](t, s.c.Delete("/", "nobody"))
}

func TestClosedCoordinatorAnswersEverybody(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	for _, c := range []string{"join A", "join B"} {
		s.play(c)
	}
	s.c.Close()
	if got := fmt.Sprint(s.said); got != "[A join: UnavailableError B join: UnavailableError]" {
		t.Error(got)
	}
	wantError[*UnavailableError](t, s.c.Heartbeat("/", "g", "A-1", "", 0))
}

// A value that a newer program wrote, or that is damaged, is reported and not guessed at.
func TestStrangeValuesAreReported(t *testing.T) {
	t.Parallel()
	n := groupName{"/", "g"}
	for name, put := range map[string]struct {
		key   string
		value []byte
	}{
		"newer head":           {n.headKey(), []byte{9}},
		"short head":           {n.headKey(), []byte{valueVersion, 1}},
		"long head":            {n.headKey(), append((&head{writes: 1}).encode(), 0)},
		"members that are not": {n.headKey(), (&head{writes: 1, members: 1, leader: "a"}).encode()},
		"no group's key":       {headPrefix + "\xff", []byte{valueVersion}},
		"bookmark":             {n.bookmarkKey(TopicPartition{}), []byte{valueVersion}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{})
			if _, err := s.store.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.Put(put.key, put.value)}}); err != nil {
				t.Fatal(err)
			}
			_, err := s.c.FetchAll("/", "g")
			if err == nil {
				o := s.opts
				o.Store, o.Now, o.NewID = s.store, func() time.Time { return s.now }, func() string { return "" }
				_, err = Open(o)
			}
			wantError[*CorruptValueError](t, err)
		})
	}
}

// Keys of one group are never taken for those of another, whatever the names are.
func TestGroupsKeepApart(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	names := []groupName{{"/", "a"}, {"/", "aa"}, {"/a", "a"}, {"", "/a"}, {"/", "a\x00"}, {"/", "\x01a"}, {"/\x01", "a"}, {"/", ""}, {"/", string(make([]byte, 300))}}
	for i, n := range names {
		_, err := s.c.Commit(t.Context(), &CommitRequest{Namespace: n.namespace, Group: n.group, Generation: -1, Retention: -1, Bookmarks: []Bookmark{{Offset: int64(i)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range names {
		all, err := s.c.FetchAll(n.namespace, n.group)
		if err != nil || len(all) != 1 || all[0].Offset != int64(i) {
			t.Errorf("%q: %v, %v", n, all, err)
		}
		if parsed, rest, err := parseName(headPrefix, n.headKey()); err != nil || parsed != n || rest != "" {
			t.Errorf("%q is parsed as %q", n, parsed)
		}
	}
	if all, err := s.c.List("/"); err != nil || len(all) != 6 {
		t.Errorf("%d groups in one namespace, %v", len(all), err)
	}
}

// Everything at once, from many goroutines: every answer comes once, and no bookmark is left without its group.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	store, err := logstore.Open(logstore.Options{Dir: "log", FS: vfs.NewMem(), SegmentBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	// Its clock is a hundred times as fast as ours.
	begin := time.Now()
	var ids atomic.Int64
	now := func() time.Time { return begin.Add(100 * time.Since(begin)) }
	c, err := Open(Options{Store: store, Now: now, NewID: func() string { return fmt.Sprint(ids.Add(1)) }, OffsetsRetention: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var asked, answered atomic.Int64
	var wg sync.WaitGroup
	deadline := begin.Add(500 * time.Millisecond)
	each := func(f func(r *rand.Rand)) {
		r := rand.New(rand.NewPCG(seed.Of(t), 0))
		wg.Go(func() {
			for time.Now().Before(deadline) {
				f(r)
			}
		})
	}
	group := func(r *rand.Rand) string { return fmt.Sprint("g", r.IntN(3)) }
	for i := range 6 {
		id, generation := map[string]string{}, map[string]int32{}
		var mu sync.Mutex
		each(func(r *rand.Rand) {
			g := group(r)
			mu.Lock()
			member, gen := id[g], generation[g]
			mu.Unlock()
			asked.Add(1)
			if r.IntN(2) == 0 {
				c.Join(&JoinRequest{Namespace: "/", Group: g, MemberID: member, ClientID: fmt.Sprint(i), Session: 10 * time.Second, Rebalance: 10 * time.Second,
					ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}}, func(res JoinResult, err error) {
					answered.Add(1)
					mu.Lock()
					id[g], generation[g] = res.MemberID, res.Generation
					mu.Unlock()
				})
			} else {
				c.Sync(&SyncRequest{Namespace: "/", Group: g, MemberID: member, Generation: gen}, func(SyncResult, error) { answered.Add(1) })
			}
			c.Heartbeat("/", g, member, "", gen)
			c.Commit(context.Background(), &CommitRequest{Namespace: "/", Group: g, MemberID: member, Generation: gen, Retention: -1, Bookmarks: []Bookmark{{Offset: 1}}})
			if r.IntN(20) == 0 {
				c.Leave("/", g, []Leaver{{MemberID: member}})
			}
		})
	}
	tool := func(g string) error {
		_, err := c.Commit(context.Background(), &CommitRequest{Namespace: "/", Group: g, Generation: -1, Retention: -1, Bookmarks: []Bookmark{{Offset: 2}}})
		return err
	}
	each(func(r *rand.Rand) { tool(group(r)) })
	each(func(*rand.Rand) {
		if err := tool("simple"); err != nil && !errors.As(err, new(*RebalanceInProgressError)) {
			t.Error(err)
		}
	})
	each(func(*rand.Rand) { c.Tick(now()) })
	each(func(r *rand.Rand) {
		if _, err := c.Sweep(); err != nil {
			t.Error(err)
		}
	})
	each(func(r *rand.Rand) {
		c.Delete("/", "simple")
		c.Delete("/", group(r))
		c.List("/")
		c.Describe("/", group(r))
	})
	wg.Wait()
	c.Close()
	if asked.Load() != answered.Load() {
		t.Errorf("%d answers were asked for, and %d came", asked.Load(), answered.Load())
	}
	store.Scan(bookmarkPrefix, func(key string, _ []byte) bool {
		n, _, err := parseName(bookmarkPrefix, key)
		if _, ok := store.Get(n.headKey()); err != nil || !ok {
			t.Errorf("group %q has a bookmark and no head", n.group)
		}
		return true
	})
	store.Scan(memberPrefix, func(key string, _ []byte) bool {
		n, _, err := parseName(memberPrefix, key)
		if _, ok := store.Get(n.headKey()); err != nil || !ok {
			t.Errorf("group %q has members and no head", n.group)
		}
		return true
	})
	if len(c.groups) != 0 || len(c.timers) != 0 {
		t.Errorf("%d groups and %d timers are left", len(c.groups), len(c.timers))
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := newStage(b, Options{})
			for i := range n {
				s.play(fmt.Sprintf("join %d", i))
			}
			s.pass(10 * time.Second)
			s.play("sync 0")
			b.ReportAllocs()
			for b.Loop() {
				if err := s.c.Heartbeat("/", scenesGroup, s.members["0"], "", 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCommit(b *testing.B) {
	s := newStage(b, Options{})
	r := &CommitRequest{Namespace: "/", Group: "g", Generation: -1, Retention: -1}
	for p := range int32(10) {
		r.Bookmarks = append(r.Bookmarks, Bookmark{TopicPartition: TopicPartition{s.topicID("t"), p}, Offset: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.c.Commit(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}
