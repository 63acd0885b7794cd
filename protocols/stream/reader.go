package stream

import (
	"fmt"
	"io"
)

const (
	calmBytes = 4 << 10  // the buffer of a connection on which little happens
	busyBytes = 64 << 10 // the buffer of one whose reads fill the smaller one: fewer reads, each for many frames
	calmReads = 64       // after so many reads the buffer becomes as small as would have done for them
)

// TooLongError means that more was asked for at once than the reader may hold.
type TooLongError struct{ Bytes, Max int }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("%d bytes in one piece; at most %d are taken", e.Bytes, e.Max)
}

// Reader reads from a connection. What it returns lies in its buffer. It belongs to one goroutine.
type Reader struct {
	src      io.Reader
	buf      []byte
	from, to int // buf[from:to] is read and not taken
	max      int
	reads    int // since the size of the buffer was last looked at
	peak     int // the largest read or piece of these
}

// NewReader returns a reader that holds at most max bytes, or busyBytes if that is more.
func NewReader(src io.Reader, max int) *Reader {
	return &Reader{src: src, max: max}
}

// SetMax sets how many bytes Peek may be asked for from now on.
func (r *Reader) SetMax(max int) { r.max = max }

// Buffered returns how many bytes can be taken without reading.
func (r *Reader) Buffered() int { return r.to - r.from }

// Peek returns the next n bytes without taking them, and reads as far as needed. They are valid until the next Peek or Take. An end before the first byte is
// io.EOF, one inside is io.ErrUnexpectedEOF; other errors are the source's, and after one that was temporary Peek can be called again. It is a *TooLongError if n is
// over the bound.
func (r *Reader) Peek(n int) ([]byte, error) {
	if n > r.max {
		return nil, &TooLongError{n, r.max}
	}
	for r.to-r.from < n {
		if err := r.fill(n); err != nil {
			if err == io.EOF && r.to > r.from {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return r.buf[r.from : r.from+n], nil
}

// Take is Peek, and the bytes are taken.
func (r *Reader) Take(n int) ([]byte, error) {
	b, err := r.Peek(n)
	if err == nil {
		r.from += n
	}
	return b, err
}

// Discard takes n bytes that were peeked at.
func (r *Reader) Discard(n int) {
	if n > r.to-r.from {
		panic(fmt.Sprintf("stream: %d bytes are discarded and %d were read", n, r.to-r.from))
	}
	r.from += n
}

// fill reads once, for a piece of n bytes.
func (r *Reader) fill(n int) error {
	r.makeRoom(n)
	for range 100 {
		k, err := r.src.Read(r.buf[r.to:])
		r.to += k
		if k > 0 {
			r.reads++
			r.peak = max(r.peak, n, k)
			return nil // an error that came along comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom makes the buffer fit for reading on. It grows to at most twice what has arrived, however long the piece is said to be.
func (r *Reader) makeRoom(n int) {
	have, size := r.to-r.from, len(r.buf)
	switch {
	case size == 0:
		size = calmBytes
	case have == size: // the piece is longer than the buffer
		size = max(min(2*size, n), min(2*size, busyBytes))
	case r.to == size && size < busyBytes: // a read filled the buffer
		size = busyBytes
	case have == 0 && r.reads >= calmReads:
		if r.peak < calmBytes {
			size = calmBytes
		} else if r.peak <= busyBytes {
			size = min(size, busyBytes)
		}
		r.reads, r.peak = 0, 0
	}
	buf := r.buf
	if size != len(r.buf) {
		buf = make([]byte, size)
	} else if r.from == 0 || have > 0 && r.to < size && size-r.from >= n {
		return
	}
	copy(buf, r.buf[r.from:r.to])
	r.buf, r.from, r.to = buf, 0, have
}
