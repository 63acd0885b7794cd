package logstore

import (
	"encoding/binary"
	"errors"

	"github.com/cespare/xxhash/v2"

	"polylog/logstore/record"
)

// state is what the order of transactions has led to: the shards' bounds and deletions, and the key-value map. It is a plain deterministic value without
// clock, disk or goroutine: the same transactions make the same state on every node. The store guards it with its lock.
type state struct {
	seq       uint64 // of the last transaction applied
	nextShard Shard  // the number that the next new shard gets; 0 is never one
	shards    shardTable
	kv        kv
	epochs    uint64 // snapshots taken so far; the newest epoch is the one whose nodes may be changed in place
}

func newState() *state {
	return &state{nextShard: 1}
}

// snapshot returns the state as it is now, in time that does not depend on its size (save for one pointer per 65,536 shards).
func (st *state) snapshot() *state {
	st.epochs++
	return &state{
		seq: st.seq, nextShard: st.nextShard, kv: st.kv.snapshot(),
		shards: st.shards.snapshot(st.epochs), epochs: st.epochs,
	}
}

// ownDeleted returns the shard's set of deleted offsets for changing.
func (st *state) ownDeleted(sh *shard) *offsetSet {
	switch {
	case sh.deleted == nil:
		sh.deleted = newOffsetSet(st.epochs)
	case sh.deleted.epoch != st.epochs:
		sh.deleted = sh.deleted.clone(st.epochs)
	}
	return sh.deleted
}

// hash returns a digest of everything that nodes have in common. Equal states have equal hashes, however they came to be.
func (st *state) hash() uint64 {
	h := xxhash.New()
	buf := make([]byte, 0, 256)
	num := func(v uint64) { buf = binary.LittleEndian.AppendUint64(buf, v) }
	flush := func() {
		h.Write(buf) //nolint:errcheck // cannot fail
		buf = buf[:0]
	}
	num(uint64(st.nextShard))
	st.shards.all(func(id Shard, sh *shard) bool {
		num(uint64(id))
		num(uint64(sh.first))
		num(uint64(sh.next))
		num(sh.digest)
		// Runs, not the bitmap's bytes: equal sets may be encoded differently.
		walk := liveWalk{sh.first, sh.next, sh.deleted.iterator()}
		for r := walk.next(); r.From < r.To; r = walk.next() {
			num(uint64(r.From))
			num(uint64(r.To))
			flush()
		}
		flush()
		return true
	})
	num(uint64(st.kv.m.Len()))
	st.kv.m.Scan(func(k string, v []byte) bool {
		num(uint64(len(k)))
		buf = append(buf, k...)
		num(uint64(len(v)))
		buf = append(buf, v...)
		flush()
		return true
	})
	flush()
	return h.Sum64()
}

// ShardValue is the value that CreateShard puts under its key: the shard's number, 8 bytes, big-endian.
func ShardValue(sh Shard) []byte { return binary.BigEndian.AppendUint64(nil, uint64(sh)) }

// ParseShardValue reads a value that CreateShard put.
func ParseShardValue(v []byte) (Shard, error) {
	if len(v) != 8 {
		return 0, errors.New("a shard's number has 8 bytes")
	}
	return Shard(binary.BigEndian.Uint64(v)), nil
}

// chainDigest is the digest of a shard after the batch is appended at offset base.
func chainDigest(digest uint64, base int64, b record.Batch) uint64 {
	const prime = 0x9E3779B97F4A7C15
	digest = (digest ^ uint64(base)) * prime
	digest ^= digest >> 29
	digest = (digest ^ uint64(b.CRC()) ^ uint64(b.Len())<<32) * prime
	return digest ^ digest>>32
}

// hasLive reports whether any shard has a record that is not deleted.
func (st *state) hasLive() bool {
	some := false
	st.shards.all(func(_ Shard, sh *shard) bool {
		some = sh.first < sh.next
		return !some
	})
	return some
}
