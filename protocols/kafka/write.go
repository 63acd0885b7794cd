package kafka

import (
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answer puts the answer of a call into its place. size is what it holds of memory until it is written. It never waits.
func (c *connection) answer(cl *call, head *[]byte, parts [][]byte, size int64, release func()) {
	c.mu.Lock()
	if cl.answered {
		c.mu.Unlock()
		panic("kafka: a call is answered twice")
	}
	cl.answered, cl.head, cl.parts, cl.release = true, head, parts, release
	cl.held += size
	c.held += size
	first := c.queue[0] == cl
	over := c.over
	c.mu.Unlock()
	switch {
	case over:
		c.discard()
	case first:
		wake(c.ready)
	}
	cl.done()
}

// done lets go of what only the handler needed.
func (c *call) done() {
	if f := c.frame; f != nil && c.api.key == int16(kmsg.Produce) {
		c.frame = nil
		f.giveBack()
	}
	c.req = nil
}

// wake sends a signal for which one place is kept.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

const (
	// smallPart is up to what size a part of an answer is copied together with others instead of being handed to the system by itself.
	smallPart = 4 << 10
	// writeStep bounds what one write call is given, so that a deadline is one for so many bytes and not for however many there are.
	writeStep = 1 << 20
	// gatherBytes is how much of small answers is gathered for one write.
	gatherBytes = 64 << 10
)

// write sends answers until the connection ends.
func (c *connection) write() {
	w := answerWriter{conn: c}
	for {
		select {
		case <-c.ready:
		case <-c.ctx.Done():
			c.mu.Lock()
			c.over = true
			c.mu.Unlock()
			c.discard()
			return
		}
		for calls := c.takeAnswered(w.calls[:0]); len(calls) > 0; calls = c.takeAnswered(calls[:0]) {
			w.calls = calls
			err := w.send(calls)
			c.letGo(calls)
			if err != nil {
				c.fail(err)
				break
			}
		}
	}
}

// takeAnswered takes the answered calls that are first in the queue.
func (c *connection) takeAnswered(dst []*call) []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.queue) && c.queue[n].answered {
		n++
	}
	dst = append(dst, c.queue[:n]...)
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	return dst
}

// letGo gives back what written answers held.
func (c *connection) letGo(calls []*call) {
	freed := int64(0)
	for i, cl := range calls {
		if cl.release != nil {
			cl.release()
		}
		if b := cl.head; b != nil && cap(*b) <= keepBuffer {
			answerBuffers.Put(b)
		}
		freed += cl.held
		calls[i] = nil
	}
	c.mu.Lock()
	c.held -= freed
	c.mu.Unlock()
	wake(c.room)
}

// discard lets go of the answers that will not be written.
func (c *connection) discard() {
	c.mu.Lock()
	var calls []*call
	rest := c.queue[:0]
	for _, cl := range c.queue {
		if cl.answered {
			calls = append(calls, cl)
		} else {
			rest = append(rest, cl)
		}
	}
	clear(c.queue[len(rest):])
	c.queue = rest
	c.mu.Unlock()
	c.letGo(calls)
}

// answerWriter gathers answers into as few write calls as possible, without copying what is large: records go from where they were read to the socket (which is why
// the front-end does not use stream.Writer, that copies all into one buffer). It belongs to the writing goroutine.
type answerWriter struct {
	conn  *connection
	calls []*call
	small []byte      // what was copied together
	open  int         // where in small the part begins that is not in parts yet
	parts net.Buffers // to be written next
	size  int         // of parts and of what is open
}

func (w *answerWriter) send(calls []*call) error {
	for _, cl := range calls {
		if cl.head != nil {
			if err := w.add(*cl.head); err != nil {
				return err
			}
		}
		for _, p := range cl.parts {
			if err := w.add(p); err != nil {
				return err
			}
		}
	}
	return w.flush()
}

func (w *answerWriter) add(p []byte) error {
	for len(p) > smallPart {
		n := min(len(p), writeStep-w.size)
		w.close()
		w.parts = append(w.parts, p[:n])
		w.size += n
		p = p[n:]
		if w.size >= writeStep {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	// The memory must not move while parts point to it.
	if len(w.small)+len(p) > cap(w.small) || w.size+len(p) > writeStep {
		if err := w.flush(); err != nil {
			return err
		}
		if w.small == nil {
			w.small = make([]byte, 0, gatherBytes)
		}
	}
	w.small = append(w.small, p...)
	w.size += len(p)
	return nil
}

// close makes a part of what was copied together.
func (w *answerWriter) close() {
	if w.open < len(w.small) {
		w.parts = append(w.parts, w.small[w.open:])
		w.open = len(w.small)
	}
}

func (w *answerWriter) flush() error {
	w.close()
	if w.size == 0 {
		return nil
	}
	c := w.conn
	c.net.SetWriteDeadline(time.Now().Add(c.server.opts.Limits.StallTimeout))
	if c.ctx.Err() != nil {
		return c.ctx.Err() // the deadline that ended the connection was just taken back
	}
	whole := w.parts
	_, err := w.parts.WriteTo(c.net)
	c.server.figures.bytesOut.Add(int64(w.size))
	clear(whole)
	w.parts, w.small, w.open, w.size = whole[:0], w.small[:0], 0, 0
	return err
}
