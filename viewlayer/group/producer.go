package group

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"polylog/logstore"
)

// ProducerOptions are what Producers work with.
type ProducerOptions struct {
	Store *logstore.Store
	Now   func() time.Time // required
	// Expiry is how long a producer that appends nothing to a shard is remembered there; default 24 h, as Kafka's producer.id.expiration.ms.
	Expiry time.Duration
	// OffsetsKept bounds the recent batches whose offsets are in memory, so that a duplicate is answered without reading; default 16,384, some 100 bytes each.
	OffsetsKept int
	// Shared says that others, on stores that follow the same order, give out ids too.
	Shared bool
}

// Producers keep what makes a producer idempotent (KIP-98): for each shard and producer the epoch and the sequences of the last batches, as a key that is changed
// in the transaction that appends the batch. So a batch is stored if and only if its sequence is remembered, whatever crashes when.
//
// All methods may be called from any goroutine.
type Producers struct {
	opts ProducerOptions

	idMu    sync.Mutex // guards the three below; held while ids are reserved on the disk
	from    int64      // the first id of the block
	next    int64      // the id to give out next
	blocked int64      // ids below this one are reserved in the store

	mu     sync.Mutex // guards the two below
	recent offsetCache
	given  []idsGiven // when ids were given out here lately, ascending; at most marksKept

	sweeping sweepPlace
}

// NewProducers returns Producers that keep their state in the store.
func NewProducers(opts ProducerOptions) (*Producers, error) {
	if opts.Store == nil || opts.Now == nil {
		return nil, &logstore.InvalidError{What: "group.NewProducers: Store and Now must be set"}
	}
	orDefault(&opts.Expiry, 24*time.Hour)
	orDefault(&opts.OffsetsKept, 16<<10)
	p := &Producers{opts: opts, recent: newOffsetCache(opts.OffsetsKept)}
	ids, _, err := p.readIDs()
	if err != nil {
		return nil, err
	}
	p.next, p.blocked = ids.next, ids.next
	if !opts.Shared { // else those of blocks that others have are yet to be given out
		p.given = []idsGiven{{0, ids.next, opts.Now().UnixMilli()}}
	}
	return p, nil
}

// Decision is what becomes of a batch: if Duplicate is nil, it is appended in a transaction that also has the conditions and the operations.
type Decision struct {
	Conditions []logstore.Condition
	Ops        []logstore.Op
	Duplicate  *Duplicate
}

// Duplicate is a batch that is stored already.
type Duplicate struct {
	Shard       logstore.Shard
	ProducerID  int64
	Epoch       int16
	First, Last int32
	hint        int64 // its offset is this one or a higher one
}

// Batch is what somebody wants to append.
type Batch struct {
	Shard      logstore.Shard
	Since      int64 // Unix milliseconds when the shard was made; 0: not known
	Next       int64 // the shard's next offset as it is known, which may be too low
	ProducerID int64
	Epoch      int16
	First      int32 // sequence of the first record
	Count      int32 // of the records: the batch's last offset delta + 1
}

// Begin decides on a batch. Whoever appends it commits with the decision's conditions and operations, once for each batch, calls Begin again when the commit is a
// conflict, and tells Appended when it is ordered.
//
// The error is *OutOfOrderSequenceError, *UnknownProducerError, *InvalidEpochError or *CorruptValueError.
func (p *Producers) Begin(in Batch) (Decision, error) {
	sh, producerID, epoch, first := in.Shard, in.ProducerID, in.Epoch, in.First
	if producerID < 0 || epoch < 0 || first < 0 || in.Count < 1 {
		return Decision{}, &OutOfOrderSequenceError{producerID, epoch, first, 0}
	}
	key := producerKey(sh, producerID)
	raw, known := p.opts.Store.Get(key)
	now := p.opts.Now()
	b := batchRange{first, advance(first, in.Count-1), in.Next}
	if !known {
		if first != 0 {
			return Decision{}, p.unknown(&in, now)
		}
		s := producerState{epoch: epoch, at: now.UnixMilli(), batches: []batchRange{b}}
		return Decision{Conditions: []logstore.Condition{logstore.KeyAbsent(key)}, Ops: []logstore.Op{logstore.Put(key, s.encode())}}, nil
	}
	s, err := decodeProducer(key, raw)
	if err != nil {
		return Decision{}, err
	}
	if d := s.duplicate(epoch, b); d != nil {
		return Decision{Duplicate: &Duplicate{sh, producerID, epoch, d.first, d.last, d.hint}}, nil
	}
	if err := s.add(producerID, epoch, b); err != nil {
		return Decision{}, err
	}
	s.at = now.UnixMilli()
	return Decision{Conditions: []logstore.Condition{logstore.KeyIs(key, raw)}, Ops: []logstore.Op{logstore.Put(key, s.encode())}}, nil
}

// unknown is the error for a producer that goes on where nothing is known of it. An id that is older than states are kept may have been forgotten, and one that is
// older than the shard has written to a topic of this name that is gone; the client then begins anew. Any other has lost its first batch on the way, and is
// to send that first.
//
// DEVIATES: Kafka takes any first sequence where it knows nothing, so that a second batch may be stored whose first is not.
func (p *Producers) unknown(in *Batch, now time.Time) error {
	ids, _, err := p.readIDs()
	if err != nil {
		return err
	}
	old := max(in.Since, now.Add(-p.opts.Expiry).UnixMilli())
	if in.ProducerID >= ids.next || in.ProducerID < givenBefore(ids.marks, old) || p.gaveBefore(in.ProducerID, old) {
		return &UnknownProducerError{in.ProducerID, in.First}
	}
	return &OutOfOrderSequenceError{in.ProducerID, in.Epoch, in.First, 0}
}

// Appended tells the offset that a batch was given, so that a duplicate of it need not be looked for in the log.
func (p *Producers) Appended(sh logstore.Shard, producerID int64, epoch int16, first int32, offset int64) {
	p.mu.Lock()
	p.recent.put(offsetKey{sh, producerID, epoch, first}, offset)
	p.mu.Unlock()
}

// lookAhead is how much is read of the shard at a time to find a batch.
const lookAhead = 1 << 20

// Locate returns the offset that the duplicate's original was given; -1 if the original is deleted. It may wait for the disk: the original is durable when it
// returns.
func (p *Producers) Locate(ctx context.Context, d *Duplicate) (int64, error) {
	if _, err := p.opts.Store.Commit(ctx, logstore.Txn{Wait: logstore.Durable}); err != nil {
		return -1, err
	}
	p.mu.Lock()
	offset, ok := p.recent.get(offsetKey{d.Shard, d.ProducerID, d.Epoch, d.First})
	p.mu.Unlock()
	if ok {
		return offset, nil
	}
	first, next, err := p.opts.Store.Bounds(d.Shard)
	if err != nil {
		return -1, err
	}
	var buf logstore.Buffer
	for at := max(first, d.hint); at < next; {
		if err := ctx.Err(); err != nil {
			return -1, err
		}
		chunk, err := p.opts.Store.Read(d.Shard, at, lookAhead, &buf)
		var moved *logstore.OffsetRangeError
		if errors.As(err, &moved) && moved.First > at { // trimmed meanwhile
			at = moved.First
			continue
		}
		if err != nil {
			return -1, err
		}
		for _, b := range chunk.Batches {
			if b.ProducerID() == d.ProducerID && b.ProducerEpoch() == d.Epoch {
				if b.BaseSequence() == d.First {
					return b.BaseOffset(), nil
				}
				if after(b.BaseSequence(), d.Last) {
					return -1, nil // what came after it is there, so it is not
				}
			}
		}
		if chunk.Next <= at {
			break
		}
		at = chunk.Next
	}
	return -1, nil
}

// advance is the sequence n after s; behind 2^31-1 comes 0.
func advance(s, n int32) int32 { return int32((uint32(s) + uint32(n)) & math.MaxInt32) }

// after reports whether sequence a comes after b: the way from b to a is shorter than the way back.
func after(a, b int32) bool {
	d := (uint32(a) - uint32(b)) & math.MaxInt32
	return d != 0 && d < 1<<30
}
