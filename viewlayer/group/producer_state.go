package group

import (
	"encoding/binary"
	"slices"

	"polylog/logstore"
)

// batchesKept is how many batches of a producer a shard remembers: clients have at most five on their way, and what they may send again is among them.
const batchesKept = 5

// batchRange is a batch as it is remembered.
type batchRange struct {
	first, last int32
	hint        int64 // its base offset, or one below it: the shard's next one was not known exactly when the transaction was built
}

// producerState is what a shard remembers of a producer:
//
//	version  u8       1
//	epoch    uvarint
//	at       varint   Unix milliseconds of the last batch
//	batches  uvarint  number, 1 to 5; of each, the oldest first: first and last sequence and hint, uvarint each
type producerState struct {
	epoch   int16
	at      int64
	batches []batchRange
}

func (s *producerState) encode() []byte {
	b := make([]byte, 0, 16+batchesKept*20)
	b = append(b, valueVersion)
	b = binary.AppendUvarint(b, uint64(s.epoch))
	b = binary.AppendVarint(b, s.at)
	b = binary.AppendUvarint(b, uint64(len(s.batches)))
	for _, r := range s.batches {
		b = binary.AppendUvarint(b, uint64(r.first))
		b = binary.AppendUvarint(b, uint64(r.last))
		b = binary.AppendUvarint(b, uint64(r.hint))
	}
	return b
}

func decodeProducer(key string, v []byte) (producerState, error) {
	r := newValueReader(key, v)
	s := producerState{epoch: int16(r.uvarint()), at: r.varint(), batches: make([]batchRange, 0, batchesKept+1)}
	n := r.uvarint()
	if n < 1 || n > batchesKept {
		r.fail("it has none or too many batches")
	}
	for ; n > 0 && r.err == nil; n-- {
		s.batches = append(s.batches, batchRange{int32(r.uvarint()), int32(r.uvarint()), int64(r.uvarint())})
	}
	return s, r.end()
}

// duplicate returns the batch that is the same as b, nil if none is.
func (s *producerState) duplicate(epoch int16, b batchRange) *batchRange {
	if epoch != s.epoch {
		return nil
	}
	i := slices.IndexFunc(s.batches, func(r batchRange) bool { return r.first == b.first && r.last == b.last })
	if i < 0 {
		return nil
	}
	return &s.batches[i]
}

// add remembers a batch that follows the last one, or is the first of a new epoch.
func (s *producerState) add(id int64, epoch int16, b batchRange) error {
	want := advance(s.batches[len(s.batches)-1].last, 1)
	switch {
	case epoch < s.epoch:
		return &InvalidEpochError{id, epoch, s.epoch}
	case epoch > s.epoch:
		s.epoch, s.batches, want = epoch, s.batches[:0], 0
	}
	if b.first != want {
		return &OutOfOrderSequenceError{id, epoch, b.first, want}
	}
	s.batches = append(s.batches, b)
	if len(s.batches) > batchesKept {
		s.batches = s.batches[1:]
	}
	return nil
}

// offsetKey is a batch of a producer in a shard.
type offsetKey struct {
	shard logstore.Shard
	id    int64
	epoch int16
	first int32
}

// offsetCache remembers the offsets of the last batches, in a ring.
type offsetCache struct {
	offsets map[offsetKey]int64
	ring    []offsetKey
	at      int // in ring: the oldest
	max     int
}

func newOffsetCache(n int) offsetCache {
	return offsetCache{offsets: map[offsetKey]int64{}, max: max(n, 1)}
}

func (c *offsetCache) put(k offsetKey, offset int64) {
	if _, there := c.offsets[k]; there {
		c.offsets[k] = offset
		return
	}
	if len(c.ring) < c.max {
		c.ring = append(c.ring, k)
	} else {
		delete(c.offsets, c.ring[c.at])
		c.ring[c.at] = k
		c.at = (c.at + 1) % c.max
	}
	c.offsets[k] = offset
}

func (c *offsetCache) get(k offsetKey) (int64, bool) {
	offset, ok := c.offsets[k]
	return offset, ok
}
