package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// Every consumer of every node has a key, so that each node can tell how many a queue has, and an end of an epoch takes away those that went with it. Consumers
// come and go without conditions on each other, save for exclusive ones. Who must know that there is none, or still none, makes it a condition that nobody came
// since it looked: each that comes puts its key's name under one key of the queue.

// registration is a consumer in the log.
type registration struct {
	t         *topic.Topic
	key       string
	exclusive bool
	known     bool // the log is known to have taken it
}

// consumerKey is <id><epoch><serial><node>, so that it needs no separators.
func consumerKey(id topic.ID, epoch, serial uint64, node string) string {
	b := binary.BigEndian.AppendUint64(append([]byte(consumerPrefix), id[:]...), epoch)
	return string(append(binary.BigEndian.AppendUint64(b, serial), node...))
}

func parseConsumerKey(key string) (id topic.ID, o origin, err error) {
	const fixed = len(consumerPrefix) + len(id) + 16
	if len(key) < fixed || key[:len(consumerPrefix)] != consumerPrefix {
		return id, o, fmt.Errorf("the key %q is none of a consumer", key)
	}
	copy(id[:], key[len(consumerPrefix):])
	return id, origin{key[fixed:], binary.BigEndian.Uint64([]byte(key[fixed-16:]))}, nil
}

func ofTopic(prefix string, id topic.ID) string { return prefix + string(id[:]) }

// consumerValue is the value of a consumer's key: a version, for what may once stand there.
var consumerValue = []byte{1}

// The first byte of what stands under a queue's latest consumer, before the name of its key: whether the queue goes with its last one.
const (
	latestStays = iota
	latestAutoDelete
)

func latestValue(r registration) []byte {
	kind := byte(latestStays)
	if r.t.AutoDelete {
		kind = latestAutoDelete
	}
	return append([]byte{kind}, r.key...)
}

// countConsumers returns how many consumers a queue has, on all nodes.
func (v *View) countConsumers(id topic.ID) (n int64) {
	v.store.Scan(ofTopic(consumerPrefix, id), func(string, []byte) bool { n++; return true })
	return n
}

// noneCame is the condition that no consumer has come since it was called; ok is false if there never was one.
func (v *View) noneCame(id topic.ID) (c logstore.Condition, ok bool) {
	key := ofTopic(latestPrefix, id)
	raw, ok := v.store.Get(key)
	if !ok {
		return logstore.KeyAbsent(key), false
	}
	return logstore.KeyIs(key, raw), true
}

// register puts a new consumer of a queue into the log: an *ExclusiveError, a *GoneError, or the store's. If its outcome is unknown it is taken back later.
func (v *View) register(ctx context.Context, t *topic.Topic, exclusive bool) (registration, error) {
	r := registration{t: t, key: consumerKey(t.ID, v.epoch, v.serial.Add(1), v.node), exclusive: exclusive}
	only := ofTopic(exclusivePrefix, t.ID)
	for {
		txn := logstore.Txn{
			If:   []logstore.Condition{t.Exists(), logstore.KeyAbsent(only)},
			Do:   []logstore.Op{logstore.Put(r.key, consumerValue), logstore.Put(ofTopic(latestPrefix, t.ID), latestValue(r))},
			Wait: logstore.Relaxed, MakesRoom: true, // who would empty the queue can come though the disk is full
		}
		if exclusive {
			none, _ := v.noneCame(t.ID)
			if v.countConsumers(t.ID) > 0 {
				return r, &ExclusiveError{t.Namespace, t.Name}
			}
			txn.If, txn.Do = append(txn.If, none), append(txn.Do, logstore.Put(only, []byte(r.key)))
		}
		_, err := v.store.Commit(ctx, txn)
		var conflict *logstore.ConflictError
		var unknown *logstore.UnknownOutcomeError
		switch {
		case errors.As(err, &conflict) && conflict.Condition == 0:
			return r, &GoneError{t.Namespace, t.Name}
		case errors.As(err, &conflict) && conflict.Condition == 1:
			return r, &ExclusiveError{t.Namespace, t.Name}
		case errors.As(err, &conflict):
			continue
		case errors.As(err, &unknown):
			v.later(func(ctx context.Context) (bool, error) { return true, v.unregister(ctx, r) })
		}
		r.known = err == nil
		return r, err
	}
}

// unregister takes a consumer out of the log, and with the last consumer of an auto-delete queue that.
func (v *View) unregister(ctx context.Context, r registration) error {
	if r.exclusive {
		only := ofTopic(exclusivePrefix, r.t.ID)
		_, err := v.store.Commit(ctx, logstore.Txn{
			If: []logstore.Condition{logstore.KeyIs(only, []byte(r.key))}, Do: []logstore.Op{logstore.Remove(only), logstore.Remove(r.key)}, Wait: logstore.Relaxed,
		})
		if err != nil && !errors.Is(err, logstore.ErrConflict) {
			return err
		}
	}
	if _, there := v.store.Get(r.key); there || v.shared && !r.known {
		if _, err := v.store.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.Remove(r.key)}, Wait: logstore.Relaxed}); err != nil {
			return err
		}
	}
	if r.t.AutoDelete {
		return v.deleteUnused(ctx, r.t)
	}
	return nil
}

// leave is unregister, which the sweep does when it cannot be done now.
func (v *View) leave(ctx context.Context, r registration) error {
	err := v.unregister(ctx, r)
	if err != nil && !errors.Is(err, logstore.ErrClosed) {
		v.later(func(ctx context.Context) (bool, error) { return true, v.unregister(ctx, r) })
	}
	return err
}

// deleteUnused deletes a queue that had consumers and has none any more.
func (v *View) deleteUnused(ctx context.Context, t *topic.Topic) error {
	for {
		none, had := v.noneCame(t.ID)
		if !had || v.countConsumers(t.ID) > 0 {
			return nil
		}
		if err := v.deleteTopic(ctx, t, none); !errors.Is(err, logstore.ErrConflict) {
			return err
		}
	}
}
