package wire

import (
	"encoding/binary"
	"fmt"
)

// contentHeader is what a content header has before its properties: class, weight, length of the body.
const contentHeader = 12

// Header is a content header.
type Header struct {
	Class    uint16
	Weight   uint16 // always zero (4.2.6.1)
	BodySize uint64
	// Properties are the flags and what they announce, as on the wire.
	Properties []byte
}

// ParseHeader reads the payload of a header frame. The properties are a view of it and are not looked at.
func ParseHeader(payload []byte) (Header, error) {
	if len(payload) < contentHeader+2 {
		return Header{}, &SyntaxError{"a content header", fmt.Sprintf("it has %d bytes and needs %d", len(payload), contentHeader+2)}
	}
	return Header{
		Class:      binary.BigEndian.Uint16(payload),
		Weight:     binary.BigEndian.Uint16(payload[2:]),
		BodySize:   binary.BigEndian.Uint64(payload[4:]),
		Properties: payload[contentHeader:],
	}, nil
}

// AppendContent appends the header frame of a content of class basic and its body in frames of at most frameMax bytes; 0: one frame.
func AppendContent(dst []byte, channel uint16, properties, body []byte, frameMax int) []byte {
	at := len(dst)
	dst = beginFrame(dst, FrameHeader, channel)
	dst = append(dst, byte(ClassBasic>>8), byte(ClassBasic), 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
	dst = endFrame(append(dst, properties...), at)
	most := len(body)
	if frameMax > FrameOverhead {
		most = min(most, frameMax-FrameOverhead)
	}
	for len(body) > 0 {
		n := min(most, len(body))
		at = len(dst)
		dst = beginFrame(dst, FrameBody, channel)
		dst = endFrame(append(dst, body[:n]...), at)
		body = body[n:]
	}
	return dst
}

// ContentBytes returns how many bytes AppendContent appends.
func ContentBytes(properties, body, frameMax int) int {
	n := FrameOverhead + contentHeader + properties
	if body == 0 {
		return n
	}
	frames := 1
	if frameMax > FrameOverhead {
		frames = (body + frameMax - FrameOverhead - 1) / (frameMax - FrameOverhead)
	}
	return n + body + frames*FrameOverhead
}
