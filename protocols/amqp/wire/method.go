package wire

import (
	"encoding/binary"
	"fmt"
)

// MethodID is a method's number: the class in the upper 16 bits, the method in the lower.
type MethodID uint32

// Class returns the number of the method's class.
func (id MethodID) Class() uint16 { return uint16(id >> 16) }

// Method returns the method's number within its class.
func (id MethodID) Method() uint16 { return uint16(id) }

func (id MethodID) numbers() string {
	return fmt.Sprintf("method %d of class %d", id.Method(), id.Class())
}

// Method is one method of the protocol, with its arguments. Short strings over 255 bytes are cut on the wire: whoever fills one in bounds it, or does not mind (reply
// texts).
type Method interface {
	ID() MethodID
	Append(dst []byte) []byte
	AppendFrame(dst []byte, channel uint16) []byte
	Decode(args []byte) error
}

// SyntaxError means that the arguments of a method, or a content header, do not decode: 502 SYNTAX_ERROR.
type SyntaxError struct {
	In   string // what does not decode
	What string
}

func (e *SyntaxError) Error() string { return e.In + " does not decode: " + e.What }

// SplitMethod splits the payload of a method frame into the method's number and its arguments.
func SplitMethod(payload []byte) (MethodID, []byte, error) {
	if len(payload) < 4 {
		return 0, nil, &SyntaxError{"a method frame", fmt.Sprintf("it has %d bytes and needs 4 for the method's number", len(payload))}
	}
	return MethodID(binary.BigEndian.Uint32(payload)), payload[4:], nil
}
