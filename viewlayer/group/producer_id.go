package group

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"polylog/logstore"
)

// idBlock is how many producer ids are reserved at a time: one wait for the disk serves so many producers, and a crash wastes at most so many of 2^63.
const idBlock = 1000

// producerIDs is what is stored of the ids that were given out:
//
//	version  u8       1
//	next     uvarint  ids below are given out, or reserved by a process that may have ended
//	marks    uvarint  number, then of each, ascending: id and Unix milliseconds, uvarint each: the ids below were given out before that time
type producerIDs struct {
	next  int64
	marks []idMark
}

// idMark says that the ids below id were given out before a time.
type idMark struct{ id, at int64 }

func (s *producerIDs) encode() []byte {
	b := binary.AppendUvarint([]byte{valueVersion}, uint64(s.next))
	b = binary.AppendUvarint(b, uint64(len(s.marks)))
	for _, m := range s.marks {
		b = binary.AppendUvarint(b, uint64(m.id))
		b = binary.AppendUvarint(b, uint64(m.at))
	}
	return b
}

// readIDs returns what is stored, and its bytes; nil if nothing is.
func (p *Producers) readIDs() (s producerIDs, raw []byte, err error) {
	raw, ok := p.opts.Store.Get(idsKey)
	if !ok {
		return s, nil, nil
	}
	r := newValueReader(idsKey, raw)
	s.next = int64(r.uvarint())
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		s.marks = append(s.marks, idMark{int64(r.uvarint()), int64(r.uvarint())})
	}
	return s, raw, r.end()
}

// givenBefore returns an id below which all were given out before the time, in Unix milliseconds, as far as the marks tell.
func givenBefore(marks []idMark, at int64) int64 {
	id := int64(0)
	for _, m := range marks {
		if m.at <= at {
			id = m.id
		}
	}
	return id
}

// marksKept bounds the marks in memory. When there are more, every other one goes, so that ids look a little younger than they are.
const marksKept = 1024

// idsGiven says that the ids from <= id < to were given out before a time.
type idsGiven struct{ from, to, at int64 }

// gaveBefore reports whether the id is known to have been given out here before the time.
func (p *Producers) gaveBefore(id, at int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.given, func(g idsGiven) bool { return g.from <= id && id < g.to && g.at <= at })
}

// remember notes that an id, of the block that begins with from, was given out now.
func (p *Producers) remember(from, id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = append(p.given, idsGiven{from, id + 1, p.opts.Now().UnixMilli()})
	if len(p.given) > marksKept {
		kept := p.given[:0]
		for i := 1; i < len(p.given); i += 2 {
			kept = append(kept, p.given[i])
		}
		p.given = kept
	}
}

// NewID returns a producer id that was never returned before and never will be, whatever crashes. Now and then it waits for the disk.
func (p *Producers) NewID(ctx context.Context) (int64, error) {
	p.idMu.Lock()
	defer p.idMu.Unlock()
	ids, _, err := p.readIDs()
	if err != nil {
		return -1, err
	}
	if n := len(ids.marks); n > 0 && ids.marks[n-1].id > p.next {
		p.next = p.blocked // somebody's mark says of what is left of the block that it was given out
	}
	for p.next == p.blocked {
		if err := p.reserve(ctx); err != nil {
			return -1, err
		}
	}
	id := p.next
	p.next++
	p.remember(p.from, id)
	return id, nil
}

// reserve takes the next block of ids.
func (p *Producers) reserve(ctx context.Context) error {
	ids, raw, err := p.readIDs()
	if err != nil {
		return err
	}
	from := ids.next
	ids.next += idBlock
	taken, err := p.writeIDs(ctx, &ids, raw)
	if taken {
		p.from, p.next, p.blocked = from, from, ids.next
	}
	return err
}

// writeIDs replaces what was read of the ids; false without an error: another node was faster.
func (p *Producers) writeIDs(ctx context.Context, ids *producerIDs, raw []byte) (bool, error) {
	cond := logstore.KeyAbsent(idsKey)
	if raw != nil {
		cond = logstore.KeyIs(idsKey, raw)
	}
	_, err := p.opts.Store.Commit(ctx, logstore.Txn{If: []logstore.Condition{cond}, Do: []logstore.Op{logstore.Put(idsKey, ids.encode())}, Wait: logstore.Durable})
	if errors.Is(err, logstore.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reserve producer ids: %w", err)
	}
	return true, nil
}

// markEvery is how exactly the age of an id is known.
const markEvery = time.Hour

// mark remembers that all ids so far are from before now, unless it did so a moment ago or there are no new ones. Of the marks that are older than the expiry the
// newest is enough.
func (p *Producers) mark(ctx context.Context, now time.Time) error {
	p.idMu.Lock()
	defer p.idMu.Unlock()
	ids, raw, err := p.readIDs()
	if err != nil || raw == nil {
		return err
	}
	at := now.UnixMilli()
	if n := len(ids.marks); n > 0 && (at-ids.marks[n-1].at < markEvery.Milliseconds() || ids.marks[n-1].id == ids.next) {
		return nil
	}
	ids.marks = append(ids.marks, idMark{ids.next, at})
	for old := now.Add(-p.opts.Expiry).UnixMilli(); len(ids.marks) > 1 && ids.marks[1].at <= old; {
		ids.marks = ids.marks[1:]
	}
	p.next = p.blocked // what is left of the block would look older than it is
	_, err = p.writeIDs(ctx, &ids, raw)
	return err
}

// producersPerSweep bounds the states that one step of a sweep looks at, and sweepTxn those that it removes in one transaction.
const producersPerSweep = 64 << 10

// Sweep forgets producers that appended nothing to a shard for as long as Options say, and those of shards that are gone. It does one bounded step and says when
// it wants to be called again. One goroutine calls it. If two nodes sweep, what is forgotten is forgotten once.
func (p *Producers) Sweep() (next time.Duration, err error) {
	ctx := context.Background() // what it waits for ends soon: the order, and once in an hour the disk
	if err := p.mark(ctx, p.opts.Now()); err != nil {
		return SweepInterval, err
	}
	var txn logstore.Txn
	flush := func() {
		if len(txn.Do) > 0 && err == nil {
			if _, e := p.opts.Store.Commit(ctx, txn); e != nil && !errors.Is(e, logstore.ErrConflict) { // a conflict: one appended just now; the next sweep sees the others
				err = fmt.Errorf("forget idle producers: %w", e)
			}
		}
		txn = logstore.Txn{Wait: logstore.Relaxed}
	}
	old := p.opts.Now().Add(-p.opts.Expiry).UnixMilli()
	shard, gone, seen, more := logstore.Shard(0), false, 0, false
	p.opts.Store.Scan(producerPrefix, func(key string, v []byte) bool {
		if key <= p.sweeping.last {
			return true
		}
		if more = seen == producersPerSweep; more {
			return false
		}
		seen++
		p.sweeping.last = key
		sh, _, ok := parseProducer(key)
		s, e := decodeProducer(key, v)
		if e != nil || !ok {
			err = errors.Join(err, e) // Begin says so too when that producer comes
			return true
		}
		if sh != shard {
			_, _, e := p.opts.Store.Bounds(sh)
			shard, gone = sh, errors.As(e, new(*logstore.UnknownShardError))
		}
		if gone || s.at <= old {
			txn.If, txn.Do = append(txn.If, logstore.KeyIs(key, v)), append(txn.Do, logstore.Remove(key))
			if len(txn.Do) == sweepTxn {
				flush()
			}
		}
		return true
	})
	flush()
	if more {
		return time.Second, err
	}
	p.sweeping.last = ""
	return SweepInterval, err
}
