package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka/wire"
)

// connection is one client. Its reading goroutine (serve) decodes requests and runs their handlers, its writing goroutine (write) sends the answers in the order
// of the requests.
type connection struct {
	server *Server
	net    net.Conn
	remote string
	// namespace is where the topics and groups of the client are.
	namespace string
	// clientID is that of the request being handled. It belongs to the reading goroutine: a handler that goes on elsewhere takes it along.
	clientID string

	in       *bufio.Reader
	deadline time.Time // of reading, as it was last set
	probes   map[int16]kmsg.Request
	// passed has, for a partition, the offset + 1 that was last answered by a batch without records. It belongs to the fetch that is worked on.
	passed map[fetchKey]int64
	// fetching and searching have room for one: the fetch, and the look for a time, that are worked on.
	fetching, searching chan struct{}

	// work are the goroutines that go on with requests; the reading goroutine starts them, they end when ctx does.
	work   sync.WaitGroup
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	queue []*call       // in the order of the requests; the first ones may be answered, and wait to be written
	held  int64         // bytes of the calls in queue and of those being written
	ready chan struct{} // room for one: the first call of queue has its answer
	room  chan struct{} // room for one: held or the queue has shrunk
	over  bool          // nothing is written any more
}

func newConnection(s *Server, nc net.Conn) *connection {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &connection{
		server: s, net: nc, remote: nc.RemoteAddr().String(), namespace: "/",
		in:     bufio.NewReaderSize(nc, readBuffer),
		probes: map[int16]kmsg.Request{},
		ctx:    ctx, cancel: cancel,
		fetching: make(chan struct{}, 1), searching: make(chan struct{}, 1), ready: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
}

// readBuffer is what is read ahead of a connection: some tens of small requests. What a request has beyond it is read to where it stays.
const readBuffer = 8 << 10

var (
	errEnd   = errors.New("the client has ended the connection")
	errDrain = errors.New("the broker is stopping")
)

// serve reads requests until the connection fails, ends, or is drained.
func (c *connection) serve() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	err := c.read()
	if errors.Is(err, errDrain) {
		c.settle()
	}
	c.fail(err)
	<-written
	c.net.Close()
	c.work.Wait()
	var bad *requestError
	var malformed *wire.Error
	if cause := context.Cause(c.ctx); errors.As(cause, &bad) || errors.As(cause, &malformed) {
		c.server.figures.requestErrors.Add(1)
		c.server.opts.Logf("kafka: closed the connection of %s (client id %q): %v", c.remote, c.clientID, cause)
	}
}

// fail ends the connection. What is being read or written is interrupted.
func (c *connection) fail(err error) {
	c.cancel(err)
	c.net.SetDeadline(time.Unix(1, 0))
}

// drain makes the reading goroutine stop at the next request.
func (c *connection) drain() { c.net.SetReadDeadline(time.Unix(1, 0)) }

// settle waits until all that can be answered without other clients is written.
func (c *connection) settle() {
	for {
		c.mu.Lock()
		done := c.held == 0 && len(c.queue) == 0
		if len(c.queue) > 0 {
			done = c.queue[0].parked && !c.queue[0].answered
		}
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-c.room:
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *connection) isDraining() bool {
	select {
	case <-c.server.draining:
		return true
	default:
		return false
	}
}

// read decodes requests and runs their handlers.
func (c *connection) read() error {
	for {
		if err := c.awaitRoom(); err != nil {
			return err
		}
		f, err := c.readFrame()
		if err != nil {
			return err
		}
		if err := c.handle(f); err != nil {
			return err
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
	}
}

// awaitRoom waits while as much is in flight as may be.
func (c *connection) awaitRoom() error {
	l := &c.server.opts.Limits
	for {
		if c.isDraining() {
			return errDrain
		}
		c.mu.Lock()
		full := len(c.queue) >= l.Inflight || c.held >= int64(l.ConnectionBytes)
		c.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-c.room:
		case <-c.server.draining:
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}

// extend gives reading at least d from now on. It is set ahead further than that, so that most requests need not set it.
func (c *connection) extend(d time.Duration) {
	now := time.Now()
	if left := c.deadline.Sub(now); left >= d && left <= 2*d {
		return
	}
	c.deadline = now.Add(d + d/4)
	c.net.SetReadDeadline(c.deadline)
	if c.isDraining() || c.ctx.Err() != nil {
		c.drain() // what ended reading at the same moment must not be taken back
	}
}

// requestStart is the length of a request's size and key, which decides what size is allowed.
const requestStart = 6

// readFrame reads one request. What it claims to be long is bounded before memory is set aside.
func (c *connection) readFrame() (*frame, error) {
	l := &c.server.opts.Limits
	var head []byte
	for {
		if c.in.Buffered() < requestStart {
			c.extend(l.IdleTimeout)
		}
		var err error
		if head, err = c.in.Peek(requestStart); err == nil {
			break
		}
		if c.isDraining() {
			return nil, errDrain
		}
		idle := len(head) == 0
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && idle && c.busy():
			continue // the client waits for us
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, fmt.Errorf("no request for %v", l.IdleTimeout)
		case err == io.EOF && idle:
			return nil, errEnd
		}
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head)))
	key := int16(binary.BigEndian.Uint16(head[4:]))
	most := l.SmallRequestBytes
	if key == int16(kmsg.Produce) {
		most = l.RequestBytes
	}
	if size < wire.HeaderMin || size > most {
		return nil, requestErrorf("a request with key %d of %d bytes; allowed are %d to %d", key, size, wire.HeaderMin, most)
	}
	c.in.Discard(4)
	f := takeFrame(size)
	for len(f.bytes) < size {
		at := len(f.bytes)
		n := f.grow(size)
		if c.in.Buffered() < n {
			c.extend(l.StallTimeout)
		}
		if _, err := io.ReadFull(c.in, f.bytes[at:at+n]); err != nil {
			f.giveBack()
			if c.isDraining() {
				return nil, errDrain
			}
			return nil, fmt.Errorf("in the middle of a request: %w", err)
		}
	}
	c.server.figures.bytesIn.Add(int64(size) + 4)
	return f, nil
}

// busy reports whether the client waits for an answer.
func (c *connection) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) > 0 || c.held > 0
}

// handle decodes a request, gives it its place in the queue, and runs its handler.
func (c *connection) handle(f *frame) error {
	h, err := wire.ParseHeaderStart(f.bytes)
	if err != nil {
		return err
	}
	c.server.figures.requests.Add(1)
	a := c.server.table.find(h.Key)
	if a == nil {
		return requestErrorf("key %d is no request that is served", h.Key)
	}
	cl := &call{server: c.server, conn: c, api: a, version: h.Version, correlation: h.Correlation}
	if h.Version < a.minVersion || h.Version > a.maxVersion {
		if a.key != int16(kmsg.ApiVersions) {
			return requestErrorf("version %d of %s; served are %d to %d", h.Version, kmsg.NameForKey(h.Key), a.minVersion, a.maxVersion)
		}
		c.enqueue(cl, int64(len(f.bytes)))
		f.giveBack()
		cl.unsupportedVersion()
		return nil
	}
	req := kmsg.RequestForKey(h.Key)
	req.SetVersion(h.Version)
	body, err := h.ParseHeaderRest(f.bytes, req.IsFlexible(), c.clientID)
	if err != nil {
		return err
	}
	c.clientID = h.ClientID
	held, err := c.decode(req, body)
	if err != nil {
		return err
	}
	cl.req, cl.frame = req, f
	c.enqueue(cl, held)
	a.handler(cl)
	return nil
}

// enqueue gives a call its place among the answers.
func (c *connection) enqueue(cl *call, held int64) {
	cl.held = held
	c.mu.Lock()
	c.held += held
	c.queue = append(c.queue, cl)
	c.mu.Unlock()
}
