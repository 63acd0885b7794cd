package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"polylog/logstore"
)

const (
	// beatEvery is how often a node says that it lives.
	beatEvery = 250 * time.Millisecond
	// quietAfter is after how much silence a node does not count for a majority.
	quietAfter = 8 * beatEvery
	// stuckAfter is after how long without progress writes are refused although a majority is heard. An election after the loss of the leader takes 4 to 9 s.
	stuckAfter = 12 * time.Second
	// leapAfter is how late the membership's clock may be before this process takes it that it was stopped, and has not heard others for that reason.
	leapAfter = time.Second
	// syncEvery is how often the log is forced to the disk, so that the order can be trimmed.
	syncEvery = 2 * time.Second
	// trimEvery is how often the leader looks whether it can.
	trimEvery = 2 * time.Second
)

// beat is what a node says of itself all the time.
type beat struct {
	Node  string `json:"node"`
	Epoch uint64 `json:"epoch"`
	// Last is the last sequence of the stream that has come, Need the first one that this node may ask for again.
	Last uint64 `json:"last"`
	Need uint64 `json:"need"`
}

// clusterView is what this node knows of the others: the members as the order has them, and when each was last heard.
type clusterView struct {
	self string

	mu      sync.Mutex
	own     uint64 // epoch; 0: not joined
	members []Member
	leader  leaderRef
	beats   map[string]beat
	heard   map[string]time.Time // its process
	lived   map[string]time.Time // it as a member, or as one that is about to be
	since   time.Time            // silence counts from here on
}

// leaderRef is who leads, as the order has it.
type leaderRef struct {
	Node  string `json:"node"`
	Epoch uint64 `json:"epoch"`
}

func (v *clusterView) init(self string) {
	v.self, v.beats, v.heard, v.lived, v.since = self, map[string]beat{}, map[string]time.Time{}, map[string]time.Time{}, time.Now()
}

func (v *clusterView) begin(epoch uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.own = epoch
}

func (v *clusterView) epoch() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.own
}

// refresh reads what the log says.
func (v *clusterView) refresh(s *logstore.Store) error {
	ms, err := readMembers(s)
	if err != nil {
		return err
	}
	var l leaderRef
	if raw, ok := s.Get(leaderKey); ok {
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("who leads: %w", err)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range ms { // a new epoch is as good as a beat
		if !slices.ContainsFunc(v.members, func(was Member) bool { return was.Name == m.Name && was.Epoch == m.Epoch }) {
			v.lived[m.Name] = time.Now()
		}
	}
	v.members, v.leader = ms, l
	return nil
}

// silence returns for how long a node's process was not heard.
func (v *clusterView) silence(name string, now time.Time) time.Duration {
	return v.lasting(v.heard, name, now)
}

// absence returns for how long a node was not heard as a member. A process that only catches up is none: what the one before it held need not wait for it.
func (v *clusterView) absence(name string, now time.Time) time.Duration {
	return v.lasting(v.lived, name, now)
}

func (v *clusterView) lasting(last map[string]time.Time, name string, now time.Time) time.Duration {
	if name == v.self {
		return 0
	}
	t := last[name]
	if t.Before(v.since) {
		t = v.since
	}
	return now.Sub(t)
}

// Members returns all members, by name.
func (n *Node) Members() []Member {
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	return slices.Clone(n.view.members)
}

// Live returns the members whose epoch goes on, by their numbers.
func (n *Node) Live() []Member {
	ms := slices.DeleteFunc(n.Members(), func(m Member) bool { return !m.Live })
	slices.SortFunc(ms, func(a, b Member) int { return int(a.ID - b.ID) })
	return ms
}

// Epoch returns the epoch of this node.
func (n *Node) Epoch() uint64 { return n.view.epoch() }

// Leads reports whether this node has the duties that one node has for all. Another one may already have them, so what is done because of it has conditions.
func (n *Node) Leads() bool {
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	return n.view.own != 0 && n.view.leader == leaderRef{n.view.self, n.view.own}
}

// Leader returns the name of the member that leads, or "".
func (n *Node) Leader() string {
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	return n.view.leader.Node
}

// startMembership begins to listen to the other nodes and to be heard.
func (n *Node) startMembership() error {
	if err := n.view.refresh(n.store); err != nil {
		return err
	}
	stopGiving, err := n.giveCopies()
	if err != nil {
		return err
	}
	sub, err := n.p.b.nc.Subscribe(n.o.subject("beat"), n.hear)
	if err != nil {
		return fmt.Errorf("listening to the other nodes: %w", err)
	}
	n.tasks.Go(n.watch)
	n.tasks.Go(n.follow)
	n.tasks.Go(func() {
		n.tick()
		sub.Unsubscribe() //nolint:errcheck // the connection may be gone
		stopGiving()
	})
	n.tasks.Go(n.keepTrimmed)
	return nil
}

// follow keeps the view as the log says.
func (n *Node) follow() {
	w := n.store.Watch("cluster/")
	defer w.Stop()
	for {
		e, err := w.Next(n.ctx)
		if n.ctx.Err() != nil || err != nil && err != logstore.ErrWatchLagged {
			return
		}
		if err == logstore.ErrWatchLagged {
			w.Stop()
			w = n.store.Watch("cluster/")
		}
		if len(e.Key) > len(writerPrefix) && e.Key[:len(writerPrefix)] == writerPrefix {
			continue
		}
		if err := n.view.refresh(n.store); err != nil {
			n.o.Logf("the members cannot be read: %v", err)
		}
		n.nudge()
	}
}

func (n *Node) hear(m *nats.Msg) {
	var b beat
	if json.Unmarshal(m.Data, &b) != nil {
		return
	}
	n.view.mu.Lock()
	n.view.beats[b.Node] = b
	n.view.heard[b.Node] = time.Now()
	if b.Epoch != 0 {
		n.view.lived[b.Node] = time.Now()
	}
	n.view.mu.Unlock()
	n.order.know(b.Last)
}

// say tells the others that this node lives.
func (n *Node) say() {
	b, err := json.Marshal(beat{Node: n.o.Node, Epoch: n.order.wanted(), Last: n.order.last.Load(), Need: n.need()})
	if err != nil {
		panic("a beat has no JSON form: " + err.Error())
	}
	n.p.b.nc.Publish(n.o.subject("beat"), b) //nolint:errcheck // if it is not sent, this node is not heard, which is the truth
}

// need is the first sequence of the stream that this node may ask for again: what it has not on its disk, or gives to another one, or needs for what is not whole.
func (n *Node) need() uint64 {
	seq, _ := n.s.split(n.store.DurableSeq())
	seq = max(seq, 1)
	if f := n.order.floor.Load(); f != 0 {
		seq = min(seq, f)
	}
	if h := n.p.copies.held(); h != 0 {
		held, _ := n.s.split(h)
		seq = min(seq, max(held, 1))
	}
	return seq
}

// speak is the goroutine that has this node heard, from the time on at which its log follows.
func (n *Node) speak() {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	for {
		n.say()
		select {
		case <-n.ctx.Done():
			return
		case <-t.C:
		}
	}
}

// tick is the goroutine of the membership's clock.
func (n *Node) tick() {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		if now.Sub(last) > leapAfter {
			n.view.mu.Lock()
			n.view.since = now
			n.view.mu.Unlock()
		}
		last = now
		n.judge(now)
		if n.store.Available() == nil {
			n.lead(now)
		}
	}
}

// judge decides whether proposals are taken.
func (n *Node) judge(now time.Time) {
	var why *logstore.UnavailableError
	n.view.mu.Lock()
	total, near := 0, 0
	for _, m := range n.view.members { // those too that have left: their copies of the order count in its majority
		total++
		if n.view.silence(m.Name, now) < quietAfter {
			near++
		}
	}
	n.view.mu.Unlock()
	stuck := n.order.out.stuckFor(now)
	switch {
	case len(n.o.External) > 0 && !n.p.b.nc.IsConnected():
		why = &logstore.UnavailableError{Err: fmt.Errorf("the connection to NATS is lost")}
	case len(n.o.External) == 0 && 2*near <= total:
		why = &logstore.UnavailableError{Err: fmt.Errorf("%d of %d nodes are heard", near, total)}
	case stuck > stuckAfter:
		why = &logstore.UnavailableError{Err: fmt.Errorf("nothing has come into the order for %v", stuck.Round(time.Second))}
	}
	was := n.order.unavailable.Swap(why)
	if why != nil {
		n.store.Interrupt(why)
	}
	if (was == nil) != (why == nil) {
		if why != nil {
			n.o.Logf("writes are refused from here on: %v", why)
		} else {
			n.o.Logf("writes are taken again")
		}
		n.nudge()
	}
}

// lead sees to it that somebody leads, and does the leader's part of the membership.
func (n *Node) lead(now time.Time) {
	n.view.mu.Lock()
	l, own := n.view.leader, n.view.own
	alive := false
	var rank time.Duration
	for _, m := range n.view.members {
		if m.Name == l.Node && m.Epoch == l.Epoch && m.Live && n.view.absence(m.Name, now) < n.o.GoneAfter {
			alive = true
		}
		if m.Live && m.Name < n.o.Node && n.view.silence(m.Name, now) < quietAfter {
			rank++ // those before this one by name try first
		}
	}
	wait := now.Sub(n.view.since) < rank*2*beatEvery
	mine := l == leaderRef{n.o.Node, own}
	var silent []Member
	for _, m := range n.view.members {
		if mine && m.Live && n.view.absence(m.Name, now) >= n.o.GoneAfter {
			silent = append(silent, m)
		}
	}
	n.view.mu.Unlock()
	if !alive && !wait {
		n.takeLead(own)
	}
	for _, m := range silent {
		n.o.Logf("node '%s' was not heard for %v; it is declared gone", m.Name, n.o.GoneAfter)
		n.order.out.control(kindGone, m.Name, m.Epoch) //nolint:errcheck // it is done again in the next round
		n.view.mu.Lock()
		n.view.lived[m.Name] = now // gives the entry time to come
		n.view.mu.Unlock()
	}
}

// takeLead makes this node the leader, if nobody else has become it meanwhile.
func (n *Node) takeLead(epoch uint64) {
	v, err := json.Marshal(leaderRef{n.o.Node, epoch})
	if err != nil {
		panic("the leader has no JSON form: " + err.Error())
	}
	is := logstore.KeyAbsent(leaderKey)
	if raw, ok := n.store.Get(leaderKey); ok {
		is = logstore.KeyIs(leaderKey, raw)
	}
	ctx, cancel := context.WithTimeout(n.ctx, quietAfter)
	defer cancel()
	if _, err := n.store.Commit(ctx, logstore.Txn{If: []logstore.Condition{is}, Do: []logstore.Op{logstore.Put(leaderKey, v)}}); err == nil {
		n.o.Logf("this node leads the cluster now")
	}
}

// keepTrimmed is the goroutine that forces the log to the disk, and has the order trimmed when this node leads.
func (n *Node) keepTrimmed() {
	sync, trim := time.NewTicker(syncEvery), time.NewTicker(trimEvery)
	defer sync.Stop()
	defer trim.Stop()
	var synced uint64
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-sync.C:
			if at, _ := n.store.Following(); at != synced {
				if err := n.store.Sync(n.ctx); err == nil {
					synced = at
				}
			}
		case <-trim.C:
			if n.Leads() && n.store.Available() == nil {
				n.trim()
				n.removeServers()
			} else {
				n.orderBytes.Store(0)
			}
		}
	}
}

// trimMin is how many entries are worth a trim.
const trimMin = 64

// trim takes away the order's front that no node needs any more. A member that is away holds it, but not for ever: then it begins with another one's log when it comes back.
func (n *Node) trim() {
	info, err := n.s.info(n.ctx)
	if err != nil {
		return
	}
	n.orderBytes.Store(int64(info.State.Bytes))
	first, last := info.State.FirstSeq, info.State.LastSeq
	if c := info.Cluster; c != nil && int64(info.State.Bytes) < n.o.BacklogBytes {
		for _, r := range c.Replicas {
			if !r.Current && !r.Offline {
				return // its server takes the order from its front on, and begins anew when that is gone
			}
		}
	}
	floor := last
	n.view.mu.Lock()
	now := time.Now()
	for _, m := range n.view.members {
		b, heard := n.view.beats[m.Name]
		away := n.view.silence(m.Name, now) >= quietAfter
		switch {
		case !m.Live && int64(info.State.Bytes) > n.o.BacklogBytes && (away || !heard):
		case !heard || b.Need == 0:
			floor = first
		default:
			floor = min(floor, b.Need)
		}
	}
	n.view.mu.Unlock()
	if floor < first+trimMin {
		return
	}
	ctx, cancel := context.WithTimeout(n.ctx, apiSlow)
	defer cancel()
	if err := n.s.s.Purge(ctx, jetstream.WithPurgeSequence(floor)); err != nil {
		n.o.Logf("trimming the order up to %d failed and is tried again: %v", floor, err)
	}
}
