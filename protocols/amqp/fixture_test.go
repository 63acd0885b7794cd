package amqp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/protocols/amqp/wire"
	"polylog/protocols/stream"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/message"
	"polylog/viewlayer/queue"
	"polylog/viewlayer/topic"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// segmentBytes is small, so that many brokers fit into the memory of one test process.
const segmentBytes = 4 << 20

// broker is a server with all below it, listening on loopback.
type broker struct {
	t      testing.TB
	addr   string
	server *Server
	store  *logstore.Store
	topics *topic.Catalog
	queues *queue.View
	fs     vfs.FS

	listener net.Listener
	handlers sync.WaitGroup
}

// onlyGuest lets in guest with the password guest, to the virtual hosts "/" and "other".
type onlyGuest struct{}

func (onlyGuest) Login(user, password string, _ net.Addr) error {
	if user == "guest" && password == "guest" {
		return nil
	}
	return errors.New("the user or the password is wrong")
}

func (onlyGuest) OpenVhost(_, vhost string) error {
	if vhost == "/" || vhost == "other" {
		return nil
	}
	return fmt.Errorf("vhost %s not found", vhost)
}

// newBroker starts a broker on a disk in memory.
func newBroker(t testing.TB, change ...func(*Options)) *broker {
	return startBroker(t, vfs.NewMem(), change...)
}

func startBroker(t testing.TB, fs vfs.FS, change ...func(*Options)) *broker {
	t.Helper()
	return startNode(t, logstore.Options{FS: fs}, queue.Options{Node: "n1"}, change...)
}

func startNode(t testing.TB, lo logstore.Options, qo queue.Options, change ...func(*Options)) *broker {
	t.Helper()
	b := &broker{t: t, fs: lo.FS}
	var err error
	lo.Dir, lo.SegmentBytes = "log", segmentBytes
	if b.store, err = logstore.Open(lo); err != nil {
		t.Fatal(err)
	}
	b.topics = topic.Open(topic.Options{Store: b.store, Now: time.Now, NewID: func() (id topic.ID) {
		rand.Read(id[:]) //nolint:errcheck // crypto/rand does not fail
		return id
	}})
	qo.Store, qo.Topics, qo.Now, qo.After, qo.Go = b.store, b.topics, time.Now, time.After, func(f func()) { go f() }
	if b.queues, err = queue.Open(context.Background(), qo); err != nil {
		t.Fatal(err)
	}
	o := Options{Store: b.store, Router: exchange.New(b.topics), Queues: b.queues, Auth: onlyGuest{}, Node: qo.Node, Epoch: qo.Epoch, Version: "test"}
	for _, f := range change {
		f(&o)
	}
	if b.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.listener = listener
	b.addr = b.listener.Addr().String()
	b.handlers.Go(func() {
		for {
			sock, err := listener.Accept()
			if err != nil {
				return
			}
			b.handlers.Go(func() { b.server.Handle(sock) })
		}
	})
	t.Cleanup(b.stop)
	return b
}

// stop ends the broker in order. Whatever runs for a connection must end with it.
func (b *broker) stop() {
	if b.listener == nil {
		return
	}
	b.listener.Close()
	b.listener = nil
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.server.Drain(ctx); err != nil {
		b.t.Errorf("draining: %v", err)
	}
	b.handlers.Wait()
	if n := b.server.Figures(); n.Connections != 0 || n.Channels != 0 || n.Consumers != 0 {
		b.t.Errorf("after the end there are %d connections, %d channels, %d consumers", n.Connections, n.Channels, n.Consumers)
	}
	if err := b.store.Close(); err != nil {
		b.t.Errorf("closing the store: %v", err)
	}
}

// until waits for a condition.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// ready waits until a queue has so many messages that wait.
func (b *broker) ready(name string, n int64) {
	b.t.Helper()
	var got int64
	until(b.t, fmt.Sprintf("queue %s should have %d messages", name, n), func() bool {
		q, err := b.queues.Find("/", name, "")
		if err != nil {
			b.t.Fatal(err)
		}
		if got, err = q.Ready(); err != nil {
			b.t.Fatal(err)
		}
		return got == n
	})
}

// dial opens a connection with the Go client that RabbitMQ maintains.
func (b *broker) dial() *client.Connection {
	b.t.Helper()
	c, err := client.Dial("amqp://guest:guest@" + b.addr + "/")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() }) //nolint:errcheck // it may be closed already
	return c
}

// open opens a connection with one channel.
func (b *broker) open() *client.Channel {
	b.t.Helper()
	ch, err := b.dial().Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	return ch
}

// declare makes a durable queue.
func declare(t testing.TB, ch *client.Channel, name string) {
	t.Helper()
	if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
}

// put publishes a message to a queue.
func put(t testing.TB, ch *client.Channel, queue string, bodies ...string) {
	t.Helper()
	for _, b := range bodies {
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, client.Publishing{Body: []byte(b)}); err != nil {
			t.Fatal(err)
		}
	}
}

// next waits for a delivery.
func next(t testing.TB, from <-chan client.Delivery) client.Delivery {
	t.Helper()
	select {
	case d, ok := <-from:
		if !ok {
			t.Fatal("the deliveries ended")
		}
		return d
	case <-time.After(patience):
		t.Fatal("no delivery came")
	}
	panic("unreachable")
}

// nothing sees that no delivery has come, after something that would have come later.
func nothing(t testing.TB, from <-chan client.Delivery) {
	t.Helper()
	select {
	case d, ok := <-from:
		if ok {
			t.Fatalf("a delivery came: %q", d.Body)
		}
	default:
	}
}

// refusedWith sees that an error is the AMQP exception of this code.
func refusedWith(t testing.TB, err error, code wire.Code) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Code != int(code) {
		t.Fatalf("got %v, expected %d %v", err, code, code)
	}
}

// raw is a client that sends what it is told to.
type raw struct {
	t      testing.TB
	sock   net.Conn
	frames *wire.Reader
}

// connect opens a raw connection and sends nothing.
func (b *broker) connect() *raw {
	b.t.Helper()
	sock, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { sock.Close() })
	if err := sock.SetDeadline(time.Now().Add(patience)); err != nil {
		b.t.Fatal(err)
	}
	return &raw{t: b.t, sock: sock, frames: wire.NewReader(stream.NewReader(sock, 0), 1<<20)}
}

// login opens a raw connection up to connection.open-ok.
func (b *broker) login(change ...func(*wire.ConnectionStartOk, *wire.ConnectionTuneOk)) *raw {
	b.t.Helper()
	r := b.connect()
	start := &wire.ConnectionStartOk{Mechanism: []byte("PLAIN"), Response: []byte("\x00guest\x00guest"), Locale: []byte("en_US")}
	ok := &wire.ConnectionTuneOk{}
	for _, f := range change {
		f(start, ok)
	}
	r.write([]byte(wire.Header0091))
	expect[wire.ConnectionStart](r, 0)
	r.send(0, start)
	expect[wire.ConnectionTune](r, 0)
	r.send(0, ok)
	r.send(0, &wire.ConnectionOpen{VirtualHost: []byte("/")})
	expect[wire.ConnectionOpenOk](r, 0)
	return r
}

func (r *raw) write(b []byte) {
	r.t.Helper()
	if _, err := r.sock.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

func (r *raw) send(channel uint16, ms ...wire.Method) {
	r.t.Helper()
	var b []byte
	for _, m := range ms {
		b = m.AppendFrame(b, channel)
	}
	r.write(b)
}

// channel opens a channel.
func (r *raw) channel(id uint16) {
	r.t.Helper()
	r.send(id, &wire.ChannelOpen{})
	expect[wire.ChannelOpenOk](r, id)
}

// publish sends a message to a queue.
func (r *raw) publish(channel uint16, queue, body string) {
	r.t.Helper()
	b := (&wire.BasicPublish{RoutingKey: []byte(queue)}).AppendFrame(nil, channel)
	r.write(wire.AppendContent(b, channel, []byte{0, 0}, []byte(body), wire.FrameMin))
}

// frame reads the next frame that is no heartbeat.
func (r *raw) frame() (wire.Frame, error) {
	for {
		f, err := r.frames.Next()
		if err != nil || f.Type != wire.FrameHeartbeat {
			return f, err
		}
	}
}

// expect reads the method that must come next on a channel.
func expect[M any, P interface {
	*M
	wire.Method
}](r *raw, channel uint16) P {
	r.t.Helper()
	m := P(new(M))
	f, err := r.frame()
	if err != nil {
		r.t.Fatalf("%v should have come: %v", m.ID(), err)
	}
	if f.Type != wire.FrameMethod {
		r.t.Fatalf("%v should have come, and a frame of type %d did: %x", m.ID(), f.Type, f.Payload)
	}
	id, args, err := wire.SplitMethod(f.Payload)
	if err != nil {
		r.t.Fatal(err)
	}
	if id != m.ID() || f.Channel != channel {
		r.t.Fatalf("%v should have come on channel %d, and %v did on channel %d: %q", m.ID(), channel, id, f.Channel, args)
	}
	if err := m.Decode(append([]byte(nil), args...)); err != nil {
		r.t.Fatal(err)
	}
	return m
}

// content reads a header and its body.
func (r *raw) content(channel uint16) (properties, body []byte) {
	r.t.Helper()
	f, err := r.frame()
	if err != nil || f.Type != wire.FrameHeader || f.Channel != channel {
		r.t.Fatalf("a content header should have come on channel %d: %+v %v", channel, f, err)
	}
	h, err := wire.ParseHeader(f.Payload)
	if err != nil {
		r.t.Fatal(err)
	}
	properties = append(properties, h.Properties...)
	for uint64(len(body)) < h.BodySize {
		f, err := r.frame()
		if err != nil || f.Type != wire.FrameBody || f.Channel != channel {
			r.t.Fatalf("a body should have come on channel %d: %+v %v", channel, f, err)
		}
		body = append(body, f.Payload...)
	}
	return properties, body
}

// ended sees that the broker closes the socket, without a further frame.
func (r *raw) ended() {
	r.t.Helper()
	if f, err := r.frame(); err == nil {
		r.t.Fatalf("a frame came where the end should have: %+v", f)
	} else if errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*wire.FrameError)) {
		r.t.Fatal(err)
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		r.t.Fatal("the connection was not closed")
	}
}

// closed sees that the broker closes the connection for an error of this code, and answers.
func (r *raw) closed(code wire.Code) *wire.ConnectionClose {
	r.t.Helper()
	m := expect[wire.ConnectionClose](r, 0)
	if wire.Code(m.ReplyCode) != code {
		r.t.Fatalf("closed with %d %s, expected %d", m.ReplyCode, m.ReplyText, code)
	}
	r.sock.Write((&wire.ConnectionCloseOk{}).AppendFrame(nil, 0)) //nolint:errcheck // it may be gone already
	r.ended()
	return m
}

// channelClosed sees that the broker closes a channel for an error of this code, and answers.
func (r *raw) channelClosed(channel uint16, code wire.Code) *wire.ChannelClose {
	r.t.Helper()
	m := expect[wire.ChannelClose](r, channel)
	if wire.Code(m.ReplyCode) != code {
		r.t.Fatalf("closed with %d %s, expected %d", m.ReplyCode, m.ReplyText, code)
	}
	r.send(channel, &wire.ChannelCloseOk{})
	return m
}

// table makes a field table of names and values.
func table(t testing.TB, pairs ...any) []byte {
	t.Helper()
	var b message.TableBuilder
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case string:
			b.Text(name, v)
		case bool:
			b.Bool(name, v)
		case int:
			b.Int64(name, int64(v))
		case []any:
			b.OpenTable(name)
			for k := 0; k < len(v); k += 2 {
				b.Bool(v[k].(string), v[k+1].(bool))
			}
			b.Close()
		default:
			t.Fatalf("no field of type %T", v)
		}
	}
	made, err := b.Table()
	if err != nil {
		t.Fatal(err)
	}
	return made.Bytes()
}
