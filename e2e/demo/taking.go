package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"polylog/e2e/harness"
)

// taking is what those who take messages have seen. It is shared by their goroutines.
type taking struct {
	mu   sync.Mutex
	want int64 // how many are to be settled
	counts
	sent    map[int64]bool // sent back; true: and has not come again
	settled map[int64]bool
	out     map[int64]bool // held
	done    chan struct{}  // closed when want are settled
}

// counts are the sums of a taking.
type counts struct {
	acked, byGet, twice int64
	nacked, again       int64 // sent back; of them come again, marked redelivered
	unmarked, stray     int64 // come again without the mark; marked without having been sent back
	held                int64
}

func newTaking(all int64) *taking {
	return &taking{want: all / 2, sent: map[int64]bool{}, settled: map[int64]bool{}, out: map[int64]bool{}, done: make(chan struct{})}
}

// verdict is what becomes of a message.
type verdict int

const (
	ack verdict = iota
	sendBack
	hold
)

// judge decides what becomes of a delivery.
func (t *taking) judge(d *amqp.Delivery, byGet bool) verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := number(d.Body)
	waits, wasSent := t.sent[i]
	switch {
	case waits && d.Redelivered:
		t.again++
		t.sent[i] = false
	case wasSent:
		t.unmarked++
	case d.Redelivered:
		t.stray++
	case i%10 == 0 && t.acked < t.want:
		t.sent[i] = true
		t.nacked++
		return sendBack
	}
	if t.settled[i] {
		t.twice++
	}
	if t.acked >= t.want {
		t.out[i] = true
		return hold
	}
	t.settled[i] = true
	t.acked++
	if byGet {
		t.byGet++
	}
	if t.acked == t.want {
		close(t.done)
	}
	return ack
}

// delivered reports whether message i was delivered before and not settled.
func (t *taking) delivered(i int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, sent := t.sent[i]
	return (sent || t.out[i]) && !t.settled[i]
}

func (t *taking) heldCount() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(len(t.out))
}

func (t *taking) isHeld(i int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out[i]
}

func (t *taking) isAcked(i int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled[i]
}

// sum returns the counts.
func (t *taking) sum() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.held = int64(len(t.out))
	return c
}

// crew are those who take messages: two with Get and two with Consume, each with a connection of its own.
type crew struct {
	conns []*amqp.Connection
	chans []*amqp.Channel
	t     *taking
	fail  chan error
	wg    sync.WaitGroup
}

const (
	getters   = 2
	consumers = 2
	prefetch  = 50
)

func startCrew(ctx context.Context, url, queue string, t *taking) (*crew, error) {
	c := &crew{t: t, fail: make(chan error, getters+consumers)}
	for i := range getters + consumers {
		conn, err := amqp.Dial(url)
		if err != nil {
			c.disconnect()
			return nil, err
		}
		c.conns = append(c.conns, conn)
		ch, err := conn.Channel()
		if err == nil {
			err = ch.Qos(prefetch, 0, false)
		}
		if err != nil {
			c.disconnect()
			return nil, err
		}
		c.chans = append(c.chans, ch)
		if i < getters {
			c.work(func() error { return c.get(ctx, ch, queue) })
			continue
		}
		// Consume is far quicker than Get, so Get is given a start.
		if err := c.awaitGets(); err != nil {
			c.disconnect()
			return nil, err
		}
		deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			c.disconnect()
			return nil, err
		}
		c.work(func() error { return c.consume(deliveries) })
	}
	return c, nil
}

// work runs a part in a goroutine of its own.
func (c *crew) work(part func() error) {
	c.wg.Go(func() {
		if err := part(); err != nil {
			c.fail <- err
		}
	})
}

// awaitGets waits until Get has settled a tenth of what is to be settled.
func (c *crew) awaitGets() error {
	return harness.Await(settleLimit, "the getters to begin", func() error {
		if n := c.t.sum().byGet; n < c.t.want/10 {
			return fmt.Errorf("they have settled %d", n)
		}
		return nil
	})
}

// get takes one message after another until half are settled.
func (c *crew) get(ctx context.Context, ch *amqp.Channel, queue string) error {
	for ctx.Err() == nil {
		select {
		case <-c.t.done:
			return nil
		default:
		}
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := c.settle(&d, true); err != nil {
			return err
		}
	}
	return nil
}

// consume settles what comes, until the channel closes.
func (c *crew) consume(deliveries <-chan amqp.Delivery) error {
	for d := range deliveries {
		if err := c.settle(&d, false); err != nil {
			return err
		}
	}
	return nil
}

func (c *crew) settle(d *amqp.Delivery, byGet bool) error {
	switch c.t.judge(d, byGet) {
	case ack:
		return d.Ack(false)
	case sendBack:
		return d.Nack(false, true)
	default:
		return nil
	}
}

// awaitHalf waits until half are settled and the broker has heard of it.
func (c *crew) awaitHalf(ctx context.Context) error {
	select {
	case <-c.t.done:
	case err := <-c.fail:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, ch := range c.chans {
		// Qos is answered after all that was sent before on the channel.
		if err := ch.Qos(prefetch, 0, false); err != nil {
			return err
		}
	}
	return nil
}

// close closes the channels in order, so that what is held comes back.
func (c *crew) close() error {
	var err error
	for _, ch := range c.chans {
		err = errors.Join(err, ch.Close())
	}
	c.wg.Wait()
	select {
	case failed := <-c.fail:
		return errors.Join(err, failed)
	default:
		return err
	}
}

func (c *crew) disconnect() {
	for _, conn := range c.conns {
		conn.Close() //nolint:errcheck // it may have failed before
	}
	c.wg.Wait()
}
