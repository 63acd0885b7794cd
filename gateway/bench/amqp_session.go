package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"polylog/protocols/amqp/wire"
	"polylog/protocols/stream"
	"polylog/viewlayer/message"
)

const (
	theChannel = 1 // each connection has one
	// writeBytes is how much a producer writes at a time, frameMaxWish the longest frame it asks for.
	writeBytes   = 64 << 10
	frameMaxWish = 128 << 10
)

// session is a client's AMQP connection with one channel. It is lean: it reads many frames with one call of the system, copies nothing, and what it has to say it says when it
// has nothing more to read. It belongs to one goroutine, but any may write whole frames to its connection.
type session struct {
	conn     net.Conn
	r        *round
	patience time.Duration
	frames   *wire.Reader
	frameMax int
	product  string

	out   []byte        // frames that are written before the next read
	idle  func()        // called before that, if it is not nil: it may append to out
	heard time.Duration // when something was last read, as round.now says it
	first [stampBytes]byte

	deliver wire.BasicDeliver
	ack     wire.BasicAck
	nack    wire.BasicNack
}

// RefusedError is a broker's connection.close or channel.close.
type RefusedError struct {
	Code uint16
	Text string
	Of   string // what it was about, or ""
}

func (e *RefusedError) Error() string {
	s := fmt.Sprintf("the broker says %d %s", e.Code, e.Text)
	if e.Of != "" {
		s += " about " + e.Of
	}
	return s
}

// Read writes what has to be said and then reads. It is for frames.
func (s *session) Read(p []byte) (int, error) {
	if s.idle != nil {
		s.idle()
	}
	if len(s.out) > 0 {
		if _, err := s.conn.Write(s.out); err != nil {
			return 0, err
		}
		s.out = s.out[:0]
	}
	n, err := s.conn.Read(p)
	s.heard = s.r.now()
	return n, err
}

// dial connects to a node, logs in and opens the channel.
func (a *AMQP) dial(ctx context.Context, r *round, node int) (*session, error) {
	d := net.Dialer{Timeout: r.load.Patience}
	conn, err := d.DialContext(ctx, "tcp", a.nodes[node].address)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, r: r, patience: r.load.Patience, frameMax: frameMaxWish, out: []byte(wire.Header0091)}
	s.frames = wire.NewReader(stream.NewReader(s, frameMaxWish), frameMaxWish)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := s.open(&a.nodes[node]); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *session) open(n *amqpNode) error {
	var b message.TableBuilder
	b.Text("product", "polylog bench")
	b.OpenTable("capabilities")
	for _, can := range []string{"publisher_confirms", "basic.nack", "consumer_cancel_notify", "connection.blocked", "authentication_failure_close"} {
		b.Bool(can, true)
	}
	b.Close()
	properties, err := b.Table()
	if err != nil {
		return err
	}
	if err := s.conn.SetDeadline(time.Now().Add(s.patience)); err != nil {
		return err
	}
	var start wire.ConnectionStart
	if err := s.await(&start); err != nil {
		return err
	}
	s.product = productOf(start.ServerProperties)
	s.tell(0, &wire.ConnectionStartOk{
		ClientProperties: properties.Bytes(), Mechanism: []byte("PLAIN"), Response: []byte("\x00" + n.user + "\x00" + n.password), Locale: []byte("en_US"),
	})
	var tune wire.ConnectionTune
	if err := s.await(&tune); err != nil {
		return err
	}
	if tune.FrameMax > 0 {
		s.frameMax = int(min(int64(tune.FrameMax), frameMaxWish))
	}
	s.tell(0, &wire.ConnectionTuneOk{ChannelMax: theChannel, FrameMax: uint32(s.frameMax)}) // no heartbeats: a round is short
	s.tell(0, &wire.ConnectionOpen{VirtualHost: []byte(n.vhost)})
	if err := s.await(new(wire.ConnectionOpenOk)); err != nil {
		return err
	}
	s.tell(theChannel, &wire.ChannelOpen{})
	if err := s.await(new(wire.ChannelOpenOk)); err != nil {
		return err
	}
	return s.conn.SetDeadline(time.Time{})
}

// productOf reads what a broker calls itself from its properties.
func productOf(properties []byte) string {
	t, _, err := message.ParseTable(properties)
	if err != nil {
		return ""
	}
	var name string
	for _, key := range []string{"product", "version"} {
		if v, ok := t.Get(key); ok {
			if text, ok := v.Text(); ok && name == "" {
				name = string(text)
			} else if ok {
				name += " " + string(text)
			}
		}
	}
	return name
}

// tell says something before the next read.
func (s *session) tell(channel uint16, m wire.Method) { s.out = m.AppendFrame(s.out, channel) }

// call says something on the channel and waits for the answer.
func (s *session) call(m, answer wire.Method) error {
	if err := s.conn.SetDeadline(time.Now().Add(s.patience)); err != nil {
		return err
	}
	s.tell(theChannel, m)
	if err := s.await(answer); err != nil {
		return fmt.Errorf("%v: %w", m.ID(), err)
	}
	return s.conn.SetDeadline(time.Time{})
}

// await reads the answer that must come next.
func (s *session) await(answer wire.Method) error {
	f, id, args, err := s.method()
	if err != nil {
		return err
	}
	if id != answer.ID() {
		return fmt.Errorf("the broker sent %v on channel %d instead of %v", id, f.Channel, answer.ID())
	}
	return answer.Decode(args)
}

// method reads the next method. A close is answered and returned as a *RefusedError.
func (s *session) method() (f wire.Frame, id wire.MethodID, args []byte, err error) {
	for {
		if f, err = s.frames.Next(); errors.Is(err, io.EOF) {
			return f, 0, nil, fmt.Errorf("the broker ended the connection without a word: %w", err)
		} else if err != nil {
			return f, 0, nil, err
		}
		if f.Type != wire.FrameHeartbeat {
			break
		}
	}
	if f.Type != wire.FrameMethod {
		return f, 0, nil, fmt.Errorf("the broker sent a frame of type %d where a method must be", f.Type)
	}
	if id, args, err = wire.SplitMethod(f.Payload); err != nil {
		return f, 0, nil, err
	}
	switch id {
	case wire.ConnectionCloseID:
		var c wire.ConnectionClose
		if err := c.Decode(args); err != nil {
			return f, id, nil, err
		}
		_, err := s.conn.Write((&wire.ConnectionCloseOk{}).AppendFrame(nil, 0))
		return f, id, nil, errors.Join(refused(c.ReplyCode, c.ReplyText, c.ClassID, c.MethodID), err)
	case wire.ChannelCloseID:
		var c wire.ChannelClose
		if err := c.Decode(args); err != nil {
			return f, id, nil, err
		}
		return f, id, nil, refused(c.ReplyCode, c.ReplyText, c.ClassID, c.MethodID)
	}
	return f, id, args, nil
}

func refused(code uint16, text []byte, class, method uint16) error {
	e := &RefusedError{Code: code, Text: string(text)}
	if class != 0 {
		e.Of = wire.MethodID(uint32(class)<<16 | uint32(method)).String()
	}
	return e
}

// next reads the next method, whatever it is; those that come often are valid until it is called again.
func (s *session) next() (wire.Method, error) {
	_, id, args, err := s.method()
	if err != nil {
		return nil, err
	}
	var m wire.Method
	switch id {
	case wire.BasicDeliverID:
		m = &s.deliver
	case wire.BasicAckID:
		m = &s.ack
	case wire.BasicNackID:
		m = &s.nack
	default:
		if m = wire.New(id); m == nil {
			return nil, fmt.Errorf("the broker sent method %v", id)
		}
	}
	return m, m.Decode(args)
}

// body reads the content that follows a delivery and returns the beginning of its body, as much as a stamp takes.
func (s *session) body() ([]byte, error) {
	f, err := s.frames.Next()
	if err != nil {
		return nil, err
	}
	if f.Type != wire.FrameHeader {
		return nil, fmt.Errorf("the broker sent a frame of type %d where a content header must be", f.Type)
	}
	h, err := wire.ParseHeader(f.Payload)
	if err != nil {
		return nil, err
	}
	have := 0
	for left := h.BodySize; left > 0; {
		if f, err = s.frames.Next(); err != nil {
			return nil, err
		}
		if f.Type != wire.FrameBody || uint64(len(f.Payload)) > left {
			return nil, fmt.Errorf("the broker sent a frame of type %d and %d bytes where %d bytes of a body are left", f.Type, len(f.Payload), left)
		}
		left -= uint64(len(f.Payload))
		have += copy(s.first[have:], f.Payload)
	}
	return s.first[:have], nil
}

// end closes the connection in good order.
func (s *session) end() error {
	s.idle = nil
	if err := s.conn.SetDeadline(time.Now().Add(s.patience)); err != nil {
		return err
	}
	s.tell(0, &wire.ConnectionClose{ReplyCode: uint16(wire.Success)})
	if err := s.await(new(wire.ConnectionCloseOk)); err != nil {
		return err
	}
	return s.conn.Close()
}
