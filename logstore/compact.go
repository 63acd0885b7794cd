package logstore

import (
	"context"
	"crypto/sha256"
	"errors"

	"polylog/logstore/record"
)

// Compaction says how CompactKeys works.
type Compaction struct {
	// TombstonesBefore: the newest record of a key is deleted too when its value is null and its timestamp (Unix milliseconds) is older than this.
	TombstonesBefore int64
	// MaxKeys bounds the keys remembered at a time, 40 bytes of memory or so each; more keys cost more passes over the shard. Default 1 million.
	MaxKeys int
}

const (
	compactRead   = 1 << 20
	compactRanges = 4096 // of one deletion
)

// keyHash stands for a key: 128 bits of its SHA-256, so that two keys are never taken for one.
type keyHash [16]byte

func hashKey(key []byte) (h keyHash) {
	sum := sha256.Sum256(key)
	copy(h[:], sum[:])
	return h
}

// CompactKeys deletes every record of the shard that has a key for which there is a newer readable record, and returns how many it
// deleted. Records without a key and control batches stay. Errors are those of Read and Commit.
func (s *Store) CompactKeys(ctx context.Context, sh Shard, how Compaction) (deleted int64, err error) {
	if how.MaxKeys <= 0 {
		how.MaxKeys = 1 << 20
	}
	first, end, err := s.Bounds(sh)
	if err != nil {
		return 0, err
	}
	c := &compactor{s: s, sh: sh, how: how, newest: make(map[keyHash]int64)}
	for from := first; from < end; {
		clear(c.newest)
		passEnd := end
		err = c.each(ctx, from, end, func(it *record.Iter) bool {
			h := hashKey(it.Record().Key)
			if _, has := c.newest[h]; !has && len(c.newest) >= how.MaxKeys {
				passEnd = it.Offset()
				return false
			}
			c.newest[h] = it.Offset()
			return true
		})
		if err != nil {
			return c.deleted, err
		}
		if err = c.deleteOlder(ctx, passEnd); err != nil {
			return c.deleted, err
		}
		from = passEnd
	}
	return c.deleted, nil
}

// compactor is one run of CompactKeys.
type compactor struct {
	s       *Store
	sh      Shard
	how     Compaction
	newest  map[keyHash]int64
	deleted int64
	ranges  []Range
	buf     Buffer
}

// each calls f for the live records with a key between the offsets, until it returns false.
func (c *compactor) each(ctx context.Context, from, end int64, f func(it *record.Iter) bool) error {
	for from < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		chunk, err := c.s.Read(c.sh, from, compactRead, &c.buf)
		var out *OffsetRangeError
		if errors.As(err, &out) && out.First > from {
			from = out.First // trimmed meanwhile
			continue
		}
		if err != nil {
			return err
		}
		for _, b := range chunk.Batches {
			if b.Control() {
				continue
			}
			it := b.Iter(&c.buf.scratch)
			for it.Next() {
				if it.Offset() < from || it.Record().Key == nil {
					continue
				}
				if it.Offset() >= end || !f(&it) {
					return nil
				}
			}
			if err := it.Err(); err != nil {
				return err
			}
		}
		if chunk.Next <= from {
			return nil
		}
		from = chunk.Next
	}
	return nil
}

// deleteOlder deletes what the remembered keys make obsolete before end.
func (c *compactor) deleteOlder(ctx context.Context, end int64) error {
	first, _, err := c.s.Bounds(c.sh)
	if err != nil {
		return err
	}
	var failed error
	err = c.each(ctx, first, end, func(it *record.Iter) bool {
		rec := it.Record()
		newest, has := c.newest[hashKey(rec.Key)]
		obsolete := has && (it.Offset() < newest ||
			it.Offset() == newest && rec.Value == nil && it.Timestamp() < c.how.TombstonesBefore)
		if obsolete {
			failed = c.delete(ctx, it.Offset())
		}
		return failed == nil
	})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	return c.flush(ctx)
}

func (c *compactor) delete(ctx context.Context, offset int64) error {
	if n := len(c.ranges); n > 0 && c.ranges[n-1].To == offset {
		c.ranges[n-1].To++
	} else {
		c.ranges = append(c.ranges, Range{offset, offset + 1})
	}
	if len(c.ranges) < compactRanges {
		return nil
	}
	return c.flush(ctx)
}

func (c *compactor) flush(ctx context.Context) error {
	if len(c.ranges) == 0 {
		return nil
	}
	n := int64(0)
	for _, r := range c.ranges {
		n += r.To - r.From
	}
	_, err := c.s.Commit(ctx, Txn{Do: []Op{Delete(c.sh, c.ranges...)}, Wait: Relaxed})
	c.ranges = c.ranges[:0]
	if err == nil {
		c.deleted += n
	}
	return err
}
