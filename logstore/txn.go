package logstore

import (
	"fmt"

	"polylog/logstore/record"
	"polylog/logstore/segment"
)

// Shard is the number of an ordered run of offsets (a partition of a topic, a queue). The store gives it out (CreateShard) and never
// gives the same number twice.
type Shard uint64

// Range is the offsets From <= o < To.
type Range struct{ From, To int64 }

// Limits of one transaction. They bound what one entry of the order can be, and so what every node must be able to hold.
const (
	MaxKey        = 32 << 10            // bytes of a key
	MaxValue      = 1 << 20             // bytes of a value
	MaxOps        = 1 << 16             // operations of a transaction
	MaxConditions = 1 << 12             // conditions of a transaction
	MaxRanges     = 1 << 16             // ranges of one Delete
	MaxTxn        = record.MaxBatchSize // bytes of a transaction, encoded
)

// Durability says when Commit answers.
type Durability uint8

const (
	// Durable answers once the transaction survives a crash, as far as the store's SyncPolicy goes.
	Durable Durability = iota
	// Relaxed answers once the transaction has its place in the order. A crash may take it back, with everything after it.
	Relaxed
)

// Txn is applied whole or not at all, at one point of the order. All conditions are judged against the state before the
// transaction; so are the bounds of Delete and TrimBefore.
type Txn struct {
	If   []Condition
	Do   []Op
	Wait Durability
	// MakesRoom says that what the transaction adds is little and needed to delete more: on a full disk it is taken as a deletion is, from the reserve. It is
	// heeded up to makesRoomMax bytes.
	MakesRoom bool
	// Patient says that the committer must know the outcome. It matters where the order is made outside the store: Commit then waits through a loss of the majority (Store.Interrupt)
	// for a transaction that is on its way, until it comes back or the store is closed. Others end with an *UnknownOutcomeError.
	Patient bool
}

// makesRoomMax is how large an entry may be that adds something and claims to make room, a sixteenth of the smallest segment that stores of the standard size have.
const makesRoomMax = 64 << 10

// batches is how many batches the transaction appends.
func (t *Txn) batches() (n int) {
	for i := range t.Do {
		if t.Do[i].kind == opAppend {
			n++
		}
	}
	return n
}

type conditionKind uint8

const (
	condKeyIs conditionKind = iota + 1
	condKeyAbsent
	condLive
	condNext
)

// Condition is what must hold for a transaction to have effect. Make one with KeyIs, KeyAbsent, Live or NextIs.
type Condition struct {
	kind   conditionKind
	key    string
	value  []byte
	shard  Shard
	offset int64
}

// KeyIs holds while the key has exactly this value.
func KeyIs(key string, value []byte) Condition {
	return Condition{kind: condKeyIs, key: key, value: value}
}

// KeyAbsent holds while the key has no value.
func KeyAbsent(key string) Condition { return Condition{kind: condKeyAbsent, key: key} }

// Live holds while the shard has the record at offset and it is not deleted.
func Live(sh Shard, offset int64) Condition {
	return Condition{kind: condLive, shard: sh, offset: offset}
}

// NextIs holds while offset is the one that the shard's next record will get.
func NextIs(sh Shard, offset int64) Condition {
	return Condition{kind: condNext, shard: sh, offset: offset}
}

// String names the condition for an error message.
func (c Condition) String() string {
	switch c.kind {
	case condKeyIs:
		return fmt.Sprintf("key %q has the given value of %d bytes", c.key, len(c.value))
	case condKeyAbsent:
		return fmt.Sprintf("key %q is absent", c.key)
	case condLive:
		return fmt.Sprintf("offset %d of shard %d is live", c.offset, c.shard)
	case condNext:
		return fmt.Sprintf("the next offset of shard %d is %d", c.shard, c.offset)
	}
	return fmt.Sprintf("unknown condition %d", c.kind)
}

type opKind uint8

const (
	opAppend opKind = iota + 1
	opDelete
	opTrimBefore
	opPut
	opRemove
	opCreateShard
	opDropShard
)

// Op is one change. Make one with AppendBatch, Delete, TrimBefore, Put, Remove, CreateShard or DropShard.
type Op struct {
	kind   opKind
	shard  Shard
	offset int64
	key    string
	value  []byte
	batch  record.Batch
	ranges []Range
}

// AppendBatch appends the batch's records to the shard. Its base offset is set to the shard's next one (Result.Base tells which)
// and the next offset moves by the batch's last offset delta + 1. The batch's bytes are read
// until Commit returns. They are stored as they are: a batch that came from outside must have passed record.Parse, or reading it back reports damage.
func AppendBatch(sh Shard, b record.Batch) Op { return Op{kind: opAppend, shard: sh, batch: b} }

// Delete marks the offsets deleted. Those that are deleted already, or lie before the shard's first, are no error.
func Delete(sh Shard, ranges ...Range) Op { return Op{kind: opDelete, shard: sh, ranges: ranges} }

// TrimBefore deletes everything before offset.
func TrimBefore(sh Shard, offset int64) Op {
	return Op{kind: opTrimBefore, shard: sh, offset: offset}
}

// Put sets the key to a copy of value. A nil value is stored as an empty one.
func Put(key string, value []byte) Op { return Op{kind: opPut, key: key, value: value} }

// Remove takes the key away. A key that is not there is no error.
func Remove(key string) Op { return Op{kind: opRemove, key: key} }

// CreateShard makes a new, empty shard and puts its number (ShardValue) under key, so that a name and its shard appear together. A key that
// has a value is a conflict.
func CreateShard(key string) Op { return Op{kind: opCreateShard, key: key} }

// DropShard deletes the shard with all its records. Its number is never used again. The key that names it is not touched. No other operation of the
// same transaction may use the shard.
func DropShard(sh Shard) Op { return Op{kind: opDropShard, shard: sh} }

// Result is what a transaction gave.
type Result struct {
	// Seq is the number of the last entry of the order that the answer takes into account: the transaction's own if it changed something.
	Seq uint64
	// base and shard are the first append's offset and the first new shard: most transactions have at most one of each, and need no slice.
	base   int64
	shard  Shard
	bases  []int64
	shards []Shard
}

// Base returns the base offset that the i-th AppendBatch (counted from 0 among the appends) was given.
func (r *Result) Base(i int) int64 {
	if i == 0 {
		return r.base
	}
	return r.bases[i-1]
}

// Shard returns the number of the shard that the i-th CreateShard made.
func (r *Result) Shard(i int) Shard {
	if i == 0 {
		return r.shard
	}
	return r.shards[i-1]
}

// take copies what apply decided.
func (r *Result) take(out *outcome) {
	if len(out.bases) > 0 {
		r.base = out.bases[0]
		r.bases = append([]int64(nil), out.bases[1:]...)
	}
	if len(out.shards) > 0 {
		r.shard = out.shards[0]
		r.shards = append([]Shard(nil), out.shards[1:]...)
	}
}

// validate refuses what no state could accept, and returns an upper bound for the entry's size in bytes.
func (t *Txn) validate() (int, error) {
	if len(t.Do) > MaxOps {
		return 0, &LimitError{"operations of a transaction", len(t.Do), MaxOps}
	}
	if len(t.If) > MaxConditions {
		return 0, &LimitError{"conditions of a transaction", len(t.If), MaxConditions}
	}
	for i := range t.If {
		c := &t.If[i]
		if c.kind < condKeyIs || c.kind > condNext {
			return 0, &InvalidError{fmt.Sprintf("condition %d is empty; make it with KeyIs, KeyAbsent, Live or NextIs", i)}
		}
		if len(c.key) > MaxKey {
			return 0, &LimitError{"bytes of a key", len(c.key), MaxKey}
		}
		if len(c.value) > MaxValue {
			return 0, &LimitError{"bytes of a value", len(c.value), MaxValue}
		}
	}
	var meta, batches int
	var drops bool
	for i := range t.Do {
		n, err := t.Do[i].validate(i)
		if err != nil {
			return 0, err
		}
		meta += n
		batches += t.Do[i].batch.Len()
		drops = drops || t.Do[i].kind == opDropShard
	}
	if batches > MaxTxn {
		return 0, &LimitError{"bytes of the batches of a transaction", batches, MaxTxn}
	}
	if meta > segment.MaxMetadata {
		return 0, &LimitError{"bytes of a transaction beside its batches", meta, segment.MaxMetadata}
	}
	size := entryOverhead + meta + batches
	if drops {
		return size, t.validateDrops()
	}
	return size, nil
}

// validate returns an upper bound for the bytes of the operation's metadata. i is its place, for the error.
func (o *Op) validate(i int) (int, error) {
	if len(o.key) > MaxKey {
		return 0, &LimitError{"bytes of a key", len(o.key), MaxKey}
	}
	size := opOverhead + len(o.key)
	switch o.kind {
	case opAppend:
		if o.batch.IsZero() {
			return 0, &InvalidError{fmt.Sprintf("operation %d appends no batch", i)}
		}
		if n := o.batch.Len(); n > record.MaxBatchSize {
			return 0, &LimitError{"bytes of a batch", n, record.MaxBatchSize}
		}
	case opDelete:
		if len(o.ranges) > MaxRanges {
			return 0, &LimitError{"ranges of a deletion", len(o.ranges), MaxRanges}
		}
		for _, r := range o.ranges {
			if r.From < 0 || r.To <= r.From {
				return 0, &InvalidError{fmt.Sprintf("operation %d deletes the range %d to %d; it must not be empty or negative", i, r.From, r.To)}
			}
		}
		size += len(o.ranges) * 20
	case opTrimBefore:
		if o.offset < 0 {
			return 0, &InvalidError{fmt.Sprintf("operation %d trims before offset %d; offsets are not negative", i, o.offset)}
		}
	case opPut:
		if len(o.value) > MaxValue {
			return 0, &LimitError{"bytes of a value", len(o.value), MaxValue}
		}
		size += len(o.value)
	case opRemove, opCreateShard, opDropShard:
	default:
		return 0, &InvalidError{fmt.Sprintf("operation %d is empty; make it with AppendBatch, Delete, TrimBefore, Put, Remove, CreateShard or DropShard", i)}
	}
	return size, nil
}

// validateDrops sees that a dropped shard has no other operation beside the drop: what it would mean is nobody's guess.
func (t *Txn) validateDrops() error {
	dropped := map[Shard]int{}
	for i := range t.Do {
		if t.Do[i].kind == opDropShard {
			if j, twice := dropped[t.Do[i].shard]; twice {
				return &InvalidError{fmt.Sprintf("operations %d and %d both drop shard %d", j, i, t.Do[i].shard)}
			}
			dropped[t.Do[i].shard] = i
		}
	}
	for i := range t.Do {
		o := &t.Do[i]
		if o.kind == opAppend || o.kind == opDelete || o.kind == opTrimBefore {
			if j, is := dropped[o.shard]; is {
				return &InvalidError{fmt.Sprintf("operation %d uses shard %d, which operation %d of the same transaction drops", i, o.shard, j)}
			}
		}
	}
	return nil
}
