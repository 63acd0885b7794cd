package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"

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
	for _, name := range crashTaken {
		expectEmpty(t, ch, name)
	}
	awaitNoClaims(t, b)
	must(t, b.Stop())
	checkLog(t, b)
}

// crashTaken is what AMQP consumes from.
var crashTaken = append(slices.Sorted(maps.Keys(crashQueues)), crashEvents)

// begin starts the clients.
func (w *crashWorld) begin(r *rand.Rand) {
	fork := func() *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }
	for _, name := range crashTaken {
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

// drain takes and settles everything that is left in the queues.
func (w *crashWorld) drain() {
	conn := dialAMQP(w.t, w.b)
	defer conn.Close()
	deadline := time.Now().Add(2 * patience)
	for _, queue := range crashTaken {
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
	for queue := range crashQueues { // of which what is settled leaves the log
		if first, next := bounds(w.t, w.b, queue); first[0] != next[0] {
			w.t.Errorf("queue %s is drained and its topic still has records from offset %d to %d", queue, first[0], next[0])
		}
	}
	times := map[value]int{}
	for _, rec := range fetchAll(w.t, w.b, crashEvents) {
		v := valueOf(rec.Value)
		w.ledger.seen(recordAt{rec.Topic, rec.Partition, rec.Offset}, v, false)
		times[v]++
	}
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for v, at := range w.ledger.values {
		if n := times[v]; n != 1 {
			w.ledger.fail(promiseIdempotent, "record %s, answered to be at %v, is there %d times", v.begins, at, n)
		}
	}
	for v, n := range times {
		if _, answered := w.ledger.values[v]; n != 1 && !answered {
			w.ledger.fail(promiseIdempotent, "record %s, not answered, is there %d times", v.begins, n)
		}
	}
}
