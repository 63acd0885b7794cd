package amqp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"polylog/logstore/vfs"
	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
)

func TestOtherProtocolVersionIsToldWhichOneIsSpoken(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for _, header := range []string{"AMQP\x00\x01\x00\x00", "AMQP\x01\x01\x00\x09", "AMQP\x00\x00\x09\x00", "AMQP\x03\x01\x00\x00"} {
		r := b.connect()
		r.write([]byte(header))
		got, err := io.ReadAll(r.sock)
		if err != nil || string(got) != wire.Header0091 {
			t.Errorf("%q was answered with %q, %v", header, got, err)
		}
	}
}

func TestWhatIsNotAMQPIsClosedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for _, garbage := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", strings.Repeat("x", 100_000), "amqp\x00\x00\x09\x01"} {
		r := b.connect()
		r.sock.Write([]byte(garbage)) //nolint:errcheck // it may be closed meanwhile
		got, _ := io.ReadAll(r.sock)
		if len(got) > 0 {
			t.Errorf("%.20q was answered with %q", garbage, got)
		}
	}
	until(t, "all connections end", func() bool { return b.server.Figures().Connections == 0 })
}

func TestServerSaysWhatItIs(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := b.dial()
	if c.Properties["product"] != "Polylog" || c.Properties["version"] != "test" || c.Properties["cluster_name"] != "n1" {
		t.Errorf("properties %v", c.Properties)
	}
	can, ok := c.Properties["capabilities"].(client.Table)
	if !ok {
		t.Fatalf("capabilities %v", c.Properties["capabilities"])
	}
	for _, name := range []string{"publisher_confirms", "basic.nack", "consumer_cancel_notify", "connection.blocked", "authentication_failure_close", "per_consumer_qos"} {
		if can[name] != true {
			t.Errorf("it does not announce %s", name)
		}
	}
	if c.Major != 0 || c.Minor != 9 || strings.Join(c.Locales, " ") != "en_US" {
		t.Errorf("version %d-%d, locales %v", c.Major, c.Minor, c.Locales)
	}
}

func TestTuneAgreesOnTheLowerOfBothLimits(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for _, c := range []struct {
		frameMax   uint32
		channelMax uint16
		wantFrame  int
		wantMax    uint16
	}{{0, 0, 131072, 2047}, {4096, 10, 4096, 10}, {1 << 20, 65535, 131072, 2047}} {
		r := b.login(func(_ *wire.ConnectionStartOk, ok *wire.ConnectionTuneOk) {
			ok.FrameMax, ok.ChannelMax = c.frameMax, c.channelMax
		})
		r.channel(c.wantMax)
		// A body of one whole frame is taken, and comes back so.
		r.send(c.wantMax, &wire.QueueDeclare{Exclusive: true})
		name := expect[wire.QueueDeclareOk](r, c.wantMax).Queue
		m := (&wire.BasicPublish{RoutingKey: name}).AppendFrame(nil, c.wantMax)
		r.write(wire.AppendContent(m, c.wantMax, []byte{0, 0}, make([]byte, c.wantFrame-8), c.wantFrame))
		r.send(c.wantMax, &wire.BasicGet{Queue: name, NoAck: true})
		expect[wire.BasicGetOk](r, c.wantMax)
		if _, body := r.content(c.wantMax); len(body) != c.wantFrame-8 {
			t.Errorf("frame-max %d: %d bytes came back", c.frameMax, len(body))
		}
		if c.wantMax < 65535 {
			r.send(c.wantMax+1, &wire.ChannelOpen{})
			r.closed(wire.ChannelError)
		}

		r = b.login(func(_ *wire.ConnectionStartOk, ok *wire.ConnectionTuneOk) {
			ok.FrameMax, ok.ChannelMax = c.frameMax, c.channelMax
		})
		r.channel(1)
		m = (&wire.BasicPublish{RoutingKey: name}).AppendFrame(nil, 1)
		r.sock.Write(wire.AppendContent(m, 1, []byte{0, 0}, make([]byte, c.wantFrame-7), c.wantFrame+1)) //nolint:errcheck // it is closed meanwhile
		r.closed(wire.FrameErrorCode)
	}
}

func TestFrameMaxBelowTheMinimumIsRefused(t *testing.T) {
	t.Parallel()
	r := newBroker(t).connect()
	r.write([]byte(wire.Header0091))
	expect[wire.ConnectionStart](r, 0)
	r.send(0, &wire.ConnectionStartOk{Mechanism: []byte("PLAIN"), Response: []byte("\x00guest\x00guest")})
	expect[wire.ConnectionTune](r, 0)
	r.send(0, &wire.ConnectionTuneOk{FrameMax: 4095})
	r.closed(wire.NotAllowed)
}

func TestHeartbeatsGoBothWaysAndSilenceEndsTheConnection(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	r := b.login(func(_ *wire.ConnectionStartOk, ok *wire.ConnectionTuneOk) { ok.Heartbeat = 1 })
	// The client says nothing: it hears heartbeats, and after two intervals it is dropped.
	began := time.Now()
	beats := 0
	for {
		f, err := r.frames.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break
		}
		if f.Type != wire.FrameHeartbeat || f.Channel != 0 || len(f.Payload) != 0 {
			t.Fatalf("frame %+v", f)
		}
		beats++
	}
	if took := time.Since(began); took < 1900*time.Millisecond || took > 10*time.Second {
		t.Errorf("dropped after %v", took)
	}
	if beats < 1 || b.server.Figures().HeartbeatsMissed != 1 {
		t.Errorf("%d heartbeats came; figures %+v", beats, b.server.Figures())
	}
}

func TestAnyFrameCountsAsLife(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	silent := b.login(func(_ *wire.ConnectionStartOk, ok *wire.ConnectionTuneOk) { ok.Heartbeat = 1 })
	busy := b.login(func(_ *wire.ConnectionStartOk, ok *wire.ConnectionTuneOk) { ok.Heartbeat = 1 })
	beating := b.login(func(_ *wire.ConnectionStartOk, ok *wire.ConnectionTuneOk) { ok.Heartbeat = 1 })
	busy.channel(1)
	stop := time.Now().Add(3 * time.Second)
	for tick := time.NewTicker(200 * time.Millisecond); time.Now().Before(stop); <-tick.C {
		busy.send(1, &wire.BasicQos{})
		expect[wire.BasicQosOk](busy, 1)
		beating.write(wire.HeartbeatFrame)
	}
	silent.ended()
	if n := b.server.Figures(); n.Connections != 2 || n.HeartbeatsMissed != 1 {
		t.Errorf("figures %+v", n)
	}
	beating.send(0, &wire.ConnectionClose{})
	expect[wire.ConnectionCloseOk](beating, 0)
}

func TestHeartbeatZeroTurnsThemOff(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	r := b.login()
	if err := r.sock.SetReadDeadline(time.Now().Add(1200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if f, err := r.frames.Next(); err == nil {
		t.Fatalf("a frame came: %+v", f)
	}
	if err := r.sock.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	r.channel(1)
}

func TestLoginByEachMechanism(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	amqplain := table(t, "LOGIN", "guest", "PASSWORD", "guest")[4:]
	for _, c := range []struct {
		mechanism string
		response  []byte
	}{{"PLAIN", []byte("\x00guest\x00guest")}, {"PLAIN", []byte("somebody\x00guest\x00guest")}, {"AMQPLAIN", amqplain}} {
		b.login(func(start *wire.ConnectionStartOk, _ *wire.ConnectionTuneOk) {
			start.Mechanism, start.Response = []byte(c.mechanism), c.response
		})
	}
	conn, err := client.DialConfig("amqp://"+b.addr+"/", client.Config{SASL: []client.Authentication{&client.AMQPlainAuth{Username: "guest", Password: "guest"}}})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestFailedLoginIsToldOnlyToThoseWhoUnderstand(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for _, c := range []struct {
		mechanism, response string
		told                bool
		code                wire.Code
	}{
		{"PLAIN", "\x00guest\x00wrong", true, wire.AccessRefused},
		{"PLAIN", "\x00guest\x00wrong", false, 0},
		{"AMQPLAIN", string(table(t, "LOGIN", "guest", "PASSWORD", "wrong")[4:]), true, wire.AccessRefused},
		{"PLAIN", "guest", true, wire.SyntaxErrorCode},
		{"AMQPLAIN", "\x05LOGIN", true, wire.SyntaxErrorCode},
		{"AMQPLAIN", string(table(t, "LOGIN", "guest")[4:]), true, wire.SyntaxErrorCode},
		{"EXTERNAL", "", true, wire.CommandInvalid},
	} {
		r := b.connect()
		r.write([]byte(wire.Header0091))
		expect[wire.ConnectionStart](r, 0)
		start := &wire.ConnectionStartOk{Mechanism: []byte(c.mechanism), Response: []byte(c.response)}
		start.ClientProperties = table(t, "capabilities", []any{"authentication_failure_close", c.told})
		r.send(0, start)
		if c.code == 0 {
			r.ended()
			continue
		}
		if m := r.closed(c.code); c.code == wire.AccessRefused && (m.ClassID != wire.ClassConnection || m.MethodID != 11) {
			t.Errorf("%s %q: closed about method %d of class %d", c.mechanism, c.response, m.MethodID, m.ClassID)
		}
	}
	if n := b.server.Figures().LoginsRefused; n != 3 {
		t.Errorf("%d logins were refused", n)
	}
	_, err := client.Dial("amqp://guest:wrong@" + b.addr + "/")
	refusedWith(t, err, wire.AccessRefused)
}

func TestUnknownVirtualHostIsRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	_, err := client.Dial("amqp://guest:guest@" + b.addr + "/nowhere")
	refusedWith(t, err, wire.NotAllowed)
}

func TestVirtualHostsAreApart(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	conn, err := client.Dial("amqp://guest:guest@" + b.addr + "/other")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	_, err = ch.QueueDeclarePassive("orders", true, false, false, false, nil)
	refusedWith(t, err, wire.NotFound)
	if !strings.Contains(err.Error(), "no queue 'orders' in vhost 'other'") {
		t.Errorf("it says %v", err)
	}
}

func TestMethodsOutOfTurnInTheHandshake(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for _, send := range [][]byte{
		(&wire.ConnectionTuneOk{}).AppendFrame(nil, 0), (&wire.ChannelOpen{}).AppendFrame(nil, 1), (&wire.ConnectionStartOk{}).AppendFrame(nil, 1),
		{wire.FrameBody, 0, 0, 0, 0, 0, 0, 0xCE}, {1, 0, 0, 0, 0, 0, 0, 0xCE}, {99, 0, 0, 0, 0, 0, 0, 0xCE}, {1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0},
	} {
		r := b.connect()
		r.write([]byte(wire.Header0091))
		expect[wire.ConnectionStart](r, 0)
		r.write(send)
		if m := expect[wire.ConnectionClose](r, 0); m.ReplyCode < 500 {
			t.Errorf("%x: closed with %d %s", send, m.ReplyCode, m.ReplyText)
		}
		r.sock.Close()
	}
}

func TestSilentHandshakeIsCutOff(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options) { o.Limits.HandshakeTimeout = 100 * time.Millisecond })
	for _, sent := range []string{"", "AMQ", wire.Header0091, wire.Header0091 + "\x01\x00"} {
		r := b.connect()
		r.write([]byte(sent))
		if _, err := io.ReadAll(r.sock); err != nil {
			t.Errorf("after %q: %v", sent, err)
		}
	}
	if n := b.server.Figures().HandshakesFailed; n != 4 {
		t.Errorf("%d handshakes failed", n)
	}
}

func TestClientPropertiesMayBeNestedTables(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	deep := client.Table{"a": client.Table{"b": client.Table{"c": []any{int32(1), "x", client.Table{}}}}}
	conn, err := client.DialConfig("amqp://guest:guest@"+b.addr+"/", client.Config{Properties: client.Table{"deep": deep, "capabilities": client.Table{}}})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// Each is sent on an open connection with channel 1 open, and closes it.
func TestConnectionErrors(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	method := func(channel uint16, m wire.Method) []byte { return m.AppendFrame(nil, channel) }
	payload := func(kind byte, channel uint16, p ...byte) []byte {
		f := []byte{kind, byte(channel >> 8), byte(channel), 0, 0, byte(len(p) >> 8), byte(len(p))}
		return append(append(f, p...), 0xCE)
	}
	publish := method(1, &wire.BasicPublish{RoutingKey: []byte("q")})
	header := func(class, weight uint16, size byte) []byte {
		return payload(wire.FrameHeader, 1, byte(class>>8), byte(class), byte(weight>>8), byte(weight), 0, 0, 0, 0, 0, 0, 0, size, 0, 0)
	}
	for _, c := range []struct {
		name string
		send []byte
		code wire.Code
	}{
		{"wrong frame end", []byte{8, 0, 0, 0, 0, 0, 0, 0xCD}, wire.FrameErrorCode},
		{"frame too long", []byte{3, 0, 1, 0xff, 0xff, 0xff, 0xff}, wire.FrameErrorCode},
		{"unknown type of frame", payload(4, 1), wire.FrameErrorCode},
		{"unknown type of frame on channel 0", payload(4, 0), wire.FrameErrorCode},
		{"heartbeat on a channel", payload(8, 1), wire.FrameErrorCode},
		{"heartbeat on a closed channel", payload(8, 2), wire.FrameErrorCode},
		{"unknown class", payload(1, 1, 0, 99, 0, 10), wire.NotImplemented},
		{"unknown method", payload(1, 1, 0, 60, 0, 99), wire.NotImplemented},
		{"unknown method on channel 0", payload(1, 0, 0, 10, 0, 99), wire.NotImplemented},
		{"unknown method on a closed channel", payload(1, 2, 0, 60, 0, 99), wire.NotImplemented},
		{"channel's method on channel 0", method(0, &wire.QueueDeclare{}), wire.CommandInvalid},
		{"channel.open on channel 0", method(0, &wire.ChannelOpen{}), wire.CommandInvalid},
		{"connection's method on a channel", method(1, &wire.ConnectionClose{}), wire.CommandInvalid},
		{"connection's method on a closed channel", method(2, &wire.ConnectionClose{}), wire.CommandInvalid},
		{"connection.open twice", method(0, &wire.ConnectionOpen{VirtualHost: []byte("/")}), wire.CommandInvalid},
		{"server's method from the client", method(1, &wire.QueueDeclareOk{}), wire.CommandInvalid},
		{"connection.tune from the client", method(0, &wire.ConnectionTune{}), wire.CommandInvalid},
		{"channel open twice", method(1, &wire.ChannelOpen{}), wire.ChannelError},
		{"method on a closed channel", method(2, &wire.BasicQos{}), wire.ChannelError},
		{"content on a closed channel", payload(3, 2, 1), wire.ChannelError},
		{"content on channel 0", payload(2, 0, 1), wire.UnexpectedFrame},
		{"no method", payload(1, 1, 0, 60), wire.SyntaxErrorCode},
		{"no method on channel 0", payload(1, 0), wire.SyntaxErrorCode},
		{"arguments cut off", payload(1, 1, 0, 60, 0, 80), wire.SyntaxErrorCode},
		{"table cut off", method(1, &wire.QueueDeclare{Arguments: []byte{0, 0, 0, 2, 1, 'x'}}), wire.SyntaxErrorCode},
		{"header without a method", header(60, 0, 1), wire.UnexpectedFrame},
		{"body without a method", payload(3, 1, 1), wire.UnexpectedFrame},
		{"method where a header was due", append(bytes.Clone(publish), publish...), wire.UnexpectedFrame},
		{"body where a header was due", append(bytes.Clone(publish), payload(3, 1, 1)...), wire.UnexpectedFrame},
		{"method where a body was due", bytes.Join([][]byte{publish, header(60, 0, 1), publish}, nil), wire.UnexpectedFrame},
		{"header where a body was due", bytes.Join([][]byte{publish, header(60, 0, 1), header(60, 0, 1)}, nil), wire.UnexpectedFrame},
		{"header of another class", append(bytes.Clone(publish), header(50, 0, 1)...), wire.UnexpectedFrame},
		{"header with a weight", append(bytes.Clone(publish), header(60, 1, 1)...), wire.FrameErrorCode},
		{"header cut off", append(bytes.Clone(publish), payload(2, 1, 0, 60)...), wire.SyntaxErrorCode},
		{"body longer than announced", bytes.Join([][]byte{publish, header(60, 0, 1), payload(3, 1, 1, 2)}, nil), wire.FrameErrorCode},
		{"immediate", method(1, &wire.BasicPublish{Immediate: true}), wire.NotImplemented},
		{"prefetch size", method(1, &wire.BasicQos{PrefetchSize: 1}), wire.NotImplemented},
		{"recover without requeue", method(1, &wire.BasicRecover{}), wire.NotImplemented},
		{"recover-async without requeue", method(1, &wire.BasicRecoverAsync{}), wire.NotImplemented},
		{"tx.select", method(1, &wire.TxSelect{}), wire.NotImplemented},
		{"tx.commit", method(1, &wire.TxCommit{}), wire.NotImplemented},
		{"tx.rollback", method(1, &wire.TxRollback{}), wire.NotImplemented},
		{"exchange.declare", method(1, &wire.ExchangeDeclare{Exchange: []byte("x"), Type: []byte("direct")}), wire.NotImplemented},
		{"exchange.delete", method(1, &wire.ExchangeDelete{Exchange: []byte("x")}), wire.NotImplemented},
		{"exchange.bind", method(1, &wire.ExchangeBind{Source: []byte("x"), Destination: []byte("y")}), wire.NotImplemented},
		{"exchange.unbind", method(1, &wire.ExchangeUnbind{Source: []byte("x"), Destination: []byte("y")}), wire.NotImplemented},
		{"queue.bind", method(1, &wire.QueueBind{Queue: []byte("q"), Exchange: []byte("x")}), wire.NotImplemented},
		{"queue.unbind", method(1, &wire.QueueUnbind{Queue: []byte("q"), Exchange: []byte("x")}), wire.NotImplemented},
		{"malformed properties", append(bytes.Clone(publishTo(t, b, "orders")), payload(2, 1, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0)...), wire.SyntaxErrorCode},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := b.login()
			r.t = t
			r.channel(1)
			r.write(c.send)
			m := r.closed(c.code)
			if !strings.HasPrefix(string(m.ReplyText), c.code.String()+" - ") {
				t.Errorf("it says %q", m.ReplyText)
			}
		})
	}
}

// publishTo declares a queue and returns the method that publishes to it.
func publishTo(t *testing.T, b *broker, name string) []byte {
	declare(t, b.open(), name)
	return (&wire.BasicPublish{RoutingKey: []byte(name)}).AppendFrame(nil, 1)
}

func TestConnectionCloseAtAnyTimeIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	r := b.login()
	r.channel(1)
	r.channel(2)
	r.send(2, &wire.BasicConsume{Queue: []byte("orders")})
	expect[wire.BasicConsumeOk](r, 2)
	half := (&wire.BasicPublish{RoutingKey: []byte("orders")}).AppendFrame(nil, 1)
	half = append(half, wire.AppendContent(nil, 1, []byte{0, 0}, make([]byte, 100), 0)[:22]...) // the header, and no body
	r.write(half)
	closing := (&wire.ConnectionClose{ReplyCode: 200}).AppendFrame(nil, 0)
	r.write(append(closing, closing...)) // what comes after it is ignored
	expect[wire.ConnectionCloseOk](r, 0)
	r.ended()
	b.ready("orders", 0)
}

func TestFramesAfterAConnectionErrorAreIgnored(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	r := b.login()
	r.channel(1)
	r.send(1, &wire.TxSelect{})
	r.publish(1, "orders", "too late")
	r.send(1, &wire.ChannelClose{}, &wire.ChannelOpen{})
	r.send(0, &wire.ConnectionClose{}) // it crosses the broker's
	m := expect[wire.ConnectionClose](r, 0)
	if m.ClassID != wire.ClassTx || m.MethodID != 10 {
		t.Errorf("closed about method %d of class %d", m.MethodID, m.ClassID)
	}
	expect[wire.ConnectionCloseOk](r, 0)
	r.send(0, &wire.ConnectionCloseOk{})
	r.ended()
	b.ready("orders", 0)
}

func TestClientThatDoesNotAnswerAConnectionErrorIsCutOff(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options) { o.Limits.CloseTimeout = 50 * time.Millisecond })
	r := b.login()
	r.channel(1)
	r.send(1, &wire.TxSelect{})
	expect[wire.ConnectionClose](r, 0)
	r.ended()
}

func TestUpdateSecretTakesAValidOneOnly(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	r := b.login()
	r.send(0, &wire.ConnectionUpdateSecret{NewSecret: []byte("guest"), Reason: []byte("rotation")})
	expect[wire.ConnectionUpdateSecretOk](r, 0)
	r.send(0, &wire.ConnectionUpdateSecret{NewSecret: []byte("wrong")})
	r.closed(wire.NotAllowed)
}

func TestOptionsThatCannotBeUsedAreRefused(t *testing.T) {
	t.Parallel()
	for _, l := range []Limits{{FrameMax: 4095}, {FrameMax: 1 << 30}, {ChannelMax: 65536}, {MessageMax: -1}, {Heartbeat: time.Millisecond}, {WriteTimeout: -1}, {UnackedMax: 1 << 30}} {
		if _, err := l.withDefaults(); err == nil {
			t.Errorf("%+v was taken", l)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a server without a store was made")
	}
}

func TestDrainTellsClientsAndConfirmsWhatItHasTaken(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	conn := b.dial()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	declare(t, ch, "orders")
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	closed := conn.NotifyClose(make(chan *client.Error, 1))
	c, err := ch.PublishWithDeferredConfirm("", "orders", false, false, client.Publishing{Body: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the message arrives", func() bool { return b.server.Figures().Published == 1 })
	b.stop()
	select {
	case e := <-closed:
		if e == nil || e.Code != int(wire.ConnectionForced) {
			t.Errorf("closed with %v", e)
		}
	case <-time.After(patience):
		t.Fatal("the client was not told")
	}
	if !c.Wait() {
		t.Error("the message was not confirmed")
	}
	if sock, err := net.Dial("tcp", b.addr); err == nil {
		sock.Close()
		t.Error("it still listens")
	}
}

func TestServerPropertiesAreATable(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	if _, rest, err := message.ParseTable(b.server.properties()); err != nil || len(rest) > 0 {
		t.Errorf("%v, %d bytes are left over", err, len(rest))
	}
}

func TestOnlyClientsThatUnderstandAreToldOfBlocking(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	b := startBroker(t, mem)
	declare(t, b.open(), "orders")
	told := b.login(func(start *wire.ConnectionStartOk, _ *wire.ConnectionTuneOk) {
		start.ClientProperties = table(t, "capabilities", []any{"connection.blocked", true})
	})
	untold := b.login()
	for _, r := range []*raw{told, untold} {
		r.channel(1)
		r.send(1, &wire.ConfirmSelect{})
		expect[wire.ConfirmSelectOk](r, 1)
	}
	mem.SetCapacity(mem.Used())
	body := strings.Repeat("x", 100_000)
	sent := 0
	for b.server.Figures().PublishersBlocked < 2 {
		if sent++; sent > 1000 {
			t.Fatal("the disk does not get full")
		}
		for _, r := range []*raw{told, untold} {
			before := b.server.Figures()
			r.publish(1, "orders", body)
			until(t, "it is confirmed or blocked", func() bool {
				f := b.server.Figures()
				return f.Confirmed > before.Confirmed || f.PublishersBlocked == 2 || f.PublishersBlocked > before.PublishersBlocked || f.Published > before.Published && f.PublishersBlocked > 0
			})
		}
	}
	mem.SetCapacity(-1)
	until(t, "all are confirmed", func() bool { f := b.server.Figures(); return f.Confirmed == f.Published })
	for _, c := range []struct {
		r    *raw
		told bool
	}{{told, true}, {untold, false}} {
		c.r.send(1, &wire.ChannelClose{})
		var blocked, unblocked bool
		for closed := false; !closed; {
			f, err := c.r.frame()
			if err != nil {
				t.Fatal(err)
			}
			switch id, _, _ := wire.SplitMethod(f.Payload); id {
			case wire.ConnectionBlockedID:
				blocked = true
			case wire.ConnectionUnblockedID:
				unblocked = blocked
			case wire.ChannelCloseOkID:
				closed = true
			}
		}
		if blocked != c.told || unblocked != c.told {
			t.Errorf("told %v: blocked %v, unblocked %v", c.told, blocked, unblocked)
		}
	}
}
