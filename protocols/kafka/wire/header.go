package wire

import (
	"encoding/binary"
	"fmt"
)

// Error says why bytes are not a well-formed request.
type Error struct{ What string }

func (e *Error) Error() string { return "malformed request: " + e.What }

func errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// HeaderMin is the length of the part that all request headers begin with: key, version, correlation id.
const HeaderMin = 8

// Header is what a request begins with.
type Header struct {
	Key         int16
	Version     int16
	Correlation int32
	ClientID    string // empty also when it is null
}

// ParseHeaderStart decodes what all request headers begin with. The rest depends on the version: see ParseHeaderRest.
func ParseHeaderStart(b []byte) (Header, error) {
	if len(b) < HeaderMin {
		return Header{}, errorf("%d bytes, a request has at least %d", len(b), HeaderMin)
	}
	return Header{
		Key:         int16(binary.BigEndian.Uint16(b)),
		Version:     int16(binary.BigEndian.Uint16(b[2:])),
		Correlation: int32(binary.BigEndian.Uint32(b[4:])),
	}, nil
}

// ParseHeaderRest decodes what follows ParseHeaderStart's part of b and returns the body. The client id is a plain nullable string in header v1 and v2; v2, of a
// flexible request, has tagged fields behind it (KIP-482), of which none is known and all are skipped.
func (h *Header) ParseHeaderRest(b []byte, flexible bool, lastClientID string) (body []byte, err error) {
	b = b[HeaderMin:]
	if len(b) < 2 {
		return nil, errorf("it ends before the client id")
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	switch {
	case n < -1 || n > len(b):
		return nil, errorf("the client id claims %d bytes, %d are left", n, len(b))
	case n > 0:
		h.ClientID = lastClientID // as a rule it is the same again, and costs nothing
		if string(b[:n]) != lastClientID {
			h.ClientID = string(b[:n])
		}
		b = b[n:]
	}
	if !flexible {
		return b, nil
	}
	r := Reader{b: b}
	r.SkipTags()
	return r.b, r.err
}
