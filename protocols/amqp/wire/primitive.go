package wire

import (
	"encoding/binary"
	"fmt"
)

// shortStringMax is what the length octet of a short string can say.
const shortStringMax = 255

// arguments reads the fields of a method one after another. After what does not decode it gives zeros, and end tells.
type arguments struct {
	rest   []byte
	failed string
}

// take returns the next n bytes.
func (a *arguments) take(n uint64) []byte {
	if uint64(len(a.rest)) < n {
		if a.failed == "" {
			a.failed = fmt.Sprintf("a field of %d bytes begins where %d are left", n, len(a.rest))
		}
		a.rest = nil
		return nil
	}
	b := a.rest[:n:n]
	a.rest = a.rest[n:]
	return b
}

func (a *arguments) octet() uint8 {
	if b := a.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (a *arguments) short() uint16 {
	if b := a.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (a *arguments) long() uint32 {
	if b := a.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (a *arguments) longlong() uint64 {
	if b := a.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (a *arguments) shortString() []byte { return a.take(uint64(a.octet())) }
func (a *arguments) longString() []byte  { return a.take(uint64(a.long())) }

// table returns a field table with its length.
func (a *arguments) table() []byte {
	if len(a.rest) < 4 {
		return a.take(4)
	}
	return a.take(4 + uint64(binary.BigEndian.Uint32(a.rest)))
}

// end returns what was wrong with the fields of the method; bytes that are left over are.
func (a *arguments) end(id MethodID) error {
	if a.failed == "" && len(a.rest) == 0 {
		return nil
	}
	return a.problem(id.String())
}

func (a *arguments) problem(in string) error {
	if a.failed == "" {
		a.failed = fmt.Sprintf("%d bytes are left over", len(a.rest))
	}
	return &SyntaxError{in, a.failed}
}

func appendShortString(dst, s []byte) []byte {
	if len(s) > shortStringMax {
		s = s[:shortStringMax]
	}
	return append(append(dst, byte(len(s))), s...)
}

func appendLongString(dst, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
}

// appendTable appends a field table that has its length with it; nil is an empty one.
func appendTable(dst, table []byte) []byte {
	if len(table) == 0 {
		return append(dst, 0, 0, 0, 0)
	}
	return append(dst, table...)
}
