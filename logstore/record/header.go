package record

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

const (
	// HeaderSize is the length in bytes of a batch without records.
	HeaderSize = 61
	// MaxBatchSize is the largest batch in bytes, header included. It bounds what one produce request or one transaction of the log
	// can make a broker hold; Kafka's own default for a batch is 1 MiB.
	MaxBatchSize = 64 << 20

	magic         = 2
	lengthEnd     = 12 // the length field counts from here
	minRecordSize = 7  // one byte each: length, attributes, two deltas, null key, null value, no headers
)

// Positions of the header fields.
const (
	posBase            = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21 // the CRC covers from here on
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57
)

// Bits of the attributes.
const (
	codecMask        = 7
	logAppendTimeBit = 1 << 3
	transactionalBit = 1 << 4
	controlBit       = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(raw []byte) uint32 { return crc32.Checksum(raw[posAttributes:], castagnoli) }

func be16(b []byte, pos int) uint16 { return binary.BigEndian.Uint16(b[pos:]) }
func be32(b []byte, pos int) uint32 { return binary.BigEndian.Uint32(b[pos:]) }
func be64(b []byte, pos int) uint64 { return binary.BigEndian.Uint64(b[pos:]) }

// Header is a batch's header, decoded.
type Header struct {
	BaseOffset      int64
	Size            int // bytes of the whole batch, header included
	LeaderEpoch     int32
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// LastOffset returns the last offset that the batch covers, whether or not a record is there.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// Codec returns how the records are compressed.
func (h *Header) Codec() Codec { return Codec(h.Attributes & codecMask) }

// ParseHeader decodes and checks the header of the batch at the start of b, of which only the first HeaderSize bytes need to be there.
// The CRC is not checked.
func ParseHeader(b []byte) (Header, error) {
	if _, err := checkHeader(b); err != nil {
		return Header{}, err
	}
	return decodeHeader(b), nil
}

func decodeHeader(b []byte) Header {
	return Header{
		BaseOffset:      int64(be64(b, posBase)),
		Size:            int(be32(b, posLength)) + lengthEnd,
		LeaderEpoch:     int32(be32(b, posLeaderEpoch)),
		CRC:             be32(b, posCRC),
		Attributes:      int16(be16(b, posAttributes)),
		LastOffsetDelta: int32(be32(b, posLastOffsetDelta)),
		BaseTimestamp:   int64(be64(b, posBaseTimestamp)),
		MaxTimestamp:    int64(be64(b, posMaxTimestamp)),
		ProducerID:      int64(be64(b, posProducerID)),
		ProducerEpoch:   int16(be16(b, posProducerEpoch)),
		BaseSequence:    int32(be32(b, posBaseSequence)),
		Count:           int32(be32(b, posCount)),
	}
}

// seal writes the header over the first HeaderSize bytes of raw, which is a whole batch. Size and CRC are those of raw, whatever h says.
func (h *Header) seal(raw []byte) Batch {
	be := binary.BigEndian
	be.PutUint64(raw[posBase:], uint64(h.BaseOffset))
	be.PutUint32(raw[posLength:], uint32(len(raw)-lengthEnd))
	be.PutUint32(raw[posLeaderEpoch:], uint32(h.LeaderEpoch))
	raw[posMagic] = magic
	be.PutUint16(raw[posAttributes:], uint16(h.Attributes))
	be.PutUint32(raw[posLastOffsetDelta:], uint32(h.LastOffsetDelta))
	be.PutUint64(raw[posBaseTimestamp:], uint64(h.BaseTimestamp))
	be.PutUint64(raw[posMaxTimestamp:], uint64(h.MaxTimestamp))
	be.PutUint64(raw[posProducerID:], uint64(h.ProducerID))
	be.PutUint16(raw[posProducerEpoch:], uint16(h.ProducerEpoch))
	be.PutUint32(raw[posBaseSequence:], uint32(h.BaseSequence))
	be.PutUint32(raw[posCount:], uint32(h.Count))
	be.PutUint32(raw[posCRC:], checksum(raw))
	return Batch{raw[:len(raw):len(raw)]}
}

// checkHeader judges everything that the header alone can tell and returns the size of the whole batch, which may be longer than b.
func checkHeader(b []byte) (size int, err error) {
	base := int64(-1)
	if len(b) >= posLength {
		base = int64(be64(b, posBase))
	}
	// Older formats have their magic at the same place, and can be shorter than a header.
	if len(b) > posMagic && b[posMagic] != magic {
		return 0, failure(ErrMagic, base, "magic %d, only %d is supported", b[posMagic], magic)
	}
	if len(b) < HeaderSize {
		return 0, failure(ErrTruncated, base, "%d bytes, a header has %d", len(b), HeaderSize)
	}
	length := int32(be32(b, posLength))
	if length < HeaderSize-lengthEnd {
		return 0, failure(ErrMalformed, base, "length field %d, at least %d is needed", length, HeaderSize-lengthEnd)
	}
	if length > MaxBatchSize-lengthEnd {
		return 0, failure(ErrTooLarge, base, "length field %d, at most %d is allowed", length, MaxBatchSize-lengthEnd)
	}
	size = int(length) + lengthEnd
	last, count := int32(be32(b, posLastOffsetDelta)), int32(be32(b, posCount))
	codec := Codec(be16(b, posAttributes) & codecMask)
	switch {
	case base < 0:
		return 0, failure(ErrMalformed, -1, "base offset %d is negative", base)
	case last < 0:
		return 0, failure(ErrMalformed, base, "last offset delta %d is negative", last)
	case base > math.MaxInt64-int64(last):
		return 0, failure(ErrMalformed, base, "last offset delta %d leads past the largest offset", last)
	case count < 0:
		return 0, failure(ErrMalformed, base, "record count %d is negative", count)
	case int64(count) > int64(last)+1:
		return 0, failure(ErrMalformed, base, "record count %d, last offset delta %d has room for %d", count, last, int64(last)+1)
	case codec > Zstd:
		return 0, failure(ErrCodec, base, "codec %d, at most %d is known", uint8(codec), uint8(Zstd))
	case codec == None && int(count) > (size-HeaderSize)/minRecordSize:
		return 0, failure(ErrMalformed, base, "record count %d, %d bytes hold at most %d", count, size-HeaderSize, (size-HeaderSize)/minRecordSize)
	}
	return size, nil
}
