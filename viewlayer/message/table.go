package message

import (
	"encoding/binary"
	"fmt"
	"math"
)

// FieldType is the letter before a value in a field table. AMQP 0-9-1 (4.2.1) and the brokers disagree about the letters; these are those that RabbitMQ
// reads (its errata page) and 'U', which only the specification has. They are kept as they came, so that a value leaves with the letter it had.
type FieldType byte

// The types. Integers are big-endian. RabbitMQ, and so the clients, take 's' for a 16-bit integer and 'L' for a signed one; in the specification 's' is a
// short string and 'L' is 'l' signed, 'l' unsigned.
const (
	TypeBool      FieldType = 't' // one byte, 0 is false
	TypeInt8      FieldType = 'b'
	TypeUint8     FieldType = 'B'
	TypeInt16     FieldType = 's'
	TypeInt16Spec FieldType = 'U'
	TypeUint16    FieldType = 'u'
	TypeInt32     FieldType = 'I'
	TypeUint32    FieldType = 'i'
	TypeInt64     FieldType = 'l'
	TypeInt64Spec FieldType = 'L'
	TypeFloat     FieldType = 'f' // IEEE 754, 32 bits
	TypeDouble    FieldType = 'd' // IEEE 754, 64 bits
	TypeDecimal   FieldType = 'D' // uint8 digits behind the point, int32 value; the specification has it unsigned, Java's, Python's and Go's clients signed
	TypeTimestamp FieldType = 'T' // uint64 seconds since 1970
	TypeText      FieldType = 'S' // uint32 length, bytes; nobody checks that they are text
	TypeBytes     FieldType = 'x' // uint32 length, bytes
	TypeArray     FieldType = 'A' // uint32 length, values
	TypeTable     FieldType = 'F' // uint32 length, fields
	TypeVoid      FieldType = 'V' // nothing
)

const (
	// TableBytesMax is the largest table, its length field included. A table comes in one frame, so that the frame size that was agreed upon is the
	// bound that holds in practice; this one is for connections whose frames have no limit.
	TableBytesMax = 16 << 20
	// TableDepthMax is how deep tables and arrays may lie in each other. Clients use two or three levels (x-death is an array of tables with an array in
	// each); the bound keeps the stack small, as five bytes of input make a level.
	TableDepthMax = 32
	// FieldNameMax is the longest name of a field in bytes, as of every short string of AMQP.
	FieldNameMax = 255
)

// TableError says what is wrong with an encoded table.
type TableError struct {
	At     int    // byte of the input where the field or value begins
	Reason string // what was found, what is allowed
}

func (e *TableError) Error() string {
	return fmt.Sprintf("field table: at byte %d: %s", e.At, e.Reason)
}

// Table is a checked AMQP field table: an ordered list of named values, in which a name may repeat. It is a view of the bytes as they are on the wire and
// shares them; Clone gives it its own. The zero Table is empty. Tables are made by ParseTable and TableBuilder only, so that reading one cannot fail.
type Table struct {
	raw []byte // with the length in front; nil: empty
}

// Value is a value of a field table: a view of its bytes, type letter included. The zero Value is none.
type Value struct {
	raw []byte
}

// Array is a checked field array. It shares the bytes of what it was taken from.
type Array struct {
	raw []byte // with the length in front
}

// Field is a named value. Name shares the table's bytes; nobody checks that it is text.
type Field struct {
	Name  []byte
	Value Value
}

// ParseTable takes the table at the start of b, checks it to its innermost value, and returns what lies behind it. It allocates nothing. The error is a
// *TableError.
func ParseTable(b []byte) (t Table, rest []byte, err error) {
	end, err := checkSized(b, 0, true, 1)
	if err != nil {
		return Table{}, b, err
	}
	return Table{b[:end:end]}, b[end:], nil
}

// ParseValue takes the value at the start of b, type letter included, checks it, and returns what lies behind it.
func ParseValue(b []byte) (v Value, rest []byte, err error) {
	end, err := checkValue(b, 0, 0)
	if err != nil {
		return Value{}, b, err
	}
	return Value{b[:end:end]}, b[end:], nil
}

// checkSized checks the table (named) or array whose length is at b[pos:] and returns the position behind it. depth is its own level.
func checkSized(b []byte, pos int, named bool, depth int) (int, error) {
	if depth > TableDepthMax {
		return 0, &TableError{pos, fmt.Sprintf("tables and arrays lie more than %d deep in each other", TableDepthMax)}
	}
	if len(b)-pos < 4 {
		return 0, &TableError{pos, fmt.Sprintf("%d bytes are left, a length needs 4", len(b)-pos)}
	}
	size := binary.BigEndian.Uint32(b[pos:])
	if size > TableBytesMax-4 || int(size) > len(b)-pos-4 {
		return 0, &TableError{pos, fmt.Sprintf("a length of %d bytes, %d are left and %d allowed", size, len(b)-pos-4, TableBytesMax-4)}
	}
	pos += 4
	end := pos + int(size)
	b = b[:end]
	for pos < end {
		start := pos
		if named {
			if pos += 1 + int(b[pos]); pos > end {
				return 0, &TableError{start, fmt.Sprintf("a name of %d bytes, %d are left", b[start], end-start-1)}
			}
		}
		var err error
		if pos, err = checkValue(b, pos, depth); err != nil {
			return 0, err
		}
	}
	return end, nil
}

// fixedSize is the number of bytes behind the letter for each type that has a fixed one, plus 1; 0 for the others.
var fixedSize = [256]uint8{
	TypeBool: 2, TypeInt8: 2, TypeUint8: 2, TypeInt16: 3, TypeInt16Spec: 3, TypeUint16: 3, TypeInt32: 5, TypeUint32: 5, TypeInt64: 9, TypeInt64Spec: 9,
	TypeFloat: 5, TypeDouble: 9, TypeDecimal: 6, TypeTimestamp: 9, TypeVoid: 1,
}

// checkValue checks the value at b[pos:] and returns the position behind it. depth is the level of what it lies in.
func checkValue(b []byte, pos, depth int) (int, error) {
	if pos >= len(b) {
		return 0, &TableError{pos, "a value is missing"}
	}
	letter := FieldType(b[pos])
	if n := int(fixedSize[letter]); n > 0 {
		if n > len(b)-pos {
			return 0, &TableError{pos, fmt.Sprintf("a value of type %q needs %d bytes, %d are left", letter, n-1, len(b)-pos-1)}
		}
		return pos + n, nil
	}
	switch letter {
	case TypeText, TypeBytes:
		if len(b)-pos < 5 {
			return 0, &TableError{pos, fmt.Sprintf("a value of type %q needs a length of 4 bytes, %d are left", letter, len(b)-pos-1)}
		}
		size := binary.BigEndian.Uint32(b[pos+1:])
		if uint64(size) > uint64(len(b)-pos-5) {
			return 0, &TableError{pos, fmt.Sprintf("a value of type %q of %d bytes, %d are left", letter, size, len(b)-pos-5)}
		}
		return pos + 5 + int(size), nil
	case TypeArray:
		return checkSized(b, pos+1, false, depth+1)
	case TypeTable:
		return checkSized(b, pos+1, true, depth+1)
	}
	return 0, &TableError{pos, fmt.Sprintf("unknown type %q, known are t b B s U u I i l L f d D T S x A F V", letter)}
}

// noFields is the wire form of the empty table.
var noFields = []byte{0, 0, 0, 0}

// Bytes returns the table as it is on the wire, its length first. The caller must not change it.
func (t Table) Bytes() []byte {
	if t.raw == nil {
		return noFields
	}
	return t.raw
}

// AppendTo appends the table as it is on the wire, its length first.
func (t Table) AppendTo(dst []byte) []byte { return append(dst, t.Bytes()...) }

// IsEmpty tells whether the table has no fields.
func (t Table) IsEmpty() bool { return len(t.raw) <= 4 }

// Len returns the number of fields; it counts them.
func (t Table) Len() int {
	n := 0
	for it := t.Fields(); it.Next(); {
		n++
	}
	return n
}

// Clone returns the table with bytes of its own.
func (t Table) Clone() Table {
	if t.IsEmpty() {
		return Table{}
	}
	return Table{append([]byte(nil), t.raw...)}
}

// Get returns the value of a name, the first one if the name repeats, as RabbitMQ takes it. It allocates nothing.
func (t Table) Get(name string) (Value, bool) {
	for it := t.Fields(); it.Next(); {
		if string(it.field.Name) == name {
			return it.field.Value, true
		}
	}
	return Value{}, false
}

// Fields returns an iterator over the fields, in their order.
func (t Table) Fields() FieldIter { return FieldIter{rest: body(t.raw)} }

// Values returns an iterator over the values, in their order.
func (a Array) Values() ValueIter { return ValueIter{rest: body(a.raw)} }

// Len returns the number of values; it counts them.
func (a Array) Len() int {
	n := 0
	for it := a.Values(); it.Next(); {
		n++
	}
	return n
}

// body returns what is behind the length.
func body(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	return raw[4:]
}

// FieldIter walks the fields of a table. It cannot fail, as the table was checked, and allocates nothing.
//
//	for it := t.Fields(); it.Next(); {
//		use(it.Field())
//	}
type FieldIter struct {
	rest  []byte
	field Field
}

// Next moves to the next field and tells whether there is one.
func (it *FieldIter) Next() bool {
	if len(it.rest) == 0 {
		it.field = Field{}
		return false
	}
	n := 1 + int(it.rest[0])
	size := valueSize(it.rest[n:])
	it.field = Field{Name: it.rest[1:n:n], Value: Value{it.rest[n : n+size : n+size]}}
	it.rest = it.rest[n+size:]
	return true
}

// Field returns the current field.
func (it *FieldIter) Field() Field { return it.field }

// ValueIter walks the values of an array. It cannot fail, as the array was checked, and allocates nothing.
type ValueIter struct {
	rest  []byte
	value Value
}

// Next moves to the next value and tells whether there is one.
func (it *ValueIter) Next() bool {
	if len(it.rest) == 0 {
		it.value = Value{}
		return false
	}
	size := valueSize(it.rest)
	it.value = Value{it.rest[:size:size]}
	it.rest = it.rest[size:]
	return true
}

// Value returns the current value.
func (it *ValueIter) Value() Value { return it.value }

// valueSize returns the size of the checked value at the start of b, type letter included.
func valueSize(b []byte) int {
	if n := int(fixedSize[b[0]]); n > 0 {
		return n
	}
	return 5 + int(binary.BigEndian.Uint32(b[1:]))
}

// IsZero tells whether v is no value at all.
func (v Value) IsZero() bool { return len(v.raw) == 0 }

// Type returns the type letter, 0 of the zero Value.
func (v Value) Type() FieldType {
	if v.IsZero() {
		return 0
	}
	return FieldType(v.raw[0])
}

// Encoded returns the value as it is on the wire, type letter first. The caller must not change it.
func (v Value) Encoded() []byte { return v.raw }

// IsVoid tells whether the value is void, AMQP's null.
func (v Value) IsVoid() bool { return v.Type() == TypeVoid }

// Int returns the value of an integer of any width. A decimal, a timestamp and text of digits are none.
func (v Value) Int() (n int64, ok bool) {
	switch v.Type() {
	case TypeInt8:
		return int64(int8(v.raw[1])), true
	case TypeUint8:
		return int64(v.raw[1]), true
	case TypeInt16, TypeInt16Spec:
		return int64(int16(binary.BigEndian.Uint16(v.raw[1:]))), true
	case TypeUint16:
		return int64(binary.BigEndian.Uint16(v.raw[1:])), true
	case TypeInt32:
		return int64(int32(binary.BigEndian.Uint32(v.raw[1:]))), true
	case TypeUint32:
		return int64(binary.BigEndian.Uint32(v.raw[1:])), true
	case TypeInt64, TypeInt64Spec:
		return int64(binary.BigEndian.Uint64(v.raw[1:])), true
	}
	return 0, false
}

// Bool returns the value of a boolean. An integer is none.
func (v Value) Bool() (b, ok bool) {
	if v.Type() != TypeBool {
		return false, false
	}
	return v.raw[1] != 0, true
}

// Text returns the bytes of a long string ('S'). They share the table's memory and may be other than UTF-8.
func (v Value) Text() (s []byte, ok bool) {
	if v.Type() != TypeText {
		return nil, false
	}
	return v.raw[5:], true
}

// Bytes returns the bytes of a byte array ('x') or of a long string. They share the table's memory.
func (v Value) Bytes() (p []byte, ok bool) {
	if t := v.Type(); t != TypeBytes && t != TypeText {
		return nil, false
	}
	return v.raw[5:], true
}

// Float returns the value of a float or double.
func (v Value) Float() (f float64, ok bool) {
	switch v.Type() {
	case TypeFloat:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(v.raw[1:]))), true
	case TypeDouble:
		return math.Float64frombits(binary.BigEndian.Uint64(v.raw[1:])), true
	}
	return 0, false
}

// Decimal returns the value of a decimal: unscaled / 10^scale.
func (v Value) Decimal() (unscaled int32, scale uint8, ok bool) {
	if v.Type() != TypeDecimal {
		return 0, 0, false
	}
	return int32(binary.BigEndian.Uint32(v.raw[2:])), v.raw[1], true
}

// Timestamp returns the value of a timestamp in seconds since 1970.
func (v Value) Timestamp() (seconds uint64, ok bool) {
	if v.Type() != TypeTimestamp {
		return 0, false
	}
	return binary.BigEndian.Uint64(v.raw[1:]), true
}

// Table returns a nested table.
func (v Value) Table() (t Table, ok bool) {
	if v.Type() != TypeTable {
		return Table{}, false
	}
	return Table{v.raw[1:]}, true
}

// Array returns a nested array.
func (v Value) Array() (a Array, ok bool) {
	if v.Type() != TypeArray {
		return Array{}, false
	}
	return Array{v.raw[1:]}, true
}
