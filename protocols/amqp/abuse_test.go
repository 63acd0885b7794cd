package amqp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"polylog/logstore/seed"
	"polylog/logstore/vfs"
	"polylog/protocols/amqp/wire"
)

// roundTrips publishes and gets messages and returns how long the slowest took.
func roundTrips(t *testing.T, ch *client.Channel, queue string, n int) time.Duration {
	t.Helper()
	worst := time.Duration(0)
	for i := range n {
		began := time.Now()
		put(t, ch, queue, fmt.Sprint(i))
		if d, ok, err := ch.Get(queue, true); err != nil || !ok || string(d.Body) != fmt.Sprint(i) {
			t.Fatal(ok, err)
		}
		worst = max(worst, time.Since(began))
	}
	return worst
}

func TestClientThatReadsNothingHarmsNobodyAndIsBounded(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options) { o.Limits.WriteBytes = 64 << 10 })
	pub := b.open()
	declare(t, pub, "orders")
	declare(t, pub, "own")
	r := b.login()
	r.channel(1)
	r.send(1, &wire.BasicConsume{Queue: []byte("orders"), NoAck: true})
	expect[wire.BasicConsumeOk](r, 1)
	const total = 64 << 20
	body := strings.Repeat("x", 32<<10)
	for range total / len(body) {
		put(t, pub, "orders", body)
	}
	if worst := roundTrips(t, b.open(), "own", 200); worst > 5*time.Second {
		t.Errorf("another client waited for %v", worst)
	}
	// Far from all of it is on its way: the rest waits in the queue, for somebody who reads.
	until(t, "deliveries stop", func() bool {
		before := b.server.Figures().Delivered
		roundTrips(t, pub, "own", 20)
		return b.server.Figures().Delivered == before
	})
	if sent := b.server.Figures().Delivered * int64(len(body)); sent > total/2 {
		t.Errorf("%d bytes were delivered to a client that reads nothing", sent)
	}
	ds, err := b.open().Consume("orders", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	next(t, ds)
	// When it reads again, it goes on where it was.
	for range 20 {
		expect[wire.BasicDeliver](r, 1)
		r.content(1)
	}
}

func TestClientThatTakesNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options) { o.Limits.WriteTimeout = 100 * time.Millisecond })
	pub := b.open()
	declare(t, pub, "orders")
	r := b.login()
	r.channel(1)
	r.send(1, &wire.BasicConsume{Queue: []byte("orders")})
	expect[wire.BasicConsumeOk](r, 1)
	body := strings.Repeat("x", 1<<20)
	n := int64(0)
	for b.server.Figures().Connections == 2 {
		put(t, pub, "orders", body)
		if n++; n > 200 {
			t.Fatal("it is still there")
		}
	}
	b.ready("orders", n)
	if b.server.Figures().SlowClients != 1 {
		t.Errorf("figures %+v", b.server.Figures())
	}
}

func TestHalfAFrameAndThenSilenceHarmsNobody(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "own")
	var half []*raw
	for i := range 50 {
		r := b.login()
		r.channel(1)
		m := (&wire.BasicPublish{RoutingKey: []byte("own")}).AppendFrame(nil, 1)
		m = wire.AppendContent(m, 1, []byte{0, 0}, make([]byte, 1000), 0)
		r.write(m[:len(m)*i/50])
		half = append(half, r)
	}
	if worst := roundTrips(t, ch, "own", 100); worst > 5*time.Second {
		t.Errorf("another client waited for %v", worst)
	}
	for _, r := range half {
		r.sock.Close()
	}
	until(t, "all are gone", func() bool { return b.server.Figures().Connections == 1 })
}

// It measures the memory of the process, so it runs alone.
func TestLengthThatIsClaimedTakesNoMemory(t *testing.T) {
	b := newBroker(t, func(o *Options) { o.Limits.FrameMax, o.Limits.MessageMax = 16<<20, 63<<20 })
	declare(t, b.open(), "orders")
	var before, after runtime.MemStats
	var all []*raw
	for range 50 {
		r := b.login()
		r.channel(1)
		all = append(all, r)
	}
	runtime.ReadMemStats(&before)
	for _, r := range all {
		m := (&wire.BasicPublish{RoutingKey: []byte("orders")}).AppendFrame(nil, 1)
		m = append(m, wire.FrameHeader, 0, 1, 0, 0, 0, 14, 0, 60, 0, 0, 0, 0, 0, 0, 3, 0xe0, 0, 0, 0, 0, 0xCE) // a body of 62 MiB
		r.write(append(m, wire.FrameBody, 0, 1, 0, 0xff, 0xff, 0, 1, 2, 3))                                    // a frame of 16 MiB
	}
	roundTrips(t, b.open(), "orders", 20)
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 50<<20 {
		t.Errorf("%d bytes more for 50 clients that sent nearly nothing", grown)
	}
}

// TestRandomBytesNeverHarmTheBroker sends well-formed frames with random contents, and noise.
func TestRandomBytesNeverHarmTheBroker(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	b := newBroker(t, func(o *Options) { o.Limits.CloseTimeout = 20 * time.Millisecond })
	own := b.open()
	declare(t, own, "own")
	for range 300 {
		r := b.login()
		r.channel(1)
		var out []byte
		for range rng.IntN(30) {
			out = appendRandomFrame(rng, out)
		}
		if rng.IntN(3) == 0 && len(out) > 0 {
			out[rng.IntN(len(out))] ^= byte(1 << rng.IntN(8))
		}
		if rng.IntN(3) == 0 && len(out) > 0 {
			out = out[:rng.IntN(len(out))]
		}
		r.sock.Write(out) //nolint:errcheck // it may be closed meanwhile
		if err := r.sock.(*net.TCPConn).CloseWrite(); err == nil {
			io.Copy(io.Discard, r.sock) //nolint:errcheck // whatever comes
		}
		r.sock.Close()
	}
	roundTrips(t, own, "own", 10)
	until(t, "all are gone", func() bool { return b.server.Figures().Connections == 1 })
}

// appendRandomFrame appends a frame: usually of a method that exists, on a channel that is likely open, with arguments that may make sense.
func appendRandomFrame(rng *rand.Rand, out []byte) []byte {
	channel := uint16([]int{0, 1, 1, 1, 1, 1, 2}[rng.IntN(7)])
	switch rng.IntN(10) {
	case 0:
		return append(out, wire.HeartbeatFrame...)
	case 1:
		return wire.AppendContent(out, channel, []byte{byte(rng.Uint32()), byte(rng.Uint32())}, make([]byte, rng.IntN(5000)), 4096)
	case 2, 3:
		out = (&wire.BasicPublish{RoutingKey: []byte("random"), Mandatory: rng.IntN(2) == 0}).AppendFrame(out, channel)
		return wire.AppendContent(out, channel, []byte{0, 0}, make([]byte, rng.IntN(5000)), 4096)
	}
	ids := []wire.MethodID{
		wire.QueueDeclareID, wire.QueuePurgeID, wire.QueueDeleteID, wire.BasicConsumeID, wire.BasicCancelID, wire.BasicGetID, wire.BasicQosID, wire.BasicAckID,
		wire.BasicNackID, wire.BasicRejectID, wire.BasicRecoverID, wire.ConfirmSelectID, wire.ChannelOpenID, wire.ChannelCloseID, wire.ChannelFlowID,
	}
	id := ids[rng.IntN(len(ids))]
	switch id {
	case wire.QueueDeclareID:
		return (&wire.QueueDeclare{Queue: []byte("random"), Durable: true, NoWait: rng.IntN(2) == 0}).AppendFrame(out, channel)
	case wire.BasicConsumeID:
		return (&wire.BasicConsume{Queue: []byte("random"), NoAck: rng.IntN(2) == 0}).AppendFrame(out, channel)
	case wire.BasicAckID, wire.BasicNackID, wire.BasicRejectID:
		return (&wire.BasicNack{DeliveryTag: uint64(rng.IntN(4)), Multiple: rng.IntN(2) == 0, Requeue: rng.IntN(2) == 0}).AppendFrame(out, channel)
	}
	args := make([]byte, rng.IntN(20))
	for i := range args {
		args[i] = byte(rng.IntN(4))
	}
	frame := append([]byte{wire.FrameMethod, 0, byte(channel), 0, 0, 0, byte(4 + len(args))}, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	return append(append(append(out, frame...), args...), 0xCE)
}

// Connections that end in all sorts of ways leave no goroutine behind.
func TestNoGoroutineOutlivesItsConnection(t *testing.T) {
	b := newBroker(t)
	use := func(end func(*raw)) {
		r := b.login(func(_ *wire.ConnectionStartOk, ok *wire.ConnectionTuneOk) { ok.Heartbeat = 60 })
		r.channel(1)
		r.send(1, &wire.QueueDeclare{Exclusive: true}, &wire.ConfirmSelect{})
		name := expect[wire.QueueDeclareOk](r, 1).Queue
		expect[wire.ConfirmSelectOk](r, 1)
		r.send(1, &wire.BasicConsume{Queue: name})
		expect[wire.BasicConsumeOk](r, 1)
		r.publish(1, string(name), "x")
		for range 2 { // the confirm and the delivery, in any order
			f, err := r.frame()
			if err != nil {
				t.Fatal(err)
			}
			if id, _, _ := wire.SplitMethod(f.Payload); id == wire.BasicDeliverID {
				r.content(1)
			}
		}
		r.send(1, &wire.BasicAck{DeliveryTag: 1})
		end(r)
	}
	ends := []func(*raw){
		func(r *raw) { r.sock.Close() },
		func(r *raw) {
			r.send(0, &wire.ConnectionClose{})
			expect[wire.ConnectionCloseOk](r, 0)
			r.ended()
		},
		func(r *raw) {
			r.send(1, &wire.TxSelect{})
			r.closed(wire.NotImplemented)
		},
		func(r *raw) {
			r.send(1, &wire.ChannelClose{})
			expect[wire.ChannelCloseOk](r, 1)
			r.sock.Close()
		},
	}
	for _, end := range ends {
		use(end)
	}
	until(t, "the first are gone", func() bool { return b.server.Figures().Connections == 0 })
	before := runtime.NumGoroutine()
	for range 20 {
		for _, end := range ends {
			use(end)
		}
	}
	until(t, "all goroutines end", func() bool { return b.server.Figures().Connections == 0 && runtime.NumGoroutine() <= before+2 })
}

func TestHalfSentMessagesOfAConnectionAreBounded(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options) { o.Limits.MessageMax = 100_000 })
	declare(t, b.open(), "orders")
	r := b.login()
	// begin is a message without its body, body a piece of one.
	begin := func(channel uint16, size int) []byte {
		m := (&wire.BasicPublish{RoutingKey: []byte("orders")}).AppendFrame(nil, channel)
		m = wire.AppendContent(m, channel, []byte{0, 0}, make([]byte, size), 0)
		return m[:len(m)-size-wire.FrameOverhead]
	}
	body := func(channel uint16, n int) []byte {
		all := wire.AppendContent(nil, channel, []byte{0, 0}, make([]byte, n), 0)
		return all[len(all)-n-wire.FrameOverhead:]
	}
	for ch := uint16(1); ch <= 8; ch++ {
		r.channel(ch)
		r.write(begin(ch, 100_000))
		r.write(body(ch, 90_000))
	}
	// They can be ended, and make room by that.
	for ch := uint16(1); ch <= 8; ch++ {
		r.write(body(ch, 10_000))
	}
	b.ready("orders", 8)
	for ch := uint16(1); ch <= 9; ch++ {
		if ch == 9 {
			r.channel(ch)
		}
		r.write(begin(ch, 100_000))
		r.write(body(ch, 99_000))
	}
	r.closed(wire.ResourceError)
}

func TestReturnsPileUpNoHigherThanTheLimit(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options) { o.Limits.WriteBytes = 64 << 10 })
	own := b.open()
	declare(t, own, "own")
	r := b.login()
	r.channel(1)
	m := (&wire.BasicPublish{RoutingKey: []byte("nowhere"), Mandatory: true}).AppendFrame(nil, 1)
	m = wire.AppendContent(m, 1, []byte{0, 0}, make([]byte, 100_000), 131072)
	written := 0
	if err := r.sock.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for { // what is returned is not read: before long nothing more is taken
		n, err := r.sock.Write(m)
		written += n
		if err != nil {
			break
		}
		if written > 100<<20 {
			t.Fatal("it takes without end")
		}
	}
	if worst := roundTrips(t, own, "own", 50); worst > 5*time.Second {
		t.Errorf("another client waited for %v", worst)
	}
}

// While the disk is full the reader of a blocked publisher does not read. That its client is gone is noticed all the same, and what the client held goes back.
func TestLostPublisherOnAFullDiskGivesBackWhatItHeld(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	b := startBroker(t, mem, func(o *Options) { o.Limits.PublishBytes = 64 << 10 })
	pub := b.open()
	declare(t, pub, "orders")
	declare(t, pub, "full")
	put(t, pub, "orders", "a", "b", "c")
	b.ready("orders", 3)
	r := b.login(func(_ *wire.ConnectionStartOk, ok *wire.ConnectionTuneOk) { ok.Heartbeat = 1 })
	r.channel(1)
	r.send(1, &wire.BasicConsume{Queue: []byte("orders")})
	expect[wire.BasicConsumeOk](r, 1)
	b.ready("orders", 0)
	mem.SetCapacity(mem.Used())
	if err := r.sock.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	m := (&wire.BasicPublish{RoutingKey: []byte("full")}).AppendFrame(nil, 1)
	m = wire.AppendContent(m, 1, []byte{0, 0}, make([]byte, 60_000), 0)
	for {
		if _, err := r.sock.Write(m); err != nil {
			break
		}
	}
	if b.server.Figures().PublishersBlocked != 1 {
		t.Fatalf("figures %+v", b.server.Figures())
	}
	r.sock.Close()
	b.ready("orders", 3)
	mem.SetCapacity(-1)
	until(t, "the connection ends", func() bool { return b.server.Figures().Connections == 1 })
	if d, ok, err := pub.Get("orders", true); err != nil || !ok || string(d.Body) != "a" || !d.Redelivered {
		t.Errorf("%v %v %+v", ok, err, d)
	}
}
