package message

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"polylog/logstore/record"
)

// foreign is the memory for the headers of a record that did not come from AMQP.
type foreign struct {
	headers []foreignHeader
	byName  []int32 // indexes of headers, by name and then by place
}

// foreignHeader is a header of such a record.
type foreignHeader struct {
	name, value []byte
	next        int32  // the next header of the same name, 0 for none, as no header is next to itself
	repeats     bool   // an earlier header has the name, and it is told there
	dropped     bool   // something that the broker says takes its place
	property    uint16 // the property it becomes
}

// gather takes the headers of the record and finds out what becomes of each.
func (f *foreign) gather(it record.HeaderIter, set func(name []byte) bool) (properties uint16) {
	f.headers, f.byName = f.headers[:0], f.byName[:0]
	for it.Next() {
		h := it.Header()
		f.byName = append(f.byName, int32(len(f.headers)))
		f.headers = append(f.headers, foreignHeader{name: fieldName(h.Key), value: h.Value})
	}
	slices.SortFunc(f.byName, func(i, j int32) int {
		if n := bytes.Compare(f.headers[i].name, f.headers[j].name); n != 0 {
			return n
		}
		return cmp.Compare(i, j)
	})
	for at, i := range f.byName {
		h := &f.headers[i]
		if at > 0 {
			if before := &f.headers[f.byName[at-1]]; bytes.Equal(before.name, h.name) {
				before.next, h.repeats, before.property = i, true, 0
			}
		}
		h.dropped = set(h.name)
		if !h.repeats && h.value != nil && len(h.value) <= shortStringMax && utf8.Valid(h.value) {
			h.property = readableProperty(h.name)
		}
	}
	for i := range f.headers {
		properties |= f.headers[i].property
	}
	return properties
}

// property returns the value of a property that gather found.
func (f *foreign) property(flag uint16) []byte {
	for i := range f.headers {
		if f.headers[i].property == flag {
			return f.headers[i].value
		}
	}
	return nil
}

// fieldName shortens a header's name to what a field may have, between two characters if it is text.
func fieldName(name []byte) []byte {
	if len(name) <= FieldNameMax {
		return name
	}
	end := FieldNameMax
	for end > FieldNameMax-utf8.UTFMax && !utf8.RuneStart(name[end]) {
		end--
	}
	if !utf8.RuneStart(name[end]) {
		end = FieldNameMax // no text
	}
	return name[:end]
}

// abroad makes d what AMQP sees of a record that did not come from there; it walks the record's headers.
func (c *Converter) abroad(rec record.Record, it record.HeaderIter, ts int64, o *Origin, d *Delivered) {
	d.Exchange, d.RoutingKey, d.Body = nil, c.topicKey(o), rec.Value
	tombstone, timed := rec.Value == nil, ts != noTime
	flags := FlagHeaders | c.foreign.gather(it, func(name []byte) bool {
		switch string(name) {
		case HeaderRecordKey:
			return rec.Key != nil
		case HeaderStreamOffset:
			return o.Retained
		case HeaderPartition:
			return true
		case HeaderTimestampMs:
			return timed
		case HeaderTombstone:
			return tombstone
		}
		return false
	})
	if ts >= 0 {
		flags |= FlagTimestamp
	}
	c.out = binary.BigEndian.AppendUint16(c.out[:0], flags)
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		switch {
		case flags&flag == 0:
		case flag == FlagHeaders:
			c.openTable(o)
			if rec.Key != nil {
				mark := len(c.out)
				c.out = appendForeignField(c.out, recordKeyName, rec.Key)
				c.keepEntry(mark, recordKeyName)
			}
			if o.Retained {
				c.out = appendInt64(c.out, HeaderStreamOffset, o.Offset)
			}
			c.out = appendInt64(c.out, HeaderPartition, int64(o.Partition))
			if timed {
				c.out = appendInt64(c.out, HeaderTimestampMs, ts)
			}
			if tombstone {
				c.out = append(appendShort(c.out, tombstoneName), byte(TypeBool), 1)
			}
			c.foreignEntries()
			c.closeTable(o)
		case flag == FlagTimestamp:
			c.out = binary.BigEndian.AppendUint64(c.out, uint64(ts/1000))
		default:
			c.out = appendShort(c.out, c.foreign.property(flag))
		}
	}
	d.Properties = c.out
}

// noTime is what Kafka's producers send for a record without a time.
const noTime = -1

var tombstoneName = []byte(HeaderTombstone)

// foreignEntries appends the headers that became no property.
func (c *Converter) foreignEntries() {
	for i := range c.foreign.headers {
		h := &c.foreign.headers[i]
		if h.dropped || h.repeats || h.property != 0 {
			continue
		}
		mark := len(c.out)
		if h.next == 0 {
			c.out = appendForeignField(c.out, h.name, h.value)
		} else {
			c.out = append(appendShort(c.out, h.name), byte(TypeArray), 0, 0, 0, 0)
			start := len(c.out)
			for {
				c.out = appendForeign(c.out, h.value)
				if h.next == 0 {
					break
				}
				h = &c.foreign.headers[h.next]
			}
			binary.BigEndian.PutUint32(c.out[start-4:], uint32(len(c.out)-start))
		}
		c.keepEntry(mark, c.foreign.headers[i].name)
	}
}

// appendForeignField appends a field of bytes that may be text.
func appendForeignField(dst, name, value []byte) []byte {
	return appendForeign(appendShort(dst, name), value)
}

// appendForeign appends bytes that may be text: a long string, or a byte array if they are not UTF-8, as clients decode the first and hand on the second; void
// for null.
func appendForeign(dst, value []byte) []byte {
	if value == nil {
		return append(dst, byte(TypeVoid))
	}
	letter := TypeText
	if !utf8.Valid(value) {
		letter = TypeBytes
	}
	dst = append(dst, byte(letter))
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(value))), value...)
}
