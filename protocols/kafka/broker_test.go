package kafka

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// broker is a Server with all that it works with, listening on a port of its own.
type broker struct {
	t       testing.TB
	opts    Options
	server  *Server
	ln      net.Listener
	addr    string
	serving sync.WaitGroup
}

// startBroker starts a broker on an empty log; change may change its options.
func startBroker(t testing.TB, change func(*Options)) *broker {
	t.Helper()
	store, err := logstore.Open(logstore.Options{Dir: t.TempDir(), Sync: logstore.SyncOS, SegmentBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	producers, err := group.NewProducers(group.ProducerOptions{Store: store, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := group.Open(group.Options{Store: store, Now: time.Now, InitialDelay: -1, NewID: func() string {
		var id [8]byte
		rand.Read(id[:])
		return hex.EncodeToString(id[:])
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t}
	b.opts = Options{
		Store: store, Groups: groups, Producers: producers, ClusterID: "polylog-test", NodeID: 1, AutoCreate: true,
		Topics: topic.Open(topic.Options{Store: store, Now: time.Now, NewID: func() (id topic.ID) {
			rand.Read(id[:])
			return id
		}}),
		Advertise: func(conn net.Conn) (string, int32) {
			host, port, _ := net.SplitHostPort(conn.LocalAddr().String())
			n, _ := strconv.Atoi(port)
			return host, int32(n)
		},
		Logf: func(format string, args ...any) { t.Logf(format, args...) },
	}
	if change != nil {
		change(&b.opts)
	}
	b.listen()
	t.Cleanup(b.stop)
	return b
}

func (b *broker) listen() {
	b.server = New(b.opts)
	if b.addr == "" {
		b.addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", b.addr) // the same one again when it comes back
	if err != nil {
		b.t.Fatal(err)
	}
	b.ln, b.addr = ln, ln.Addr().String()
	b.serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			b.serving.Go(func() { b.server.Handle(conn) })
		}
	})
}

// stop ends the broker; what it did must be over then.
func (b *broker) stop() {
	b.ln.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.server.Drain(ctx); err != nil {
		b.t.Errorf("drain: %v", err)
	}
	b.serving.Wait()
}

// topic makes a topic.
func (b *broker) topic(name string, change func(*topic.Spec)) *topic.Topic {
	b.t.Helper()
	s := topic.Spec{Namespace: "/", Name: name, Partitions: 1, AckPolicy: topic.Retain, Durable: true}
	if change != nil {
		change(&s)
	}
	t, err := b.opts.Topics.Create(b.t.Context(), s)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// rawConn is a connection on which a test speaks for itself.
type rawConn struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	corr int32
	f    *kmsg.RequestFormatter
}

func (b *broker) dial() *rawConn { return dialRaw(b.t, b.addr) }

func dialRaw(t testing.TB, addr string) *rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	return &rawConn{t: t, conn: conn, in: bufio.NewReader(conn), f: kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))}
}

// send sends a request and returns its correlation id.
func (r *rawConn) send(req kmsg.Request) int32 {
	r.t.Helper()
	r.corr++
	r.sendBytes(r.f.AppendRequest(nil, req, r.corr))
	return r.corr
}

func (r *rawConn) sendBytes(b []byte) {
	r.t.Helper()
	if _, err := r.conn.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

// receive reads the answer to req, whose correlation id must be corr.
func (r *rawConn) receive(req kmsg.Request, corr int32) kmsg.Response {
	r.t.Helper()
	got, body, err := r.receiveFrame()
	if err != nil {
		r.t.Fatalf("the answer to %T v%d: %v", req, req.GetVersion(), err)
	}
	if got != corr {
		r.t.Fatalf("answer to request %d, want that to %d", got, corr)
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != 18 {
		if len(body) == 0 || body[0] != 0 {
			r.t.Fatalf("the answer to %T v%d has tagged fields % x in its header", req, req.GetVersion(), body)
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		r.t.Fatalf("the answer to %T v%d: %v", req, req.GetVersion(), err)
	}
	if again := resp.AppendTo(nil); len(again) != len(body) {
		r.t.Fatalf("the answer to %T v%d has %d bytes, what it decodes to %d", req, req.GetVersion(), len(body), len(again))
	}
	return resp
}

func (r *rawConn) receiveFrame() (corr int32, body []byte, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r.in, size[:]); err != nil {
		return 0, nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r.in, b); err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:], nil
}

// ask sends a request and returns the answer.
func (r *rawConn) ask(req kmsg.Request) kmsg.Response {
	r.t.Helper()
	return r.receive(req, r.send(req))
}

// expectClosed fails unless the broker ends the connection without another byte.
func (r *rawConn) expectClosed() {
	r.t.Helper()
	b, err := r.in.ReadByte()
	if err == nil {
		r.t.Fatalf("the broker sent %#x, it should have closed the connection", b)
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		r.t.Fatal("the broker keeps the connection open")
	}
}

// testRecord is a record to send, or one that was read.
type testRecord struct {
	offset, ts int64
	key, value string
}

// batchOf makes a batch of values.
func batchOf(t testing.TB, change func(*record.Builder), values ...string) []byte {
	t.Helper()
	b := record.NewBuilder()
	if change != nil {
		change(b)
	}
	for i, v := range values {
		b.Append(1_700_000_000_000+int64(i), nil, []byte(v), nil)
	}
	raw, err := b.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// produceRequest asks to append records to one partition.
func produceRequest(version int16, t *topic.Topic, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{
		Topic: topic.KafkaName(t.Name), TopicID: t.ID,
		Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: records}},
	}}
	return req
}

// produce appends records and returns what was answered for them.
func (r *rawConn) produce(t *topic.Topic, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	r.t.Helper()
	return r.ask(produceRequest(9, t, partition, -1, records)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// mustProduce appends values as one batch and returns its base offset.
func (r *rawConn) mustProduce(t *topic.Topic, values ...string) int64 {
	r.t.Helper()
	p := r.produce(t, 0, batchOf(r.t, nil, values...))
	if p.ErrorCode != 0 {
		r.t.Fatalf("produce: error %d %v", p.ErrorCode, p.ErrorMessage)
	}
	return p.BaseOffset
}

// fetchRequest asks for partition 0 of a topic, without a session and without a wait.
func fetchRequest(version int16, t *topic.Topic, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes = version, 1<<20, 1
	req.SessionEpoch = -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic.KafkaName(t.Name), TopicID: t.ID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return req
}

// fetch reads partition 0 of a topic.
func (r *rawConn) fetch(t *topic.Topic, offset int64) kmsg.FetchResponseTopicPartition {
	r.t.Helper()
	return r.ask(fetchRequest(12, t, offset)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

// recordsOf decodes batches.
func recordsOf(t testing.TB, raw []byte) []testRecord {
	t.Helper()
	var all []testRecord
	for len(raw) > 0 {
		b, rest, err := record.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		it := b.Iter(nil)
		for it.Next() {
			r := it.Record()
			all = append(all, testRecord{it.Offset(), it.Timestamp(), string(r.Key), string(r.Value)})
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		raw = rest
	}
	return all
}

func valuesOf(rs []testRecord) []string {
	var vs []string
	for _, r := range rs {
		vs = append(vs, r.value)
	}
	return vs
}

// eventually waits until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
