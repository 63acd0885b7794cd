package record

// Empty appends to dst a batch that covers the offsets base to last and has no records, as cleaning leaves where every record is gone,
// and returns it. Readers learn from it that the offsets are past. ts is its base and max timestamp. Filter makes the same of a batch
// but keeps its producer.
//
// It panics unless 0 <= base <= last and the two are less than 2^31 apart: offsets come from the log, never from a client.
func Empty(base, last int64, ts int64, dst []byte) Batch {
	if base < 0 || last < base || last-base > maxOffsetDelta {
		panic("record: Empty: impossible range of offsets")
	}
	h := Header{
		BaseOffset:      base,
		LeaderEpoch:     -1,
		LastOffsetDelta: int32(last - base),
		BaseTimestamp:   ts,
		MaxTimestamp:    ts,
		ProducerID:      -1,
		ProducerEpoch:   -1,
		BaseSequence:    -1,
	}
	start := len(dst)
	return h.seal(appendHeaderRoom(dst)[start:])
}

const maxOffsetDelta = 1<<31 - 1

func appendHeaderRoom(dst []byte) []byte { return append(dst, make([]byte, HeaderSize)...) }
