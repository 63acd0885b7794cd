package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/e2e/harness"
)

// patience is how long a test waits for what should happen at once. It is long because the machine may be busy with many tests; nothing waits for it to pass.
const patience = 30 * time.Second

// claimsTopic is the index topic: who holds which messages of the queues.
const claimsTopic = "__claims"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits for a condition.
func await(t testing.TB, what string, condition func() error) {
	t.Helper()
	must(t, harness.Await(patience, what, condition))
}

// connectAMQP connects as guest.
func connectAMQP(address string) (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://guest:guest@"+address+"/", amqp.Config{
		Heartbeat: 10 * time.Second, Dial: amqp.DefaultDial(5 * time.Second),
	})
}

// dialAMQP connects for as long as the test lasts.
func dialAMQP(t testing.TB, b *harness.Broker) *amqp.Connection {
	t.Helper()
	conn, err := connectAMQP(b.AMQP)
	must(t, err)
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // the test may have ended it
	return conn
}

// dropper is an AMQP connection whose socket the test can break.
type dropper struct {
	*amqp.Connection
	drop func() // closes the socket without a word of AMQP
}

// dialToDrop connects with a socket that can be broken.
func dialToDrop(t testing.TB, b *harness.Broker) dropper {
	t.Helper()
	var sock net.Conn
	conn, err := amqp.DialConfig("amqp://guest:guest@"+b.AMQP+"/", amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		c, err := amqp.DefaultDial(5*time.Second)(network, addr)
		sock = c
		return c, err
	}})
	must(t, err)
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // the test may have ended it
	return dropper{conn, func() { sock.Close() }}
}

func openChannel(t testing.TB, c *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := c.Channel()
	must(t, err)
	return ch
}

// declare declares a durable queue.
func declare(t testing.TB, ch *amqp.Channel, name string, args amqp.Table) {
	t.Helper()
	_, err := ch.QueueDeclare(name, true, false, false, false, args)
	must(t, err)
}

// publishConfirmed publishes texts to a queue and waits until all are confirmed.
func publishConfirmed(t testing.TB, c *amqp.Connection, queue string, texts ...string) {
	t.Helper()
	ch := openChannel(t, c)
	defer ch.Close() //nolint:errcheck // all is confirmed
	must(t, ch.Confirm(false))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var waits []*amqp.DeferredConfirmation
	for _, text := range texts {
		d, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(text)})
		must(t, err)
		waits = append(waits, d)
	}
	for i, d := range waits {
		if ok, err := d.WaitContext(ctx); err != nil || !ok {
			t.Fatalf("message %d of %d to queue %s was not confirmed: %v", i, len(waits), queue, err)
		}
	}
}

// numbered returns n texts: "prefix 0", "prefix 1" and so on.
func numbered(prefix string, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprint(prefix, " ", i)
	}
	return texts
}

// next returns the next delivery, which must come in time.
func next(t testing.TB, ds <-chan amqp.Delivery) amqp.Delivery {
	t.Helper()
	select {
	case d, ok := <-ds:
		if !ok {
			t.Fatal("the consumer ended, and a delivery was expected")
		}
		return d
	case <-time.After(patience):
		t.Fatalf("no delivery within %v", patience)
	}
	panic("not reached")
}

// get gets a message that must be there.
func get(t testing.TB, ch *amqp.Channel, queue string) amqp.Delivery {
	t.Helper()
	d, ok, err := ch.Get(queue, false)
	must(t, err)
	if !ok {
		t.Fatalf("queue %s has nothing to get", queue)
	}
	return d
}

// expectEmpty sees that there is nothing to get.
func expectEmpty(t testing.TB, ch *amqp.Channel, queue string) {
	t.Helper()
	if d, ok, err := ch.Get(queue, false); err != nil || ok {
		t.Fatalf("queue %s has %q to get (%v), and should be empty", queue, d.Body, err)
	}
}

// ready returns how many messages of a queue wait.
func ready(t testing.TB, ch *amqp.Channel, queue string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(t, err)
	return q.Messages
}

// kafkaClient connects for as long as the test lasts.
func kafkaClient(t testing.TB, b *harness.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := newKafkaClient(b, opts...)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// newKafkaClient makes a client. Of a node of a cluster it speaks with this node only, whatever it is told of others: every node has everything.
func newKafkaClient(b *harness.Broker, opts ...kgo.Opt) (*kgo.Client, error) {
	if b.Cluster != "" && len(b.All()) == 1 {
		opts = append([]kgo.Opt{kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, b.Kafka)
		})}, opts...)
	}
	again := func(int) time.Duration { return 20 * time.Millisecond }
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.Kafka), kgo.RetryBackoffFn(again), kgo.MetadataMinAge(50 * time.Millisecond), kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AlwaysRetryEOF(), // brokers are killed
	}, opts...)...)
}

// createTopic creates a topic as Kafka's clients do.
func createTopic(t testing.TB, b *harness.Broker, name string, partitions int32) {
	t.Helper()
	res, err := kadm.NewClient(kafkaClient(t, b)).CreateTopic(t.Context(), partitions, 1, nil, name)
	must(t, errors.Join(err, res.Err))
}

// produce produces records and waits until all are stored.
func produce(t testing.TB, c *kgo.Client, rs ...*kgo.Record) {
	t.Helper()
	must(t, c.ProduceSync(t.Context(), rs...).FirstErr())
}

// fetchCount counts the answers to fetches that a client gets.
type fetchCount struct{ n atomic.Int64 }

// OnBrokerRead is called by the client for each answer. Fetch is request 1.
func (c *fetchCount) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == 1 && err == nil {
		c.n.Add(1)
	}
}

// fetchAll reads what a topic holds from its first to its last record. The last offsets may have no record any more; then several fetches that waited in vain are
// the end.
func fetchAll(t testing.TB, b *harness.Broker, topic string) []*kgo.Record {
	t.Helper()
	first, end := bounds(t, b, topic)
	left := map[int32]int64{}
	for p, e := range end {
		if first[p] < e {
			left[p] = e
		}
	}
	var fetches fetchCount
	c := kafkaClient(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond), kgo.WithHooks(&fetches))
	defer c.Close()
	deadline := time.Now().Add(patience)
	var rs []*kgo.Record
	before := fetches.n.Load()
	for len(left) > 0 && fetches.n.Load() < before+4 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		fs := c.PollFetches(ctx)
		cancel()
		if err := fs.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) || time.Now().After(deadline) {
			t.Fatalf("reading topic %s: %v; partitions not read to their end: %v", topic, err, left)
		}
		fs.EachRecord(func(r *kgo.Record) {
			rs = append(rs, r)
			before = fetches.n.Load()
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return rs
}

// bounds returns the first and the next offset of each partition of a topic.
func bounds(t testing.TB, b *harness.Broker, topic string) (first, next map[int32]int64) {
	t.Helper()
	first, next, err := tryBounds(t.Context(), kafkaClient(t, b), topic)
	must(t, err)
	return first, next
}

func tryBounds(ctx context.Context, c *kgo.Client, topic string) (first, next map[int32]int64, err error) {
	adm := kadm.NewClient(c)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err = errors.Join(err, starts.Error()); err != nil {
		return nil, nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err = errors.Join(err, ends.Error()); err != nil {
		return nil, nil, err
	}
	first, next = map[int32]int64{}, map[int32]int64{}
	starts.Each(func(o kadm.ListedOffset) { first[o.Partition] = o.Offset })
	ends.Each(func(o kadm.ListedOffset) { next[o.Partition] = o.Offset })
	return first, next, nil
}

// claimRecord is a record of the index topic, as an operator reads it.
type claimRecord struct {
	Kind      string
	Namespace string
	Queue     string
	Partition int
	Ranges    [][]int64
	Holder    string
	Node      string
	Epoch     uint64
	Time      int64
}

// offsets returns the offsets that the record covers.
func (c *claimRecord) offsets() (os []int64) {
	for _, r := range c.Ranges {
		for o := r[0]; o < r[0]+r[1]; o++ {
			os = append(os, o)
		}
	}
	return os
}

// claims reads the index topic with a Kafka client.
func claims(t testing.TB, b *harness.Broker) []claimRecord {
	t.Helper()
	var cs []claimRecord
	for _, r := range fetchAll(t, b, claimsTopic) {
		cs = append(cs, parseClaim(t, r.Value))
	}
	return cs
}

func parseClaim(t testing.TB, value []byte) (c claimRecord) {
	t.Helper()
	if err := json.Unmarshal(value, &c); err != nil {
		t.Errorf("the index topic has %q: %v", value, err)
	}
	return c
}

// awaitNoClaims waits until the index topic is empty.
func awaitNoClaims(t testing.TB, b *harness.Broker) {
	t.Helper()
	c := kafkaClient(t, b)
	defer c.Close()
	await(t, "the index topic to be empty", func() error {
		first, next, err := tryBounds(t.Context(), c, claimsTopic)
		if err == nil && first[0] != next[0] {
			err = fmt.Errorf("it has records from offset %d on, the next is %d", first[0], next[0])
		}
		return err
	})
}

// checkLog runs `polylog check` on the data of a stopped broker, which must find nothing wrong.
func checkLog(t testing.TB, b *harness.Broker) {
	t.Helper()
	binary, err := harness.Binary()
	must(t, err)
	text, err := exec.Command(binary, "check", b.Dir).CombinedOutput()
	if err != nil {
		t.Errorf("polylog check %s: %v\n%s", b.Dir, err, text)
	}
}

// texts returns the bodies of messages.
func texts(ds []amqp.Delivery) string {
	all := make([]string, len(ds))
	for i, d := range ds {
		all[i] = string(d.Body)
	}
	return strings.Join(all, ", ")
}
