package logstore

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"polylog/logstore/vfs"
)

// The texts are what an operator reads: what happened, to what, with which values, and what to do.
func TestErrorsSayWhatHappenedAndWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
		is   error
	}{
		{&ConflictError{Condition: 0, What: KeyIs("q/1", []byte("abc")).String()}, `conflict: it does not hold that key "q/1" has the given value of 3 bytes; read the state anew and try again`, ErrConflict},
		{&ConflictError{Condition: 1, What: KeyAbsent("q/1").String()}, `conflict: it does not hold that key "q/1" is absent; read the state anew and try again`, ErrConflict},
		{&ConflictError{Condition: 2, What: Live(3, 17).String()}, `conflict: it does not hold that offset 17 of shard 3 is live; read the state anew and try again`, ErrConflict},
		{&ConflictError{Condition: 3, What: NextIs(3, 17).String()}, `conflict: it does not hold that the next offset of shard 3 is 17; read the state anew and try again`, ErrConflict},
		{&ConflictError{Condition: 4, What: Condition{kind: 9}.String()}, `conflict: it does not hold that unknown condition 9; read the state anew and try again`, ErrConflict},
		{&UnknownShardError{Shard: 8}, "shard 8 does not exist", nil},
		{&OffsetRangeError{Shard: 8, Offset: 5, First: 10, Next: 20}, "offset 5 of shard 8 is out of range: first is 10, next is 20", nil},
		{&LimitError{What: "bytes of a key", Got: 9, Max: 8}, "bytes of a key: 9, allowed at most 8", nil},
		{&InvalidError{What: "operation 3 appends no batch"}, "invalid: operation 3 appends no batch", nil},
		{&DiskFullError{Dir: "/data", Err: vfs.ErrNoSpace}, "no room in /data (no space left on the disk): free some, or delete messages; writing goes on by itself then", vfs.ErrNoSpace},
		{&FailedError{Op: "syncing x.seg", Err: fs.ErrInvalid}, "the log failed (syncing x.seg: invalid argument): no more writes are taken; check the disk, then start again", fs.ErrInvalid},
		{&CorruptError{File: "x.seg", Pos: 640, What: "bad entry"}, "corrupt data in x.seg at position 640: bad entry", nil},
		{&UnknownOutcomeError{Err: context.Canceled}, "stopped waiting, the transaction may still take effect: context canceled", context.Canceled},
	} {
		if c.err.Error() != c.want {
			t.Errorf("%T says %q, want %q", c.err, c.err, c.want)
		}
		if c.is != nil && !errors.Is(c.err, c.is) {
			t.Errorf("%T is not %v", c.err, c.is)
		}
		if errors.Is(c.err, ErrClosed) || c.is != ErrConflict && errors.Is(c.err, ErrConflict) {
			t.Errorf("%T is taken for another error", c.err)
		}
	}
}
