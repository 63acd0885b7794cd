package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/e2e/harness"
	"polylog/logstore/seed"
)

// killsVar, in the environment, is how often the crash test kills the broker.
const killsVar = "E2E_KILLS"

// TestNothingIsLostWhenTheProcessIsKilled kills a broker at 30 random moments while AMQP and Kafka clients work with it, starts it again each time on the same
// data, and then drains everything: what was confirmed and not acknowledged is there, what was surely acknowledged is not, and no offset means two things.
func TestNothingIsLostWhenTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	kills := 30
	if n, err := strconv.Atoi(os.Getenv(killsVar)); err == nil && n > 0 {
		kills = n
	}
	crashRun(t, harness.Start(t, crashOptions()), kills)
}

// TestKilledBrokerHasNoRaces does the same a few times with a broker that has the race detector in it.
func TestKilledBrokerHasNoRaces(t *testing.T) {
	t.Parallel()
	binary, err := harness.RacedBinary()
	must(t, err)
	b := harness.Start(t, crashOptions())
	must(t, b.RestartWith(binary))
	crashRun(t, b, 4)
}

func crashOptions() harness.Options {
	return harness.Options{Args: []string{
		"--set", "group.initial_delay=0s", "--set", "group.session_timeout_min=1s",
		// Small files, so that segments are sealed and cleaned and checkpoints written under the clients' load.
		"--set", "storage.segment_bytes=4MiB", "--set", "storage.checkpoint_bytes=1MiB",
	}}
}

// The topics of the crash test.
const (
	crashEvents = "events" // made by Kafka, of several partitions; read by a group, and consumed by AMQP as well
	crashGroup  = "readers"
)

// crashQueues are declared by AMQP.
var crashQueues = map[string]amqp.Table{
	"orders":  nil,
	"retries": {"x-requeue": "tail"},
	"jobs":    {"x-queue-type": "quorum", "x-delivery-limit": int32(-1)},
}

// crashWorld is a broker and the clients that work with it.
type crashWorld struct {
	t      *testing.T
	b      *harness.Broker
	ledger *crashLedger

	// The clients, which end one kind after another.
	take, feed, read       context.Context
	endTake, endFeed, done context.CancelFunc
	takers, feeders, rest  sync.WaitGroup
}

func crashRun(t *testing.T, b *harness.Broker, kills int) {
	r := seed.Rand(t)
	w := &crashWorld{t: t, b: b, ledger: newCrashLedger()}
	w.take, w.endTake = context.WithCancel(t.Context())
	w.feed, w.endFeed = context.WithCancel(t.Context())
	w.read, w.done = context.WithCancel(t.Context())
	defer func() {
		w.endTake()
		w.endFeed()
		w.done()
		w.takers.Wait()
		w.feeders.Wait()
		w.rest.Wait()
	}()
	createTopic(t, b, crashEvents, 3)
	ch := openChannel(t, dialAMQP(t, b))
	for name, args := range crashQueues {
		declare(t, ch, name, args)
	}
	w.begin(r)
	for range kills - 1 {
		w.killAtWork(r)
		if t.Failed() {
			break
		}
	}
	w.awaitWork()
	w.end(r)
	t.Log(w.ledger.summary())
	if !t.Failed() {
		w.drain()
		w.settleAccounts()
	}
	w.ledger.report(t)
	if t.Failed() {
		return
	}
	// All acknowledgements were covered by a reply, so that another crash brings nothing back.
	must(t, b.Kill())
	must(t, b.Start())
	ch = openChannel(t, dialAMQP(t, b))
	for name := range w.queues() {
		expectEmpty(t, ch, name)
	}
	awaitNoClaims(t, b)
	must(t, b.Stop())
	checkLog(t, b)
}

// queues returns what AMQP consumes from, and whether its messages leave the log when they are settled.
func (w *crashWorld) queues() map[string]bool {
	qs := map[string]bool{crashEvents: false}
	for name := range crashQueues {
		qs[name] = true
	}
	return qs
}

// begin starts the clients.
func (w *crashWorld) begin(r *rand.Rand) {
	fork := func() *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }
	for name := range w.queues() {
		if name != crashEvents {
			r := fork()
			w.feeders.Go(func() { w.publisher(name, r) })
		}
		a, b := fork(), fork()
		w.takers.Go(func() { w.consumer(name, a) })
		w.takers.Go(func() { w.getter(name, b) })
	}
	for i := range 2 {
		a, b := fork(), fork()
		w.feeders.Go(func() { w.producer(i, a) })
		w.rest.Go(func() { w.member(b) })
	}
	w.rest.Go(w.reader)
}

// end stops the clients: those who take first, so that something is left to be found after one more crash.
func (w *crashWorld) end(r *rand.Rand) {
	w.endTake()
	w.takers.Wait()
	before := w.ledger.counts()
	w.await("a backlog", func() error {
		if p := w.ledger.counts().since(before); p.confirmed < crashBacklog {
			return fmt.Errorf("it is %d messages", p.confirmed)
		}
		return nil
	})
	w.kill(r)
	w.endFeed()
	w.feeders.Wait()
	w.await("the group to read everything that was produced", func() error {
		if left := w.ledger.unread(); len(left) > 0 {
			return fmt.Errorf("%d records are left, %s among them", len(left), left[0])
		}
		return nil
	})
	w.done()
	w.rest.Wait()
}

// crashBacklog is how many messages wait when everything is drained, at least.
const crashBacklog = 2000

// await waits for something that the clients do. The test goes on if it does not come, to tell all that is wrong.
func (w *crashWorld) await(what string, condition func() error) {
	w.t.Helper()
	err := harness.Await(patience, what, func() error {
		if w.b.Ended() {
			return nil // the next one to look at the broker tells
		}
		return condition()
	})
	if err != nil {
		w.t.Error(err)
	}
}

// awaitWork waits until every kind of client has done something with the present process.
func (w *crashWorld) awaitWork() {
	w.t.Helper()
	before := w.ledger.counts()
	w.await("all clients to be at work", func() error {
		if p := w.ledger.counts().since(before); p.least() == 0 {
			return fmt.Errorf("since the start there were %+v", p)
		}
		return nil
	})
}

// killAtWork kills the broker at a random moment of its work, and starts it again.
func (w *crashWorld) killAtWork(r *rand.Rand) {
	w.awaitWork()
	w.pause(w.read, time.Duration(r.IntN(300_000))*time.Microsecond)
	w.kill(r)
}

// kill kills the broker, sometimes once more while it starts, starts it again and looks at the bookmarks.
func (w *crashWorld) kill(r *rand.Rand) {
	if w.b.Ended() {
		w.t.Fatal("the broker has ended by itself")
	}
	must(w.t, w.b.Kill())
	w.ledger.nextLife() // before the start: who connects from now on connects to the next life
	if r.IntN(4) == 0 {
		must(w.t, w.b.StartAndKill(time.Duration(r.IntN(60))*time.Millisecond))
		w.ledger.nextLife()
	}
	must(w.t, w.b.Start())
	w.checkBookmarks()
}

// checkBookmarks sees that the group's bookmarks are not behind what was answered.
func (w *crashWorld) checkBookmarks() {
	least := w.ledger.bookmarks()
	c, err := newKafkaClient(w.b)
	must(w.t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	got, err := kadm.NewClient(c).FetchOffsets(ctx, crashGroup)
	if err != nil {
		w.t.Errorf("asking for the bookmarks: %v", err)
		return
	}
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for p, o := range least {
		if at, has := got.Lookup(crashEvents, p); !has || at.At < o {
			w.ledger.fail(promiseBookmark, "partition %d: the broker answered for %d and now says %d", p, o, at.At)
		}
	}
}

// pause waits a little, or until ctx ends.
func (w *crashWorld) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

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
	c, err := newKafkaClient(w.b, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(2*time.Millisecond), kgo.MaxBufferedRecords(500),
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
				w.ledger.produced(recordAt{crashEvents, rec.Partition, rec.Offset}, string(rec.Value))
			})
		}
		w.pause(w.feed, time.Duration(r.IntN(20))*time.Millisecond)
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
				w.ledger.seen(recordAt{rec.Topic, rec.Partition, rec.Offset}, string(rec.Value), true)
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
	topics := []string{claimsTopic}
	for name := range w.queues() {
		topics = append(topics, name)
	}
	c, err := newKafkaClient(w.b, kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer c.Close()
	for w.read.Err() == nil {
		c.PollFetches(w.read).EachRecord(func(rec *kgo.Record) {
			w.ledger.seen(recordAt{rec.Topic, rec.Partition, rec.Offset}, string(rec.Value), false)
		})
	}
}

// drain takes and settles everything that is left in the queues.
func (w *crashWorld) drain() {
	conn := dialAMQP(w.t, w.b)
	defer conn.Close()
	deadline := time.Now().Add(2 * patience)
	for queue := range w.queues() {
		ch := openChannel(w.t, conn)
		must(w.t, ch.Qos(500, 0, false))
		ds, err := ch.Consume(queue, "", false, false, false, false, nil)
		must(w.t, err)
		missing, came := w.ledger.waiting(queue), map[queued]bool{}
		k := &taken{w: w, queue: queue, life: w.ledger.life(), ch: ch}
		for calm := false; !calm; {
			select {
			case d, ok := <-ds:
				if !ok {
					w.t.Fatalf("the consumer of queue %s ended", queue)
				}
				k.note(d)
				m := crashMessage(queue, d.Body)
				if came[m] {
					w.ledger.mu.Lock()
					w.ledger.fail(promiseOnce, "%v", m)
					w.ledger.mu.Unlock()
				}
				came[m] = true
				delete(missing, m)
				if len(k.held) >= 100 {
					must(w.t, k.ack(true))
				}
			case <-time.After(200 * time.Millisecond):
				if len(k.held) > 0 {
					must(w.t, k.ack(true))
				}
				must(w.t, k.sync())
				calm = ready(w.t, ch, queue) == 0 && len(missing) == 0 || time.Now().After(deadline)
			}
		}
		w.t.Logf("queue %s: %d messages were left", queue, len(came))
		w.ledger.mu.Lock()
		for m := range missing {
			w.ledger.fail(promiseDelivered, "%v", m)
		}
		w.ledger.mu.Unlock()
		must(w.t, ch.Close())
	}
}

// settleAccounts compares what the log holds with what it should hold.
func (w *crashWorld) settleAccounts() {
	w.checkBookmarks()
	awaitNoClaims(w.t, w.b)
	for queue, leaves := range w.queues() {
		if first, next := bounds(w.t, w.b, queue); leaves && first[0] != next[0] {
			w.t.Errorf("queue %s is drained and its topic still has records from offset %d to %d", queue, first[0], next[0])
		}
	}
	times := map[string]int{}
	for _, rec := range fetchAll(w.t, w.b, crashEvents) {
		at, value := recordAt{rec.Topic, rec.Partition, rec.Offset}, string(rec.Value)
		w.ledger.seen(at, value, false)
		times[value]++
	}
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for value, at := range w.ledger.values {
		if n := times[value]; n != 1 {
			w.ledger.fail(promiseIdempotent, "record %.30s, answered to be at %v, is there %d times", value, at, n)
		}
	}
	for value, n := range times {
		if _, answered := w.ledger.values[value]; n != 1 && !answered {
			w.ledger.fail(promiseIdempotent, "record %.30s, not answered, is there %d times", value, n)
		}
	}
}
