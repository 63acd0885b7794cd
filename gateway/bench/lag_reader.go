package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lagging is a broker of which one node acknowledges and another one is read. The topic's partitions are led by the one that acknowledges, as far as the broker has leaders;
// and since a client of Kafka goes to whomever it is told that leads, the producers' connections all end there, whatever they are told.
type lagging struct {
	Kafka
	reader string
	meter  *lagMeter
}

// Name is part of Broker.
func (b *lagging) Name() string { return b.Broker + ", read at " + b.reader }

// Addresses is part of Broker.
func (b *lagging) Addresses() []string {
	return slices.Compact([]string{b.Broker, b.reader})
}

func (b *lagging) setup(ctx context.Context, r *round) error {
	if err := b.Check(); err != nil {
		return err
	}
	var err error
	if b.admin, err = kgo.NewClient(kgo.SeedBrokers(b.Broker)); err != nil {
		return err
	}
	if err := b.createLed(ctx, r); err != nil {
		b.admin.Close()
		return err
	}
	return nil
}

// createLed makes the topic with copies on all nodes, or on as many as was asked for, the node that acknowledges being the first of each.
func (b *lagging) createLed(ctx context.Context, r *round) error {
	resp, err := metadataOf(ctx, b.admin.SeedBrokers()[0])
	if err != nil {
		return err
	}
	leader, others := int32(-1), []int32{}
	for _, n := range resp.Brokers {
		if leader < 0 && isSameAddress(net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port))), b.Broker) {
			leader = n.NodeID
		} else {
			others = append(others, n.NodeID)
		}
	}
	if leader < 0 {
		return fmt.Errorf("%s names no broker with its own address; give the one that it advertises", b.Broker)
	}
	nodes := append([]int32{leader}, others...)
	if b.Replicas > 0 {
		nodes = nodes[:min(b.Replicas, len(nodes))]
	}
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = b.topic(r), -1, -1
	for p := range r.load.Queues {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(p), nodes
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	return b.create(ctx, r, t)
}

// metadataOf asks a node for what it knows of the nodes and of some topics.
func metadataOf(ctx context.Context, node *kgo.Broker, topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // not all
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := node.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

// isSameAddress reports whether two addresses, host:port, are the same, maybe by different names.
func isSameAddress(a, b string) bool {
	x, err := net.ResolveTCPAddr("tcp", a)
	if err != nil {
		return false
	}
	y, err := net.ResolveTCPAddr("tcp", b)
	return err == nil && x.Port == y.Port && x.IP.Equal(y.IP)
}

func (b *lagging) producer(_ context.Context, r *round, index int) (client, error) {
	var d net.Dialer
	p, err := b.newProducer(r, index, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, b.Broker)
	}))
	if err != nil {
		return nil, err
	}
	p.confirmed = func(n uint64, now time.Duration) { b.meter.confirmed(index, n, now) }
	return p, nil
}

// lagReader fetches from the one node, whoever leads. What it needs of a client is one connection: a Kafka client's own consumer would go to the leader.
type lagReader struct {
	r       *round
	meter   *lagMeter
	client  *kgo.Client
	node    *kgo.Broker
	topic   string
	id      [16]byte // the topic's
	offsets []int64  // the next, by partition

	ended, done chan struct{} // closed by finish, and when run is over
}

func (b *lagging) consumer(_ context.Context, r *round, _ int) (client, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.reader))
	if err != nil {
		return nil, err
	}
	return &lagReader{
		r: r, meter: b.meter, client: cl, node: cl.SeedBrokers()[0], topic: b.topic(r), offsets: make([]int64, r.load.Queues), ended: make(chan struct{}), done: make(chan struct{}),
	}, nil
}

// lookAgain is the pause before a node is asked again what it could not say yet.
const lookAgain = 5 * time.Millisecond

// pause waits for that long, or until ctx is over.
func pause(ctx context.Context) error {
	t := time.NewTimer(lookAgain)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ready waits until the node knows the topic, which another one has made.
func (c *lagReader) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(c.r.load.Patience, time.Second))
	defer cancel()
	for {
		resp, err := metadataOf(ctx, c.node, c.topic)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			err = errors.Join(err, kerr.ErrorForCode(t.ErrorCode))
			for _, p := range t.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
			}
			if err == nil && len(t.Partitions) == len(c.offsets) {
				c.id = t.TopicID
				return nil
			}
		}
		if pause(ctx) != nil {
			return fmt.Errorf("it does not know the topic %s: %w", c.topic, err)
		}
	}
}

func (c *lagReader) run(ctx context.Context) error {
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
		resp, err := c.fetch(ctx)
		now := c.r.now()
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = c.take(resp, now, &latency)
		}
		switch {
		case kerr.IsRetriable(err): // it has just got to know the topic
			if pause(ctx) != nil {
				return nil
			}
		case err != nil:
			return fmt.Errorf("fetching: %w", err)
		}
	}
}

// fetch asks for what comes next in all partitions, and waits for it.
func (c *lagReader) fetch(ctx context.Context) (*kmsg.FetchResponse, error) {
	const longest, mostBytes, mostOfPartition = 500 * time.Millisecond, 50 << 20, 1 << 20
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(longest.Milliseconds()), 1, mostBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = c.topic, c.id
	for i, offset := range c.offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(i), offset, mostOfPartition
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := c.node.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	f := resp.(*kmsg.FetchResponse)
	return f, kerr.ErrorForCode(f.ErrorCode)
}

// take counts the records of a response that came at the time now.
func (c *lagReader) take(resp *kmsg.FetchResponse, now time.Duration, latency *Histogram) error {
	n := 0
	var failed error
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			rp := &resp.Topics[i].Partitions[j]
			if rp.Partition < 0 || int(rp.Partition) >= len(c.offsets) {
				return fmt.Errorf("it sent partition %d, which was not asked for", rp.Partition)
			}
			at := &c.offsets[rp.Partition]
			got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: *at, Topic: c.topic, Partition: rp.Partition}, rp, kgo.DefaultDecompressor(), nil)
			*at = next
			for _, rec := range got.Records {
				n++
				if s, fresh := c.r.arrived(rec.Value, false, now, latency); fresh {
					c.meter.arrived(int(s.producer), s.number, now)
				}
			}
			if got.Err != nil {
				failed = got.Err
			}
		}
	}
	if n > 0 {
		c.r.received(n, now)
	}
	return failed
}

func (c *lagReader) finish(context.Context) error {
	close(c.ended)
	<-c.done
	return nil
}

func (c *lagReader) close() { c.client.Close() }
