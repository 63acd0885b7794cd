package queue

import (
	"context"
	"errors"
	"fmt"

	"polylog/logstore"
	"polylog/logstore/record"
)

// takeReturned takes from what has come back.
func (q *Queue) takeReturned(ctx context.Context, part, want int) (int, error) {
	p, t, set := &q.parts[part], &q.taker, &q.returned[part]
	for {
		q.mu.Lock()
		spans, from := set.pick(int64(want))
		q.mu.Unlock()
		if len(from) == 0 {
			return 0, nil
		}
		putBack := func(rs []*returnedRecord) {
			q.mu.Lock()
			for _, r := range rs {
				set.add(r)
			}
			q.mu.Unlock()
		}
		if there := q.v.alive(from); len(there) < len(from) {
			putBack(there) // pick again without what other nodes took
			continue
		}
		cut, err := q.readBack(p.shard, spans)
		if err != nil {
			putBack(from)
			return 0, q.goneOr(err)
		}
		// Records of which nothing could be read at once wait for the next take.
		used := from[:0:0]
		for _, r := range from {
			if r.spans[0].first < cut {
				used = append(used, r)
			} else {
				putBack([]*returnedRecord{r})
			}
		}
		q.deal(len(t.back.items))
		rest, err := q.commitReturned(ctx, part, used, cut)
		var conflict *logstore.ConflictError
		if errors.As(err, &conflict) {
			q.v.counts.conflicts.Add(1)
			if i := conflict.Condition; i < len(used) {
				used = without(used, i) // somebody else took this one
			}
			putBack(used)
			continue
		}
		if err != nil {
			putBack(used)
			return 0, q.goneOr(err)
		}
		putBack(rest)
		if len(t.back.items) > 0 {
			return q.hand(part, t.back.items), nil
		}
		// All that was picked had been deleted.
	}
}

// readBack reads the messages of the spans, as far as one piece of the log has them, into taker.back. cut is the offset up to which that is all of them: what is not
// there has been deleted.
func (q *Queue) readBack(sh logstore.Shard, spans []span) (cut int64, err error) {
	b := &q.taker.back
	b.items = b.items[:0]
	end := int64(0) // not that of the last one, for what another node took meanwhile may overlap
	for _, sp := range spans {
		end = max(end, sp.end)
	}
	chunk, more, err := readFrom(q.v.store, sh, spans[0].first, readBytes, &b.buf)
	if err != nil {
		return 0, fmt.Errorf("reading queue '%s': %w", q.t.Name, err)
	}
	if !more {
		return end, nil
	}
	cut = min(chunk.Next, end)
	next := 0 // of spans, the one that may have the next offset
	for i, batch := range chunk.Batches {
		it := batch.Iter(&b.scratch)
		for it.Next() {
			o := it.Offset()
			for next < len(spans) && spans[next].end <= o {
				next++
			}
			if next < len(spans) && spans[next].first <= o && !batch.Control() {
				sp := &spans[next]
				b.items = append(b.items, item{it.Record(), it.Timestamp(), o, sp.acquired, sp.failed})
			}
		}
		if err := it.Err(); err != nil {
			return 0, fmt.Errorf("reading queue '%s': %w", q.t.Name, err)
		}
		if batch.Codec() != record.None && i+1 < len(chunk.Batches) {
			return min(batch.LastOffset()+1, end), nil // the scratch memory holds one batch
		}
	}
	return cut, nil
}

// commitReturned puts a take of taker.back.items into the order: used are the records that they are of, up to offset cut. It returns what stays of the records.
func (q *Queue) commitReturned(ctx context.Context, part int, used []*returnedRecord, cut int64) (rest []*returnedRecord, err error) {
	t := &q.taker
	txn := logstore.Txn{Wait: logstore.Relaxed}
	var gone []logstore.Range
	for _, r := range used {
		txn.If = append(txn.If, logstore.Live(q.v.index, r.rec))
		gone = append(gone, one(r.rec))
	}
	if items := t.back.items; len(items) > 0 {
		txn.If = append(txn.If, logstore.Live(q.parts[part].shard, items[0].offset))
	}
	txn.Do = append(txn.Do, logstore.Delete(q.v.index, gone...))
	t.w.reset()
	for _, r := range used {
		if stays := spansFrom(r.spans, cut); len(stays) > 0 {
			rest = append(rest, &returnedRecord{rec: int64(t.w.len()), spans: stays})
			t.w.returned(q, part, stays, q.v.now().UnixMilli())
		}
	}
	base, err := q.commitTake(ctx, txn, part, t.back.items, false)
	for _, r := range rest {
		r.rec += base
	}
	return rest, err
}
