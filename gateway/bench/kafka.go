package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka drives a broker through the Kafka protocol.
type Kafka struct {
	Broker      string // host:port; several nodes: with commas between. Clients find the others by themselves
	Topic       string // the topics of the rounds begin with it
	Replicas    int    // copies of each partition; -1: as many as the broker makes by default
	Acks        string // "all", "1" or "0"
	Idempotent  bool   // needs acks=all
	Linger      time.Duration
	BatchBytes  int
	Compression string // "none", "gzip", "snappy", "lz4" or "zstd"
	// Group has the consumers join a group of that name, which commits every second. Empty: the partitions are dealt out and nothing is committed.
	Group string

	admin *kgo.Client
}

// Compressions are the values of Kafka.Compression.
var Compressions = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Name is part of Broker.
func (k *Kafka) Name() string { return strings.Join(k.Addresses(), ", ") }

// Addresses is part of Broker.
func (k *Kafka) Addresses() []string { return nodesIn(k.Broker) }

// Check returns what is wrong with what was asked for.
func (k *Kafka) Check() error {
	if k.Idempotent && k.Acks != "all" {
		return fmt.Errorf("an idempotent producer needs acks=all, not %s", k.Acks)
	}
	if k.BatchBytes < stampBytes {
		return fmt.Errorf("a batch of %d bytes holds no record", k.BatchBytes)
	}
	if k.Replicas != -1 && (k.Replicas < 1 || k.Replicas > math.MaxInt16) {
		return fmt.Errorf("there are 1 or more copies of a partition, or with -1 as many as the broker likes, not %d", k.Replicas)
	}
	for _, n := range k.Addresses() {
		if _, _, err := net.SplitHostPort(n); err != nil {
			return fmt.Errorf("a broker is given as host:port: %w", err)
		}
	}
	_, err := k.producerOpts(1)
	return err
}

func (k *Kafka) topic(r *round) string { return fmt.Sprintf("%s-%016x", k.Topic, r.id) }

// partitionOf is where a producer's n-th message goes: to partitions in turn by the thousand, so that batches fill. Each producer begins with another one.
func partitionOf(producer int, n uint64, partitions int) int32 {
	const run = 1000
	return int32((uint64(producer) + n/run) % uint64(partitions))
}

func (k *Kafka) setup(ctx context.Context, r *round) error {
	if err := k.Check(); err != nil {
		return err
	}
	var err error
	if k.admin, err = kgo.NewClient(kgo.SeedBrokers(k.Addresses()...)); err != nil {
		return err
	}
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = k.topic(r), int32(r.load.Queues), int16(k.Replicas)
	if err := k.create(ctx, r, t); err != nil {
		k.admin.Close()
		return err
	}
	return nil
}

func (k *Kafka) create(ctx context.Context, r *round, t kmsg.CreateTopicsRequestTopic) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(r.load.Patience.Milliseconds())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, k.admin)
	if err == nil && len(resp.Topics) == 1 {
		if err = kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil && resp.Topics[0].ErrorMessage != nil {
			err = fmt.Errorf("%w (%s)", err, *resp.Topics[0].ErrorMessage)
		}
	}
	if err != nil {
		return fmt.Errorf("creating topic %s: %w", t.Topic, err)
	}
	return nil
}

func (k *Kafka) remove(ctx context.Context, r *round) (left int64, err error) {
	defer k.admin.Close()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(k.topic(r))
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(r.load.Patience.Milliseconds())
	req.Topics, req.TopicNames = append(req.Topics, t), append(req.TopicNames, *t.Topic)
	resp, err := req.RequestWith(ctx, k.admin)
	if err == nil && len(resp.Topics) == 1 {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	return -1, err
}

func (k *Kafka) producerOpts(window int) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.ProducerLinger(k.Linger), kgo.ProducerBatchMaxBytes(int32(k.BatchBytes)), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(window),
	}
	acks := map[string]kgo.Acks{"all": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck()}
	a, known := acks[k.Acks]
	if !known {
		return nil, fmt.Errorf("acks is one of all, 1 and 0, not %q", k.Acks)
	}
	opts = append(opts, kgo.RequiredAcks(a))
	if !k.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5)) // as many as with idempotence
	}
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, name := range Compressions {
		if name == k.Compression {
			return append(opts, kgo.ProducerBatchCompression(codecs[i])), nil
		}
	}
	return nil, fmt.Errorf("the compression is one of %v, not %q", Compressions, k.Compression)
}

// kafkaProducer is a producer and its client.
type kafkaProducer struct {
	r       *round
	index   int
	topic   string
	client  *kgo.Client
	window  *window
	records []kgo.Record // of message n at n modulo the window's length; it is the client's until it is settled

	confirmed func(n uint64, now time.Duration) // called for each message that is, if it is not nil
}

func (k *Kafka) producer(_ context.Context, r *round, index int) (client, error) {
	return k.newProducer(r, index)
}

// newProducer makes a producer whose client has more options.
func (k *Kafka) newProducer(r *round, index int, more ...kgo.Opt) (*kafkaProducer, error) {
	opts, err := k.producerOpts(r.load.Window)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(append(opts, kgo.SeedBrokers(k.Addresses()...)), more...)...)
	if err != nil {
		return nil, err
	}
	p := &kafkaProducer{r: r, index: index, topic: k.topic(r), client: cl, window: newWindow(r.load.Window), records: make([]kgo.Record, r.load.Window)}
	bodies := noise(r.load.Window * r.load.Size)
	for i := range p.records {
		p.records[i] = kgo.Record{Topic: p.topic, Value: bodies[i*r.load.Size:][:r.load.Size:r.load.Size]}
	}
	return p, nil
}

func (p *kafkaProducer) ready(ctx context.Context) error { return p.client.Ping(ctx) }

func (p *kafkaProducer) run(ctx context.Context) error {
	var latency Histogram
	failed := make(chan error, 1)
	pace := p.r.pace(p.index)
	settle := func(n uint64, err error) { // one at a time: promises are kept by one goroutine
		now := p.r.now()
		at, ok := p.window.settle(n)
		switch {
		case !ok:
		case err != nil:
			p.r.settled(&p.r.refused, 1, now)
			select {
			case failed <- err:
			default:
			}
		default:
			latency.Add(now - at)
			p.r.accounts[p.index].confirmed.add(n)
			p.r.settled(&p.r.confirmed, 1, now)
			if p.confirmed != nil {
				p.confirmed(n, now)
			}
		}
		p.window.advance()
	}
	const burst = 100 // records between two looks at the clock
	for {
		room := p.window.room(ctx)
		n, at := pace.next(min(room, burst))
		if room == 0 || n == 0 {
			break
		}
		for range n {
			s := pace.stamp(at)
			rec := &p.records[s.number%uint64(len(p.records))]
			*rec = kgo.Record{Topic: p.topic, Partition: partitionOf(p.index, s.number, p.r.load.Queues), Value: rec.Value}
			s.put(rec.Value)
			p.window.send(s.at)
			p.client.Produce(ctx, rec, func(_ *kgo.Record, err error) { settle(s.number, err) })
		}
		p.r.sent(p.index, pace.sent)
	}
	p.window.drain(ctx, p.r.load.Patience)
	p.client.Close() // no promise is kept after it
	p.r.measured(&p.r.confirm, &latency)
	select {
	case err := <-failed:
		return fmt.Errorf("%d records were refused, the first: %w", p.r.refused.Load(), err)
	default:
		return nil
	}
}

func (p *kafkaProducer) finish(context.Context) error { return nil }
func (p *kafkaProducer) close()                       { p.client.Close() }

// kafkaConsumer is a consumer and its client.
type kafkaConsumer struct {
	r      *round
	client *kgo.Client
	group  bool
	joined chan struct{} // closed when the group has given it partitions
	ended  chan struct{} // closed by finish
	done   chan struct{} // closed when run is over
}

func (k *Kafka) consumer(_ context.Context, r *round, index int) (client, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(k.Addresses()...)}
	if k.Group != "" {
		opts = append(opts, kgo.ConsumerGroup(k.Group), kgo.ConsumeTopics(k.topic(r)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(time.Second))
	} else {
		mine := map[int32]kgo.Offset{}
		for p := index; p < r.load.Queues; p += r.load.Consumers {
			mine[int32(p)] = kgo.NewOffset().AtStart()
		}
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.topic(r): mine}))
	}
	c := &kafkaConsumer{r: r, group: k.Group != "", joined: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{})}
	if c.group {
		var once sync.Once
		opts = append(opts, kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { once.Do(func() { close(c.joined) }) }))
	}
	var err error
	if c.client, err = kgo.NewClient(opts...); err != nil {
		return nil, err
	}
	return c, nil
}

// ready waits for the group: it makes its first members wait for others, by default for seconds.
func (c *kafkaConsumer) ready(ctx context.Context) error {
	if err := c.client.Ping(ctx); err != nil || !c.group {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, max(c.r.load.Patience, time.Second))
	defer cancel()
	select {
	case <-c.joined:
		return nil
	case <-limit.Done():
		return fmt.Errorf("the group gave it no partitions: %w", limit.Err())
	}
}

func (c *kafkaConsumer) run(ctx context.Context) error {
	defer close(c.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	var latency Histogram
	defer func() { c.r.measured(&c.r.arrive, &latency) }()
	for {
		fetches := c.client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return nil
		}
		var failed error
		fetches.EachError(func(topic string, partition int32, err error) {
			failed = errors.Join(failed, fmt.Errorf("fetching partition %d of %s: %w", partition, topic, err))
		})
		if failed != nil {
			return failed
		}
		n, now := 0, c.r.now()
		fetches.EachRecord(func(rec *kgo.Record) {
			n++
			c.r.arrived(rec.Value, false, now, &latency)
		})
		c.r.received(n, now)
	}
}

func (c *kafkaConsumer) finish(ctx context.Context) error {
	close(c.ended)
	<-c.done
	if !c.group {
		return nil
	}
	if err := c.client.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	return c.client.LeaveGroupContext(ctx)
}

func (c *kafkaConsumer) close() { c.client.Close() }
