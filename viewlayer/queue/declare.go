package queue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"polylog/logstore"
	"polylog/viewlayer/message"
	"polylog/viewlayer/topic"
)

// Declaration is what a client says of a queue that shall be there.
type Declaration struct {
	Namespace, Name string
	Passive         bool // it is there already, whatever it is like
	Durable         bool
	Exclusive       bool
	AutoDelete      bool
	ServerNamed     bool // the name was drawn by the broker, and may have its prefix
	Arguments       message.Table
	Owner           string // the connection; of an exclusive queue, its owner
}

// Status is what a declaration is answered with.
type Status struct {
	Name             string
	Ready, Consumers int64
}

// Declare makes a queue, or sees that it is there with the same properties. A queue is a topic of one partition and policy Delete; one that Kafka made is declared
// as a durable queue without arguments. Errors: *topic.UnknownError (passive), *LockedError, *InequivalentError, *ArgumentError, *InternalError,
// *topic.NameError (also for names that only the broker gives), or the store's.
func (v *View) Declare(ctx context.Context, d Declaration) (Status, error) {
	if v.shared { // the figures are of now, and so is what is not there
		if err := v.comeUp(ctx); err != nil {
			return Status{}, err
		}
	}
	for {
		t, err := v.topics.Find(d.Namespace, d.Name)
		var unknown *topic.UnknownError
		if errors.As(err, &unknown) && !d.Passive {
			t, err = v.create(ctx, d)
			var there *topic.ExistsError
			if errors.As(err, &there) {
				continue
			}
		}
		if err != nil {
			return Status{}, err
		}
		if err := usable(t, d.Owner); err != nil {
			return Status{}, err
		}
		if !d.Passive {
			if err := d.matches(t); err != nil {
				return Status{}, err
			}
		}
		q, err := v.queue(t)
		if err != nil {
			return Status{}, err
		}
		ready, err := q.Ready()
		var gone *GoneError
		if errors.As(err, &gone) {
			continue
		}
		return Status{Name: t.Name, Ready: ready, Consumers: q.Consumers()}, err
	}
}

func (v *View) create(ctx context.Context, d Declaration) (*topic.Topic, error) {
	if !d.ServerNamed {
		if err := topic.CheckAMQPName(d.Name); err != nil {
			return nil, err
		}
	}
	if _, err := parseRules(d.Name, d.Arguments, v.requeue); err != nil {
		return nil, err
	}
	if err := d.consistent(); err != nil {
		return nil, err
	}
	s := topic.Spec{
		Namespace: d.Namespace, Name: d.Name, Partitions: 1, AckPolicy: topic.Delete, Durable: d.Durable, AutoDelete: d.AutoDelete,
		Hidden: d.Exclusive || d.AutoDelete || d.ServerNamed,
	}
	if d.Exclusive {
		s.Owner = d.Owner
	}
	if !d.Arguments.IsEmpty() {
		s.Arguments = d.Arguments.Bytes()
	}
	t, err := v.topics.Create(ctx, s)
	var outcome *logstore.UnknownOutcomeError
	switch {
	case err == nil && d.Exclusive:
		v.mu.Lock()
		v.owned[d.Owner] = append(v.owned[d.Owner], t)
		v.mu.Unlock()
	case errors.As(err, &outcome) && d.Exclusive:
		v.lookForOrphan(d)
	}
	return t, err
}

// orphanSweeps is how many sweeps look for a queue that may have been made without anyone knowing: far longer than a transaction is on its way.
const orphanSweeps = 600

// lookForOrphan has an exclusive queue deleted that its connection does not know of, should it appear.
func (v *View) lookForOrphan(d Declaration) {
	looked := 0
	v.later(func(ctx context.Context) (bool, error) {
		looked++
		t, err := v.topics.Find(d.Namespace, d.Name)
		if err != nil || t.Owner != d.Owner {
			return looked >= orphanSweeps, nil
		}
		return true, v.deleteTopic(ctx, t)
	})
}

// matches returns an *InequivalentError unless the topic is what the declaration says.
func (d *Declaration) matches(t *topic.Topic) error {
	differs := func(property, has, wanted string) error {
		return &InequivalentError{Namespace: t.Namespace, Name: t.Name, Property: property, Has: has, Wanted: wanted}
	}
	for _, p := range []struct {
		name        string
		has, wanted bool
	}{{"durable", t.Durable, d.Durable}, {"auto_delete", t.AutoDelete, d.AutoDelete}, {"exclusive", t.Owner != "", d.Exclusive}} {
		if p.has != p.wanted {
			return differs(p.name, strconv.FormatBool(p.has), strconv.FormatBool(p.wanted))
		}
	}
	var has message.Table
	if t.Arguments != nil {
		var err error
		if has, _, err = message.ParseTable(t.Arguments); err != nil {
			return err
		}
	}
	if name, a, b, differ := firstDifference(has, d.Arguments); differ {
		return differs(name, a, b)
	}
	return nil
}

// firstDifference names an argument that two declarations disagree about. Arguments that mean nothing do not count, as in RabbitMQ.
func firstDifference(has, wanted message.Table) (name, a, b string, differ bool) {
	if has.Equal(wanted) {
		return "", "", "", false
	}
	for _, t := range []message.Table{wanted, has} {
		for it := t.Fields(); it.Next(); {
			n := string(it.Field().Name)
			x, _ := has.Get(n)
			y, _ := wanted.Get(n)
			if meaningful(n) && !x.Equal(y) {
				return n, valueText(x), valueText(y), true
			}
		}
	}
	return "", "", "", false
}

// Purge deletes the messages that wait, and returns how many there were. Those that are out stay.
func (v *View) Purge(ctx context.Context, namespace, name, owner string) (int64, error) {
	q, err := v.Find(namespace, name, owner)
	if err != nil {
		return 0, err
	}
	return q.purge(ctx)
}

func (q *Queue) purge(ctx context.Context) (int64, error) {
	q, err := q.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer q.taking.pass()
	q.taker.ahead = q.taker.ahead[:0]
	n := int64(0)
	for part := range q.parts {
		for {
			k, err := q.purgePart(ctx, part)
			n += k
			if errors.Is(err, logstore.ErrConflict) {
				continue
			}
			if err != nil {
				return n, q.goneOr(err)
			}
			break
		}
	}
	return n, nil
}

// purgePart deletes what waits in a partition, and returns how many messages also with an error, which is a *logstore.ConflictError if somebody took from it
// meanwhile.
func (q *Queue) purgePart(ctx context.Context, part int) (int64, error) {
	n, err := q.purgeReturned(ctx, part)
	if err != nil {
		return n, err
	}
	k, err := q.purgeFresh(ctx, part)
	return n + k, err
}

// purgeFresh deletes what lies behind the cursor.
func (q *Queue) purgeFresh(ctx context.Context, part int) (int64, error) {
	p, s := &q.parts[part], q.v.store
	if err := q.load(part); err != nil {
		return 0, err
	}
	_, next, err := s.Bounds(p.shard)
	if err != nil {
		return 0, err
	}
	next = max(next, p.cursor.at)
	n, err := s.LiveBetween(p.shard, p.cursor.at, next)
	if err != nil {
		return 0, err
	}
	move, moved := p.cursor.move(next)
	txn := logstore.Txn{If: []logstore.Condition{p.cursor.unchanged()}, Do: p.passing([]logstore.Op{move}, q, part, next)}
	if p.cursor.at < next && !q.retains() {
		txn.Do = append(txn.Do, logstore.Delete(p.shard, logstore.Range{From: p.cursor.at, To: next}))
	}
	if _, err := q.v.commit(ctx, txn); err != nil {
		return 0, err
	}
	p.cursor, p.read, p.from = moved, true, moved.at
	return n, nil
}

// purgeReturned deletes what has come back, in as many transactions as it takes.
func (q *Queue) purgeReturned(ctx context.Context, part int) (n int64, err error) {
	q.mu.Lock()
	rs := q.returned[part].drop()
	q.mu.Unlock()
	for rs = q.v.alive(rs); len(rs) > 0; rs = q.v.alive(rs) {
		records, k, err := q.purgeRecords(ctx, part, rs)
		var conflict *logstore.ConflictError
		if errors.As(err, &conflict) && conflict.Condition < len(rs) {
			q.v.counts.conflicts.Add(1)
			rs = without(rs, conflict.Condition) // somebody else took this one
			continue
		}
		if err != nil {
			q.comeBack(part, rs)
			return n, err
		}
		n, rs = n+k, rs[records:]
	}
	return n, nil
}

// purgeRecords deletes the messages of the first of some returned records, and says of how many records and how many messages they were.
func (q *Queue) purgeRecords(ctx context.Context, part int, rs []*returnedRecord) (records int, n int64, err error) {
	shard, s := q.parts[part].shard, q.v.store
	var txn logstore.Txn
	var gone, ranges []logstore.Range
	for records < len(rs) && records < pickedMax && (records == 0 || len(ranges)+len(rs[records].spans) <= purgedRanges) {
		r := rs[records]
		records++
		txn.If = append(txn.If, logstore.Live(q.v.index, r.rec))
		gone = append(gone, one(r.rec))
		for _, sp := range r.spans {
			live, err := s.LiveBetween(shard, sp.first, sp.end)
			if err != nil {
				return 0, 0, err
			}
			n += live
			ranges = append(ranges, logstore.Range{From: sp.first, To: sp.end})
		}
	}
	txn.Do = append(txn.Do, logstore.Delete(q.v.index, mergeRanges(gone)...))
	if !q.retains() {
		txn.Do = append(txn.Do, logstore.Delete(shard, mergeRanges(ranges)...))
	}
	_, err = q.v.commit(ctx, txn)
	return records, n, err
}

// purgedRanges bounds what one transaction of a purge deletes, save when one record has more.
const purgedRanges = logstore.MaxRanges / 4

// Delete deletes a queue and returns how many messages waited in it; a queue that is not there is no error. It returns an *InUseError or *NotEmptyError if it should be
// deleted only when unused or empty, and is not; *LockedError, *InternalError or the store's error.
func (v *View) Delete(ctx context.Context, namespace, name, owner string, ifUnused, ifEmpty bool) (int64, error) {
	q, err := v.Find(namespace, name, owner)
	var unknown *topic.UnknownError
	if errors.As(err, &unknown) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for {
		var only []logstore.Condition
		if ifUnused {
			none, _ := v.noneCame(q.t.ID)
			only = append(only, none)
			if q.Consumers() > 0 {
				return 0, &InUseError{namespace, name}
			}
		}
		ready, err := q.Ready()
		if err != nil {
			return 0, err
		}
		if ifEmpty && ready > 0 {
			return 0, &NotEmptyError{namespace, name}
		}
		if err := v.deleteTopic(ctx, q.t, only...); !errors.Is(err, logstore.ErrConflict) {
			return ready, err
		}
	}
}

// deleteTopic deletes a queue's topic, unless that has happened already. It returns an error that matches logstore.ErrConflict if a condition does not hold.
func (v *View) deleteTopic(ctx context.Context, t *topic.Topic, only ...logstore.Condition) error {
	err := v.topics.Delete(ctx, t, only...)
	var unknown *topic.UnknownError
	if errors.As(err, &unknown) {
		return nil
	}
	return err
}

// OwnerGone deletes the exclusive queues of a connection that has ended. Connections' names are not used again. What cannot be deleted now, as the error says,
// the sweep deletes.
func (v *View) OwnerGone(ctx context.Context, owner string) error {
	v.mu.Lock()
	ts := v.owned[owner]
	delete(v.owned, owner)
	v.mu.Unlock()
	var err error
	for _, t := range ts {
		if failed := v.deleteTopic(ctx, t); failed != nil {
			err = errors.Join(err, failed)
			v.later(func(ctx context.Context) (bool, error) { return true, v.deleteTopic(ctx, t) })
		}
	}
	return err
}

// Deleted implements topic.Dependent: consumers are told.
func (v *View) Deleted(t *topic.Topic) {
	if q, records := v.dismiss(t); q != nil {
		v.forget(q, records)
	}
}

// dismiss tells the consumers of a queue that was deleted, and lets go of it. It returns the Queue if there was one, and the records of what had come back to it.
func (v *View) dismiss(t *topic.Topic) (q *Queue, records []logstore.Range) {
	v.mu.Lock()
	q = v.queues[t.ID]
	delete(v.queues, t.ID)
	if mine := v.owned[t.Owner]; t.Owner != "" && len(mine) > 0 {
		if mine = slices.DeleteFunc(mine, func(o *topic.Topic) bool { return o.ID == t.ID }); len(mine) == 0 {
			delete(v.owned, t.Owner)
		} else {
			v.owned[t.Owner] = mine
		}
	}
	v.mu.Unlock()
	if q == nil {
		return nil, nil
	}
	q.mu.Lock()
	q.gone = true
	consumers := q.consumers
	q.consumers = nil
	for i := range q.returned {
		for _, r := range q.returned[i].drop() {
			records = append(records, one(r.rec))
		}
	}
	q.mu.Unlock()
	q.nudge()
	for _, c := range consumers {
		c.sub.Sink.Cancelled("the queue was deleted")
	}
	return q, records
}

// forget takes the index records of a deleted queue away. They mean nothing any more; a crash before that leaves them to the next start.
func (v *View) forget(q *Queue, records []logstore.Range) {
	ctx := context.Background()
	if len(records) > 0 {
		txn := logstore.Txn{Do: []logstore.Op{logstore.Delete(v.index, mergeRanges(records)...)}, Wait: logstore.Relaxed}
		if _, err := v.store.Commit(ctx, txn); err != nil {
			v.logf("deleting the index records of queue '%s': %v", q.t.Name, err)
		}
	}
	v.mu.Lock()
	holders := slices.Collect(maps.Keys(v.holders))
	v.mu.Unlock()
	for _, h := range holders {
		if err := h.leave(ctx, q); err != nil {
			v.logf("deleting the claims on queue '%s': %v", q.t.Name, err)
		}
	}
}

// leave ends the holder's claims on a queue that was deleted.
func (h *Holder) leave(ctx context.Context, q *Queue) error {
	if err := h.acting.take(ctx, h.v); err != nil {
		return err
	}
	defer h.acting.pass()
	var of []*claim
	for _, c := range h.all() {
		if c.q == q {
			of = append(of, c)
		}
	}
	return h.end(ctx, touchAll(of), &settlement{discard: true})
}
