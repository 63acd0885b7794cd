package stream

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	pieceBytes = 256 << 10 // written at a time: the peer must take this much within the patience, and the count of what waits is that exact
	keepBytes  = 4 << 20   // a buffer up to this size is kept for the next who writes
)

// ErrWriterClosed is what Await returns once the writer is closed.
var ErrWriterClosed = errors.New("the writer is closed")

// bufferPool holds write buffers, so that only connections with something to say have one.
var bufferPool = sync.Pool{New: func() any { b := make([]byte, 0, calmBytes); return &b }}

// Writer gathers what goroutines append and writes it to a connection from a goroutine of its own. Any goroutine may use it.
type Writer struct {
	conn     net.Conn
	limit    int
	patience time.Duration
	drained  func()
	done     chan struct{}

	mu      sync.Mutex
	work    sync.Cond // the writing goroutine waits here for something to do
	room    sync.Cond // Await waits here
	buf     *[]byte   // gathered; nil: nothing is
	flying  int       // bytes in the connection's hands
	wanted  bool      // somebody was told that there is no room
	closing bool
	err     error // why nothing is written any more
	written int64
}

// NewWriter returns a writer whose limit, in bytes, is what Room and Await measure by, and starts its goroutine, which ends with Close. A peer that takes less than pieceBytes
// within patience is given up: the connection is closed and what waits is dropped. drained, if not nil, is called from that goroutine when at most half of limit
// waits and somebody was refused since; it must not block.
func NewWriter(conn net.Conn, limit int, patience time.Duration, drained func()) *Writer {
	w := &Writer{conn: conn, limit: limit, patience: patience, drained: drained, done: make(chan struct{})}
	w.work.L, w.room.L = &w.mu, &w.mu
	go w.run()
	return w
}

// Begin locks the writer and returns the buffer to append to. End must follow at once.
func (w *Writer) Begin() []byte {
	w.mu.Lock()
	if w.buf == nil {
		w.buf = bufferPool.Get().(*[]byte)
	}
	return *w.buf
}

// End unlocks the writer and hands over what was appended since Begin. b is Begin's buffer, possibly moved by append. After an error, or Close, it is dropped.
func (w *Writer) End(b []byte) {
	if w.err != nil || w.closing {
		b = b[:0]
	}
	*w.buf = b
	wake := len(b) > 0 && w.flying == 0
	w.mu.Unlock()
	if wake {
		w.work.Signal()
	}
}

// Write appends p.
func (w *Writer) Write(p []byte) {
	w.End(append(w.Begin(), p...))
}

// waiting is what was handed over and not yet taken by the connection. The lock is held.
func (w *Writer) waiting() int {
	if w.buf == nil {
		return w.flying
	}
	return w.flying + len(*w.buf)
}

// Waiting returns how many bytes wait for the peer.
func (w *Writer) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting()
}

// Room returns how many bytes are left up to the limit. When it is none, drained will be called.
func (w *Writer) Room() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.limit - w.waiting()
	if left <= 0 || w.err != nil {
		w.wanted = true
		return 0
	}
	return left
}

// Await returns at once while at most limit waits, else when it is half of it. It returns the error that ended the writing, or ErrWriterClosed.
func (w *Writer) Await() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting() > w.limit {
		for w.err == nil && !w.closing && w.waiting() > w.limit/2 {
			w.room.Wait()
		}
	}
	if w.err == nil && w.closing {
		return ErrWriterClosed
	}
	return w.err
}

// Written returns how many bytes the connection has taken.
func (w *Writer) Written() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

// Err returns why nothing is written any more, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close takes nothing more, and returns when what was handed over is written or the peer was given up. The connection stays open if all went well.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.work.Signal()
	w.room.Broadcast()
	<-w.done
	return w.Err()
}

func (w *Writer) run() {
	defer close(w.done)
	w.mu.Lock()
	for w.err == nil {
		if w.buf == nil || len(*w.buf) == 0 {
			if w.closing {
				break
			}
			w.work.Wait()
			continue
		}
		out := w.buf
		w.buf, w.flying = nil, len(*out)
		w.flush(*out)
		if cap(*out) <= keepBytes {
			*out = (*out)[:0]
			bufferPool.Put(out)
		}
	}
	if w.buf != nil {
		*w.buf = (*w.buf)[:0]
	}
	w.flying = 0
	w.mu.Unlock()
	w.room.Broadcast()
}

// flush writes b. The lock is held before and after, and not while it writes.
func (w *Writer) flush(b []byte) {
	for len(b) > 0 && w.err == nil {
		n := min(len(b), pieceBytes)
		w.mu.Unlock()
		err := w.conn.SetWriteDeadline(time.Now().Add(w.patience))
		if err == nil {
			_, err = w.conn.Write(b[:n])
		}
		if err != nil {
			w.conn.Close()
		}
		w.mu.Lock()
		b = b[n:]
		w.flying -= n
		if err != nil {
			w.err = err
		} else {
			w.written += int64(n)
		}
		if w.waiting() > w.limit/2 && w.err == nil {
			continue
		}
		w.room.Broadcast()
		if w.wanted && w.drained != nil {
			w.wanted = false
			w.mu.Unlock()
			w.drained()
			w.mu.Lock()
		}
	}
}
