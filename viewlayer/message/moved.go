package message

import (
	"encoding/binary"
	"math"

	"polylog/logstore/record"
)

// MovedHeader is the name of the header that marks a record which was appended to its shard again, at the tail, when it came back to its queue. It is the first
// header of the record:
//
//	uint8    version, 1
//	uvarint  first offset: where the record was before it was ever moved
//	uvarint  how often it was returned
//	uvarint  how often its delivery failed
const MovedHeader = "_moved"

const movedVersion = 1

var movedName = []byte(MovedHeader)

// Moved is what a record that was moved to the tail brings along.
type Moved struct {
	First    int64  // the offset it first had, 0 or more
	Acquired uint32 // times it was returned
	Failed   uint32 // times its delivery failed
}

// AppendMoved appends a record as it is, but for the mark m in place of an earlier one. The error is a *TooLargeError if the batch has no room; the batch is as
// it was then.
func (c *Converter) AppendMoved(b *record.Builder, rec record.Record, ts int64, m Moved) error {
	c.meta = append(c.meta[:0], movedVersion)
	c.meta = binary.AppendUvarint(c.meta, uint64(m.First))
	c.meta = binary.AppendUvarint(c.meta, uint64(m.Acquired))
	c.meta = binary.AppendUvarint(c.meta, uint64(m.Failed))
	c.headers = append(c.headers[:0], record.RecordHeader{Key: movedName, Value: c.meta})
	it := rec.Headers()
	for first := true; it.Next(); first = false {
		if first {
			if _, again := parseMoved(it.Header()); again {
				continue
			}
		}
		c.headers = append(c.headers, it.Header())
	}
	return appendRecord(b, ts, rec.Key, rec.Value, c.headers)
}

// MovedOf returns the mark of a record that was moved. A client of Kafka can write one too: First at or above the record's own offset tells such a one, the
// counters do not.
func MovedOf(rec record.Record) (m Moved, ok bool) {
	it := rec.Headers()
	if !it.Next() {
		return Moved{}, false
	}
	return parseMoved(it.Header())
}

func parseMoved(h record.RecordHeader) (m Moved, ok bool) {
	if string(h.Key) != MovedHeader {
		return Moved{}, false
	}
	r := reader{b: h.Value}
	if r.uint8() != movedVersion {
		return Moved{}, false
	}
	first, acquired, failed := r.uvarint(), r.uvarint(), r.uvarint()
	if r.bad || len(r.b) > 0 || first > math.MaxInt64 || acquired > math.MaxUint32 || failed > math.MaxUint32 {
		return Moved{}, false
	}
	return Moved{int64(first), uint32(acquired), uint32(failed)}, true
}
