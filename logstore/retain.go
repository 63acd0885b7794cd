package logstore

import (
	"context"
	"math"
)

// Retention says what Retain takes away from the beginning of a shard.
type Retention struct {
	Before   int64 // batches whose records are all older than this, in Unix milliseconds; 0: none for their age
	MaxBytes int64 // the oldest batches until at most this many bytes are left; 0: none for their size
}

// Retain trims the shard as the retention says, and returns its lowest live offset after that. It takes whole batches from the beginning only, and
// sees what is readable. Errors are those of Read and Commit.
func (s *Store) Retain(ctx context.Context, sh Shard, keep Retention) (first int64, err error) {
	first, _, err = s.Bounds(sh)
	if err != nil {
		return 0, err
	}
	cut := first
	if keep.Before > 0 {
		err = s.walkShard(ctx, sh, first, func(b *located) bool {
			if b.MaxTime >= keep.Before {
				return false
			}
			cut = b.End()
			return true
		})
		if err != nil {
			return 0, err
		}
	}
	if keep.MaxBytes > 0 {
		var total int64
		err = s.walkShard(ctx, sh, cut, func(b *located) bool { total += int64(b.Size); return true })
		if err == nil && total > keep.MaxBytes {
			err = s.walkShard(ctx, sh, cut, func(b *located) bool {
				cut = b.End()
				total -= int64(b.Size)
				return total > keep.MaxBytes
			})
		}
		if err != nil {
			return 0, err
		}
	}
	if cut > first {
		if _, err := s.Commit(ctx, Txn{Do: []Op{TrimBefore(sh, cut)}, Wait: Relaxed}); err != nil {
			return 0, err
		}
	}
	first, _, err = s.Bounds(sh)
	return first, err
}

// walkShard calls f for each readable batch of the shard that has live records, from offset from on, until f returns false. It reads indexes only.
func (s *Store) walkShard(ctx context.Context, sh Shard, from int64, f func(b *located) bool) error {
	var buf Buffer
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		st, err := s.locateAgain(sh, from, math.MaxInt, false, &buf)
		if err != nil {
			return err
		}
		for i := range buf.items {
			if !f(&buf.items[i]) {
				return nil
			}
		}
		if st.name == "" {
			return nil
		}
		from = max(from, st.end)
	}
}
