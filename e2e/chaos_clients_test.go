package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/e2e/harness"
)

const (
	chaosPrefetch = 30
	// chaosVisit is how long a client stays with a node at the most; a call that hangs longer than that and a little is broken off.
	chaosVisit = 6 * time.Second
)

// visit is a connection to a node, for a while.
type visit struct {
	conn    *amqp.Connection
	node    string
	dialled time.Time // just before it was made
	ctx     context.Context
}

// visits runs f with connections to one node after another until ctx ends. A node that does not answer for long is left.
func (w *chaosWorld) visits(ctx context.Context, r *rand.Rand, f func(v *visit)) {
	for ctx.Err() == nil {
		b := w.c.Nodes[r.IntN(len(w.c.Nodes))]
		var sock net.Conn
		dialled := time.Now()
		conn, err := amqp.DialConfig("amqp://guest:guest@"+b.AMQP+"/", amqp.Config{Heartbeat: 2 * time.Second, Dial: func(network, address string) (net.Conn, error) {
			c, err := amqp.DefaultDial(2*time.Second)(network, address)
			sock = c
			return c, err
		}})
		if err != nil {
			w.pause(ctx, 50*time.Millisecond)
			continue
		}
		stay, leave := context.WithTimeout(ctx, time.Duration(500+r.IntN(int(chaosVisit.Milliseconds())-500))*time.Millisecond)
		cut := time.AfterFunc(chaosVisit+4*time.Second, func() { sock.Close() }) //nolint:errcheck // it is to break
		f(&visit{conn, b.Name, dialled, stay})
		leave()
		conn.CloseDeadline(time.Now().Add(time.Second)) //nolint:errcheck // it may be broken
		cut.Stop()
		sock.Close() //nolint:errcheck // it is closed most often
	}
}

// publisher publishes to a queue and waits for confirms.
func (w *chaosWorld) publisher(queue string, r *rand.Rand) {
	serial := 0
	w.visits(w.feed, r, func(v *visit) {
		ch, err := v.conn.Channel()
		if err != nil || ch.Confirm(false) != nil {
			return
		}
		for v.ctx.Err() == nil {
			waits := map[string]*amqp.DeferredConfirmation{}
			for range 1 + r.IntN(6) {
				id := fmt.Sprint(queue, "-", serial)
				serial++
				w.ledger.publishing(id, v.node)
				d, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{
					DeliveryMode: amqp.Persistent, Body: []byte(id + "." + strings.Repeat("x", r.IntN(1000))),
				})
				if err != nil {
					return
				}
				waits[id] = d
			}
			ctx, cancel := context.WithTimeout(w.t.Context(), chaosVisit)
			refused := false
			for id, d := range waits {
				ok, err := d.WaitContext(ctx)
				w.ledger.confirmed(id, v.node, err == nil && ok)
				refused = refused || err != nil || !ok
			}
			cancel()
			if refused || v.conn.IsClosed() {
				return
			}
			w.pause(v.ctx, time.Duration(r.IntN(40))*time.Millisecond)
		}
	})
}

// holding is what a consumer has of a channel.
type holding struct {
	w     *chaosWorld
	v     *visit
	queue string
	ch    *amqp.Channel
	held  []amqp.Delivery // not settled, ascending
	acked []string        // since the last reply
}

func chaosID(d amqp.Delivery) string {
	id, _, _ := strings.Cut(string(d.Body), ".")
	return id
}

func (k *holding) take(d amqp.Delivery) {
	k.w.ledger.delivered(chaosID(d), k.v.node, d.Redelivered, k.v.dialled)
	k.held = append(k.held, d)
}

// pop takes the last held message, or all of them, off the list.
func (k *holding) pop(all bool) (tag uint64, ids []string) {
	last := len(k.held) - 1
	first := last
	if all {
		first = 0
	}
	tag = k.held[last].DeliveryTag
	for _, d := range k.held[first:] {
		ids = append(ids, chaosID(d))
	}
	k.held = k.held[:first]
	return tag, ids
}

func (k *holding) ack(all bool) error {
	if len(k.held) == 0 {
		return nil
	}
	tag, ids := k.pop(all)
	k.w.ledger.acking(k.v.node, ids)
	if err := k.ch.Ack(tag, all); err != nil {
		return err
	}
	k.acked = append(k.acked, ids...)
	return nil
}

func (k *holding) giveBack(all bool) error {
	tag, ids := k.pop(all)
	k.w.ledger.gaveBack(k.v.node, ids)
	return k.ch.Nack(tag, all, true)
}

func (k *holding) replied() {
	k.w.ledger.settled(k.v.node, k.acked)
	k.acked = nil
}

// sync asks for something, so that all acknowledgements before it are safe.
func (k *holding) sync() error {
	if _, err := k.ch.QueueDeclarePassive(k.queue, true, false, false, false, nil); err != nil {
		return err
	}
	k.replied()
	return nil
}

// act does something with what was taken.
func (k *holding) act(r *rand.Rand) error {
	if len(k.held) > chaosPrefetch/2 {
		return k.ack(true)
	}
	if len(k.held) == 0 {
		return nil
	}
	switch p := r.IntN(100); {
	case p < 55:
		return k.ack(false)
	case p < 75:
		return nil // held for a while
	case p < 85:
		return k.ack(true)
	case p < 91:
		return k.giveBack(false)
	case p < 92:
		return k.giveBack(true)
	}
	return k.sync()
}

// consumer consumes from a queue.
func (w *chaosWorld) consumer(queue string, r *rand.Rand) {
	w.visits(w.take, r, func(v *visit) {
		ch, err := v.conn.Channel()
		if err != nil || ch.Qos(chaosPrefetch, 0, false) != nil {
			return
		}
		const tag = "consumer"
		ds, err := ch.Consume(queue, tag, false, false, false, false, nil)
		if err != nil {
			return
		}
		k := &holding{w: w, v: v, queue: queue, ch: ch}
		idle := time.NewTicker(100 * time.Millisecond)
		defer idle.Stop()
		for err == nil {
			select {
			case d, ok := <-ds:
				if !ok {
					return
				}
				k.take(d)
				err = k.act(r)
			case <-idle.C:
				if err = k.ack(true); err == nil {
					err = k.sync()
				}
			case <-v.ctx.Done():
				switch r.IntN(3) {
				case 0: // close the channel: what is held goes back
					if ch.Close() == nil {
						k.replied()
					}
				case 1: // settle all first
					if ch.Cancel(tag, false) != nil {
						return
					}
					for d := range ds {
						k.take(d)
					}
					if k.ack(true) == nil {
						k.sync() //nolint:errcheck // the connection may be broken
					}
				case 2: // break off
				}
				return
			}
		}
	})
}

// getter gets messages one by one.
func (w *chaosWorld) getter(queue string, r *rand.Rand) {
	w.visits(w.take, r, func(v *visit) {
		ch, err := v.conn.Channel()
		if err != nil {
			return
		}
		k := &holding{w: w, v: v, queue: queue, ch: ch}
		for v.ctx.Err() == nil {
			d, ok, err := ch.Get(queue, false)
			if err != nil {
				return
			}
			k.replied()
			if ok {
				k.take(d)
				err = k.act(r)
			} else {
				err = k.ack(true)
				w.pause(v.ctx, 50*time.Millisecond)
			}
			if err != nil {
				return
			}
		}
	})
}

// newClusterClient makes a Kafka client that knows all nodes.
func newClusterClient(c *harness.Cluster, opts ...kgo.Opt) (*kgo.Client, error) {
	var seeds []string
	for _, b := range c.Nodes {
		seeds = append(seeds, b.Kafka)
	}
	again := func(int) time.Duration { return 50 * time.Millisecond }
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.RetryBackoffFn(again), kgo.MetadataMinAge(200 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second), kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AlwaysRetryEOF(), kgo.RequestTimeoutOverhead(2 * time.Second),
		kgo.ProduceRequestTimeout(3 * time.Second),
	}, opts...)...)
}

// producer is an idempotent Kafka producer that lives through everything.
func (w *chaosWorld) producer(number int, r *rand.Rand) {
	c, err := newClusterClient(w.c, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(time.Millisecond), kgo.MaxBufferedRecords(16), kgo.DefaultProduceTopic(chaosEvents))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer c.Close()
	for serial := 0; w.feed.Err() == nil; {
		for range 1 + r.IntN(10) {
			id := fmt.Sprintf("%s%d-%d", chaosEvents, number, serial)
			serial++
			rec := &kgo.Record{Partition: int32(r.IntN(chaosPartitions)), Value: []byte(id + "." + strings.Repeat("x", r.IntN(300)))}
			c.Produce(w.read, rec, func(rec *kgo.Record, err error) {
				switch {
				case err == nil:
					w.ledger.produced(recordAt{chaosEvents, rec.Partition, rec.Offset}, valueOf(rec.Value))
				case w.read.Err() == nil: // the test has not given up
					w.t.Errorf("record %s: %v; an idempotent producer's records should all get through in the end", id, err)
				}
			})
		}
		w.pause(w.feed, time.Duration(r.IntN(60))*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(w.read, patience)
	defer cancel()
	if err := c.Flush(ctx); err != nil && w.read.Err() == nil {
		w.t.Errorf("producer %d: %v", number, err)
	}
}

// member is a member of the group, and now and then another one.
func (w *chaosWorld) member(r *rand.Rand) {
	for w.read.Err() == nil {
		c, err := newClusterClient(w.c, kgo.ConsumerGroup(chaosGroup), kgo.ConsumeTopics(chaosEvents), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(300*time.Millisecond), kgo.RebalanceTimeout(3*time.Second))
		if err != nil {
			w.t.Error(err)
			return
		}
		for polls := 50 + r.IntN(200); polls > 0 && w.read.Err() == nil; polls-- {
			ctx, cancel := context.WithTimeout(w.read, 300*time.Millisecond)
			fs := c.PollFetches(ctx)
			cancel()
			fs.EachRecord(func(rec *kgo.Record) {
				w.ledger.seen(recordAt{rec.Topic, rec.Partition, rec.Offset}, valueOf(rec.Value), "the group", true)
			})
			if r.IntN(3) > 0 {
				w.commit(c)
			}
			c.AllowRebalance()
			w.pause(w.read, time.Duration(r.IntN(20))*time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		c.LeaveGroupContext(ctx) //nolint:errcheck // if its node is down, the session will run out
		cancel()
		c.Close()
	}
}

// commit commits what a member has read.
func (w *chaosWorld) commit(c *kgo.Client) {
	ctx, cancel := context.WithTimeout(w.read, 3*time.Second)
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

// reader reads every topic, those of the queues too, by way of one node, whoever leads what.
func (w *chaosWorld) reader(b *harness.Broker) {
	c, err := newKafkaClient(b, kgo.ConsumeTopics(append([]string{chaosEvents}, chaosQueueNames...)...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequestTimeoutOverhead(2*time.Second), kgo.RetryBackoffFn(func(int) time.Duration { return 200 * time.Millisecond }))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer c.Close()
	for w.read.Err() == nil {
		c.PollFetches(w.read).EachRecord(func(rec *kgo.Record) {
			w.ledger.seen(recordAt{rec.Topic, rec.Partition, rec.Offset}, valueOf(rec.Value), b.Name, false)
		})
		w.pause(w.read, 100*time.Millisecond)
	}
}

// watcher asks a node for the group's bookmarks all the while.
func (w *chaosWorld) watcher(b *harness.Broker) {
	c, err := newKafkaClient(b, kgo.RequestTimeoutOverhead(2*time.Second))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer c.Close()
	for w.read.Err() == nil {
		w.bookmarks(w.read, c, b.Name, false) //nolint:errcheck // a node that does not answer now does later
		w.pause(w.read, 200*time.Millisecond)
	}
}

// errElsewhere means that a node does not coordinate the group.
var errElsewhere = errors.New("it is not the group's coordinator")

// bookmarks asks a node for the group's bookmarks.
func (w *chaosWorld) bookmarks(ctx context.Context, c *kgo.Client, node string, last bool) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	q := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, q.Group = chaosGroup, chaosGroup
	q.Groups = append(q.Groups, g)
	answer, err := c.SeedBrokers()[0].RetriableRequest(ctx, q)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.OffsetFetchResponse)
	if resp.ErrorCode != 0 || len(resp.Groups) > 0 && resp.Groups[0].ErrorCode != 0 {
		return errElsewhere
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				w.ledger.looked(node, p.Partition, p.Offset, last)
			}
		}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					w.ledger.looked(node, p.Partition, p.Offset, last)
				}
			}
		}
	}
	return nil
}
