package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// reconnect is how long a client waits before it tries again.
const reconnect = 10 * time.Millisecond

// session runs f with connections to the broker, again and again until ctx ends. A connection belongs to one life of the broker.
func (w *crashWorld) session(ctx context.Context, f func(conn *amqp.Connection, life int)) {
	for ctx.Err() == nil {
		life := w.ledger.life()
		conn, err := connectAMQP(w.b.AMQP)
		if err != nil {
			w.pause(ctx, reconnect)
			continue
		}
		if w.ledger.life() == life {
			f(conn, life)
		}
		conn.Close() //nolint:errcheck // it may be broken
	}
}

// publisher publishes to a queue and waits for confirms.
func (w *crashWorld) publisher(queue string, r *rand.Rand) {
	serial := 0
	w.session(w.feed, func(conn *amqp.Connection, _ int) {
		ch, err := conn.Channel()
		if err != nil || ch.Confirm(false) != nil {
			return
		}
		for w.feed.Err() == nil {
			waits := map[queued]*amqp.DeferredConfirmation{}
			for range 1 + r.IntN(8) {
				m := queued{queue, fmt.Sprint(queue, "-", serial)}
				serial++
				w.ledger.publishing(m)
				d, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{
					DeliveryMode: amqp.Persistent, Body: []byte(m.id + "." + strings.Repeat("x", r.IntN(1500))),
				})
				if err != nil {
					return
				}
				waits[m] = d
			}
			for m, d := range waits {
				// What is not confirmed when the connection breaks may be stored or not.
				if ok, err := d.WaitContext(w.t.Context()); err == nil && ok {
					w.ledger.confirmed(m)
				}
			}
			if conn.IsClosed() {
				return
			}
			// Mostly there is no pause, so that at any moment something has just been confirmed; but those who consume shall keep up.
			if r.IntN(5) == 0 {
				w.pause(w.feed, time.Duration(r.IntN(20))*time.Millisecond)
			}
		}
	})
}

// name returns the message that a delivery is of.
func crashMessage(queue string, body []byte) queued {
	id, _, _ := strings.Cut(string(body), ".")
	return queued{queue, id}
}

// taken is what a consumer has of a channel.
type taken struct {
	w     *crashWorld
	queue string
	life  int
	ch    *amqp.Channel
	held  []amqp.Delivery // not settled, ascending
	acked []queued        // since the last synchronous reply
}

func (k *taken) note(d amqp.Delivery) {
	k.w.ledger.delivered(crashMessage(k.queue, d.Body), k.life, d.Redelivered)
	k.held = append(k.held, d)
}

// ack settles the last held message, or all of them at once.
func (k *taken) ack(all bool) error {
	last := len(k.held) - 1
	settled := k.held[last:]
	if all {
		settled = k.held
	}
	var ms []queued
	for _, d := range settled {
		ms = append(ms, crashMessage(k.queue, d.Body))
	}
	k.w.ledger.acking(ms...)
	tag := k.held[last].DeliveryTag
	k.held = k.held[:len(k.held)-len(settled)]
	if err := k.ch.Ack(tag, all); err != nil {
		return err
	}
	k.acked = append(k.acked, ms...)
	return nil
}

// giveBack requeues the last held message, or all of them at once.
func (k *taken) giveBack(all bool, r *rand.Rand) error {
	last := len(k.held) - 1
	tag := k.held[last].DeliveryTag
	if all {
		k.held = k.held[:0]
		return k.ch.Nack(tag, true, true)
	}
	k.held = k.held[:last]
	if r.IntN(2) == 0 {
		return k.ch.Reject(tag, true)
	}
	return k.ch.Nack(tag, false, true)
}

// replied notes that a synchronous reply came.
func (k *taken) replied() {
	k.w.ledger.settled(k.acked, k.life)
	k.acked = nil
}

// sync asks for something, so that all acknowledgements before it are safe.
func (k *taken) sync() error {
	if _, err := k.ch.QueueDeclarePassive(k.queue, true, false, false, false, nil); err != nil {
		return err
	}
	k.replied()
	return nil
}

const crashPrefetch = 40

// errLeave ends a session by the client's own wish.
var errLeave = errors.New("the client leaves")

// act does something with what was taken last.
func (k *taken) act(r *rand.Rand) error {
	if len(k.held) == 0 {
		return nil
	}
	if len(k.held) > crashPrefetch/2 {
		return k.ack(true)
	}
	switch p := r.IntN(1000); {
	case p < 600:
		return k.ack(false)
	case p < 800:
		return nil // held for a while
	case p < 880:
		return k.ack(true)
	case p < 940:
		return k.giveBack(false, r)
	case p < 945:
		return k.giveBack(true, r)
	case p < 985:
		return k.sync()
	case p < 990:
		return errLeave
	}
	return k.ack(false)
}

// consumer consumes from a queue: it settles, gives back, cancels, leaves and breaks off.
func (w *crashWorld) consumer(queue string, r *rand.Rand) {
	w.session(w.take, func(conn *amqp.Connection, life int) {
		ch, err := conn.Channel()
		if err != nil || ch.Qos(crashPrefetch, 0, false) != nil {
			return
		}
		const tag = "consumer"
		ds, err := ch.ConsumeWithContext(context.WithoutCancel(w.take), queue, tag, false, false, false, false, nil)
		if err != nil {
			return
		}
		k := &taken{w: w, queue: queue, life: life, ch: ch}
		idle := time.NewTicker(20 * time.Millisecond)
		defer idle.Stop()
		for err == nil {
			select {
			case d, ok := <-ds:
				if !ok {
					return
				}
				k.note(d)
				err = k.act(r)
			case <-idle.C:
				if len(k.held) > 0 {
					err = k.ack(true)
				} else {
					err = k.sync()
				}
			case <-w.take.Done():
				err = errLeave
			}
		}
		if !errors.Is(err, errLeave) {
			return
		}
		switch r.IntN(3) {
		case 0: // cancel, then settle what had come
			if ch.Cancel(tag, false) != nil {
				return
			}
			for d := range ds {
				k.note(d)
			}
			if len(k.held) == 0 || k.ack(true) == nil {
				k.sync() //nolint:errcheck // the connection may be broken
			}
		case 1: // close the channel: what is held goes back
			if ch.Close() == nil {
				k.replied()
			}
		case 2: // break off
		}
	})
}

// getter gets messages one by one.
func (w *crashWorld) getter(queue string, r *rand.Rand) {
	w.session(w.take, func(conn *amqp.Connection, life int) {
		ch, err := conn.Channel()
		if err != nil {
			return
		}
		k := &taken{w: w, queue: queue, life: life, ch: ch}
		for w.take.Err() == nil {
			d, ok, err := ch.Get(queue, false)
			if err != nil {
				return
			}
			k.replied()
			if ok {
				k.note(d)
				err = k.act(r)
			} else {
				w.pause(w.take, 5*time.Millisecond)
				if len(k.held) > 0 {
					err = k.ack(true)
				}
			}
			if err != nil {
				return
			}
		}
	})
}

// producer is an idempotent Kafka producer that lives through all crashes.
func (w *crashWorld) producer(number int, r *rand.Rand) {
	c, err := newKafkaClient(w.b, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(500*time.Microsecond), kgo.MaxBufferedRecords(8),
		kgo.DefaultProduceTopic(crashEvents))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer c.Close()
	for serial := 0; w.feed.Err() == nil; {
		for range 1 + r.IntN(20) {
			id := fmt.Sprintf("producer%d-%d", number, serial)
			serial++
			w.ledger.publishing(queued{crashEvents, id})
			rec := &kgo.Record{Partition: int32(r.IntN(3)), Value: []byte(id + "." + strings.Repeat("x", r.IntN(500)))}
			c.Produce(w.read, rec, func(rec *kgo.Record, err error) {
				if w.read.Err() != nil { // the test has given up
					return
				}
				if err != nil {
					w.t.Errorf("record %s: %v; an idempotent producer's records should all get through in the end", id, err)
					return
				}
				w.ledger.confirmed(queued{crashEvents, id})
				w.ledger.produced(recordAt{crashEvents, rec.Partition, rec.Offset}, valueOf(rec.Value))
			})
		}
		if r.IntN(5) == 0 { // as in publisher
			w.pause(w.feed, time.Duration(r.IntN(20))*time.Millisecond)
		}
	}
	ctx, cancel := context.WithTimeout(w.read, patience)
	defer cancel()
	if err := c.Flush(ctx); err != nil && w.read.Err() == nil {
		w.t.Errorf("producer %d: %v", number, err)
	}
}

// member is a member of the group, and now and then another one.
func (w *crashWorld) member(r *rand.Rand) {
	for w.read.Err() == nil {
		c, err := newKafkaClient(w.b, kgo.ConsumerGroup(crashGroup), kgo.ConsumeTopics(crashEvents), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(1500*time.Millisecond), kgo.HeartbeatInterval(100*time.Millisecond), kgo.RebalanceTimeout(1500*time.Millisecond))
		if err != nil {
			w.t.Error(err)
			return
		}
		for polls := 50 + r.IntN(150); polls > 0 && w.read.Err() == nil; polls-- {
			ctx, cancel := context.WithTimeout(w.read, 200*time.Millisecond)
			fs := c.PollFetches(ctx)
			cancel()
			fs.EachRecord(func(rec *kgo.Record) {
				w.ledger.seen(recordAt{rec.Topic, rec.Partition, rec.Offset}, valueOf(rec.Value), true)
			})
			if r.IntN(3) > 0 {
				w.commit(c)
			}
			c.AllowRebalance()
			w.pause(w.read, time.Duration(r.IntN(10))*time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		c.LeaveGroupContext(ctx) //nolint:errcheck // if the broker is down just now, the session will run out
		cancel()
		c.Close()
	}
}

// commit commits what a member has read.
func (w *crashWorld) commit(c *kgo.Client) {
	ctx, cancel := context.WithTimeout(w.read, 2*time.Second)
	defer cancel()
	c.CommitOffsetsSync(ctx, c.UncommittedOffsets(), func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return
		}
		for i, t := range resp.Topics {
			for j, p := range t.Partitions {
				if p.ErrorCode == 0 {
					w.ledger.bookmarked(p.Partition, req.Topics[i].Partitions[j].Offset)
				}
			}
		}
	})
}

// reader reads every topic, those of the queues too, and the index topic.
func (w *crashWorld) reader() {
	topics := append([]string{claimsTopic}, crashTaken...)
	c, err := newKafkaClient(w.b, kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer c.Close()
	for w.read.Err() == nil {
		c.PollFetches(w.read).EachRecord(func(rec *kgo.Record) {
			w.ledger.seen(recordAt{rec.Topic, rec.Partition, rec.Offset}, valueOf(rec.Value), false)
		})
	}
}
