package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/e2e/harness"
)

// joinBytesVar, in the environment, is how much data a cluster holds when an empty node joins it.
const joinBytesVar = "POLYLOG_JOIN_BYTES"

// background load: a publisher for each node that goes to another one when its node ends, and counts what was confirmed.
type confirmedLoad struct {
	c         *harness.Cluster
	queue     string
	stop      context.CancelFunc
	all       sync.WaitGroup
	confirmed atomic.Int64
	mu        sync.Mutex
	ids       map[string]bool
	longest   time.Duration // without a confirm, by any of them
}

func startLoad(t testing.TB, c *harness.Cluster, queue string) *confirmedLoad {
	t.Helper()
	l := &confirmedLoad{c: c, queue: queue, ids: map[string]bool{}}
	declare(t, openChannel(t, dialAMQP(t, c.Nodes[0])), queue, nil)
	must(t, c.AwaitEqual(patience)) // a node that does not know of the queue yet would drop what is published to it, as to any queue that is not there
	ctx, stop := context.WithCancel(context.Background())
	l.stop = func() { stop(); l.all.Wait() }
	t.Cleanup(l.stop)
	for i := range 2 {
		l.all.Go(func() { l.publish(ctx, i) })
	}
	return l
}

func (l *confirmedLoad) publish(ctx context.Context, number int) {
	last := time.Now()
	for turn, serial := number, 0; ctx.Err() == nil; turn++ {
		conn, err := connectAMQP(l.c.Nodes[turn%len(l.c.Nodes)].AMQP)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		ch, err := conn.Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		for err == nil && ctx.Err() == nil {
			id := fmt.Sprintf("%d-%d", number, serial)
			serial++
			wait, cancel := context.WithTimeout(context.Background(), patience)
			var d *amqp.DeferredConfirmation
			var ok bool
			if d, err = ch.PublishWithDeferredConfirm("", l.queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(id)}); err == nil {
				ok, err = d.WaitContext(wait)
			}
			cancel()
			if err != nil || !ok {
				break
			}
			l.confirmed.Add(1)
			l.mu.Lock()
			l.ids[id] = true
			l.longest = max(l.longest, time.Since(last))
			l.mu.Unlock()
			last = time.Now()
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
		conn.CloseDeadline(time.Now().Add(time.Second)) //nolint:errcheck // it may be broken
	}
}

// check stops the load and sees that all that was confirmed is there.
func (l *confirmedLoad) check(t testing.TB, b *harness.Broker) {
	t.Helper()
	l.stop()
	ch := openChannel(t, dialAMQP(t, b))
	must(t, ch.Qos(1000, 0, false))
	ds, err := ch.Consume(l.queue, "", false, false, false, false, nil)
	must(t, err)
	missing := len(l.ids) // that have not come
	t.Logf("%d messages were confirmed; a publisher was without a confirm for at most %v", missing, l.longest.Round(time.Millisecond))
	end := time.After(2 * patience)
	for n := 0; missing > 0; {
		select {
		case d := <-ds:
			if l.ids[string(d.Body)] {
				delete(l.ids, string(d.Body))
				missing--
			}
			if n++; n%500 == 0 || missing == 0 {
				must(t, ch.Ack(d.DeliveryTag, true))
			}
		case <-end:
			for id := range l.ids {
				t.Fatalf("%d messages that were confirmed are not there, %s among them", missing, id)
			}
		}
	}
}

// awaitMore waits until the load has got so many more confirms.
func (l *confirmedLoad) awaitMore(t testing.TB, n int64) {
	t.Helper()
	from := l.confirmed.Load()
	await(t, "confirms", func() error {
		if now := l.confirmed.Load(); now < from+n {
			return fmt.Errorf("there were %d", now-from)
		}
		return nil
	})
}

// fill produces so many bytes to a topic.
func fill(t testing.TB, b *harness.Broker, topic string, bytes int) {
	t.Helper()
	createTopic(t, b, topic, 4)
	c := kafkaClient(t, b, kgo.ProducerBatchMaxBytes(900_000), kgo.MaxBufferedRecords(200), kgo.ProducerBatchCompression(kgo.NoCompression()))
	body := []byte(strings.Repeat("0123456789abcdef", 2048)) // 32 KiB
	for i := range bytes / len(body) {
		c.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: int32(i % 4), Value: body}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("producing: %v", err)
			}
		})
	}
	must(t, c.Flush(t.Context()))
	c.Close()
}

// TestEmptyNodeJoinsUnderLoad fills a cluster, and lets a node with an empty disk join it while others publish: a new one, and then one that has lost its disk.
func TestEmptyNodeJoinsUnderLoad(t *testing.T) {
	t.Parallel()
	size := 128 << 20
	if n, err := strconv.Atoi(os.Getenv(joinBytesVar)); err == nil && n > 0 {
		size = n
	}
	c := harness.StartCluster(t, harness.ClusterOptions{Args: []string{"--set", "shutdown.timeout=2s"}})
	must(t, awaitSettled(c))
	began := time.Now()
	fill(t, c.Nodes[0], "bulk", size)
	t.Logf("%d MiB were produced in %v", size>>20, time.Since(began).Round(time.Millisecond))
	load := startLoad(t, c, "orders")
	load.awaitMore(t, 50)

	fourth, err := c.Add("n4")
	must(t, err)
	began = time.Now()
	must(t, fourth.Begin())
	must(t, harness.Await(time.Hour, "the new node", func() error { return ended(fourth) }))
	t.Logf("an empty node served after %v", time.Since(began).Round(time.Millisecond))
	load.awaitMore(t, 50)

	lost := c.Nodes[1]
	must(t, lost.Kill())
	must(t, os.RemoveAll(lost.Dir))
	began = time.Now()
	must(t, lost.Begin())
	must(t, harness.Await(time.Hour, "the node without its disk", func() error { return ended(lost) }))
	t.Logf("a node that had lost its disk served after %v", time.Since(began).Round(time.Millisecond))
	load.awaitMore(t, 50)
	must(t, awaitSettled(c))
	load.check(t, fourth)
	must(t, c.AwaitEqual(patience))
	for _, b := range []*harness.Broker{fourth, lost} {
		first, next := bounds(t, b, "bulk")
		for p := range next {
			if n := next[p] - first[p]; n != int64(size/32768/4) {
				t.Errorf("%s has %d records in partition %d", b.Name, n, p)
			}
		}
	}
	must(t, errors.Join(fourth.Stop(), lost.Stop()))
	checkLog(t, fourth)
	checkLog(t, lost)
}

// ended says whether a node that was begun serves; one that has ended does as well, and is found later.
func ended(b *harness.Broker) error {
	if b.Ended() {
		return nil
	}
	return b.Ready()
}

// TestSingleNodeBecomesTheFirstOfThree gives a node data while it is alone, and then starts it as one of a cluster whose other nodes are empty.
func TestSingleNodeBecomesTheFirstOfThree(t *testing.T) {
	t.Parallel()
	c, err := harness.LaunchCluster(harness.ClusterOptions{Idle: true})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	single := c.Nodes[0]
	single.Single(true)
	must(t, single.Start())
	conn := dialAMQP(t, single)
	declare(t, openChannel(t, conn), "orders", nil)
	publishConfirmed(t, conn, "orders", numbered("alone", 500)...)
	fill(t, single, "bulk", 16<<20)
	d := get(t, openChannel(t, conn), "orders")
	must(t, d.Ack(false))
	must(t, conn.Close())
	must(t, single.Stop())
	single.Single(false)
	began := time.Now()
	must(t, c.Start())
	t.Logf("it could not be used for %v", time.Since(began).Round(time.Millisecond))
	must(t, awaitSettled(c))
	must(t, c.AwaitEqual(patience))
	for _, b := range c.Nodes {
		first, next := bounds(t, b, "bulk")
		for p := range next {
			if n := next[p] - first[p]; n != 128 {
				t.Errorf("%s has %d records in partition %d of what was there before", b.Name, n, p)
			}
		}
	}
	ch := openChannel(t, dialAMQP(t, c.Nodes[2]))
	for i := 1; i < 500; i++ {
		if d := get(t, ch, "orders"); string(d.Body) != fmt.Sprint("alone ", i) {
			t.Fatalf("message %d is %q", i, d.Body)
		} else {
			must(t, d.Ack(false))
		}
	}
	expectEmpty(t, ch, "orders")
	publishConfirmed(t, dialAMQP(t, c.Nodes[1]), "orders", "together")
}

// TestRollingRestartLosesNothing stops and starts one node after another under load, and then lets one be away until the order that it needs is trimmed.
func TestRollingRestartLosesNothing(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterOptions{Args: []string{"--set", "shutdown.timeout=2s", "--set", "cluster.backlog_bytes=1MiB", "--set", "cluster.gone_after=2s"}})
	must(t, awaitSettled(c))
	load := startLoad(t, c, "orders")
	for _, b := range c.Nodes {
		load.awaitMore(t, 100)
		began := time.Now()
		must(t, b.Stop())
		stopped := time.Since(began)
		must(t, b.Start())
		t.Logf("%s stopped in %v and served again after %v", b.Name, stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		must(t, awaitSettled(c))
	}

	away := c.Nodes[1]
	before, err := away.Status()
	must(t, err)
	must(t, away.Kill())
	fill(t, c.Nodes[0], "bulk", 24<<20)
	await(t, "the order to be trimmed", func() error {
		s, err := c.Nodes[0].Status()
		if err == nil && s.Order.First <= before.Order.Last {
			err = fmt.Errorf("it begins at %d, and %s knew %d", s.Order.First, away.Name, before.Order.Last)
		}
		return err
	})
	began := time.Now()
	must(t, away.Start())
	t.Logf("%s, which was away for too long, served again after %v", away.Name, time.Since(began).Round(time.Millisecond))
	if !strings.Contains(away.Log(), "copied the log") {
		t.Errorf("it did not say that it copied another node's log")
	}
	must(t, awaitSettled(c))
	load.check(t, away)
	must(t, c.AwaitEqual(patience))
}

// TestWhoDoesNotBelongIsRefused starts nodes that must not join: of a name that is taken, with another secret, and with the data of another cluster.
func TestWhoDoesNotBelongIsRefused(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterOptions{})
	must(t, awaitSettled(c))
	refused := func(t *testing.T, b *harness.Broker, says string) {
		t.Helper()
		must(t, b.Begin())
		await(t, "the node to be refused", func() error {
			switch {
			case b.Ready() == nil:
				t.Fatalf("%s serves", b.Name)
			case !strings.Contains(b.Log(), says):
				return fmt.Errorf("it does not say %q", says)
			}
			return nil
		})
		must(t, b.Kill())
	}
	t.Run("TakenName", func(t *testing.T) {
		b, err := c.Aside("n2")
		must(t, err)
		defer b.Close() //nolint:errcheck // it was killed
		refused(t, b, "another process is the node 'n2' already")
	})
	t.Run("WrongSecret", func(t *testing.T) {
		b, err := c.Aside("n5", "POLYLOG_CLUSTER_SECRET=another")
		must(t, err)
		defer b.Close() //nolint:errcheck // it was killed
		refused(t, b, "Authorization Violation")
	})
	t.Run("OtherCluster", func(t *testing.T) {
		other := harness.StartCluster(t, harness.ClusterOptions{Nodes: 2, Args: []string{"--set", "cluster.replicas=2"}})
		must(t, other.Nodes[0].Stop())
		b, err := c.Aside("n6")
		must(t, err)
		defer b.Close() //nolint:errcheck // it was killed
		must(t, os.RemoveAll(b.Dir))
		must(t, os.CopyFS(b.Dir, os.DirFS(other.Nodes[0].Dir)))
		must(t, os.RemoveAll(b.Dir+"/order"))
		refused(t, b, "it belongs to another cluster")
	})
	must(t, awaitSettled(c)) // nobody was harmed
	must(t, c.AwaitEqual(patience))
}
