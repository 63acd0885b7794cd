package kafka

import "sync"

// frame is the memory of one request, size field excluded. That of Produce requests is used again, since it is large and nothing keeps parts of it; that of the others
// is left to those who do.
type frame struct{ bytes []byte }

var spareFrames = sync.Pool{New: func() any { return &frame{} }}

// trustedFrame is how much memory is set aside on the word of a client that so much will come. Beyond it, memory grows with what came. It is also how much is read
// at a time, and so must come within a stall's time.
const trustedFrame = 1 << 20

// largestSpareFrame is the largest frame that is kept for another request.
const largestSpareFrame = 4 << 20

func takeFrame(size int) *frame {
	if size < 4<<10 {
		return &frame{bytes: make([]byte, 0, size)} // it may share memory with nothing and be kept by its request
	}
	f := spareFrames.Get().(*frame)
	if cap(f.bytes) < min(size, trustedFrame) {
		f.bytes = make([]byte, 0, min(size, trustedFrame))
	}
	f.bytes = f.bytes[:0]
	return f
}

// grow makes room for the next part of a frame that will have size bytes, adds it to bytes, and returns how long it is.
func (f *frame) grow(size int) int {
	at := len(f.bytes)
	if at == cap(f.bytes) {
		f.bytes = append(make([]byte, 0, min(size, 4*at)), f.bytes...)
	}
	n := min(size, cap(f.bytes), at+trustedFrame) - at
	f.bytes = f.bytes[:at+n]
	return n
}

// giveBack lets another request use the memory.
func (f *frame) giveBack() {
	if cap(f.bytes) >= 4<<10 && cap(f.bytes) <= largestSpareFrame {
		spareFrames.Put(f)
	}
}
