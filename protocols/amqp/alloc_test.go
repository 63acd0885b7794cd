package amqp

import (
	"runtime"
	"testing"

	"polylog/protocols/amqp/wire"
)

// A message's way through the broker, from its publish over the log to its delivery and acknowledgement, allocates only what a transaction for many messages does.
func TestPublishDeliverAndAckAllocateLittlePerMessage(t *testing.T) {
	b := newBroker(t)
	r := b.login()
	r.channel(1)
	r.channel(2)
	r.send(1, &wire.QueueDeclare{Queue: []byte("orders"), Durable: true}, &wire.ConfirmSelect{})
	expect[wire.QueueDeclareOk](r, 1)
	expect[wire.ConfirmSelectOk](r, 1)
	r.send(2, &wire.BasicQos{PrefetchCount: 500})
	expect[wire.BasicQosOk](r, 2)
	r.send(2, &wire.BasicConsume{Queue: []byte("orders")})
	expect[wire.BasicConsumeOk](r, 2)
	const burst = 200
	var publishes, acks []byte
	for range burst {
		publishes = (&wire.BasicPublish{RoutingKey: []byte("orders")}).AppendFrame(publishes, 1)
		publishes = wire.AppendContent(publishes, 1, []byte{0x10, 0, 2}, make([]byte, 1024), 0)
	}
	tag := uint64(0)
	round := func() {
		r.write(publishes)
		confirmed, bodies := false, 0
		for !confirmed || bodies < burst {
			f, err := r.frames.Next()
			if err != nil {
				t.Fatal(err)
			}
			switch f.Type {
			case wire.FrameBody:
				bodies++
				tag++
				acks = (&wire.BasicAck{DeliveryTag: tag}).AppendFrame(acks, 2)
			case wire.FrameMethod:
				if id, args, _ := wire.SplitMethod(f.Payload); id == wire.BasicAckID {
					var m wire.BasicAck
					if err := m.Decode(args); err != nil {
						t.Fatal(err)
					}
					confirmed = m.DeliveryTag == tag-uint64(bodies)+burst
				}
			}
		}
		r.write(acks)
		acks = acks[:0]
	}
	for range 20 {
		round()
	}
	const rounds = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	most := 1.0
	if raceEnabled {
		most = 3 // the race detector allocates too
	}
	if each := float64(after.Mallocs-before.Mallocs) / (rounds * burst); each > most {
		t.Errorf("%.2f allocations for each message", each)
	} else {
		t.Logf("%.2f allocations and %.0f bytes for each message", each, float64(after.TotalAlloc-before.TotalAlloc)/(rounds*burst))
	}
}
