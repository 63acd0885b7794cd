package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// Placement is where a message goes that comes back.
type Placement uint8

const (
	// Original leaves it at its offset. It is served before what waits behind it.
	Original Placement = iota
	// Tail appends it at the end, so that the others pass a message that keeps failing.
	Tail
)

// Queue is a topic in the eyes of those who take its messages away. It is made when it is used first; what is in it lies in the log.
type Queue struct {
	v        *View
	t        *topic.Topic
	rules    rules
	infix    []byte // of its index records
	indexKey []byte

	out atomic.Int64 // messages claimed and not settled, on this node

	// taking is held by who takes messages on this node, so that takers of one node do not run into each other's conflicts. It guards parts and taker.
	taking turn
	parts  []partition
	taker  taker
	turn   int // the consumer, and the partition, to begin with
	// retired says that the view has forgotten this Queue, since nothing was going on in it; another one may be in its place. It changes with mu held too.
	retired bool

	mu        sync.Mutex // after taking; held for a few instructions
	consumers []*Consumer
	returned  []returnedSet // for each partition
	gone      bool
	running   bool // a goroutine serves the consumers

	wake chan struct{} // holds one token: there may be something to do for the consumers
}

// partition is where the taking from one partition stands.
type partition struct {
	shard  logstore.Shard
	cursor cursor
	read   bool // the cursor was read
	// from is where reading goes on: everything between the cursor and it is deleted.
	from int64
	// doubt is the offset below which a message may have been out before a crash though the log does not know; see doubt.go.
	doubt int64
}

// rules are what a queue's declaration says of it.
type rules struct {
	placement Placement
	timeout   time.Duration // how long a message may be held; 0: for ever
	limit     int64         // a message that failed more often is dropped; negative: never
	counted   bool          // deliveries show the count of failures
}

func newQueue(v *View, t *topic.Topic) (*Queue, error) {
	r, err := rulesOf(t, v.requeue)
	if err != nil {
		return nil, err
	}
	q := &Queue{
		v: v, t: t, rules: r, infix: infix(t), indexKey: indexKey(t), parts: make([]partition, len(t.Shards)), returned: make([]returnedSet, len(t.Shards)),
		taking: newTurn(), wake: make(chan struct{}, 1),
	}
	for i, sh := range t.Shards {
		doubt, err := v.readDoubt(t.ID, i)
		if err != nil {
			return nil, err
		}
		q.parts[i] = partition{shard: sh, cursor: newCursor(t.ID, i), doubt: doubt}
	}
	return q, nil
}

// Topic returns the topic that the queue is a view of.
func (q *Queue) Topic() *topic.Topic { return q.t }

// Counted tells whether deliveries shall show how often a message failed, as quorum queues do.
func (q *Queue) Counted() bool { return q.rules.counted }

func (q *Queue) retains() bool { return q.t.AckPolicy == topic.Retain }

// nudge makes the dispatching goroutine look again.
func (q *Queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Ready returns how many messages wait: neither settled nor out.
func (q *Queue) Ready() (int64, error) {
	q, err := q.lock(context.Background())
	if err != nil {
		return 0, err
	}
	defer q.taking.pass()
	return q.ready()
}

func (q *Queue) ready() (n int64, err error) {
	for i := range q.parts {
		p := &q.parts[i]
		var live int64
		if q.counts() {
			cursor := p.cursor // that of the partition goes with what was read behind it
			if err = cursor.read(q.v.store); err == nil {
				live, err = q.v.store.LiveBetween(p.shard, cursor.at, maxOffset)
			}
			live += q.countReturned(i)
		} else {
			live, err = q.v.store.Live(p.shard)
		}
		if err != nil {
			return 0, q.goneOr(err)
		}
		n += live
	}
	if !q.counts() {
		n -= q.out.Load()
	}
	return max(n, 0), nil
}

// counts reports whether what waits is what lies behind the cursor and what has come back. Else it is what is there and not out, which is cheaper to know, when
// all that is out is out on this node and nothing that was settled stays.
func (q *Queue) counts() bool { return q.retains() || q.v.shared }

// countedExactly bounds the returned records whose messages are looked for one by one.
const countedExactly = 1000

// countReturned returns how many messages have come back to a partition and wait. When they are very many, some may be counted that are gone: another node took
// them a moment ago, or they had been settled when the claim came back.
func (q *Queue) countReturned(part int) (n int64) {
	q.mu.Lock()
	set := &q.returned[part]
	if n = set.size(); !q.v.shared || len(set.heap) == 0 || len(set.heap) > countedExactly {
		q.mu.Unlock()
		return n
	}
	rs := slices.Clone(set.heap)
	q.mu.Unlock()
	n = 0
	for _, r := range q.v.alive(rs) {
		for _, sp := range r.spans {
			live, err := q.v.store.LiveBetween(q.parts[part].shard, sp.first, sp.end)
			if err != nil {
				return 0 // the queue is gone
			}
			n += live
		}
	}
	return n
}

const maxOffset = 1<<63 - 1

// goneOr tells a deleted queue from other errors.
func (q *Queue) goneOr(err error) error {
	var unknown *logstore.UnknownShardError
	if errors.As(err, &unknown) && unknown.Shard != q.v.index {
		return &GoneError{q.t.Namespace, q.t.Name}
	}
	return err
}

// Consumers returns how many consumers the queue has, on all nodes.
func (q *Queue) Consumers() int64 { return q.v.countConsumers(q.t.ID) }

// lock locks the taking lock of the Queue that is in this one's place, and returns that.
func (q *Queue) lock(ctx context.Context) (*Queue, error) {
	for {
		if err := q.taking.take(ctx, q.v); err != nil {
			return nil, err
		}
		if !q.retired {
			return q, nil
		}
		q.taking.pass()
		q = q.successor()
	}
}

// successor returns the Queue that is in the place of one that is retired.
func (q *Queue) successor() *Queue {
	now, err := q.v.queue(q.t)
	if err != nil {
		panic("a queue's declaration became wrong: " + err.Error()) // it was right before, and never changes
	}
	return now
}
