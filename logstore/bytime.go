package logstore

import (
	"context"
	"errors"

	"polylog/logstore/record"
)

// OffsetByTime returns the first live, readable record whose timestamp is ts (Unix milliseconds) or later; found is false if there is none. Timestamps
// need not ascend. Errors are those of Read.
func (s *Store) OffsetByTime(ctx context.Context, sh Shard, ts int64) (offset, timestamp int64, found bool, err error) {
	first, _, err := s.Bounds(sh)
	if err != nil {
		return 0, 0, false, err
	}
	var buf Buffer
	for from := first; ; {
		var b *located
		err = s.walkShard(ctx, sh, from, func(l *located) bool {
			if l.MaxTime >= ts {
				b = l
				return false
			}
			return true
		})
		if err != nil || b == nil {
			return 0, 0, false, err
		}
		end := b.End()
		offset, timestamp, found, err = s.findTime(sh, max(b.Base, from), end, ts, &buf)
		if err != nil || found {
			return offset, timestamp, found, err
		}
		from = end // the records that made the batch's time are deleted
	}
}

// findTime looks for a record with the timestamp, or a later one, in the batches between the offsets.
func (s *Store) findTime(sh Shard, from, end, ts int64, buf *Buffer) (offset, timestamp int64, found bool, err error) {
	c, err := s.Read(sh, from, 1, buf)
	var out *OffsetRangeError
	if errors.As(err, &out) {
		return 0, 0, false, nil // it was trimmed meanwhile
	}
	if err != nil {
		return 0, 0, false, err
	}
	for _, b := range c.Batches {
		if b.BaseOffset() >= end {
			break
		}
		if offset, timestamp, found, err = record.FirstOffsetAtOrAfterTime(b, ts, &buf.scratch); err != nil || found {
			return offset, timestamp, found, err
		}
	}
	return 0, 0, false, nil
}
