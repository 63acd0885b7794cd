package amqp

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"polylog/protocols/amqp/wire"
)

// FuzzConnection sends anything on an open connection with channel 1 open, and ends it. The broker must come to an end with it.
func FuzzConnection(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var in []byte
		for range 10 {
			in = appendRandomFrame(rng, in)
		}
		f.Add(in)
	}
	q := []byte("orders")
	story := (&wire.QueueDeclare{Queue: q}).AppendFrame(nil, 1)
	story = (&wire.ConfirmSelect{}).AppendFrame(story, 1)
	story = (&wire.BasicConsume{Queue: q, ConsumerTag: []byte("me")}).AppendFrame(story, 1)
	story = (&wire.BasicPublish{RoutingKey: q, Mandatory: true}).AppendFrame(story, 1)
	story = wire.AppendContent(story, 1, []byte{0x10, 0, 2}, make([]byte, 100), 0)
	story = (&wire.BasicGet{Queue: q}).AppendFrame(story, 1)
	story = (&wire.BasicNack{DeliveryTag: 1, Multiple: true, Requeue: true}).AppendFrame(story, 1)
	story = (&wire.BasicAck{Multiple: true}).AppendFrame(story, 1)
	story = (&wire.BasicCancel{ConsumerTag: []byte("me")}).AppendFrame(story, 1)
	story = (&wire.QueuePurge{Queue: q}).AppendFrame(story, 1)
	story = (&wire.QueueDelete{Queue: q}).AppendFrame(story, 1)
	story = (&wire.ChannelClose{}).AppendFrame(story, 1)
	f.Add((&wire.ConnectionClose{}).AppendFrame(story, 0))

	b := newBroker(f, func(o *Options) { o.Limits.CloseTimeout, o.Limits.MessageMax = time.Millisecond, 10_000 })
	opening := append([]byte(wire.Header0091), (&wire.ConnectionStartOk{Mechanism: []byte("PLAIN"), Response: []byte("\x00guest\x00guest")}).AppendFrame(nil, 0)...)
	opening = (&wire.ConnectionTuneOk{}).AppendFrame(opening, 0)
	opening = (&wire.ConnectionOpen{VirtualHost: []byte("/")}).AppendFrame(opening, 0)
	opening = (&wire.ChannelOpen{}).AppendFrame(opening, 1)
	f.Fuzz(func(t *testing.T, in []byte) {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			b.server.Handle(theirs)
			close(done)
		}()
		go io.Copy(io.Discard, ours) //nolint:errcheck // whatever comes
		for _, piece := range [][]byte{opening, in[:len(in)/2], in[len(in)/2:]} {
			if _, err := ours.Write(piece); err != nil {
				break // it was closed for what came before
			}
		}
		ours.Close()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("the connection does not end")
		}
	})
}
