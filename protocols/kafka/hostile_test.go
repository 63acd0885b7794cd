package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/topic"
)

func sized(size int32, b ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(size)), b...)
}

// Bytes that are no request end the connection that they came on, and nobody else's.
func TestBytesThatAreNoRequestEndTheirConnection(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	b.topic("example", nil)
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))
	valid := func(key, version int16) []byte { return f.AppendRequest(nil, exampleRequest(b, key, version), 1) }
	longer := func(frame []byte) []byte {
		frame = append(frame, 0, 1, 0, 0)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		return frame
	}
	shorter := func(frame []byte) []byte {
		frame = frame[:len(frame)-1]
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		return frame
	}
	header := []byte{0, 3, 0, 1, 0, 0, 0, 1}
	cases := map[string][]byte{
		"size negative":                   sized(-1, header...),
		"size zero":                       sized(0, header...),
		"size below a header":             sized(7, header...),
		"size over the limit":             sized(4<<20+1, header...),
		"size over the limit of produce":  sized(100<<20+1, 0, 0, 0, 9, 0, 0, 0, 1),
		"unknown key":                     sized(10, 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff),
		"negative key":                    sized(10, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff),
		"key of brokers only":             sized(10, 0, 4, 0, 0, 0, 0, 0, 1, 0xff, 0xff),
		"version of the future":           sized(10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff),
		"negative version":                sized(10, 0, 3, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff),
		"no client id":                    sized(8, header...),
		"client id longer than the frame": sized(10, append(header, 0x7f, 0xff)...),
		"no body":                         sized(10, append(header, 0xff, 0xff)...),
		"2^31-1 topics":                   sized(14, append(header, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff)...),
		"trailing bytes, metadata v1":     longer(valid(3, 1)),
		"trailing bytes, metadata v12":    longer(valid(3, 12)),
		"trailing bytes, fetch v12":       longer(valid(1, 12)),
		"trailing bytes, produce v9":      longer(valid(0, 9)),
		"trailing bytes, api versions v0": longer(valid(18, 0)),
		"truncated, metadata v1":          shorter(valid(3, 1)),
		"truncated, fetch v4":             shorter(valid(1, 4)),
		"truncated, produce v3":           shorter(valid(0, 3)),
		"AMQP":                            []byte("AMQP\x00\x00\x09\x01"),
		"HTTP":                            []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
	}
	other := b.dial()
	for what, bytes := range cases {
		t.Run(what, func(t *testing.T) {
			r := dialRaw(t, b.addr)
			r.sendBytes(bytes)
			r.expectClosed()
		})
	}
	if resp := other.ask(exampleRequest(b, 3, 12)).(*kmsg.MetadataResponse); len(resp.Topics) == 0 {
		t.Error("another connection suffers")
	}
	eventually(t, "each is counted", func() bool { return b.server.Figures().RequestErrors == int64(len(cases)) })
}

// What librdkafka sends to ask for all topics, with four bytes for the null where one belongs, is answered.
func TestMetadataAsLibrdkafkaAsks(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	b.topic("example", nil)
	r := b.dial()
	r.sendBytes(sized(20, 0, 3, 0, 13, 0, 0, 0, 1, 0, 2, 'r', 'd', 0, 0, 0, 0, 0, 1, 0, 0))
	if resp := r.receive(metadataRequest(13, true), 1).(*kmsg.MetadataResponse); len(resp.Topics) != 1 {
		t.Errorf("%+v", resp)
	}
}

// Half a request and then silence ends the connection, after the time for a stall and not that for idleness.
func TestHalfARequestDoesNotHoldAConnection(t *testing.T) {
	t.Parallel()
	b := startBroker(t, func(o *Options) { o.Limits.StallTimeout = 50 * time.Millisecond })
	r := b.dial()
	r.sendBytes(sized(1000, 0, 3, 0, 1, 0, 0))
	r.expectClosed()
}

// A connection on which nothing happens is closed, one that waits for an answer is not.
func TestIdleConnectionIsClosedAndAWaitingOneIsNot(t *testing.T) {
	t.Parallel()
	const idle = 50 * time.Millisecond
	b := startBroker(t, func(o *Options) { o.Limits.IdleTimeout = idle })
	tp := b.topic("example", nil)
	waiting := b.dial()
	req := fetchRequest(12, tp, 0)
	req.MaxWaitMillis = int32(10 * idle / time.Millisecond)
	corr := waiting.send(req)
	b.dial().expectClosed()
	waiting.receive(req, corr)
	waiting.expectClosed()
}

// A client that asks and asks and reads nothing is not read from any more once its answers fill what a connection may hold; then it is cut off. Others go on.
func TestClientThatDoesNotReadIsBounded(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	b := startBroker(t, func(o *Options) {
		o.Limits.ConnectionBytes = most
		o.Limits.StallTimeout = 500 * time.Millisecond
	})
	tp := b.topic("example", func(s *topic.Spec) { s.Config = map[string]string{"max.message.bytes": "2000000"} })
	w := b.dial()
	big := string(make([]byte, 1<<20))
	w.mustProduce(tp, big)

	r := b.dial()
	r.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	frame := r.f.AppendRequest(nil, fetchRequest(12, tp, 0), 1)
	sent := 0
	for { // until it takes no more, or ends
		r.conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := r.conn.Write(frame)
		sent += n
		if err != nil {
			break
		}
		if sent > 1<<30 {
			t.Fatal("the broker reads on and on")
		}
		held := int64(0)
		b.server.roster.Each(func(c *connection) {
			c.mu.Lock()
			held = max(held, c.held)
			c.mu.Unlock()
		})
		if held > most+2<<20 {
			t.Fatalf("a connection holds %d bytes", held)
		}
		if held >= most {
			break
		}
	}
	w.mustProduce(tp, "others go on")
	eventually(t, "the connection is cut off", func() bool { return b.server.Figures().Connections == 1 })
}

// Requests are answered in their order, whichever is ready first.
func TestAnswersComeInTheOrderOfTheRequests(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	wait := fetchRequest(12, tp, 0)
	wait.MaxWaitMillis = 100
	var reqs []kmsg.Request
	for range 20 {
		reqs = append(reqs, exampleRequest(b, 18, 3), produceRequest(9, tp, 0, -1, batchOf(t, nil, "v")), exampleRequest(b, 3, 9), exampleRequest(b, 22, 4),
			fetchRequest(12, tp, 0), exampleRequest(b, 2, 7))
	}
	reqs = append([]kmsg.Request{wait}, reqs...)
	var frames []byte
	for i, req := range reqs {
		frames = append(frames, r.f.AppendRequest(nil, req, int32(i+1))...)
	}
	r.sendBytes(frames)
	for i, req := range reqs {
		r.receive(req, int32(i+1))
	}
}

// A fetch that waits is its own connection's affair.
func TestLongFetchDoesNotHoldUpAnotherConnection(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	slow := b.dial()
	req := fetchRequest(12, tp, 0)
	req.MaxWaitMillis = 1 << 30
	corr := slow.send(req)
	eventually(t, "the fetch waits", func() bool { return b.server.Figures().FetchesWaited == 1 })
	other := b.dial()
	other.ask(exampleRequest(b, 3, 9))
	other.mustProduce(tp, "woken")
	resp := slow.receive(req, corr).(*kmsg.FetchResponse)
	if got := valuesOf(recordsOf(t, resp.Topics[0].Partitions[0].RecordBatches)); len(got) != 1 || got[0] != "woken" {
		t.Errorf("%q", got)
	}
}

// As many requests as a connection may have in flight are taken; more wait their turn and are answered all the same.
func TestMoreRequestsThanMayBeInFlightAreAnswered(t *testing.T) {
	t.Parallel()
	b := startBroker(t, func(o *Options) { o.Limits.Inflight = 3 })
	tp := b.topic("example", nil)
	r := b.dial()
	const n = 500
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range n {
			r.sendBytes(r.f.AppendRequest(nil, produceRequest(9, tp, 0, -1, batchOf(t, nil, "v")), int32(i)))
		}
	})
	for i := range n {
		resp := r.receive(produceRequest(9, tp, 0, -1, nil), int32(i)).(*kmsg.ProduceResponse)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Fatalf("request %d: %+v", i, p)
		}
	}
	sending.Wait()
}

// A drain answers what was asked, answers a fetch that waits with what there is, takes nothing new, and closes.
func TestDrainAnswersWhatWasAsked(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	produce, wait := produceRequest(9, tp, 0, -1, batchOf(t, nil, "v")), fetchRequest(12, b.topic("empty", nil), 0)
	wait.MaxWaitMillis = 1 << 30
	first, second := r.send(produce), r.send(wait)
	eventually(t, "the fetch waits", func() bool { return b.server.Figures().FetchesWaited == 1 })
	idle := b.dial()
	b.stop()
	if p := r.receive(produce, first).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Errorf("%+v", p)
	}
	r.receive(wait, second)
	r.expectClosed()
	idle.expectClosed()
	ours, theirs := net.Pipe()
	go b.server.Handle(theirs)
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection after the drain: %v", err)
	}
}

// A drain whose time is over closes what is left.
func TestDrainEndsInTime(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", func(s *topic.Spec) { s.Config = map[string]string{"max.message.bytes": "20000000"} })
	r := b.dial()
	r.mustProduce(tp, string(make([]byte, 10<<20)))
	r.send(fetchRequest(12, tp, 0)) // more than the socket takes, and nobody reads
	eventually(t, "the answer is on its way", func() bool { return b.server.Figures().FetchedBytes > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := b.server.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if n := b.server.Figures().Connections; n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
