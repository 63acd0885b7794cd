package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
)

// AMQP drives a broker through AMQP 0-9-1: durable queues, publisher confirms, and the default exchange.
type AMQP struct {
	URL       string // amqp://user:password@host:port/vhost; guest, guest, 5672 and / where they are missing. Several nodes: with commas between
	Queue     string // the queues of the rounds begin with it
	QueueType string // sent as x-queue-type if not empty
	Transient bool   // messages are not persistent
	Prefetch  int    // of each consumer; 0: as many as the broker likes to send
	AutoAck   bool   // messages are taken as acknowledged when they are sent
	// Multiple has consumers acknowledge so many messages with one frame, or what they have when nothing more has arrived. 1: each by itself.
	Multiple int

	nodes   []amqpNode
	product string // what the broker calls itself, once it was asked
}

// Check returns what is wrong with what was asked for.
func (a *AMQP) Check() error {
	a.nodes = nil
	for _, text := range nodesIn(a.URL) {
		n, err := parseAMQPNode(text)
		if err != nil {
			return err
		}
		a.nodes = append(a.nodes, n)
	}
	switch {
	case a.Prefetch < 0 || a.Prefetch > 65535:
		return fmt.Errorf("the prefetch must be from 0 to 65535, not %d", a.Prefetch)
	case a.Multiple < 1:
		return fmt.Errorf("at least 1 message is acknowledged with a frame, not %d", a.Multiple)
	case a.Prefetch > 0 && a.Multiple > a.Prefetch:
		return fmt.Errorf("%d messages cannot be acknowledged at once if only %d are out", a.Multiple, a.Prefetch)
	}
	return nil
}

// Name is part of Broker.
func (a *AMQP) Name() string {
	at := strings.Join(a.Addresses(), ", ")
	if a.product != "" {
		return a.product + " at " + at
	}
	return at
}

// Addresses is part of Broker.
func (a *AMQP) Addresses() (all []string) {
	for _, n := range a.nodes {
		all = append(all, n.address)
	}
	return all
}

func (a *AMQP) queue(r *round, i int) []byte {
	return fmt.Appendf(nil, "%s-%016x-%d", a.Queue, r.id, i)
}

func (a *AMQP) setup(ctx context.Context, r *round) error {
	if err := a.Check(); err != nil {
		return err
	}
	var b message.TableBuilder
	if a.QueueType != "" {
		b.Text("x-queue-type", a.QueueType)
	}
	arguments, err := b.Table()
	if err != nil {
		return err
	}
	// Where a queue is declared there is its leader with some brokers, so the nodes take turns.
	for node := range min(len(a.nodes), r.load.Queues) {
		s, err := a.dial(ctx, r, node)
		if err != nil && node > 0 {
			err = errors.Join(err, a.delete(ctx, r, new(int64)))
		}
		if err != nil {
			return err
		}
		a.product = s.product
		for i := node; i < r.load.Queues && err == nil; i += len(a.nodes) {
			err = s.call(&wire.QueueDeclare{Queue: a.queue(r, i), Durable: true, Arguments: arguments.Bytes()}, new(wire.QueueDeclareOk))
		}
		if err == nil {
			err = s.end()
		}
		if err != nil {
			s.conn.Close()
			return errors.Join(err, a.delete(ctx, r, new(int64)))
		}
	}
	return nil
}

func (a *AMQP) remove(ctx context.Context, r *round) (left int64, err error) {
	return left, a.delete(ctx, r, &left)
}

// delete deletes the queues of a round and counts what was in them.
func (a *AMQP) delete(ctx context.Context, r *round, left *int64) error {
	s, err := a.dial(ctx, r, 0)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	for i := range r.load.Queues {
		var ok wire.QueueDeleteOk
		if err := s.call(&wire.QueueDelete{Queue: a.queue(r, i)}, &ok); err != nil {
			return err
		}
		*left += int64(ok.MessageCount)
	}
	return s.end()
}

// amqpProducer publishes with confirms: one goroutine writes, another one reads the confirms.
type amqpProducer struct {
	r      *round
	index  int
	s      *session
	window *window
	// A message is the template with its stamp written over the bytes from stampAt on.
	template []byte
	stampAt  int
}

func (a *AMQP) producer(ctx context.Context, r *round, index int) (client, error) {
	s, err := a.dial(ctx, r, producersNode(index, len(a.nodes)))
	if err != nil {
		return nil, err
	}
	if err := s.call(&wire.ConfirmSelect{}, new(wire.ConfirmSelectOk)); err != nil {
		s.conn.Close()
		return nil, err
	}
	p := &amqpProducer{r: r, index: index, s: s, window: newWindow(r.load.Window)}
	persistence := byte(2)
	if a.Transient {
		persistence = 1
	}
	properties := append(binary.BigEndian.AppendUint16(nil, message.FlagDeliveryMode), persistence)
	publish := wire.BasicPublish{RoutingKey: a.queue(r, index%r.load.Queues)}
	p.template = publish.AppendFrame(p.template, theChannel)
	p.stampAt = len(p.template) + wire.ContentBytes(len(properties), 0, s.frameMax) + wire.FrameOverhead - 1 // behind the header of the first body frame
	p.template = wire.AppendContent(p.template, theChannel, properties, noise(r.load.Size), s.frameMax)
	return p, nil
}

func (p *amqpProducer) ready(context.Context) error { return nil }

func (p *amqpProducer) run(ctx context.Context) error {
	read := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel() // whoever waits for a confirm will get none
		read <- p.read()
	}()
	err := p.write(ctx)
	if err == nil && p.window.drain(ctx, p.r.load.Patience) {
		_, err = p.s.conn.Write((&wire.ConnectionClose{ReplyCode: uint16(wire.Success)}).AppendFrame(nil, 0))
	} else {
		p.s.conn.Close()
	}
	if readErr := <-read; readErr != nil && !errors.Is(readErr, net.ErrClosed) {
		return readErr // it says why a write failed
	}
	return err
}

func (p *amqpProducer) write(ctx context.Context) error {
	pace := p.r.pace(p.index)
	out := make([]byte, 0, max(writeBytes, len(p.template)))
	burst := cap(out) / len(p.template)
	for {
		room := p.window.room(ctx)
		if room == 0 {
			return nil
		}
		n, at := pace.next(min(room, burst))
		if n == 0 {
			return nil
		}
		out = out[:0]
		for range n {
			begin := len(out)
			s := pace.stamp(at)
			out = append(out, p.template...)
			s.put(out[begin+p.stampAt:])
			p.window.send(s.at)
		}
		p.r.sent(p.index, pace.sent)
		if _, err := p.s.conn.Write(out); err != nil {
			return err
		}
	}
}

// read takes confirms until the connection ends.
func (p *amqpProducer) read() error {
	var latency Histogram
	defer func() { p.r.measured(&p.r.confirm, &latency) }()
	for {
		m, err := p.s.next()
		if err != nil {
			return err
		}
		tag, multiple, counter := uint64(0), false, &p.r.confirmed
		switch m := m.(type) {
		case *wire.BasicAck:
			tag, multiple = m.DeliveryTag, m.Multiple
		case *wire.BasicNack:
			tag, multiple, counter = m.DeliveryTag, m.Multiple, &p.r.refused
		case *wire.ConnectionCloseOk:
			return nil
		case *wire.ConnectionBlocked, *wire.ConnectionUnblocked:
			continue
		default:
			return fmt.Errorf("the broker sent %v to a producer", m.ID())
		}
		if tag == 0 || tag > p.window.sent.Load() {
			return fmt.Errorf("the broker confirmed message %d of %d", tag, p.window.sent.Load())
		}
		first, n := tag-1, 0 // tags count from 1, messages from 0
		if multiple {
			first = p.window.low.Load()
		}
		for i := first; i < tag; i++ {
			at, ok := p.window.settle(i)
			if !ok {
				continue
			}
			n++
			if counter == &p.r.confirmed {
				latency.Add(p.s.heard - at)
				p.r.accounts[p.index].confirmed.add(i)
			}
		}
		p.r.settled(counter, n, p.s.heard)
		p.window.advance()
	}
}

func (p *amqpProducer) finish(context.Context) error { return nil }
func (p *amqpProducer) close()                       { p.s.conn.Close() }

// amqpConsumer consumes its share of the queues. What it acknowledges is written when nothing more has arrived.
type amqpConsumer struct {
	r    *round
	a    *AMQP
	s    *session
	tags [][]byte      // of what it consumes
	done chan struct{} // closed when run is over

	latency Histogram
	got     int    // messages since the round was told
	last    uint64 // the newest tag
	unacked int    // messages for which no acknowledgement was written
}

// queuesOf returns the queues of a consumer: with fewer consumers than queues each has several.
func (r *round) queuesOf(consumer int) (queues []int) {
	for q := consumer % r.load.Queues; q < r.load.Queues; q += r.load.Consumers {
		queues = append(queues, q)
	}
	return queues
}

func (a *AMQP) consumer(ctx context.Context, r *round, index int) (client, error) {
	s, err := a.dial(ctx, r, consumersNode(index, len(a.nodes)))
	if err != nil {
		return nil, err
	}
	if a.Prefetch > 0 {
		err = s.call(&wire.BasicQos{PrefetchCount: uint16(a.Prefetch)}, new(wire.BasicQosOk))
	}
	c := &amqpConsumer{r: r, a: a, s: s, done: make(chan struct{})}
	for _, q := range r.queuesOf(index) {
		tag := fmt.Appendf(nil, "bench-%d", q)
		if err == nil {
			err = s.call(&wire.BasicConsume{Queue: a.queue(r, q), ConsumerTag: tag, NoAck: a.AutoAck}, new(wire.BasicConsumeOk))
		}
		c.tags = append(c.tags, tag)
	}
	if err != nil {
		s.conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *amqpConsumer) ready(context.Context) error { return nil }

func (c *amqpConsumer) run(context.Context) error {
	defer close(c.done)
	c.s.idle = c.settle
	defer func() { c.r.measured(&c.r.arrive, &c.latency) }()
	for cancelled := 0; ; {
		m, err := c.s.next()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *wire.BasicDeliver:
			if err := c.take(m.DeliveryTag, m.Redelivered); err != nil {
				return err
			}
		case *wire.BasicCancelOk: // finish asked for it
			if cancelled++; cancelled < len(c.tags) {
				break
			}
			c.settle()
			c.s.out = (&wire.ChannelClose{ReplyCode: uint16(wire.Success)}).AppendFrame(c.s.out, theChannel)
		case *wire.ChannelCloseOk: // and so the broker has all acknowledgements
			return c.s.end()
		case *wire.BasicCancel:
			return errors.New("the broker cancelled the consumer")
		case *wire.ConnectionBlocked, *wire.ConnectionUnblocked:
		default:
			return fmt.Errorf("the broker sent %v to a consumer", m.ID())
		}
	}
}

// take reads the content of a delivery.
func (c *amqpConsumer) take(tag uint64, redelivered bool) error {
	body, err := c.s.body()
	if err != nil {
		return err
	}
	c.r.arrived(body, redelivered, c.s.heard, &c.latency)
	c.got++
	c.last = tag
	if c.a.AutoAck {
		return nil
	}
	if c.unacked++; c.unacked >= c.a.Multiple {
		c.acknowledge()
	}
	return nil
}

// acknowledge appends a frame for what was taken and not acknowledged.
func (c *amqpConsumer) acknowledge() {
	c.s.out = (&wire.BasicAck{DeliveryTag: c.last, Multiple: c.a.Multiple > 1}).AppendFrame(c.s.out, theChannel)
	c.r.acknowledged.Add(int64(c.unacked))
	c.unacked = 0
}

// settle is called before the consumer waits for more.
func (c *amqpConsumer) settle() {
	if c.unacked > 0 {
		c.acknowledge()
	}
	if c.got > 0 {
		c.r.received(c.got, c.s.heard)
		c.got = 0
	}
}

func (c *amqpConsumer) finish(ctx context.Context) error {
	var out []byte
	for _, tag := range c.tags {
		out = (&wire.BasicCancel{ConsumerTag: tag}).AppendFrame(out, theChannel)
	}
	if _, err := c.s.conn.Write(out); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, max(c.r.load.Patience, time.Second))
	defer cancel()
	select {
	case <-c.done:
		return nil
	case <-limit.Done():
		return fmt.Errorf("the broker did not close the channel: %w", limit.Err())
	}
}

func (c *amqpConsumer) close() { c.s.conn.Close() }
