package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"polylog/protocols/stream"
)

// The types of frames.
const (
	FrameMethod    byte = 1
	FrameHeader    byte = 2
	FrameBody      byte = 3
	FrameHeartbeat byte = 8
)

const (
	// FrameOverhead is what a frame has besides its payload. The frame-max that peers agree on includes it (4.2.3).
	FrameOverhead = frameHeader + 1
	// FrameMin is the frame-max that every peer must take (4.2.3: frame-min-size).
	FrameMin = 4096

	frameHeader = 7
	frameEnd    = 0xCE
)

// Header0091 is what a client sends first, and what a server answers to any other (4.2.2).
const Header0091 = "AMQP\x00\x00\x09\x01"

// HeartbeatFrame is the whole frame.
var HeartbeatFrame = []byte{FrameHeartbeat, 0, 0, 0, 0, 0, 0, frameEnd}

// Frame is one frame. Its payload is a view of what it was read from.
type Frame struct {
	Type    byte
	Channel uint16
	Payload []byte
}

// ErrShort means that the input ends within a frame.
var ErrShort = errors.New("the input ends within a frame")

// FrameError means that the bytes are no frame, or one that is too long: 501 FRAME_ERROR.
type FrameError struct {
	Type    byte
	Channel uint16
	What    string
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("frame of type %d on channel %d: %s", e.Type, e.Channel, e.What)
}

// frameLength returns the length of the frame whose header h is, in whole. max bounds it.
func frameLength(h []byte, max int) (int, error) {
	n := binary.BigEndian.Uint32(h[3:])
	if int64(n)+FrameOverhead > int64(max) {
		return 0, &FrameError{h[0], binary.BigEndian.Uint16(h[1:]), fmt.Sprintf("its payload has %d bytes, agreed are at most %d", n, max-FrameOverhead)}
	}
	return int(n) + FrameOverhead, nil
}

// frameOf makes a Frame of the bytes of one in whole.
func frameOf(b []byte) (Frame, error) {
	f := Frame{b[0], binary.BigEndian.Uint16(b[1:]), b[frameHeader : len(b)-1 : len(b)-1]}
	if end := b[len(b)-1]; end != frameEnd {
		return Frame{}, &FrameError{f.Type, f.Channel, fmt.Sprintf("it ends with 0x%02x instead of 0xce", end)}
	}
	return f, nil
}

// ParseFrame returns the frame at the beginning of b and its length in whole. max is the frame-max that was agreed on. The error is ErrShort if more bytes are needed, else a
// *FrameError.
func ParseFrame(b []byte, max int) (Frame, int, error) {
	if len(b) < frameHeader {
		return Frame{}, 0, ErrShort
	}
	n, err := frameLength(b, max)
	if err != nil {
		return Frame{}, 0, err
	}
	if len(b) < n {
		return Frame{}, 0, ErrShort
	}
	f, err := frameOf(b[:n])
	return f, n, err
}

// Reader reads frames from a connection. It belongs to one goroutine.
type Reader struct {
	r   *stream.Reader
	max int
}

// NewReader returns a reader of frames of at most max bytes in whole.
func NewReader(r *stream.Reader, max int) *Reader {
	fr := &Reader{r: r}
	fr.SetMax(max)
	return fr
}

// SetMax sets the frame-max.
func (r *Reader) SetMax(max int) {
	r.max = max
	r.r.SetMax(max)
}

// Buffered returns how many bytes of what follows have arrived already.
func (r *Reader) Buffered() int { return r.r.Buffered() }

// Raw takes n bytes that are no frame: the protocol header.
func (r *Reader) Raw(n int) ([]byte, error) { return r.r.Take(n) }

// Next returns the next frame, valid until Next is called again. After an error of the connection that was temporary (a deadline) it can be called again; after a
// *FrameError the connection has no more frames.
func (r *Reader) Next() (Frame, error) {
	h, err := r.r.Peek(frameHeader)
	if err != nil {
		return Frame{}, err
	}
	n, err := frameLength(h, r.max)
	if err != nil {
		return Frame{}, err
	}
	b, err := r.r.Take(n)
	if err != nil {
		return Frame{}, err
	}
	return frameOf(b)
}

// beginFrame appends the header of a frame whose length endFrame fills in.
func beginFrame(dst []byte, kind byte, channel uint16) []byte {
	return append(dst, kind, byte(channel>>8), byte(channel), 0, 0, 0, 0)
}

// endFrame completes the frame that begins at dst[at].
func endFrame(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at+3:], uint32(len(dst)-at-frameHeader))
	return append(dst, frameEnd)
}
