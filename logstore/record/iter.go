package record

// Record is one record of a batch. Key, Value and the headers share the batch's bytes or, if it is compressed, the Scratch's buffer.
// A nil Key or Value is null; an empty one is empty but not nil.
type Record struct {
	OffsetDelta    int32
	TimestampDelta int64
	Attributes     int8
	Key            []byte
	Value          []byte

	headers     []byte // checked when the record was read
	headerCount int
}

// HeaderCount returns the number of headers.
func (r Record) HeaderCount() int { return r.headerCount }

// Headers returns an iterator over the headers, in their order.
func (r Record) Headers() HeaderIter { return HeaderIter{b: r.headers, left: r.headerCount} }

// RecordHeader is a header of a record. Keys may repeat. A nil Value is null.
type RecordHeader struct {
	Key   []byte
	Value []byte
}

// HeaderIter walks the headers of one record. It cannot fail, as the record was checked before.
type HeaderIter struct {
	b    []byte
	left int
	h    RecordHeader
}

// Next moves to the next header and tells whether there is one.
func (it *HeaderIter) Next() bool {
	if it.left == 0 {
		it.h = RecordHeader{}
		return false
	}
	it.left--
	var pos int
	it.h.Key, pos = nullable(it.b, 0)
	it.h.Value, pos = nullable(it.b, pos)
	it.b = it.b[pos:]
	return true
}

// Header returns the current header.
func (it *HeaderIter) Header() RecordHeader { return it.h }

// Iter walks the records of a batch in offset order. It belongs to one goroutine.
//
//	it := b.Iter(scratch)
//	for it.Next() {
//		use(it.Offset(), it.Record())
//	}
//	if err := it.Err(); err != nil { … }
//
// It checks what it reads: after Next has returned false and Err nil, the batch had exactly the records its header claims, at strictly
// ascending offsets within the range of the header, and nothing behind them.
type Iter struct {
	data []byte // the records, decompressed
	pos  int    // of the next record in data
	left int32  // records still to come
	last int32  // last offset delta of the batch
	prev int32  // offset delta of the record before, -1 at the start
	rec  Record

	base          int64
	baseTimestamp int64
	appendTime    int64
	logAppendTime bool
	err           error
}

// Iter returns an iterator before the first record. If the batch is compressed it is decompressed here, into the buffer of s, and the
// records are valid until s is used again; if s is nil, into a new buffer. An uncompressed batch does not use s.
func (b Batch) Iter(s *Scratch) Iter {
	it := Iter{
		left:          b.Count(),
		last:          b.LastOffsetDelta(),
		prev:          -1,
		base:          b.BaseOffset(),
		baseTimestamp: b.BaseTimestamp(),
		logAppendTime: b.LogAppendTime(),
		appendTime:    b.MaxTimestamp(),
	}
	if b.Codec() == None {
		it.data = b.Payload()
	} else {
		it.data, it.err = b.decompress(s)
	}
	return it
}

// Next moves to the next record and tells whether there is one. It allocates nothing unless it fails.
func (it *Iter) Next() bool {
	if it.left == 0 || it.err != nil {
		if it.err == nil && it.pos != len(it.data) {
			it.err = failure(ErrMalformed, it.base, "%d bytes behind the last record", len(it.data)-it.pos)
		}
		it.rec = Record{}
		return false
	}
	size, pos := byteVarint(it.data, it.pos)
	if pos < 0 {
		size, pos = varint(it.data, it.pos)
	}
	if pos < 0 || size < minRecordSize-1 || int(size) > len(it.data)-pos {
		return it.failAt(it.pos, "a record's length is impossible", size, len(it.data)-it.pos)
	}
	end := pos + int(size)
	if !it.decode(it.data[:end], pos) {
		return false
	}
	it.pos = end
	it.left--
	return true
}

// decode reads the record that begins at b[start] and must end where b does.
func (it *Iter) decode(b []byte, start int) bool {
	r := &it.rec
	r.Attributes = int8(b[start])

	ts, pos := byteVarint(b, start+1)
	r.TimestampDelta = int64(ts)
	if pos < 0 {
		if r.TimestampDelta, pos = varlong(b, start+1); pos < 0 {
			return it.failAt(start, "the timestamp delta does not end", 0, len(b)-start)
		}
	}
	delta, next := byteVarint(b, pos)
	if next < 0 {
		if delta, next = varint(b, pos); next < 0 {
			return it.failAt(start, "the offset delta does not end", 0, len(b)-start)
		}
	}
	if delta <= it.prev || delta > it.last {
		return it.failOffset(start, delta)
	}
	r.OffsetDelta, it.prev = delta, delta

	if r.Key, pos = nullable(b, next); pos < 0 {
		return it.failAt(start, "the key does not fit", 0, len(b)-start)
	}
	if r.Value, pos = nullable(b, pos); pos < 0 {
		return it.failAt(start, "the value does not fit", 0, len(b)-start)
	}
	count, next := byteVarint(b, pos)
	if next < 0 {
		count, next = varint(b, pos)
	}
	if next < 0 || count < 0 || int(count) > (len(b)-next)/2 { // a header has at least two lengths of one byte
		return it.failAt(start, "the header count is impossible", count, len(b)-start)
	}
	r.headers, r.headerCount = b[next:], int(count)
	if next = skipHeaders(b, next, count); next != len(b) {
		return it.failAt(start, "the headers do not end with the record", count, len(b)-start)
	}
	return true
}

// nullable reads a length and as many bytes; a length of -1 is null. It returns the position behind, or -1 if they do not fit in b.
func nullable(b []byte, pos int) ([]byte, int) {
	n, next := byteVarint(b, pos)
	if next < 0 {
		n, next = varint(b, pos)
	}
	if next < 0 || n < -1 || int(n) > len(b)-next {
		return nil, -1
	}
	if n < 0 {
		return nil, next
	}
	end := next + int(n)
	return b[next:end:end], end
}

// skipHeaders returns the position behind the headers at b[pos:], or -1 if one of them does not fit or has a null key.
func skipHeaders(b []byte, pos int, count int32) int {
	for ; count > 0; count-- {
		n, next := byteVarint(b, pos)
		if next < 0 {
			n, next = varint(b, pos)
		}
		if next < 0 || n < 0 || int(n) > len(b)-next {
			return -1
		}
		pos = next + int(n)
		if n, next = byteVarint(b, pos); next < 0 {
			n, next = varint(b, pos)
		}
		if next < 0 || n < -1 || int(n) > len(b)-next {
			return -1
		}
		pos = next + max(int(n), 0)
	}
	return pos
}

// Record returns the current record.
func (it *Iter) Record() Record { return it.rec }

// Offset returns the offset of the current record.
func (it *Iter) Offset() int64 { return it.base + int64(it.rec.OffsetDelta) }

// Timestamp returns the time of the current record in milliseconds: its own, or the broker's if the batch has log append time.
func (it *Iter) Timestamp() int64 {
	if it.logAppendTime {
		return it.appendTime
	}
	return it.baseTimestamp + it.rec.TimestampDelta
}

// Err returns why Next ended before all records were read, nil if it did not.
func (it *Iter) Err() error { return it.err }

// failAt ends the walk at a record; found is the number that was read, room the bytes that were left for it.
func (it *Iter) failAt(pos int, what string, found int32, room int) bool {
	it.err = failure(ErrMalformed, it.base, "byte %d of the records: %s: found %d, %d bytes are left, %d records to come", pos, what, found, room, it.left)
	it.rec = Record{}
	return false
}

func (it *Iter) failOffset(pos int, found int32) bool {
	it.err = failure(ErrMalformed, it.base, "byte %d of the records: offset delta %d, allowed is %d to %d", pos, found, int64(it.prev)+1, it.last)
	it.rec = Record{}
	return false
}
