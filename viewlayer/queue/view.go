package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// Options are what the view needs of the world.
type Options struct {
	Store  *logstore.Store
	Topics *topic.Catalog
	Node   string // this node's name; each start of it has another epoch
	// Epoch is the node's epoch in its cluster. Default: the view counts the starts of the node itself.
	Epoch uint64
	// Shared says that other nodes use the same log: what they hold stays theirs until Reap is told otherwise, and Follow is run.
	Shared bool
	Now    func() time.Time
	// After returns a channel that gets a value when the time has passed.
	After func(time.Duration) <-chan time.Time
	// Go runs a function beside the caller: one for each queue that has consumers.
	Go func(func())
	// Requeue is where messages go back to in queues that do not say: to their place (default) or to the tail.
	Requeue Placement
	// Logf is told what an operator may want to know. Default: nobody is.
	Logf func(format string, args ...any)
}

// View is the queues of one node. Its methods may be called from any goroutine.
type View struct {
	store   *logstore.Store
	topics  *topic.Catalog
	node    string
	epoch   uint64
	counted bool // the epoch was given by the view itself
	crashed bool // the epoch before this did not end in order
	shared  bool
	stamp   []byte        // of this node's index records
	ownMark []byte        // what those that it returned have and no other
	serial  atomic.Uint64 // of its consumers
	index   logstore.Shard
	now     func() time.Time
	after   func(time.Duration) <-chan time.Time
	spawn   func(func())
	requeue Placement
	logf    func(format string, args ...any)

	counts counts

	// What Follow has: how far it has read the index, and whether it takes this node's own records in.
	followed  atomic.Int64
	followers atomic.Int32 // calls of Follow: one, or none
	follower  indexReader
	reading   sync.Mutex // held by who reads the index: follower and seen
	seen      sightings  // as long as others may have to be brought back
	unsure    atomic.Int32
	grown     chan struct{} // holds one token: there may be something to take in

	mu       sync.Mutex
	queues   map[topic.ID]*Queue
	holders  map[*Holder]struct{}
	stranded map[*Holder]Why           // closed, but what they held could not be given back yet
	owned    map[string][]*topic.Topic // exclusive queues, by the connection that they go with
	chores   []func(context.Context) (done bool, err error)
}

// counts are the figures that only grow.
type counts struct {
	taken, settled, returned, discarded, overLimit, timedOut, conflicts atomic.Int64
}

// Figures are what the view has done since it was opened, and what it has now.
type Figures struct {
	Taken     int64 // messages handed to consumers
	Settled   int64 // messages acknowledged, or taken without acknowledgement
	Returned  int64 // messages that came back to their queue
	Discarded int64 // messages rejected without requeue
	OverLimit int64 // messages dropped because they came back more often than their queue's delivery limit
	TimedOut  int64 // messages that were held longer than their queue's consumer timeout
	Conflicts int64 // takes that found the cursor moved by somebody else
	Queues    int64 // queues in use: with consumers, or with messages out
	Consumers int64
	Out       int64 // messages delivered and not settled
}

// Open opens the queues of a store: it makes the index topic if there is none, gives this start of the node an epoch if it has none, and brings back what earlier
// epochs of it held. Queues that were to go with a connection or with the process are deleted.
func Open(ctx context.Context, o Options) (*View, error) {
	v := &View{
		store: o.Store, topics: o.Topics, node: o.Node, now: o.Now, after: o.After, spawn: o.Go, requeue: o.Requeue, logf: o.Logf,
		queues: map[topic.ID]*Queue{}, holders: map[*Holder]struct{}{}, stranded: map[*Holder]Why{},
		owned: map[string][]*topic.Topic{}, epoch: o.Epoch, shared: o.Shared, grown: make(chan struct{}, 1),
	}
	v.follower.v = v
	if v.logf == nil {
		v.logf = func(string, ...any) {}
	}
	v.topics.Attach(v)
	index, err := v.indexTopic(ctx)
	if err != nil {
		return nil, err
	}
	v.index = index.Shards[0]
	if v.epoch == 0 {
		if err := v.newEpoch(ctx); err != nil {
			return nil, err
		}
	}
	v.stamp = stamp(v.node, v.epoch)
	v.ownMark = append(slices.Clone(v.stamp), timeField...)
	if err := v.doubtWaiting(ctx); err != nil {
		return nil, err
	}
	return v, v.recover(ctx)
}

// indexTopic finds or makes the index topic.
func (v *View) indexTopic(ctx context.Context) (*topic.Topic, error) {
	t, err := v.topics.Create(ctx, topic.Spec{
		Namespace: topic.DefaultNamespace, Name: IndexTopic, Partitions: 1, AckPolicy: topic.Retain, Durable: true, Internal: true,
	})
	var there *topic.ExistsError
	if errors.As(err, &there) {
		t, err = there.Topic, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the index topic: %w", err)
	}
	if !t.Internal || len(t.Shards) != 1 {
		return nil, fmt.Errorf("there is a topic '%s' that is not the index topic; it must be deleted first, with a version that can", IndexTopic)
	}
	return t, nil
}

// newEpoch takes the next epoch of this node, durably: what claims say of an epoch must never be said of another.
func (v *View) newEpoch(ctx context.Context) error {
	key := epochPrefix + v.node
	for {
		raw, ok := v.store.Get(key)
		was, last := logstore.KeyAbsent(key), uint64(0)
		if ok {
			var err error
			if last, err = parseNumber(raw); err != nil {
				return fmt.Errorf("the epoch of node '%s': %w", v.node, err)
			}
			was = logstore.KeyIs(key, raw)
		}
		_, err := v.store.Commit(ctx, logstore.Txn{If: []logstore.Condition{was}, Do: []logstore.Op{logstore.Put(key, number(last+1))}})
		if errors.Is(err, logstore.ErrConflict) {
			continue
		}
		if err != nil {
			return fmt.Errorf("taking an epoch for node '%s': %w", v.node, err)
		}
		closed, _ := v.store.Get(closedPrefix + v.node)
		v.epoch, v.counted = last+1, true
		v.crashed = last > 0 && !bytes.Equal(closed, number(last)) && !v.shared
		return nil
	}
}

// Figures returns the view's figures.
func (v *View) Figures() Figures {
	c := &v.counts
	f := Figures{
		Taken: c.taken.Load(), Settled: c.settled.Load(), Returned: c.returned.Load(), Discarded: c.discarded.Load(), OverLimit: c.overLimit.Load(),
		TimedOut: c.timedOut.Load(), Conflicts: c.conflicts.Load(),
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, q := range v.queues {
		f.Queues++
		f.Out += q.out.Load()
		q.mu.Lock()
		f.Consumers += int64(len(q.consumers))
		q.mu.Unlock()
	}
	return f
}

// Find returns the queue of this name for a connection: an *topic.UnknownError if there is none, a *LockedError if it is exclusive to another connection, an
// *InternalError if it is the broker's own.
func (v *View) Find(namespace, name, owner string) (*Queue, error) {
	t, err := v.topics.FindSurely(context.Background(), namespace, name)
	if err != nil {
		return nil, err
	}
	if err := usable(t, owner); err != nil {
		return nil, err
	}
	return v.queue(t)
}

func usable(t *topic.Topic, owner string) error {
	if t.Internal {
		return &InternalError{t.Name}
	}
	if t.Owner != "" && t.Owner != owner {
		return &LockedError{t.Namespace, t.Name}
	}
	return nil
}

// queue returns the queue that a topic is.
func (v *View) queue(t *topic.Topic) (*Queue, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if q := v.queues[t.ID]; q != nil {
		return q, nil
	}
	q, err := newQueue(v, t)
	if err != nil {
		return nil, err
	}
	v.queues[t.ID] = q
	return q, nil
}
