package logstore

import (
	"errors"
	"fmt"
)

// ErrClosed means that the store is closed, or closing.
var ErrClosed = errors.New("the store is closed")

// ErrReadOnly means that the store was opened for reading only.
var ErrReadOnly = errors.New("the store is open for reading only")

// ErrConflict matches every *ConflictError.
var ErrConflict = errors.New("a condition of the transaction does not hold")

// ConflictError means that a condition did not hold when the transaction's turn came. Nothing was changed.
type ConflictError struct {
	Condition int    // index in Txn.If; -1 for the key of a CreateShard
	What      string // the condition in words
}

func (e *ConflictError) Error() string {
	return "conflict: it does not hold that " + e.What + "; read the state anew and try again"
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// UnknownShardError means that no shard has this number (any more).
type UnknownShardError struct{ Shard Shard }

func (e *UnknownShardError) Error() string {
	return fmt.Sprintf("shard %d does not exist", e.Shard)
}

// OffsetRangeError means that an offset is not one that the shard has. First is the shard's lowest live offset, Next the one its next
// record will get.
type OffsetRangeError struct {
	Shard               Shard
	Offset, First, Next int64
}

func (e *OffsetRangeError) Error() string {
	return fmt.Sprintf("offset %d of shard %d is out of range: first is %d, next is %d", e.Offset, e.Shard, e.First, e.Next)
}

// LimitError means that something is larger than the store takes.
type LimitError struct {
	What     string
	Got, Max int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %d, allowed at most %d", e.What, e.Got, e.Max)
}

// InvalidError means that a call makes no sense in any state.
type InvalidError struct{ What string }

func (e *InvalidError) Error() string { return "invalid: " + e.What }

// DiskFullError means that there is no room for the transaction. Nothing was changed; reads go on, deletions are taken as long as the reserve
// lasts, and writes are taken again by themselves when there is room.
type DiskFullError struct {
	Dir string
	Err error
}

func (e *DiskFullError) Error() string {
	return fmt.Sprintf("no room in %s (%v): free some, or delete messages; writing goes on by itself then", e.Dir, e.Err)
}
func (e *DiskFullError) Unwrap() error { return e.Err }

// FailedError means that a write or sync of the log failed. What that group held is neither confirmed nor known to be lost, and a second try of a sync would
// prove nothing, so the store takes no more writes until it is opened again.
type FailedError struct {
	Op  string
	Err error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("the log failed (%s: %v): no more writes are taken; check the disk, then start again", e.Op, e.Err)
}
func (e *FailedError) Unwrap() error { return e.Err }

// CorruptError means that bytes on disk are not what was written.
type CorruptError struct {
	File string
	Pos  int64
	What string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt data in %s at position %d: %s", e.File, e.Pos, e.What)
}

// UnknownOutcomeError means that the caller stopped waiting for a transaction that is on its way: it may or may not have effect.
type UnknownOutcomeError struct{ Err error }

func (e *UnknownOutcomeError) Error() string {
	return "stopped waiting, the transaction may still take effect: " + e.Err.Error()
}
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// UnavailableError means that the order is made by several stores and this one is not in touch with a majority of them. Nothing was changed, and nothing will be; the same
// transaction may be committed again later, or on another node.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("no majority of the cluster can be reached (%v): nothing was changed; try again, or use another node", e.Err)
}
func (e *UnavailableError) Unwrap() error { return e.Err }

// SnapshotLostError means that a file of a snapshot is gone: nothing in it is live any more, and the disk was nearly full. Nothing is wrong with the store.
type SnapshotLostError struct{ File string }

func (e *SnapshotLostError) Error() string {
	return fmt.Sprintf("the disk was nearly full, and %s, of which only the snapshot had use, was removed; take another snapshot", e.File)
}

// UnfinishedRestoreError means that the directory was to receive a copy of another store, or another one, and has not got all of it.
type UnfinishedRestoreError struct{ Dir string }

func (e *UnfinishedRestoreError) Error() string {
	return fmt.Sprintf("%s was to be made a copy of another store, and is not whole; restore it again, or empty the directory", e.Dir)
}

// HoldsLogError means that a directory which was to receive a copy of a store holds a log already.
type HoldsLogError struct{ Dir string }

func (e *HoldsLogError) Error() string {
	return fmt.Sprintf("%s holds a log, which a restore would overwrite; use another directory, or give that log up first", e.Dir)
}

// ErrWatchLagged means that a watcher did not keep up and lost events; scan anew and watch again.
var ErrWatchLagged = errors.New("the watcher fell too far behind")
