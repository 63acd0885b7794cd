package message

import (
	"encoding/binary"
	"fmt"
	"math"
)

// TableBuilder makes a field table, field by field. Its memory is reused after Reset. The zero TableBuilder is ready; it belongs to one goroutine.
//
//	var b message.TableBuilder
//	b.Text("product", "Polylog")
//	b.OpenTable("capabilities")
//	b.Bool("basic.nack", true)
//	b.Close()
//	t, err := b.Table()
//
// Inside an array the names are not written and may be anything. What goes wrong is kept and returned by Table: a name over FieldNameMax bytes, a table over
// TableBytesMax bytes, nesting over TableDepthMax, Close without something open, something left open.
type TableBuilder struct {
	buf  []byte
	open []nesting // the tables and arrays that are not closed, outermost first; the table itself is the first
	err  error
}

// nesting is a table or array that is being built.
type nesting struct {
	at    int  // of its length in buf
	named bool // a table
}

// Reset makes the builder as new. Tables built before are no longer valid.
func (b *TableBuilder) Reset() {
	b.buf, b.open, b.err = b.buf[:0], b.open[:0], nil
}

// Table returns the table. It lies in the builder's memory and is valid until the next call of another method. The error is a *TableError.
func (b *TableBuilder) Table() (Table, error) {
	b.start()
	if b.err == nil && len(b.open) > 1 {
		b.fail("%d tables or arrays are still open", len(b.open)-1)
	}
	if b.err == nil && len(b.buf) > TableBytesMax {
		b.fail("a table of %d bytes, at most %d are allowed", len(b.buf), TableBytesMax)
	}
	if b.err != nil {
		return Table{}, b.err
	}
	binary.BigEndian.PutUint32(b.buf, uint32(len(b.buf)-4))
	return Table{b.buf[:len(b.buf):len(b.buf)]}, nil
}

func (b *TableBuilder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = &TableError{len(b.buf), fmt.Sprintf(format, args...)}
	}
}

// start opens the outermost table, if that was not done.
func (b *TableBuilder) start() {
	if len(b.open) == 0 {
		b.buf = append(b.buf[:0], 0, 0, 0, 0)
		b.open = append(b.open, nesting{0, true})
	}
}

// begin writes the name and the type letter of a value and returns whether the value is to follow.
func (b *TableBuilder) begin(name string, letter FieldType) bool {
	b.start()
	if b.open[len(b.open)-1].named {
		if len(name) > FieldNameMax {
			b.fail("a name of %d bytes, at most %d are allowed", len(name), FieldNameMax)
		} else {
			b.buf = append(append(b.buf, byte(len(name))), name...)
		}
	}
	b.buf = append(b.buf, byte(letter))
	return b.err == nil
}

// Int32 adds an integer of 32 bits.
func (b *TableBuilder) Int32(name string, n int32) {
	if b.begin(name, TypeInt32) {
		b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(n))
	}
}

// Int64 adds an integer of 64 bits.
func (b *TableBuilder) Int64(name string, n int64) {
	if b.begin(name, TypeInt64) {
		b.buf = binary.BigEndian.AppendUint64(b.buf, uint64(n))
	}
}

// Bool adds a boolean.
func (b *TableBuilder) Bool(name string, on bool) {
	if b.begin(name, TypeBool) {
		n := byte(0)
		if on {
			n = 1
		}
		b.buf = append(b.buf, n)
	}
}

// Double adds a number of 64 bits.
func (b *TableBuilder) Double(name string, f float64) {
	if b.begin(name, TypeDouble) {
		b.buf = binary.BigEndian.AppendUint64(b.buf, math.Float64bits(f))
	}
}

// Timestamp adds a time in seconds since 1970.
func (b *TableBuilder) Timestamp(name string, seconds uint64) {
	if b.begin(name, TypeTimestamp) {
		b.buf = binary.BigEndian.AppendUint64(b.buf, seconds)
	}
}

// Text adds a long string ('S').
func (b *TableBuilder) Text(name, s string) {
	if b.begin(name, TypeText) {
		b.buf = append(binary.BigEndian.AppendUint32(b.buf, uint32(len(s))), s...)
	}
}

// Bytes adds a byte array ('x').
func (b *TableBuilder) Bytes(name string, p []byte) {
	if b.begin(name, TypeBytes) {
		b.buf = append(binary.BigEndian.AppendUint32(b.buf, uint32(len(p))), p...)
	}
}

// Void adds a null.
func (b *TableBuilder) Void(name string) { b.begin(name, TypeVoid) }

// Value adds a value as it is, whatever its type. A table or array may so come to lie deeper than TableDepthMax, which is an error.
func (b *TableBuilder) Value(name string, v Value) {
	b.start()
	if v.IsZero() {
		b.fail("the zero Value is no value; Void adds a null")
		return
	}
	if _, err := checkValue(v.raw, 0, len(b.open)); err != nil {
		b.fail("%v", err)
		return
	}
	if b.begin(name, v.Type()) {
		b.buf = append(b.buf, v.raw[1:]...)
	}
}

// OpenTable begins a nested table. What follows goes into it, until Close.
func (b *TableBuilder) OpenTable(name string) { b.nest(name, TypeTable) }

// OpenArray begins a nested array. What follows goes into it, until Close.
func (b *TableBuilder) OpenArray(name string) { b.nest(name, TypeArray) }

func (b *TableBuilder) nest(name string, letter FieldType) {
	b.begin(name, letter)
	if len(b.open) >= TableDepthMax {
		b.fail("tables and arrays lie more than %d deep in each other", TableDepthMax)
	}
	b.open = append(b.open, nesting{len(b.buf), letter == TypeTable})
	b.buf = append(b.buf, 0, 0, 0, 0)
}

// Close ends the table or array that was opened last.
func (b *TableBuilder) Close() {
	b.start()
	last := len(b.open) - 1
	if last == 0 {
		b.fail("nothing is open that Close could end")
		return
	}
	at := b.open[last].at
	binary.BigEndian.PutUint32(b.buf[at:], uint32(len(b.buf)-at-4))
	b.open = b.open[:last]
}
