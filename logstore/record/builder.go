package record

import (
	"encoding/binary"
	"math"
)

// Builder makes a batch from records. Its memory is reused from batch to batch: once warm, an uncompressed batch costs no allocation.
// It belongs to one goroutine.
//
// Append never fails at once. What is wrong is kept and returned by Build or AppendTo, and the records after it are ignored.
type Builder struct {
	buf        []byte // room for the header, then the records
	h          Header // the count and the last offset delta, -1 before the first record, are of the records in buf
	codec      Codec
	err        error
	out        []byte // the batch, if it is compressed
	compressor compressor
}

// NewBuilder returns an empty Builder.
func NewBuilder() *Builder {
	b := &Builder{buf: make([]byte, HeaderSize, 4<<10)}
	b.Reset()
	return b
}

// Reset makes the Builder as new, settings included. The batch built before is no longer valid.
func (b *Builder) Reset() {
	b.buf = b.buf[:HeaderSize]
	b.h = Header{LeaderEpoch: -1, LastOffsetDelta: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	b.codec = None
	b.err = nil
}

// SetBaseOffset sets the offset that the deltas add to; it is 0 without.
func (b *Builder) SetBaseOffset(base int64) { b.h.BaseOffset = base }

// SetProducer sets the idempotent producer and the sequence number at the base offset; all are -1 without.
func (b *Builder) SetProducer(id int64, epoch int16, sequence int32) {
	b.h.ProducerID, b.h.ProducerEpoch, b.h.BaseSequence = id, epoch, sequence
}

// SetTransactional marks the batch as part of its producer's transaction.
func (b *Builder) SetTransactional(on bool) { b.setBit(transactionalBit, on) }

// SetControl marks the records as control records.
func (b *Builder) SetControl(on bool) { b.setBit(controlBit, on) }

// SetLogAppendTime makes the largest timestamp the time of all records.
func (b *Builder) SetLogAppendTime(on bool) { b.setBit(logAppendTimeBit, on) }

// SetCodec sets how Build compresses: None, LZ4 or Zstd. Others are read but not written, and fail in Build.
func (b *Builder) SetCodec(c Codec) { b.codec = c }

func (b *Builder) setBit(bit int16, on bool) {
	b.h.Attributes &^= bit
	if on {
		b.h.Attributes |= bit
	}
}

// Len returns the number of records.
func (b *Builder) Len() int { return int(b.h.Count) }

// Size returns the size in bytes that the batch would have now, uncompressed.
func (b *Builder) Size() int { return len(b.buf) }

// Append adds a record at the next offset. The timestamp is in milliseconds. A nil key or value is null. All bytes are copied.
func (b *Builder) Append(ts int64, key, value []byte, headers []RecordHeader) {
	if b.h.LastOffsetDelta == math.MaxInt32 {
		b.fail(ErrTooLarge, "the offset deltas are used up")
		return
	}
	b.AppendAt(b.h.LastOffsetDelta+1, ts, key, value, headers)
}

// AppendAt is Append at a given distance from the base offset, which must be over that of the record before.
func (b *Builder) AppendAt(offsetDelta int32, ts int64, key, value []byte, headers []RecordHeader) {
	if b.err != nil {
		return
	}
	if offsetDelta <= b.h.LastOffsetDelta {
		b.fail(ErrMalformed, "offset delta %d, at least %d is needed", offsetDelta, int64(b.h.LastOffsetDelta)+1)
		return
	}
	if b.h.Count == 0 {
		b.h.BaseTimestamp, b.h.MaxTimestamp = ts, ts
	}
	delta := ts - b.h.BaseTimestamp // may wrap, and wraps back when it is read
	size := 1 + varlongSize(delta) + varlongSize(int64(offsetDelta)) + bytesSize(key) + bytesSize(value) + varlongSize(int64(len(headers)))
	for i := range headers {
		size += varlongSize(int64(len(headers[i].Key))) + len(headers[i].Key) + bytesSize(headers[i].Value)
	}
	if room := MaxBatchSize - len(b.buf) - varlongSize(int64(size)); size > room {
		b.fail(ErrTooLarge, "a record of %d bytes behind %d bytes of batch, at most %d are allowed", size, len(b.buf), MaxBatchSize)
		return
	}
	buf := binary.AppendVarint(b.buf, int64(size))
	buf = append(buf, 0)
	buf = binary.AppendVarint(buf, delta)
	buf = binary.AppendVarint(buf, int64(offsetDelta))
	buf = appendNullable(buf, key)
	buf = appendNullable(buf, value)
	buf = binary.AppendVarint(buf, int64(len(headers)))
	for i := range headers {
		buf = binary.AppendVarint(buf, int64(len(headers[i].Key)))
		buf = append(buf, headers[i].Key...)
		buf = appendNullable(buf, headers[i].Value)
	}
	b.buf = buf
	b.h.Count++
	b.h.LastOffsetDelta = offsetDelta
	b.h.MaxTimestamp = max(b.h.MaxTimestamp, ts)
}

// bytesSize returns the size of a nullable length and its bytes.
func bytesSize(p []byte) int {
	if p == nil {
		return 1
	}
	return varlongSize(int64(len(p))) + len(p)
}

func appendNullable(dst, p []byte) []byte {
	if p == nil {
		return append(dst, 1) // -1 in zigzag
	}
	return append(binary.AppendVarint(dst, int64(len(p))), p...)
}

func (b *Builder) fail(kind error, format string, args ...any) {
	if b.err == nil {
		b.err = failure(kind, b.h.BaseOffset, format, args...)
	}
}

// Build returns the batch. It lies in the Builder's memory and is valid until the next Append, Build or Reset.
func (b *Builder) Build() (Batch, error) {
	if err := b.check(); err != nil {
		return Batch{}, err
	}
	if b.codec == None {
		return b.h.seal(b.buf), nil
	}
	out, err := b.appendCompressed(b.out[:0])
	if err != nil {
		return Batch{}, err
	}
	b.out = out
	return Batch{out[:len(out):len(out)]}, nil
}

// AppendTo appends the batch to dst. On error dst is returned as it was.
func (b *Builder) AppendTo(dst []byte) ([]byte, error) {
	if err := b.check(); err != nil {
		return dst, err
	}
	if b.codec == None {
		start := len(dst)
		dst = append(dst, b.buf...)
		b.h.seal(dst[start:])
		return dst, nil
	}
	return b.appendCompressed(dst)
}

// appendCompressed appends the batch to dst, or returns dst as it was.
func (b *Builder) appendCompressed(dst []byte) ([]byte, error) {
	start := len(dst)
	out, err := b.compressor.compress(b.codec, append(dst, b.buf[:HeaderSize]...), b.buf[HeaderSize:])
	if err != nil {
		return dst, failure(ErrMalformed, b.h.BaseOffset, "%v failed: %v", b.codec, err)
	}
	if n := len(out) - start; n > MaxBatchSize {
		return dst, failure(ErrTooLarge, b.h.BaseOffset, "%d bytes compressed with %v, at most %d are allowed", n, b.codec, MaxBatchSize)
	}
	b.h.seal(out[start:])
	return out, nil
}

// check judges the whole batch before it is written.
func (b *Builder) check() error {
	switch {
	case b.err != nil:
		return b.err
	case b.h.Count == 0:
		return failure(ErrMalformed, b.h.BaseOffset, "no records, a built batch has at least one")
	case b.h.BaseOffset < 0:
		return failure(ErrMalformed, -1, "base offset %d is negative", b.h.BaseOffset)
	case b.h.BaseOffset > math.MaxInt64-int64(b.h.LastOffsetDelta):
		return failure(ErrMalformed, b.h.BaseOffset, "last offset delta %d leads past the largest offset", b.h.LastOffsetDelta)
	case b.codec != None && b.codec != LZ4 && b.codec != Zstd:
		return failure(ErrCodec, b.h.BaseOffset, "%v is not written, only none, lz4 and zstd", b.codec)
	}
	b.h.Attributes = b.h.Attributes&^codecMask | int16(b.codec)
	return nil
}
