package group

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/vfs"
)

// oneOrder is an order outside the stores, that all of them follow.
type oneOrder struct {
	mu        sync.Mutex
	proposals [][]byte
	changed   chan struct{} // closed and replaced when something has changed
}

func newOrder() *oneOrder { return &oneOrder{changed: make(chan struct{})} }

func (o *oneOrder) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.changed)
	o.changed = make(chan struct{})
}

// seat is a store's access to the order.
type seat struct {
	*oneOrder
	held bool // nothing is delivered
	down error
	late bool     // what is proposed gets no place yet
	kept [][]byte // what was proposed late
}

func (s *seat) hold()  { s.change(func() { s.held = true }) }
func (s *seat) letGo() { s.change(func() { s.held = false }) }

var errNoMajority = &logstore.UnavailableError{Err: errors.New("no majority")}

func (s *seat) cutOff(down error) { s.change(func() { s.down = down }) }

func (s *seat) delay() { s.change(func() { s.late = true }) }

// arrive gives what was delayed its place, behind all that is there.
func (s *seat) arrive() {
	s.change(func() { s.proposals = append(s.proposals, s.kept...); s.kept = nil })
}

func (s *seat) Attach(*logstore.Store) error { return nil }

func (s *seat) Available() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *seat) Propose(_ context.Context, p []byte) (err error) {
	s.change(func() {
		switch err = s.down; {
		case err != nil:
		case s.late:
			s.kept = append(s.kept, slices.Clone(p))
			s.late = false
		default:
			s.proposals = append(s.proposals, slices.Clone(p))
		}
	})
	return err
}

func (s *seat) Follow(ctx context.Context, after uint64, deliver func(uint64, []byte) error) error {
	for i := int(after); ; {
		s.mu.Lock()
		list, changed := s.proposals, s.changed
		if s.held || s.down != nil {
			list = nil
		}
		s.mu.Unlock()
		for ; i < len(list); i++ {
			if err := deliver(uint64(i+1), slices.Clone(list[i])); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// office is a coordinator on a store of its own that follows the order.
type office struct {
	t     testing.TB
	seat  *seat
	store *logstore.Store
	c     *Coordinator
	mine  atomic.Bool
	clock atomic.Int64          // nanoseconds
	after chan (chan time.Time) // of Options.After, who waits
}

var offices atomic.Int64

func newOffice(t testing.TB, o *oneOrder, mine bool, change func(*Options)) *office {
	f := &office{t: t, seat: &seat{oneOrder: o}, after: make(chan (chan time.Time), 100)}
	f.mine.Store(mine)
	f.clock.Store(time.Unix(1_000_000, 0).UnixNano())
	var err error
	if f.store, err = logstore.Open(logstore.Options{Dir: "log", FS: vfs.NewMem(), SegmentBytes: 1 << 20, Sequencer: f.seat}); err != nil {
		t.Fatal(err)
	}
	prefix := strconv.FormatInt(offices.Add(1), 36) + "."
	var ids atomic.Int64
	opts := Options{
		Store: f.store, InitialDelay: -1, Now: f.now, NewID: func() string { return prefix + strconv.FormatInt(ids.Add(1), 10) },
		Mine: func(string, string) bool { return f.mine.Load() },
		After: func(time.Duration) <-chan time.Time {
			ch := make(chan time.Time, 1)
			f.after <- ch
			return ch
		},
	}
	if change != nil {
		change(&opts)
	}
	if f.c, err = Open(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.seat.change(func() { f.seat.held, f.seat.down = false, nil })
		f.c.Close()
		f.store.Close()
	})
	return f
}

func (f *office) now() time.Time { return time.Unix(0, f.clock.Load()) }

// pass lets time go by, with ticks in between.
func (f *office) pass(d time.Duration) {
	for end := f.now().Add(d); f.now().Before(end); {
		f.clock.Add(int64(time.Second))
		f.c.Tick(f.now())
	}
}

// reassign makes the groups of the office its own, or not, and tells it so.
func (f *office) reassign(mine bool) {
	f.mine.Store(mine)
	f.c.Reassigned()
}

// join makes a new member, alone in a group, or tells why not.
func (f *office) join(name string) (res JoinResult, err error) {
	done := make(chan struct{})
	f.c.Join(&JoinRequest{Namespace: "/", Group: name, ClientID: "c", Session: 10 * time.Second, Rebalance: 10 * time.Second, ProtocolType: "consumer",
		Protocols: []Protocol{{"range", nil}}}, func(r JoinResult, e error) {
		res, err = r, e
		close(done)
	})
	<-done
	return res, err
}

// sync brings and takes the assignment of a member that is alone.
func (f *office) sync(name string, m JoinResult) (err error) {
	done := make(chan struct{})
	f.c.Sync(&SyncRequest{Namespace: "/", Group: name, MemberID: m.MemberID, Generation: m.Generation, Assignments: []Assignment{{m.MemberID, []byte("work")}}},
		func(_ SyncResult, e error) {
			err = e
			close(done)
		})
	<-done
	return err
}

// enter makes a member that works alone in its group.
func (f *office) enter(name string) JoinResult {
	f.t.Helper()
	m, err := f.join(name)
	if err == nil {
		err = f.sync(name, m)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

// commit moves the bookmark of partition 0; the zero JoinResult is nobody.
func (f *office) commit(ctx context.Context, name string, m JoinResult, offset int64) error {
	r := &CommitRequest{Namespace: "/", Group: name, MemberID: m.MemberID, Generation: m.Generation, Retention: -1, Bookmarks: []Bookmark{{Offset: offset}}}
	if m.MemberID == "" {
		r.Generation = -1
	}
	_, err := f.c.Commit(ctx, r)
	return err
}

func (f *office) heartbeat(name string, m JoinResult) error {
	return f.c.Heartbeat("/", name, m.MemberID, "", m.Generation)
}

// bookmark returns the bookmark of partition 0, -1 if there is none, as whoever catches up first sees it.
func (f *office) bookmark(name string) int64 {
	f.t.Helper()
	if err := f.c.CatchUp(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	b, ok, err := f.c.Fetch("/", name, TopicPartition{})
	if err != nil {
		f.t.Fatal(err)
	}
	if !ok {
		return -1
	}
	return b.Offset
}
