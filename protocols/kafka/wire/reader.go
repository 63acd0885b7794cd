package wire

import "encoding/binary"

// Reader walks the primitive types of the protocol. Its first error stays; after it everything reads as zero.
type Reader struct {
	b   []byte
	err error
}

func (r *Reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = errorf(format, args...)
	}
	r.b = nil
}

// Skip passes over n bytes of what, which a message for people names.
func (r *Reader) Skip(n int, what string) {
	if n < 0 || n > len(r.b) {
		r.fail("%s takes %d bytes, %d are left", what, n, len(r.b))
		return
	}
	r.b = r.b[n:]
}

// Int16 reads an INT16.
func (r *Reader) Int16(what string) int16 {
	if len(r.b) < 2 {
		r.fail("it ends before %s", what)
		return 0
	}
	v := int16(binary.BigEndian.Uint16(r.b))
	r.b = r.b[2:]
	return v
}

// Int32 reads an INT32.
func (r *Reader) Int32(what string) int32 {
	if len(r.b) < 4 {
		r.fail("it ends before %s", what)
		return 0
	}
	v := int32(binary.BigEndian.Uint32(r.b))
	r.b = r.b[4:]
	return v
}

// Uvarint reads an UNSIGNED_VARINT, which has at most 32 bits.
func (r *Reader) Uvarint(what string) uint32 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 5 || v > 1<<32-1 {
		r.fail("%s is no varint of 32 bits", what)
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

// SkipTags passes over tagged fields.
func (r *Reader) SkipTags() {
	for n := r.Uvarint("the count of tagged fields"); n > 0 && r.err == nil; n-- {
		r.Uvarint("a tag")
		r.Skip(int(r.Uvarint("the length of a tagged field")), "a tagged field")
	}
}
