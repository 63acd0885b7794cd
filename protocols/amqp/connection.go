package amqp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"polylog/logstore"
	"polylog/protocols/amqp/wire"
	"polylog/protocols/stream"
	"polylog/viewlayer/message"
	"polylog/viewlayer/queue"
	"polylog/viewlayer/topic"
)

// connection is one client. Its reader, the goroutine of Handle, owns all fields but those that say otherwise.
type connection struct {
	s    *Server
	sock net.Conn
	name string // the two addresses, and what the client calls itself; for people
	// owner names the connection among all there ever were on all nodes: exclusive queues belong to it.
	owner string
	// waits is what calls of the views wait within. It ends when the connection is cut off while there is no majority of the cluster.
	waits    context.Context
	endWaits context.CancelFunc

	frames *wire.Reader
	out    *stream.Writer
	pulse  *pulse

	frameMax   int // agreed on; a frame's bytes in whole
	channelMax uint16
	user       string
	vhost      string
	can        capabilities
	heartbeat  time.Duration // agreed on, 0: none
	opened     bool

	channels map[uint16]*channel
	last     *channel // that the last frame was for
	hasOwn   bool     // it declared an exclusive queue

	publisher publisher
	settler   settler

	routes     []*topic.Topic // scratch of publish
	properties message.Properties
	taken      []entry // scratch of acknowledgements
	unfinished int     // bytes of messages that are half received, over all channels

	gone    chan struct{} // closed when nothing is worth waiting for any more: the client is gone, or was cut off
	goneOne sync.Once

	mu      sync.Mutex // guards what follows
	events  []func() error
	silence time.Duration // after which the client counts as dead; 0: never
	starved []*consumer   // refused for lack of room in the writer
}

// capabilities are what the client announced that it understands.
type capabilities struct {
	consumerCancel bool // consumer_cancel_notify
	blocked        bool // connection.blocked
	authFailure    bool // authentication_failure_close
}

func newConnection(s *Server, sock net.Conn) *connection {
	c := &connection{
		s: s, sock: sock, name: fmt.Sprintf("%v -> %v", sock.RemoteAddr(), sock.LocalAddr()), channels: map[uint16]*channel{}, gone: make(chan struct{}),
		frameMax: frameMaxBeforeTune,
	}
	c.owner = fmt.Sprintf("%s/%d %s #%d", s.o.Node, s.o.Epoch, c.name, s.serial.Add(1))
	c.waits, c.endWaits = context.WithCancel(context.Background())
	c.frames = wire.NewReader(stream.NewReader((*socketReader)(c), 0), c.frameMax)
	c.publisher.init(c)
	c.settler.init(c)
	return c
}

// post leaves something for the reader to do, and wakes it. An error ends the connection or is the client's to know, as if a frame had caused it. Any goroutine may call it; it does not
// block.
func (c *connection) post(f func() error) {
	c.mu.Lock()
	c.events = append(c.events, f)
	c.sock.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // it fails on a closed socket only, whose reader is awake
	c.mu.Unlock()
}

// cut ends the connection without a word. Any goroutine may call it.
func (c *connection) cut() {
	c.giveUp()
	c.sock.Close()
	go c.watchMajority()
}

// watchMajority lets nobody wait any more for the outcome of a transaction that is on its way, should there be no majority of the cluster before the connection
// has ended.
func (c *connection) watchMajority() {
	t := time.NewTicker(retryEvery)
	defer t.Stop()
	for c.s.o.Store.Available() == nil {
		select {
		case <-t.C:
		case <-c.waits.Done():
			return
		}
	}
	c.endWaits()
}

// giveUp ends all waiting for room on the disk, or for a majority of the cluster.
func (c *connection) giveUp() { c.goneOne.Do(func() { close(c.gone) }) }

// socketReader reads from the connection's socket for as long as nothing else is to be done.
type socketReader connection

// countedWrites is a socket whose written bytes are counted.
type countedWrites struct {
	net.Conn
	bytes *atomic.Int64
}

func (w countedWrites) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.bytes.Add(int64(n))
	return n, err
}

// errEvents means that somebody has left something for the reader.
var errEvents = errors.New("there is something else to do")

func (r *socketReader) Read(p []byte) (int, error) {
	c := (*connection)(r)
	c.mu.Lock()
	if len(c.events) > 0 {
		c.mu.Unlock()
		return 0, errEvents
	}
	if c.silence > 0 {
		c.sock.SetReadDeadline(time.Now().Add(c.silence)) //nolint:errcheck // the read fails too
	}
	c.mu.Unlock()
	n, err := c.sock.Read(p)
	if n > 0 {
		c.s.counts.bytesRead.Add(int64(n))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.mu.Lock()
		if len(c.events) > 0 {
			err = errEvents
		}
		c.mu.Unlock()
	}
	return n, err
}

// setSilence sets after which time without a byte the client counts as dead.
func (c *connection) setSilence(d time.Duration) {
	c.mu.Lock()
	c.silence = d
	if d == 0 && len(c.events) == 0 {
		c.sock.SetReadDeadline(time.Time{}) //nolint:errcheck // the read fails too
	}
	c.mu.Unlock()
}

// errClosed means that the client was told goodbye, and there is nothing more to say.
var errClosed = errors.New("the connection was closed in order")

// run serves the connection until it ends.
func (c *connection) run() {
	defer c.endWaits()
	defer c.sock.Close()
	c.out = stream.NewWriter(countedWrites{c.sock, &c.s.counts.bytesWritten}, c.s.limits.WriteBytes, c.s.limits.WriteTimeout, c.drained)
	err := c.handshake()
	if err == nil {
		c.setSilence(2 * c.heartbeat)
		err = c.serve()
	} else {
		c.s.counts.handshakesFailed.Add(1)
	}
	why := queue.ConnectionLost
	var told *exception
	switch {
	case errors.Is(err, errClosed):
		why = queue.ChannelClosed
		c.publisher.flush() //nolint:errcheck // what fails is refused, or the end tells
	case errors.As(err, &told):
		why = queue.ChannelClosed
		c.sayGoodbye(told)
	case c.out.Err() != nil: // closeSocket says it
	case errors.Is(err, os.ErrDeadlineExceeded) && c.opened:
		c.s.counts.heartbeatsMissed.Add(1)
		c.s.o.Logf("connection %s: closed, nothing came from the client for %v, two heartbeats", c.name, c.silence)
	case errors.Is(err, io.EOF) && !c.opened: // a port scan, a health check
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.s.o.Logf("connection %s: closed, it was not opened within %v", c.name, c.s.limits.HandshakeTimeout)
	case errors.Is(err, errEvents): // the broker shuts down, and the client is not in yet
	case errors.Is(err, errRefused):
		c.s.o.Logf("connection %s: %v", c.name, err)
	default:
		c.s.o.Logf("connection %s: lost: %v", c.name, err)
	}
	c.takeDown(why)
	if errors.Is(err, errClosed) {
		c.write(&wire.ConnectionCloseOk{})
	}
	c.closeSocket(err)
}

// closeSocket writes what waits and closes. A client that may still be sending gets a moment to read it: a socket that is closed with unread bytes takes what was
// written back.
func (c *connection) closeSocket(err error) {
	if writeErr := c.out.Close(); writeErr != nil {
		if errors.Is(writeErr, os.ErrDeadlineExceeded) {
			c.s.counts.slowClients.Add(1)
			c.s.o.Logf("connection %s: closed, the client took nothing for %v", c.name, c.s.limits.WriteTimeout)
		}
		return
	}
	if !is[*exception](err) && !errors.Is(err, errClosed) && !errors.Is(err, errRefused) {
		return
	}
	if half, ok := c.sock.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		c.linger()
	}
}

// linger reads until the client closes, for at most lingerMax.
func (c *connection) linger() {
	select {
	case <-c.gone:
		return
	default:
	}
	c.sock.SetReadDeadline(time.Now().Add(lingerMax)) //nolint:errcheck // the read fails too
	var b [4096]byte
	for {
		if _, err := c.sock.Read(b[:]); err != nil {
			return
		}
	}
}

// lingerMax is how long the broker keeps a socket for a client that was told goodbye and does not close.
const lingerMax = time.Second

// serve reads frames and acts on them until the connection ends.
func (c *connection) serve() error {
	for {
		f, err := c.frames.Next()
		if err == nil {
			err = c.take(f)
		} else if errors.Is(err, errEvents) {
			err = c.runEvents()
		}
		if err != nil {
			var told *wire.FrameError
			if errors.As(err, &told) {
				return explain(err)
			}
			return err
		}
	}
}

// runEvents does what others left for the reader.
func (c *connection) runEvents() error {
	c.mu.Lock()
	events := c.events
	c.events = nil
	if c.silence == 0 {
		c.sock.SetReadDeadline(time.Time{}) //nolint:errcheck // the read fails too
	}
	c.mu.Unlock()
	for _, f := range events {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// take acts on one frame. The error ends the connection.
func (c *connection) take(f wire.Frame) error {
	if f.Channel == 0 {
		return c.takeGeneral(f)
	}
	ch := c.last
	if ch == nil || ch.id != f.Channel {
		ch = c.channels[f.Channel]
		c.last = ch
	}
	if ch == nil {
		return c.takeUnopened(f)
	}
	return c.onChannel(ch, ch.take(f))
}

// onChannel turns an error of a channel into what the client is told: most end the channel, some the connection.
func (c *connection) onChannel(ch *channel, err error) error {
	if err == nil || errors.Is(err, errClosed) || c.out.Err() != nil {
		return err
	}
	e := explain(err)
	if e.code.ClosesConnection() {
		return e
	}
	return ch.fail(e)
}

// takeGeneral acts on a frame of channel 0, which belongs to the connection as a whole.
func (c *connection) takeGeneral(f wire.Frame) error {
	switch f.Type {
	case wire.FrameHeartbeat:
		return nil
	case wire.FrameMethod:
	case wire.FrameHeader, wire.FrameBody:
		return raise(wire.UnexpectedFrame, "channel 0 carries no content, a frame of type %d came", f.Type)
	default:
		return raise(wire.FrameErrorCode, "there is no frame of type %d", f.Type)
	}
	id, args, err := wire.SplitMethod(f.Payload)
	if err != nil {
		return explain(err)
	}
	return explainIf(c.general(id, args), id)
}

// explainIf is explain for an error, which is about the method.
func explainIf(err error, id wire.MethodID) error {
	if err == nil || errors.Is(err, errClosed) {
		return err
	}
	e := explain(err)
	if e.method == 0 {
		e.method = id
	}
	return e
}

// takeUnopened acts on a frame of a channel that is not open.
func (c *connection) takeUnopened(f wire.Frame) error {
	switch f.Type {
	case wire.FrameMethod:
	case wire.FrameHeader, wire.FrameBody:
		return raise(wire.ChannelError, "content on channel %d, which is not open", f.Channel)
	case wire.FrameHeartbeat:
		return raise(wire.FrameErrorCode, "a heartbeat on channel %d; it belongs on channel 0", f.Channel)
	default:
		return raise(wire.FrameErrorCode, "there is no frame of type %d", f.Type)
	}
	id, args, err := wire.SplitMethod(f.Payload)
	if err != nil {
		return explain(err)
	}
	switch {
	case id == wire.ChannelOpenID:
		return explainIf(c.openChannel(f.Channel, args), id)
	case id == wire.ChannelCloseOkID:
		return nil // to a close of ours that crossed one of the client's
	case wire.New(id) == nil:
		return explainIf(raise(wire.NotImplemented, "there is no %v", id), id)
	case id.Class() == wire.ClassConnection:
		return explainIf(raise(wire.CommandInvalid, "%v on channel %d; it belongs on channel 0", id, f.Channel), id)
	}
	return explainIf(raise(wire.ChannelError, "%v on channel %d, which is not open", id, f.Channel), id)
}

// write appends a method of channel 0.
func (c *connection) write(m wire.Method) {
	c.out.End(m.AppendFrame(c.out.Begin(), 0))
}

// drained is called by the writer when there is room again.
func (c *connection) drained() {
	c.mu.Lock()
	woken := c.starved
	c.starved = nil
	for _, to := range woken {
		to.starved = false
	}
	c.mu.Unlock()
	wake(woken)
}

// starve remembers a consumer that was refused for lack of room in the writer.
func (c *connection) starve(to *consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !to.starved {
		to.starved = true
		c.starved = append(c.starved, to)
	}
}

// settled waits until what the connection published and acknowledged so far has its place in the order.
func (c *connection) settled() error {
	if err := c.publisher.flush(); err != nil {
		return err
	}
	return c.settler.flush()
}

// makeDurable waits until everything that was committed so far is on the disk.
func (c *connection) makeDurable() error {
	_, err := c.s.o.Store.Commit(context.Background(), logstore.Txn{Wait: logstore.Durable})
	return err
}
