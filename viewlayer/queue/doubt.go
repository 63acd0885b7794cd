package queue

import (
	"context"
	"encoding/binary"
	"fmt"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// A claim is not waited for before its messages go out, so the last claims may be lost with a crash, and what looks as if it had never been out may have been. What waits in a
// queue at the start after a crash is in doubt, and delivered as redelivered. How far that goes stands under a key of the queue until its cursor has passed it.
//
// A queue's first take is durable: without a cursor nothing was ever out.
//
// In a cluster no transaction that was answered is ever lost, so nothing is in doubt there.

func doubtKey(id topic.ID, partition int) string {
	return doubtPrefix + string(binary.BigEndian.AppendUint32(id[:], uint32(partition)))
}

// Close notes that this process ends in order: what then waits has not been delivered. It is called when nobody consumes any more.
func (v *View) Close(ctx context.Context) error {
	if !v.counted {
		return nil // who gave the epoch knows when it ends
	}
	txn := logstore.Txn{Do: []logstore.Op{logstore.Put(closedPrefix+v.node, number(v.epoch))}}
	if _, err := v.store.Commit(ctx, txn); err != nil {
		return fmt.Errorf("noting the end of node '%s': %w", v.node, err)
	}
	return nil
}

// doubtsAtOnce bounds the keys of one transaction.
const doubtsAtOnce = 10_000

// doubtWaiting notes what is in doubt, if the process before this one crashed. If this one crashes on the way, the next does it all again.
func (v *View) doubtWaiting(ctx context.Context) error {
	if !v.crashed {
		return nil
	}
	all, err := v.topics.All()
	if err != nil {
		return err
	}
	var ops []logstore.Op
	commit := func() error {
		if _, err := v.store.Commit(ctx, logstore.Txn{Do: ops}); err != nil {
			return fmt.Errorf("noting what is in doubt after a crash: %w", err)
		}
		ops = ops[:0]
		return nil
	}
	for _, t := range all {
		for i, sh := range t.Shards {
			_, next, err := v.store.Bounds(sh)
			if err != nil {
				return err
			}
			c := newCursor(t.ID, i)
			if err := c.read(v.store); err != nil {
				return err
			}
			if c.raw == nil || c.at >= next {
				continue
			}
			if ops = append(ops, logstore.Put(doubtKey(t.ID, i), number(uint64(next)))); len(ops) == doubtsAtOnce {
				if err := commit(); err != nil {
					return err
				}
			}
		}
	}
	return commit()
}

// readDoubt reads the offset below which a partition's messages are in doubt; 0: none is.
func (v *View) readDoubt(id topic.ID, partition int) (int64, error) {
	raw, ok := v.store.Get(doubtKey(id, partition))
	if !ok {
		return 0, nil
	}
	n, err := parseNumber(raw)
	if err != nil {
		return 0, fmt.Errorf("what is in doubt of a queue: %w", err)
	}
	return int64(n), nil
}

// passing adds to a transaction that moves the partition's cursor that nothing is in doubt any more, when that is so.
func (p *partition) passing(ops []logstore.Op, q *Queue, part int, to int64) []logstore.Op {
	if p.doubt > 0 && p.cursor.at < p.doubt && to >= p.doubt {
		return append(ops, logstore.Remove(doubtKey(q.t.ID, part)))
	}
	return ops
}
