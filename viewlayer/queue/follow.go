package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// Follow keeps the view up with the other nodes of the cluster, until ctx ends or the store is closed: what has come back there is served here, and consumers
// hear of queues that were deleted there. It is run on a goroutine beside the others when Options.Shared is set.
func (v *View) Follow(ctx context.Context) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	v.spawn(func() {
		ended <- v.topics.FollowDeletions(within, v.deletedElsewhere, v.lookForDeleted)
		cancel()
	})
	defer v.store.NotifyGrowth(v.index, v.grown)()
	v.followers.Add(1)
	defer v.followers.Add(-1)
	failing := false
	for within.Err() == nil {
		var again <-chan time.Time
		err := v.takeIn()
		if err != nil {
			if !failing {
				v.logf("what has come back on other nodes cannot be read, trying again: %v", err)
			}
			again = v.after(followRetry)
		}
		failing = err != nil
		select {
		case <-v.grown:
		case <-again:
		case <-within.Done():
		}
	}
	err := <-ended
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// followRetry is how long it takes until what could not be read is tried again.
const followRetry = time.Second

// commit is Store.Commit for a transaction whose outcome the view must know.
func (v *View) commit(ctx context.Context, txn logstore.Txn) (logstore.Result, error) {
	txn.Patient = true
	res, err := v.store.Commit(ctx, txn)
	var unknown *logstore.UnknownOutcomeError
	if errors.As(err, &unknown) && v.unsure.CompareAndSwap(sure, unsureSince) {
		select {
		case v.grown <- struct{}{}:
		default:
		}
	}
	return res, err
}

// What this view returns it knows when the transaction is done, and passes over when it reads the index. That ends when the outcome of one is unknown: from then
// on it takes its own in too, beginning with those that it has passed over.
const (
	sure        = int32(iota)
	unsureSince // the index is to be read from its beginning
	unsure
)

// comeUp returns when the view knows all that was answered to anybody, on any node, before the call.
func (v *View) comeUp(ctx context.Context) error {
	if err := v.store.CatchUp(ctx); err != nil {
		return err
	}
	return v.takeIn()
}

// takeIn reads what is new in the index topic.
func (v *View) takeIn() error {
	v.reading.Lock()
	defer v.reading.Unlock()
	own := v.unsure.Load() != sure
	if v.unsure.CompareAndSwap(unsureSince, unsure) {
		v.followed.Store(0)
	}
	for {
		from := v.followed.Load()
		_, next, err := v.store.Bounds(v.index)
		if err != nil || from >= next {
			return err
		}
		err = v.follower.each(from, next, func(offset int64, value []byte) error {
			switch {
			case !own && bytes.Contains(value, v.ownMark):
				return nil
			case !bytes.HasPrefix(value, returnedMark):
				v.seen.mark(value)
				return nil
			}
			if err := v.takeInRecord(offset, value); err != nil {
				return fmt.Errorf("reading the index topic at offset %d: %w", offset, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		v.followed.Store(next)
	}
}

// following returns how far the index was read, and whether Follow is at work, so that whose claims lie before that was seen.
func (v *View) following() (followed int64, whole bool) {
	return v.followed.Load(), v.followers.Load() > 0
}

// sightings are the epochs whose claims were read in the index.
type sightings struct {
	mu     sync.Mutex
	epochs map[origin]struct{}
	last   []byte // what the claims have that was seen last
}

func (s *sightings) add(o origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epochs == nil {
		s.epochs = map[origin]struct{}{}
	}
	s.epochs[o] = struct{}{}
}

// mark is add for an index record. Most are of the same node as the one before.
func (s *sightings) mark(value []byte) {
	if len(s.last) > 0 && bytes.Contains(value, s.last) {
		return
	}
	if o, ok := originOf(value); ok {
		s.add(o)
		s.last = append(stamp(o.node, o.epoch), timeField...)
	}
}

func (s *sightings) all() []origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.epochs))
}

func (s *sightings) forget(os []origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range os {
		delete(s.epochs, o)
	}
}

func (v *View) takeInRecord(offset int64, value []byte) error {
	e, id, spans, err := parseEntry(value)
	if err != nil {
		return err
	}
	q, err := v.queueByID(id)
	var unknown *topic.UnknownIDError
	switch {
	case errors.As(err, &unknown) || err == nil && e.Partition >= len(q.parts):
		return nil // the queue was deleted, and who did it forgets the record
	case err != nil:
		return err
	case v.isRecordLive(offset):
		q.comeBack(e.Partition, []*returnedRecord{{rec: offset, spans: spans}}).nudge()
	}
	return nil
}

// isRecordLive reports whether an index record is still there, as far as this node has heard.
func (v *View) isRecordLive(rec int64) bool {
	n, err := v.store.LiveBetween(v.index, rec, rec+1)
	return err != nil || n > 0
}

// alive returns those of the records that nobody has taken, as far as this node has heard. Only other nodes take what is not in this one's memory any more.
func (v *View) alive(rs []*returnedRecord) []*returnedRecord {
	if !v.shared {
		return rs
	}
	some := rs[:0:0]
	for _, r := range rs {
		if v.isRecordLive(r.rec) {
			some = append(some, r)
		}
	}
	return some
}

// prunedAtOnce bounds the records that one prune looks at.
const prunedAtOnce = 4096

// prune forgets what has come back and was taken by other nodes, in some of a partition's records.
func (q *Queue) prune(part int) {
	q.mu.Lock()
	recs := q.returned[part].some(prunedAtOnce)
	q.mu.Unlock()
	gone := recs[:0]
	for _, rec := range recs {
		if !q.v.isRecordLive(rec) {
			gone = append(gone, rec)
		}
	}
	if len(gone) > 0 {
		q.mu.Lock()
		q.returned[part].forget(gone)
		q.mu.Unlock()
	}
}

// deletedElsewhere tells the consumers of a queue that it is gone.
func (v *View) deletedElsewhere(id topic.ID) {
	v.mu.Lock()
	q := v.queues[id]
	v.mu.Unlock()
	if q == nil {
		return
	}
	if q, records := v.dismiss(q.t); q != nil {
		v.spawn(func() { v.forget(q, records) }) // which may take long, and others wait to be told
	}
}

// lookForDeleted tells the consumers of all queues that are gone.
func (v *View) lookForDeleted() {
	v.mu.Lock()
	var ids []topic.ID
	for id := range v.queues {
		ids = append(ids, id)
	}
	v.mu.Unlock()
	for _, id := range ids {
		_, err := v.topics.FindID(id)
		var unknown *topic.UnknownIDError
		if errors.As(err, &unknown) {
			v.deletedElsewhere(id)
		}
	}
}
