package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/topic"
)

// Reap ends what dead epochs of nodes have left: what they held is available again, their consumers are gone, and so are the queues that go with them, or with
// the last of them. dead tells which epochs have ended, and must not say so before that has its place in the order: nothing of such an epoch may be applied any
// more. Several views may do this at once, and after an error it is done again; each claim comes back once.
func (v *View) Reap(ctx context.Context, dead func(node string, epoch uint64) bool) error {
	r := reaping{v: v, dead: func(o origin) bool { return o != origin{v.node, v.epoch} && dead(o.node, o.epoch) }}
	return r.run(ctx)
}

// recover does when the view is opened what Reap does, for earlier epochs of this node, and takes in what has come back. Who is alone with the log knows all
// other epochs to be dead. Its cost follows what is out, not what was ever delivered, since the records of settled claims are deleted.
func (v *View) recover(ctx context.Context) error {
	r := reaping{v: v, opening: true, dead: func(o origin) bool {
		return o != origin{v.node, v.epoch} && (o.node == v.node || !v.shared)
	}}
	return r.run(ctx)
}

// reapedAtOnce bounds the claims of one transaction; each is a condition.
const reapedAtOnce = 1024

// reaping is one round of it.
type reaping struct {
	v       *View
	dead    func(origin) bool
	opening bool

	w        entryWriter
	gone     []logstore.Range // index records that mean nothing
	back     []deadClaim
	claims   int
	messages int64
}

// deadClaim is a claim that is to come back.
type deadClaim struct {
	rec   int64
	q     *Queue
	part  int
	spans []span
}

func (r *reaping) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{r.consumers, r.bound, r.unused, r.index} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if r.claims > 0 {
		r.v.logf("%d messages of %d claims whose node or process is gone are available again", r.messages, r.claims)
	}
	return nil
}

// consumers takes dead consumers away.
func (r *reaping) consumers(ctx context.Context) error {
	v := r.v
	var ops []logstore.Op
	var err error
	v.store.Scan(consumerPrefix, func(key string, _ []byte) bool {
		var o origin
		if _, o, err = parseConsumerKey(key); err != nil {
			return false
		}
		if r.dead(o) {
			ops = append(ops, logstore.Remove(key))
		}
		return true
	})
	if err != nil {
		return err
	}
	var only []logstore.Txn
	v.store.Scan(exclusivePrefix, func(key string, value []byte) bool {
		var o origin
		if _, o, err = parseConsumerKey(string(value)); err != nil {
			return false
		}
		if r.dead(o) {
			only = append(only, logstore.Txn{If: []logstore.Condition{logstore.KeyIs(key, value)}, Do: []logstore.Op{logstore.Remove(key)}})
		}
		return true
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ops, removedAtOnce) {
		only = append(only, logstore.Txn{Do: part})
	}
	for _, txn := range only {
		if _, err := v.store.Commit(ctx, txn); err != nil && !errors.Is(err, logstore.ErrConflict) {
			return fmt.Errorf("taking away consumers that are gone: %w", err)
		}
	}
	return nil
}

// bound deletes the queues that go with dead epochs.
func (r *reaping) bound(ctx context.Context) error {
	v := r.v
	var ids []topic.ID
	var err error
	v.store.Scan(boundPrefix, func(key string, value []byte) bool {
		var o origin
		if o, err = parseOrigin(value); err != nil {
			return false
		}
		if r.dead(o) {
			ids = append(ids, topic.ID([]byte(key[len(boundPrefix):])))
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		t, err := v.topics.FindID(id)
		var unknown *topic.UnknownIDError
		if err == nil {
			err = v.deleteTopic(ctx, t)
		}
		if err != nil && !errors.As(err, &unknown) {
			return err
		}
	}
	if !r.opening {
		return nil
	}
	// Earlier versions did not write down what such a queue goes with. It was the process.
	all, err := v.topics.All()
	if err != nil {
		return err
	}
	for _, t := range all {
		if _, known := v.store.Get(ofTopic(boundPrefix, t.ID)); !isBound(t) || known {
			continue
		}
		if err := v.deleteTopic(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// unused deletes the auto-delete queues whose last consumer is gone. One that is alone with the log leaves them their messages when it starts again: the
// consumers are expected back.
func (r *reaping) unused(ctx context.Context) error {
	v := r.v
	if r.opening && !v.shared {
		return nil
	}
	var ids []topic.ID
	v.store.Scan(latestPrefix, func(key string, value []byte) bool {
		if len(value) > 0 && value[0] == latestAutoDelete {
			ids = append(ids, topic.ID([]byte(key[len(latestPrefix):])))
		}
		return true
	})
	for _, id := range ids {
		t, err := v.topics.FindID(id)
		var unknown *topic.UnknownIDError
		switch {
		case errors.As(err, &unknown):
			continue
		case err == nil && t.AutoDelete:
			err = v.deleteUnused(ctx, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// index reads the index topic and brings back what the claims of dead epochs hold. It does so for nothing only when it must, since this may be called often.
func (r *reaping) index(ctx context.Context) error {
	v := r.v
	// What a dead epoch did last may not be readable yet.
	if _, err := v.store.Commit(ctx, logstore.Txn{Wait: logstore.Durable}); err != nil {
		return err
	}
	from, next, err := v.store.Bounds(v.index)
	if err != nil {
		return err
	}
	followed, whole := v.following() // before seen is looked at: it has all that lies before
	ended := r.ended()
	if whole && !r.opening && len(ended) == 0 {
		from = max(from, followed)
	}
	walk := indexReader{v: v}
	err = walk.each(from, next, func(offset int64, value []byte) error {
		if !r.opening && !r.concerns(value) {
			return nil
		}
		if err := r.record(offset, value); err != nil {
			return fmt.Errorf("reading the index topic at offset %d: %w", offset, err)
		}
		if len(r.back) < reapedAtOnce {
			return nil
		}
		return r.flush(ctx)
	})
	if err == nil {
		err = r.flush(ctx)
	}
	if err != nil {
		return err
	}
	if r.opening {
		v.followed.Store(next)
	}
	v.seen.forget(ended)
	return nil
}

// ended returns the dead epochs that had claims as far as Follow has seen.
func (r *reaping) ended() []origin {
	return slices.DeleteFunc(r.v.seen.all(), func(o origin) bool { return !r.dead(o) })
}

// indexReader reads the index topic, and keeps the memory for it.
type indexReader struct {
	v       *View
	buf     logstore.Buffer
	scratch record.Scratch
}

// each calls f for the records at from <= offset < next.
func (x *indexReader) each(from, next int64, f func(offset int64, value []byte) error) error {
	for from < next {
		chunk, more, err := readFrom(x.v.store, x.v.index, from, readBytes, &x.buf)
		if err != nil {
			return fmt.Errorf("reading the index topic: %w", err)
		}
		if !more {
			break
		}
		for _, b := range chunk.Batches {
			it := b.Iter(&x.scratch)
			for it.Next() {
				if it.Offset() < from || it.Offset() >= next {
					continue
				}
				if err := f(it.Offset(), it.Record().Value); err != nil {
					return err
				}
			}
			if err := it.Err(); err != nil {
				return fmt.Errorf("reading the index topic: %w", err)
			}
		}
		from = chunk.Next
	}
	return nil
}

// concerns reports whether a record may be a dead epoch's claim, and parses none that is not.
func (r *reaping) concerns(value []byte) bool {
	o, ok := originOf(value)
	return !ok || r.dead(o)
}

// record looks at one index record.
func (r *reaping) record(offset int64, value []byte) error {
	e, id, spans, err := parseEntry(value)
	if err != nil {
		return err
	}
	claimed := e.Kind == kindClaim
	if claimed && r.opening {
		r.v.seen.add(origin{e.Node, e.Epoch})
	}
	dead := claimed && r.dead(origin{e.Node, e.Epoch})
	if !r.opening && !dead {
		return nil
	}
	q, err := r.v.queueByID(id)
	var unknown *topic.UnknownIDError
	if errors.As(err, &unknown) || err == nil && e.Partition >= len(q.parts) {
		if dead || !claimed {
			r.gone = append(r.gone, one(offset)) // the queue was deleted
		}
		return nil
	}
	switch {
	case err != nil:
		return err
	case dead:
		for i := range spans {
			spans[i].acquired, spans[i].failed = NodeLost.counters(spans[i].acquired, spans[i].failed)
		}
		r.back = append(r.back, deadClaim{offset, q, e.Partition, spans})
	case !claimed:
		q.comeBack(e.Partition, []*returnedRecord{{rec: offset, spans: spans}})
	}
	return nil
}

// flush puts what was found into the order. A claim that somebody else takes away first is left out.
func (r *reaping) flush(ctx context.Context) error {
	for len(r.gone) > 0 || len(r.back) > 0 {
		var txn logstore.Txn
		ranges := slices.Clone(r.gone)
		r.w.reset()
		back := make([][]*returnedRecord, len(r.back))
		for i, c := range r.back {
			txn.If = append(txn.If, logstore.Live(r.v.index, c.rec))
			ranges = append(ranges, one(c.rec))
			back[i] = r.w.returnedRecords(c.q, c.part, c.spans, r.v.now().UnixMilli())
		}
		txn.Do = append(txn.Do, logstore.Delete(r.v.index, mergeRanges(ranges)...))
		if r.w.len() > 0 {
			op, err := r.w.op(r.v.index)
			if err != nil {
				return err
			}
			txn.Do = append(txn.Do, op)
		}
		res, err := r.v.commit(ctx, txn)
		if errors.Is(err, logstore.ErrConflict) {
			r.back = slices.DeleteFunc(r.back, func(c deadClaim) bool { return !r.v.isRecordLive(c.rec) })
			continue
		}
		if err != nil {
			return fmt.Errorf("bringing back what a dead process had out: %w", err)
		}
		for i, rs := range back {
			for _, rr := range rs {
				rr.rec += res.Base(0)
			}
			c := &r.back[i]
			n := size(c.spans)
			r.claims++
			r.messages += n
			r.v.counts.returned.Add(n)
			c.q.comeBack(c.part, rs).nudge()
		}
		r.gone, r.back = r.gone[:0], r.back[:0]
	}
	return nil
}

func (v *View) queueByID(id topic.ID) (*Queue, error) {
	t, err := v.topics.FindID(id)
	if err != nil {
		return nil, err
	}
	return v.queue(t)
}
