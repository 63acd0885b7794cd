package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"polylog/e2e/harness"
	"polylog/logstore/seed"
)

// chaosVar, in the environment, is for how long faults happen in the chaos test. scriptVar is a script of faults to use instead of one that is drawn; see
// chaos_faults_test.go.
const (
	chaosVar  = "POLYLOG_CHAOS"
	scriptVar = "POLYLOG_CHAOS_SCRIPT"
)

// TestNothingIsLostInChaos lets three nodes be killed, stopped, paused and cut off from each other at random while AMQP and Kafka clients work with all of them, and then
// holds what every client was told against what all nodes have in the end.
func TestNothingIsLostInChaos(t *testing.T) {
	t.Parallel()
	length := 40 * time.Second
	if text := os.Getenv(chaosVar); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		must(t, err)
	}
	chaosRun(t, seed.Rand(t), func(r *rand.Rand, cuts bool) script {
		if text := os.Getenv(scriptVar); text != "" {
			s, err := parseScript(text)
			must(t, err)
			return s
		}
		return drawScript(r, length, cuts)
	})
}

// The topics of the chaos test.
const (
	chaosEvents     = "events" // made by Kafka, read by a group
	chaosGroup      = "readers"
	chaosPartitions = 6
)

// chaosQueues are declared by AMQP.
var (
	chaosQueues = map[string]amqp.Table{
		"orders":  nil,
		"retries": {"x-requeue": "tail"},
		"jobs":    {"x-queue-type": "quorum", "x-delivery-limit": int32(-1)},
	}
	chaosQueueNames = slices.Sorted(maps.Keys(chaosQueues))
)

// chaosWorld is a cluster and the clients that work with it.
type chaosWorld struct {
	t      *testing.T
	c      *harness.Cluster
	ledger *chaosLedger
	faulty faulty

	// The clients, which end one kind after another.
	take, feed, read       context.Context
	endTake, endFeed, done context.CancelFunc
	takers, feeders, rest  sync.WaitGroup
}

func (w *chaosWorld) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func chaosRun(t *testing.T, r *rand.Rand, faults func(r *rand.Rand, cuts bool) script) {
	w := startChaos(t, r)
	defer w.stop()
	s := faults(r, w.c.Net != nil)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the same faults once more: %s='%s'", scriptVar, s)
		}
	})
	w.play(s)
	if !t.Failed() {
		w.conclude()
	}
	t.Log(w.ledger.summary())
	w.ledger.report(t)
}

// startChaos starts a cluster and clients.
func startChaos(t *testing.T, r *rand.Rand) *chaosWorld {
	w := &chaosWorld{t: t, ledger: newChaosLedger(), faulty: faulty{has: map[int]string{}}}
	w.c = harness.StartCluster(t, harness.ClusterOptions{Apart: true, Args: []string{
		"--set", "cluster.gone_after=3s", "--set", "group.initial_delay=0s", "--set", "group.session_timeout_min=1s", "--set", "shutdown.timeout=2s",
		// Small files, so that segments are sealed and cleaned and checkpoints written; and a short memory of the order, so that who was away needs a copy.
		"--set", "storage.segment_bytes=4MiB", "--set", "storage.checkpoint_bytes=1MiB", "--set", "cluster.backlog_bytes=1MiB",
	}})
	w.take, w.endTake = context.WithCancel(t.Context())
	w.feed, w.endFeed = context.WithCancel(t.Context())
	w.read, w.done = context.WithCancel(t.Context())
	createTopic(t, w.c.Nodes[0], chaosEvents, chaosPartitions)
	for i, name := range chaosQueueNames {
		declare(t, openChannel(t, dialAMQP(t, w.c.Nodes[i%len(w.c.Nodes)])), name, chaosQueues[name])
	}
	must(t, w.c.AwaitEqual(patience)) // so that every node has all of them
	fork := func() *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }
	for _, name := range chaosQueueNames {
		a, b, c := fork(), fork(), fork()
		w.feeders.Go(func() { w.publisher(name, a) })
		w.takers.Go(func() { w.consumer(name, b) })
		w.takers.Go(func() { w.getter(name, c) })
	}
	for i := range 2 {
		a, b := fork(), fork()
		w.feeders.Go(func() { w.producer(i, a) })
		w.rest.Go(func() { w.member(b) })
	}
	for _, b := range w.c.Nodes {
		w.rest.Go(func() { w.reader(b) })
		w.rest.Go(func() { w.watcher(b) })
	}
	return w
}

// stop ends all clients.
func (w *chaosWorld) stop() {
	w.endTake()
	w.endFeed()
	w.done()
	w.takers.Wait()
	w.feeders.Wait()
	w.rest.Wait()
}

// conclude sees that all nodes serve, ends the clients, and compares what is there with what should be.
func (w *chaosWorld) conclude() {
	began := time.Now()
	if err := awaitSettled(w.c); err != nil {
		w.t.Errorf("the nodes do not all come back by themselves: %v", err)
		return
	}
	w.t.Logf("all nodes serve %v after the last fault", time.Since(began).Round(time.Millisecond))
	w.endTake()
	w.takers.Wait()
	w.ledger.mu.Lock()
	before := w.ledger.counts
	w.ledger.mu.Unlock()
	w.await("something to be left in the queues", func() error {
		w.ledger.mu.Lock()
		defer w.ledger.mu.Unlock()
		if n := w.ledger.counts.confirmed - before.confirmed; n < 300 {
			return fmt.Errorf("%d messages were confirmed", n)
		}
		return nil
	})
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
	w.checkClaims()
	w.drain()
	w.ledger.allCame()
	w.checkEnd()
	if w.t.Failed() {
		return
	}
	for _, b := range w.c.Nodes {
		must(w.t, b.Kill()) // all that was acknowledged was covered by a reply, so that nothing comes back
	}
	for _, b := range w.c.Nodes {
		checkLog(w.t, b)
	}
	must(w.t, errors.Join(w.c.Start(), awaitSettled(w.c)))
	for _, b := range w.c.Nodes {
		ch := openChannel(w.t, dialAMQP(w.t, b))
		for _, name := range chaosQueueNames {
			expectEmpty(w.t, ch, name)
		}
	}
	w.checkEnd()
}

// await waits for something. The test goes on if it does not come, to tell all that is wrong.
func (w *chaosWorld) await(what string, condition func() error) {
	w.t.Helper()
	if err := harness.Await(patience, what, condition); err != nil {
		w.t.Error(err)
	}
}

// checkClaims has consumers hold messages on all nodes, and sees that no offset is in two claims, on each node.
func (w *chaosWorld) checkClaims() {
	for _, b := range w.c.Nodes {
		conn, err := connectAMQP(b.AMQP)
		must(w.t, err)
		defer conn.Close() //nolint:errcheck // what it holds comes back
		for _, queue := range chaosQueueNames {
			ch, err := conn.Channel()
			must(w.t, err)
			must(w.t, ch.Qos(5, 0, false))
			ds, err := ch.Consume(queue, "", false, false, false, false, nil)
			must(w.t, err)
			v := &visit{conn, b.Name, time.Now(), w.t.Context()}
			k := &holding{w: w, v: v, queue: queue, ch: ch}
			for idle := false; !idle && len(k.held) < 5; {
				select {
				case d, ok := <-ds:
					if !ok {
						w.t.Errorf("the consumer of queue %s at %s ended", queue, b.Name)
						return
					}
					k.take(d)
				case <-time.After(300 * time.Millisecond): // there may be no more
					idle = true
				}
			}
		}
	}
	if err := w.c.AwaitEqual(patience); err != nil {
		w.t.Error(err)
	}
	for _, b := range w.c.Nodes {
		covered := map[string]string{}
		cs := claims(w.t, b)
		for _, c := range cs {
			for _, o := range c.offsets() {
				at := fmt.Sprintf("%s/%d offset %d", c.Queue, c.Partition, o)
				if is := fmt.Sprintf("%s of %s, epoch %d", c.Kind, c.Node, c.Epoch); covered[at] != "" {
					w.ledger.mu.Lock()
					w.ledger.fail(chaosOneClaim, "%s says that %s is covered by a %s and a %s", b.Name, at, covered[at], is)
					w.ledger.mu.Unlock()
				} else {
					covered[at] = is
				}
			}
		}
		w.t.Logf("%s has %d records in the index topic, over %d offsets", b.Name, len(cs), len(covered))
	}
}

// drain takes and settles everything that is left in the queues.
func (w *chaosWorld) drain() {
	deadline := time.Now().Add(2 * patience)
	for i, queue := range chaosQueueNames {
		b := w.c.Nodes[i%len(w.c.Nodes)]
		dialled := time.Now()
		conn := dialAMQP(w.t, b)
		ch := openChannel(w.t, conn)
		must(w.t, ch.Qos(300, 0, false))
		ds, err := ch.Consume(queue, "", false, false, false, false, nil)
		must(w.t, err)
		missing, n := w.ledger.owed(queue), 0
		k := &holding{w: w, v: &visit{conn, b.Name, dialled, w.t.Context()}, queue: queue, ch: ch}
		for calm := false; !calm; {
			select {
			case d, ok := <-ds:
				if !ok {
					w.t.Fatalf("the consumer of queue %s ended", queue)
				}
				n++
				delete(missing, chaosID(d))
				k.take(d)
				if len(k.held) >= 100 {
					must(w.t, k.ack(true))
				}
			case <-time.After(200 * time.Millisecond):
				must(w.t, k.ack(true))
				must(w.t, k.sync())
				calm = ready(w.t, ch, queue) == 0 && len(missing) == 0 || time.Now().After(deadline)
			}
		}
		w.t.Logf("queue %s: %d messages were left", queue, n)
		w.ledger.never(missing)
		must(w.t, conn.Close())
	}
}

// checkEnd compares what every node has with the others, and with what clients were told.
func (w *chaosWorld) checkEnd() {
	w.await("the index topic to be empty", func() error {
		if cs := claims(w.t, w.c.Nodes[0]); len(cs) > 0 {
			return fmt.Errorf("it has %d records, of which the first is %+v", len(cs), cs[0])
		}
		return nil
	})
	if err := w.c.AwaitEqual(patience); err != nil {
		w.t.Error(err)
	}
	coordinators := 0
	for _, b := range w.c.Nodes {
		for _, queue := range chaosQueueNames {
			if first, next := bounds(w.t, b, queue); first[0] != next[0] {
				w.t.Errorf("%s: queue %s is drained and its topic still has records from offset %d to %d", b.Name, queue, first[0], next[0])
			}
		}
		all := map[recordAt]value{}
		for _, rec := range fetchAll(w.t, b, chaosEvents) {
			all[recordAt{rec.Topic, rec.Partition, rec.Offset}] = valueOf(rec.Value)
		}
		w.ledger.holds(b.Name, all)
		c := kafkaClient(w.t, b)
		err := harness.Await(patience, "the bookmarks", func() error {
			err := w.bookmarks(w.t.Context(), c, b.Name, true)
			if errors.Is(err, errElsewhere) {
				return nil
			}
			if err == nil {
				coordinators++
			}
			return err
		})
		if err != nil {
			w.t.Errorf("%s: %v", b.Name, err)
		}
	}
	if coordinators != 1 {
		w.t.Errorf("%d nodes say that they coordinate the group", coordinators)
	}
}
