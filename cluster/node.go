package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"polylog/logstore"
)

// Node is this process as a member of the cluster: its log follows the order, and its epoch goes on until it leaves or is declared gone.
type Node struct {
	o     *Options
	p     *Peer
	s     *stream
	order *order
	store *logstore.Store

	events  chan event
	changed chan struct{} // has a value when the members may have changed
	over    chan struct{} // closed when this node's part is over
	overErr error         // why

	view       clusterView
	orderBytes atomic.Int64 // as the leader last saw it
	held       *heldCopy    // until this node has joined

	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// Open finds the order, brings the log in so.Dir up to it, with a copy of another node's log if need be, and opens it. The log then follows; Join makes the node a member. It waits for other
// nodes as long as ctx lasts.
func (p *Peer) Open(ctx context.Context, so logstore.Options) (*Node, error) {
	for {
		n, err := p.open(ctx, so)
		if behind := (*BehindError)(nil); errors.As(err, &behind) && ctx.Err() == nil { // it was trimmed since its bounds were asked for, or is damaged
			p.o.Logf("%v", err)
			p.lost(behind)
			continue
		}
		return n, err
	}
}

// lost notes that following has ended for this reason. What is damaged here would be met again, so the next log begins with a copy.
func (p *Peer) lost(why error) {
	var behind *BehindError
	if errors.As(why, &behind) && behind.Damaged {
		p.mu.Lock()
		p.damaged = true
		p.mu.Unlock()
	}
}

func (p *Peer) open(ctx context.Context, so logstore.Options) (_ *Node, err error) {
	if so.Sync != logstore.SyncAlways {
		return nil, fmt.Errorf("sync.policy is %s: in a cluster it can only be always. With anything else a power failure of all nodes would lose confirmed messages, and one of a minority could", so.Sync)
	}
	n := &Node{o: &p.o, p: p, events: make(chan event, 64), changed: make(chan struct{}, 1), over: make(chan struct{})}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.view.init(p.o.Node)
	last, identity, unfinished, err := look(so)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.self.Last, p.self.Identity, p.self.Ready = last, identity, !unfinished
	p.mu.Unlock()
	if err := retry(ctx, &p.o, "taking the node's name", p.checkAlone); err != nil {
		return nil, err
	}
	if n.s, err = p.findOrder(ctx); err != nil {
		return nil, err
	}
	if err := n.prepare(ctx, so, last, identity, unfinished); err != nil {
		return nil, err
	}
	n.order = newOrder(&p.o, p.b, n.s, n.events)
	so.Sequencer, so.Sync = n.order, logstore.SyncOS // what a crash takes is in the order
	if n.store, err = logstore.Open(so); err != nil {
		n.order.out.close()
		return nil, err
	}
	n.tasks.Go(n.speak)
	if err := n.catchUp(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// prepare sees that the log in the directory can follow the stream, and replaces it by a copy of another node's if not.
func (n *Node) prepare(ctx context.Context, so logstore.Options, last uint64, identity string, unfinished bool) error {
	var first uint64
	err := retry(ctx, n.o, "asking for the bounds of the order", func(ctx context.Context) error {
		info, err := n.s.info(ctx)
		if err == nil {
			first = info.State.FirstSeq
		}
		return err
	})
	if err != nil {
		return err
	}
	n.p.mu.Lock()
	damaged := n.p.damaged
	n.p.damaged = false
	n.p.mu.Unlock()
	switch {
	case damaged:
		return n.copyLog(ctx, so, "this node's copy of the order is damaged")
	case unfinished:
		return n.copyLog(ctx, so, "the last copy was not finished")
	case identity != "" && identity != n.s.identity:
		return fmt.Errorf("the log in %s follows another order (%s) than that of cluster '%s' (%s): it belongs to another cluster, or this one was founded anew; give the node an empty data directory, or "+
			"another cluster.name", so.Dir, identity, n.o.Name, n.s.identity)
	case identity == "" && last > 0 && baseFor(last) != n.s.base:
		return fmt.Errorf("the log in %s has data of its own, and the cluster '%s' began with others': move that data away, or give the node another directory", so.Dir, n.o.Name)
	case identity == "" && last == 0 && (n.s.base > 0 || first > 1):
		return n.copyLog(ctx, so, "its log is empty")
	}
	if sequence, _ := n.s.split(last); sequence+1 < first {
		return n.copyLog(ctx, so, fmt.Sprintf("the order begins at %d and its log ends at %d", first, sequence))
	}
	return nil
}

// catchUp waits until the log has applied what the order had when it is called.
func (n *Node) catchUp(ctx context.Context) error {
	var target uint64
	err := retry(ctx, n.o, "asking for the end of the order", func(ctx context.Context) error {
		info, err := n.s.info(ctx)
		if err == nil {
			target = info.State.LastSeq
			n.order.know(target)
		}
		return err
	})
	if err != nil {
		return err
	}
	began := n.order.applied(n.store)
	kept := time.Now()
	err = retry(ctx, n.o, "catching up", func(ctx context.Context) error {
		select {
		case e := <-n.events:
			if e == eventLost {
				return &permanentError{n.order.whyLost()}
			}
		default:
		}
		if err := n.store.Failure(); err != nil {
			return &permanentError{err}
		}
		at := n.order.applied(n.store)
		if at >= target {
			return nil
		}
		if n.held != nil && time.Since(kept) > copyIdle/4 {
			kept = time.Now()
			n.held.keep(ctx) //nolint:errcheck // if what is needed is trimmed, following says so
		}
		return fmt.Errorf("%d of %d entries are applied", at-began, target-began)
	})
	return err
}

// applied returns the last sequence of the stream that the log has applied whole.
func (r *order) applied(s *logstore.Store) uint64 {
	last := r.last.Load()
	if applied, pending := s.Following(); pending > 0 {
		seq, _ := r.s.split(applied)
		return max(seq, 1) - 1
	}
	return last
}

func (r *order) whyLost() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Store returns the log. The Node closes it.
func (n *Node) Store() *logstore.Store { return n.store }

// Join makes the node a member with a new epoch, which it returns. m says how clients reach it.
func (n *Node) Join(ctx context.Context, m Member) (epoch uint64, err error) {
	m.Name, m.Server = n.o.Node, n.p.b.name
	description, err := json.Marshal(m)
	if err != nil {
		return 0, fmt.Errorf("describing the node: %w", err)
	}
	var w writer
	if raw, ok := n.store.Get(writerPrefix + n.o.Node); ok {
		if w, err = parseWriter(raw); err != nil {
			return 0, err
		}
	}
	told := time.AfterFunc(tellEvery, func() { n.o.Logf("still joining: the cluster has no majority, or no leader yet") })
	defer told.Stop()
	if epoch, err = n.order.join(ctx, w.epoch, description); err != nil {
		return 0, fmt.Errorf("joining the cluster: %w", err)
	}
	if err := n.awaitEpoch(ctx, epoch); err != nil {
		return 0, err
	}
	n.view.begin(epoch)
	if err := n.startMembership(); err != nil {
		return 0, err
	}
	if n.held != nil {
		n.held.close()
		n.held = nil
	}
	n.o.Logf("joined the cluster '%s' in epoch %d", n.o.Name, epoch)
	return epoch, nil
}

// awaitEpoch waits until the log itself has the epoch.
func (n *Node) awaitEpoch(ctx context.Context, epoch uint64) error {
	w := n.store.Watch(memberPrefix + n.o.Node)
	defer w.Stop()
	for {
		e, err := w.Next(ctx)
		if err != nil {
			return err
		}
		var m Member
		if e.Key == memberPrefix+n.o.Node && json.Unmarshal(e.Value, &m) == nil && m.Epoch >= epoch {
			return nil
		}
	}
}

// Over is closed when this node's part has ended without being asked to; Err says why. Nothing that it does counts any more: its connections are to be dropped, and it may begin anew with
// Peer.Open.
func (n *Node) Over() <-chan struct{} { return n.over }

// Err returns why Over is closed: ErrGone, a *BehindError or a *VersionError.
func (n *Node) Err() error { return n.overErr }

// Changed has a value when the members, or who leads, may have changed since it was last read.
func (n *Node) Changed() <-chan struct{} { return n.changed }

// Leave ends the node's epoch in order. It returns when the order has it, or ctx ends.
func (n *Node) Leave(ctx context.Context) error {
	epoch := n.view.epoch()
	if epoch == 0 || n.store.Available() != nil {
		return nil
	}
	if err := n.order.out.control(kindLeave, n.o.Node, epoch); err != nil {
		return err
	}
	select {
	case <-n.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends following and closes the log.
func (n *Node) Close() error {
	n.stop()
	n.order.out.end(logstore.ErrClosed)
	n.tasks.Wait()
	err := n.store.Close()
	n.order.out.close()
	return err
}

// watch is the goroutine that looks at what the order says of the members.
func (n *Node) watch() {
	for {
		select {
		case <-n.ctx.Done():
			return
		case e := <-n.events:
			var err error
			switch e {
			case eventGone:
				err = ErrGone
			case eventLost:
				err = n.order.whyLost()
				n.p.lost(err)
			}
			n.overErr = err
			n.store.GiveUp(err)
			close(n.over)
			return
		}
	}
}

func (n *Node) nudge() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// Dead reports whether an epoch of a node is over. What is in the log of an epoch that was begun is judged rightly, however the members change meanwhile.
func (n *Node) Dead(node string, epoch uint64) bool {
	raw, ok := n.store.Get(writerPrefix + node)
	if !ok {
		return false
	}
	w, err := parseWriter(raw)
	return err == nil && (epoch < w.epoch || epoch == w.epoch && !w.live)
}
