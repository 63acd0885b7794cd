package record

// Batch is a view of one record batch. Its header has been checked and its bytes are exactly the batch; the zero Batch is none.
//
// A Batch is a value and shares the bytes it was made from. It is made only by Parse, ParseTrusted, Builder, Empty and Filter, and is
// safe for concurrent reading as long as nobody patches the bytes (SetBase, SetLogAppendTime).
type Batch struct{ raw []byte }

// Parse takes the batch at the start of b, checks its header and CRC and returns what lies behind it. The records are not looked at;
// see Validate.
func Parse(b []byte) (batch Batch, rest []byte, err error) {
	if batch, rest, err = ParseTrusted(b); err != nil {
		return Batch{}, nil, err
	}
	if err = batch.VerifyCRC(); err != nil {
		return Batch{}, nil, err
	}
	return batch, rest, nil
}

// ParseTrusted is Parse without the CRC, for bytes whose integrity is already known. The header is checked all the same, since the
// accessors rely on it.
func ParseTrusted(b []byte) (batch Batch, rest []byte, err error) {
	size, err := checkHeader(b)
	if err != nil {
		return Batch{}, nil, err
	}
	if size > len(b) {
		return Batch{}, nil, failure(ErrTruncated, int64(be64(b, posBase)), "%d bytes, the header says %d", len(b), size)
	}
	return Batch{b[:size:size]}, b[size:], nil
}

// Bytes returns the batch as it is stored and sent. The caller must not change it.
func (b Batch) Bytes() []byte { return b.raw }

// Len returns the size of the batch in bytes, 0 for the zero Batch.
func (b Batch) Len() int { return len(b.raw) }

// IsZero tells whether b is no batch at all.
func (b Batch) IsZero() bool { return len(b.raw) == 0 }

// BaseOffset returns the offset that the records' offset deltas add to. There may be no record with it.
func (b Batch) BaseOffset() int64 { return int64(be64(b.raw, posBase)) }

// LastOffset returns the last offset that the batch covers. There may be no record with it.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// LastOffsetDelta returns the last offset minus the base offset; it is not negative.
func (b Batch) LastOffsetDelta() int32 { return int32(be32(b.raw, posLastOffsetDelta)) }

// Count returns the number of records that the header claims; it is not negative.
func (b Batch) Count() int32 { return int32(be32(b.raw, posCount)) }

// CRC returns the stored CRC-32C.
func (b Batch) CRC() uint32 { return be32(b.raw, posCRC) }

// Attributes returns all attribute bits.
func (b Batch) Attributes() int16 { return int16(be16(b.raw, posAttributes)) }

// Codec returns how the records are compressed.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & codecMask) }

// LogAppendTime tells whether all records have the broker's time, MaxTimestamp, instead of their own.
func (b Batch) LogAppendTime() bool { return b.Attributes()&logAppendTimeBit != 0 }

// Transactional tells whether the batch belongs to a producer's transaction.
func (b Batch) Transactional() bool { return b.Attributes()&transactionalBit != 0 }

// Control tells whether the records are markers for consumers and not messages.
func (b Batch) Control() bool { return b.Attributes()&controlBit != 0 }

// BaseTimestamp returns the timestamp, in milliseconds, that the records' timestamp deltas add to.
func (b Batch) BaseTimestamp() int64 { return int64(be64(b.raw, posBaseTimestamp)) }

// MaxTimestamp returns the largest timestamp as the batch's writer claims it.
func (b Batch) MaxTimestamp() int64 { return int64(be64(b.raw, posMaxTimestamp)) }

// ProducerID returns the idempotent producer's id, -1 if there is none.
func (b Batch) ProducerID() int64 { return int64(be64(b.raw, posProducerID)) }

// ProducerEpoch returns the idempotent producer's epoch, -1 if there is none.
func (b Batch) ProducerEpoch() int16 { return int16(be16(b.raw, posProducerEpoch)) }

// BaseSequence returns the producer's sequence number at the base offset, -1 if there is none.
func (b Batch) BaseSequence() int32 { return int32(be32(b.raw, posBaseSequence)) }

// LeaderEpoch returns the partition leader epoch, which the CRC does not cover.
func (b Batch) LeaderEpoch() int32 { return int32(be32(b.raw, posLeaderEpoch)) }

// Payload returns the records as they are stored: compressed if there is a codec.
func (b Batch) Payload() []byte { return b.raw[HeaderSize:] }

// VerifyCRC compares the stored CRC with that of the bytes.
func (b Batch) VerifyCRC() error {
	if sum := checksum(b.raw); sum != b.CRC() {
		return failure(ErrCRC, b.BaseOffset(), "stored %08x, the bytes have %08x", b.CRC(), sum)
	}
	return nil
}
