package message

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"polylog/logstore/record"
)

// ReservedHeader is the name of the header that makes a record an AMQP message. It is the first one, or the second behind MovedHeader; anywhere else it is an
// ordinary header. Behind it follow the plain headers: first the entries of the message's headers table in their order, but for the one that is the
// record's key, then the readable properties in the order of their flags. The reserved header holds what those do not say:
//
//	uint8    0001 0pkx: version 1; p: no properties, k: a routing key, x: an exchange
//	short    if x: the exchange, not empty (short: a uint8 length, and as many bytes)
//	short    if k: the routing key; else it is the record's key (with x, null is the empty one) or the topic's name (without)
//	         if not p:
//	uint16   the flags of the property list
//	         then, in the order of their flags, the properties that are there and not readable:
//	headers        uvarint count of entries, then for each
//	               uint8  the type letter, plus 0x80 if a byte of details follows
//	               uint8  details: 1 exact name, 2 exact value, 4 the record's key is the plain value of this entry, whose name is x-record-key
//	               short  with 1: the name, which the plain header has with U+FFFD for what is no UTF-8
//	               bytes  with 2: the value as on the wire behind its letter, tables and arrays without their length (bytes: a uvarint length, the bytes)
//	delivery-mode  uint8
//	priority       uint8
//	expiration     short
//	timestamp      uint64
//	user-id        short
//	cluster-id     short
//
// Integers are big-endian, uvarints as in Protocol Buffers. A record whose reserved header has another version, does not end where it should, or does not fit
// the plain headers is a record that did not come from AMQP, and its reserved header is an ordinary one.
const ReservedHeader = "_amqp"

const (
	reservedVersion = 1 << 4
	versionMask     = 0xf8 // the unused bit must be 0

	hasExchange   = 1
	hasRoutingKey = 2
	noProperties  = 4

	hasDetails   = 0x80
	exactName    = 1
	exactValue   = 2
	isRecordKey  = 4
	knownDetails = exactName | exactValue | isRecordKey
)

// appendEntry writes an entry of the headers table: its plain header, unless it is the record's key, and what the reserved header says of it.
func (c *Converter) appendEntry(f Field, isKey bool) {
	details := byte(0)
	name := f.Name
	switch {
	case isKey:
		details |= isRecordKey
	case !utf8.Valid(name):
		details |= exactName
		start := len(c.text)
		c.text = appendValid(c.text, name)
		name = c.text[start:len(c.text):len(c.text)]
	}
	var text []byte
	var exact bool
	if !isKey {
		text, exact = c.show(f.Value)
		c.headers = append(c.headers, record.RecordHeader{Key: name, Value: text})
	} else {
		exact = c.keyExact
	}
	if !exact {
		details |= exactValue
	}
	letter := byte(f.Value.Type())
	if details == 0 {
		c.meta = append(c.meta, letter)
		return
	}
	c.meta = append(c.meta, letter|hasDetails, details)
	if details&exactName != 0 {
		c.meta = appendShort(c.meta, f.Name)
	}
	if details&exactValue != 0 {
		b := f.Value.raw[1:]
		if t := f.Value.Type(); t == TypeArray || t == TypeTable {
			b = b[4:]
		}
		c.meta = append(binary.AppendUvarint(c.meta, uint64(len(b))), b...)
	}
}

// show returns the plain form of a value, null for void, and whether it says all. It lies in the value itself or in the converter's memory.
func (c *Converter) show(v Value) (text []byte, exact bool) {
	switch v.Type() {
	case TypeText, TypeBytes:
		return v.raw[5:], true
	case TypeVoid:
		return nil, true
	}
	start := len(c.text)
	c.text, exact = appendText(c.text, v)
	return c.text[start:len(c.text):len(c.text)], exact
}

// reader takes the reserved header apart. After the first thing that is not there, all is zero and bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) uint8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) short() []byte { return r.take(uint64(r.uint8())) }

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if r.bad || size <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// home makes d the AMQP message that the record is, and tells whether it is one. plain walks the headers behind the reserved one, of which there are count.
// What it left in c.out if it is none means nothing.
func (c *Converter) home(rec record.Record, reserved []byte, plain record.HeaderIter, count int, o *Origin, d *Delivered) bool {
	if rec.Value == nil {
		return false
	}
	r := reader{b: reserved}
	first := r.uint8()
	if first&versionMask != reservedVersion {
		return false
	}
	d.Exchange = nil
	if first&hasExchange != 0 {
		if d.Exchange = r.short(); len(d.Exchange) == 0 {
			return false
		}
	}
	switch {
	case first&hasRoutingKey != 0:
		d.RoutingKey = r.short()
	case first&hasExchange != 0:
		d.RoutingKey = rec.Key
	default:
		d.RoutingKey = c.topicKey(o)
	}
	var flags uint16
	if first&noProperties == 0 {
		if b := r.take(2); b != nil {
			flags = binary.BigEndian.Uint16(b)
		}
	}
	entries := count - bits.OnesCount16(flags&readable)
	if r.bad || entries < 0 || flags&flagContinued != 0 || len(d.RoutingKey) > shortStringMax {
		return false
	}
	properties := plain // behind the entries
	if flags&readable != 0 {
		for range entries {
			properties.Next()
		}
	}
	out := flags
	if o.told() {
		out |= FlagHeaders
	}
	c.out = binary.BigEndian.AppendUint16(c.out[:0], out)
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		switch {
		case out&flag == 0:
		case flag&readable != 0:
			properties.Next()
			h := properties.Header()
			if h.Value == nil || len(h.Value) > shortStringMax || readableProperty(h.Key) != flag {
				return false
			}
			c.out = appendShort(c.out, h.Value)
		case flag == FlagHeaders:
			c.openTable(o)
			if flags&FlagHeaders != 0 && !c.homeEntries(&r, rec.Key, &plain, entries) {
				return false
			}
			c.closeTable(o)
			entries = 0
		case flag == FlagDeliveryMode, flag == FlagPriority:
			c.out = append(c.out, r.uint8())
		case flag == FlagTimestamp:
			c.out = append(c.out, r.take(8)...)
		default:
			c.out = appendShort(c.out, r.short())
		}
	}
	if r.bad || len(r.b) > 0 || entries > 0 {
		return false
	}
	d.Properties, d.Body = c.out, rec.Value
	return true
}

// homeEntries appends the entries of the headers table, of which count have a plain header, and tells whether they fit their plain headers.
func (c *Converter) homeEntries(r *reader, key []byte, plain *record.HeaderIter, count int) bool {
	for left := r.uvarint(); left > 0; left-- {
		letter, details := r.uint8(), byte(0)
		if letter&hasDetails != 0 {
			letter, details = letter&^hasDetails, r.uint8()
			if details == 0 || details&^knownDetails != 0 {
				return false
			}
		}
		var name, text []byte
		if details&isRecordKey != 0 {
			if name, text = recordKeyName, key; key == nil {
				return false
			}
		} else {
			if count == 0 {
				return false
			}
			count--
			plain.Next()
			name, text = plain.Header().Key, plain.Header().Value
		}
		if details&exactName != 0 {
			name = r.short()
		}
		if r.bad || len(name) > FieldNameMax {
			return false
		}
		mark := len(c.out)
		c.out = appendShort(c.out, name)
		ok := false
		switch {
		case details&exactValue != 0:
			c.out, ok = appendExact(c.out, FieldType(letter), r.take(r.uvarint()))
		case FieldType(letter) == TypeVoid:
			c.out, ok = append(c.out, letter), text == nil
		case text != nil:
			c.out, ok = parseText(c.out, FieldType(letter), text)
		}
		if !ok {
			return false
		}
		c.keepEntry(mark, name)
	}
	return !r.bad && count == 0
}

// appendExact appends a value of which body are the exact bytes, and tells whether they are one.
func appendExact(dst []byte, letter FieldType, body []byte) (out []byte, ok bool) {
	start := len(dst)
	dst = append(dst, byte(letter))
	if letter == TypeArray || letter == TypeTable {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	}
	dst = append(dst, body...)
	end, err := checkValue(dst, start, 1)
	return dst, err == nil && end == len(dst)
}
