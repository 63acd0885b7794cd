package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/e2e/harness"
	"polylog/logstore/seed"
)

// The limits of the broker that is attacked, and what it may take for them.
const (
	hostileAMQP     = 300 // connections
	hostileKafka    = 100
	hostilePublish  = 1 << 20 // bytes that are published together, which is what a batch may have
	hostileDelivery = 1 << 20 // bytes that wait for one AMQP client
	hostileResponse = 2 << 20 // bytes of one Kafka answer
	hostileMemory   = 4 << 20 // bytes of one Kafka connection
	hostileFrame    = 128 << 10

	// slower is how many times longer a confirm may take while others misbehave, in the median, and slowerBy what is added for confirms that are very fast.
	// Most of it is room for machines that are busy with other things. A broker that lets itself be held up stops for seconds.
	slower   = 8
	slowerBy = 20 * time.Millisecond
)

func hostileLimits() (args []string) {
	for key, value := range map[string]int{
		"amqp.connections": hostileAMQP, "kafka.connections": hostileKafka, "amqp.publish_buffer": hostilePublish, "amqp.delivery_buffer": hostileDelivery,
		"kafka.response_max": hostileResponse, "kafka.connection_memory": hostileMemory, "amqp.frame_max": hostileFrame,
	} {
		args = append(args, "--set", fmt.Sprintf("%s=%d", key, value))
	}
	return args
}

// TestHostileClientsHarmNobodyElse attacks a broker in several ways, one after another. While each lasts, another client's confirms take about as long as before, and
// the broker takes no more memory than its limits say.
func TestHostileClientsHarmNobodyElse(t *testing.T) { // not beside others: it measures
	b := harness.Start(t, harness.Options{Alone: true, Args: hostileLimits()})
	v := newBystander(t, b)
	v.measure(t, 50) // warm
	quiet := v.measure(t, 300)
	t.Logf("left alone: a confirm of AMQP takes %v in the median, an answer of Kafka %v; the broker has %d MiB", quiet.amqp, quiet.kafka, memory(t, b)>>20)
	seed := seed.Of(t)
	for _, attack := range []struct {
		name  string
		bytes int // that the broker may take for it
		begin func(t *testing.T, b *harness.Broker, r *rand.Rand)
	}{
		{"garbage", 64 << 20, garbage},
		{"half a frame and then silence", 100 * 3 * hostileFrame, halfFrames},
		{"huge frames", 64 << 20, hugeFrames},
		{"subscribers that read nothing", 60*(hostileDelivery+hostilePublish) + 40*(hostileMemory+hostileResponse), deafSubscribers},
		{"all connections", (hostileAMQP + hostileKafka) * 128 << 10, allConnections},
	} {
		t.Run(attack.name, func(t *testing.T) {
			awaitConnections(t, b, "amqp", 1, 0) // those of the last attack are gone
			awaitConnections(t, b, "kafka", hostileKafka/4, 0)
			before := memory(t, b)
			var most atomic.Int64
			watching, stop := context.WithCancel(t.Context())
			var watch sync.WaitGroup
			watch.Go(func() {
				for watching.Err() == nil {
					most.Store(max(most.Load(), memory(t, b)))
					select {
					case <-watching.Done():
					case <-time.After(10 * time.Millisecond):
					}
				}
			})
			attack.begin(t, b, rand.New(rand.NewPCG(seed, 0)))
			now := v.measure(t, 300)
			stop()
			watch.Wait()
			t.Logf("a confirm of AMQP takes %v, an answer of Kafka %v; the broker has %d MiB more at the most", now.amqp, now.kafka, (most.Load()-before)>>20)
			if now.amqp > slower*quiet.amqp+slowerBy || now.kafka > slower*quiet.kafka+slowerBy {
				t.Errorf("another client's confirms took %v (AMQP) and %v (Kafka) in the median, and %v and %v without the attack", now.amqp, now.kafka, quiet.amqp, quiet.kafka)
			}
			// Go gives memory back late: twice what is in use is normal. What is added is for the clients that are not hostile.
			if grown, may := most.Load()-before, int64(2*attack.bytes+128<<20); grown > may {
				t.Errorf("the broker took %d MiB more memory; its limits are good for %d MiB", grown>>20, may>>20)
			}
			if b.Ended() {
				t.Fatal("the broker has ended")
			}
		})
	}
	// All attackers are gone: everybody can connect again.
	await(t, "new clients to be served", func() error {
		conn, err := connectAMQP(b.AMQP)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	publishConfirmed(t, dialAMQP(t, b), "victim", "last")
	produce(t, kafkaClient(t, b), &kgo.Record{Topic: "victim", Value: []byte("last")})
}

// bystander is a client that minds its own business.
type bystander struct {
	ch *amqp.Channel
	k  *kgo.Client
}

func newBystander(t testing.TB, b *harness.Broker) *bystander {
	v := &bystander{openChannel(t, dialAMQP(t, b)), kafkaClient(t, b, kgo.ProducerLinger(0))}
	declare(t, v.ch, "victim", nil)
	must(t, v.ch.Confirm(false))
	return v
}

// latency is a median of each protocol.
type latency struct{ amqp, kafka time.Duration }

// measure publishes n messages by each protocol, one after another.
func (v *bystander) measure(t testing.TB, n int) latency {
	t.Helper()
	var a, k []time.Duration
	for range n {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		d, err := v.ch.PublishWithDeferredConfirmWithContext(ctx, "", "victim", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: make([]byte, 1024)})
		must(t, err)
		if ok, err := d.WaitContext(ctx); err != nil || !ok {
			t.Fatalf("a message was not confirmed: %v", err)
		}
		a = append(a, time.Since(began))
		began = time.Now()
		must(t, v.k.ProduceSync(ctx, &kgo.Record{Topic: "victim", Value: make([]byte, 1024)}).FirstErr())
		k = append(k, time.Since(began))
		cancel()
	}
	return latency{median(a), median(k)}
}

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

// memory returns how many bytes of memory the broker's process has (VmRSS).
func memory(t testing.TB, b *harness.Broker) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	if err != nil {
		t.Error(err)
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kb, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Errorf("the memory of the broker: %v", err)
	}
	return kb << 10
}

// figure returns a figure of the broker's metrics.
func figure(b *harness.Broker, name string) (sum float64, err error) {
	for _, n := range b.All() {
		v, err := figureOf(n, name)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

func figureOf(b *harness.Broker, name string) (float64, error) {
	res, err := http.Get("http://" + b.HTTP + "/metrics")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // all of it is read
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, name+" "); is {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, fmt.Errorf("there is no figure %s", name)
}

// mute opens a connection, says a little, and is silent for as long as the test lasts.
func mute(t testing.TB, address, says string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = c.Write([]byte(says))
	if err != nil {
		t.Logf("%v", err) // cut off already, which is the broker's right
	}
	return c
}

const amqpHeader = "AMQP\x00\x00\x09\x01"

// garbage sends random bytes, again and again on new connections: alone, and behind the beginning of the protocol.
func garbage(t *testing.T, b *harness.Broker, r *rand.Rand) {
	ctx, stop := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	t.Cleanup(func() { stop(); senders.Wait() })
	var sent atomic.Int64
	for i := range 12 {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		address, prefix := []string{b.AMQP, b.Kafka, b.HTTP, b.AMQP}[i%4], []string{"", "", "GET /", amqpHeader}[i%4]
		senders.Go(func() {
			for ctx.Err() == nil {
				c, err := net.DialTimeout("tcp", address, time.Second)
				if err != nil {
					continue
				}
				bytes := make([]byte, 1+r.IntN(10_000))
				for j := range bytes {
					bytes[j] = byte(r.Uint32())
				}
				c.SetDeadline(time.Now().Add(20 * time.Millisecond)) //nolint:errcheck // the write fails too
				c.Write(append([]byte(prefix), bytes...))            //nolint:errcheck // the broker may cut it off
				io.Copy(io.Discard, c)                               //nolint:errcheck // until it closes or is late
				c.Close()                                            //nolint:errcheck // nobody cares
				sent.Add(1)
			}
		})
	}
	await(t, "the attack to be under way", func() error {
		if sent.Load() < 100 {
			return errors.New("it has only begun")
		}
		return nil
	})
}

// rawAMQP logs in and hands over the socket: from there on the client sends bytes of its own.
func rawAMQP(t testing.TB, b *harness.Broker) net.Conn {
	t.Helper()
	var sock net.Conn
	conn, err := amqp.DialConfig("amqp://guest:guest@"+b.AMQP+"/", amqp.Config{Heartbeat: -1, Dial: func(network, addr string) (net.Conn, error) {
		c, err := amqp.DefaultDial(5*time.Second)(network, addr)
		sock = c
		return c, err
	}})
	must(t, err)
	_, err = conn.Channel() // number 1
	must(t, err)
	t.Cleanup(func() { sock.Close() })
	return sock
}

// send writes bytes; that the broker cuts the connection off is its right.
func send(c net.Conn, bytes ...[]byte) {
	c.SetWriteDeadline(time.Now().Add(time.Second)) //nolint:errcheck // the write fails too
	for _, b := range bytes {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// frame is the beginning of an AMQP frame that says it has so many bytes.
func frame(kind byte, channel uint16, size uint32, payload string) []byte {
	f := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	return append(binary.BigEndian.AppendUint32(f, size), payload...)
}

// basicPublish is basic.publish to the default exchange with routing key "victim".
const basicPublish = "\x00\x3c\x00\x28\x00\x00\x00\x06victim\x00"

// halfFrames stops in the middle of things: of a header, a method, a body that has begun, a request.
func halfFrames(t *testing.T, b *harness.Broker, _ *rand.Rand) {
	for range 10 {
		mute(t, b.AMQP, "AM")
		mute(t, b.AMQP, amqpHeader)
		mute(t, b.Kafka, "\x00\x00")
		mute(t, b.Kafka, "\x00\x00\x10\x00\x00\x03\x00\x09")
		mute(t, b.HTTP, "GET /metr")
	}
	for range 25 {
		send(rawAMQP(t, b), frame(1, 1, uint32(len(basicPublish)), basicPublish[:7]))
		c := rawAMQP(t, b)
		send(c, frame(1, 1, uint32(len(basicPublish)), basicPublish+"\xce"))
		header := append([]byte("\x00\x3c\x00\x00"), binary.BigEndian.AppendUint64(nil, 1<<20)...)
		send(c, frame(2, 1, 14, string(append(header, 0, 0))+"\xce"), frame(3, 1, hostileFrame-8, strings.Repeat("x", hostileFrame/2)))
	}
}

// hugeFrames claims sizes that the broker must not believe.
func hugeFrames(t *testing.T, b *harness.Broker, _ *rand.Rand) {
	for range 20 {
		send(rawAMQP(t, b), frame(1, 1, 1<<32-1, strings.Repeat("x", 5000)))
		c := rawAMQP(t, b)
		body := append([]byte("\x00\x3c\x00\x00"), binary.BigEndian.AppendUint64(nil, 1<<63)...)
		send(c, frame(1, 1, uint32(len(basicPublish)), basicPublish+"\xce"), frame(2, 1, 14, string(append(body, 0, 0))+"\xce"), frame(3, 1, 1000, strings.Repeat("x", 500)))
		// A method's field table that says it goes on for 2 GiB.
		declare := "\x00\x32\x00\x0a\x00\x00\x01q\x00\x7f\xff\xff\xff"
		send(rawAMQP(t, b), frame(1, 1, uint32(len(declare)), declare+"\xce"))
	}
	for range 20 {
		mute(t, b.Kafka, "\x7f\xff\xff\xff\x00\x00\x00\x09"+strings.Repeat("x", 1000))
		// As much as a produce request may have, of which nothing follows.
		mute(t, b.Kafka, "\x06\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x01\xff\xff")
		// A request for the metadata of two thousand million topics.
		mute(t, b.Kafka, "\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff")
	}
}

// deaf is a connection that can stop reading.
type deaf struct {
	net.Conn
	mu      sync.Mutex
	reading chan struct{} // closed while it reads
	closed  chan struct{}
	once    sync.Once
}

// dialDeaf connects to AMQP and opens a channel.
func dialDeaf(t testing.TB, b *harness.Broker) (*amqp.Channel, *deaf) {
	t.Helper()
	d := &deaf{closed: make(chan struct{}), reading: make(chan struct{})}
	close(d.reading)
	conn, err := amqp.DialConfig("amqp://guest:guest@"+b.AMQP+"/", amqp.Config{Heartbeat: -1, Dial: func(network, addr string) (net.Conn, error) {
		c, err := amqp.DefaultDial(5*time.Second)(network, addr)
		d.Conn = c
		return d, err
	}})
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return openChannel(t, conn), d
}

// stop makes it read nothing any more, but for a read that waits already.
func (d *deaf) stop() {
	d.mu.Lock()
	d.reading = make(chan struct{})
	d.mu.Unlock()
}

// goOn makes it read again.
func (d *deaf) goOn() {
	d.mu.Lock()
	close(d.reading)
	d.mu.Unlock()
}

func (d *deaf) Read(p []byte) (int, error) {
	d.mu.Lock()
	reading := d.reading
	d.mu.Unlock()
	select {
	case <-reading:
	case <-d.closed:
		return 0, net.ErrClosed
	}
	return d.Conn.Read(p)
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}

// deafSubscribers subscribe to a large backlog and then read nothing: with AMQP without a prefetch limit, with Kafka by asking for more and more.
func deafSubscribers(t *testing.T, b *harness.Broker, _ *rand.Rand) {
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	declare(t, ch, "backlog", nil)
	for range 10 {
		publishConfirmed(t, conn, "backlog", slices.Repeat([]string{strings.Repeat("x", 16<<10)}, 800)...) // 128 MiB in all
	}
	for i := range 60 {
		ch, d := dialDeaf(t, b)
		d.stop()
		if _, err := ch.Consume("backlog", fmt.Sprint("deaf ", i), i%2 == 0, false, false, true, nil); err != nil {
			t.Error(err)
		}
	}
	// fetch of version 4: replica -1, wait 0 ms, at least 1 byte, at most 2 GiB, isolation 0, one topic with one partition from offset 0, at most 2 GiB.
	request := "\x00\x01\x00\x04\x00\x00\x00\x01\xff\xff" + "\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xff\x00" +
		"\x00\x00\x00\x01\x00\x07backlog\x00\x00\x00\x01\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff"
	request = string(binary.BigEndian.AppendUint32(nil, uint32(len(request)))) + request
	for range 40 {
		send(mute(t, b.Kafka, ""), []byte(strings.Repeat(request, 200)))
	}
	await(t, "messages to wait for clients that do not read", func() error {
		n, err := figure(b, "polylog_queue_taken_total")
		if err == nil && n < 60 {
			err = fmt.Errorf("%v were handed out", n)
		}
		return err
	})
}

// awaitConnections waits until at most so many connections of a protocol are open and at least so many were refused.
func awaitConnections(t *testing.T, b *harness.Broker, protocol string, open, refused float64) {
	t.Helper()
	await(t, fmt.Sprintf("%v open connections of %s, and %v that were refused", open, protocol, refused), func() error {
		now, err := figure(b, fmt.Sprintf("polylog_connections{protocol=%q}", protocol))
		out, err2 := figure(b, fmt.Sprintf("polylog_connections_refused_total{protocol=%q}", protocol))
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if now > open || out < refused || refused > 0 && now != open {
			return fmt.Errorf("%v are open, %v were refused", now, out)
		}
		return nil
	})
}

// allConnections takes every connection there is to be had, of both protocols.
func allConnections(t *testing.T, b *harness.Broker, _ *rand.Rand) {
	for range hostileAMQP + 50 {
		mute(t, b.AMQP, amqpHeader)
	}
	for range hostileKafka + 50 {
		mute(t, b.Kafka, "\x00")
	}
	awaitConnections(t, b, "amqp", hostileAMQP, 40)
	awaitConnections(t, b, "kafka", hostileKafka, 40)
	if conn, err := connectAMQP(b.AMQP); err == nil {
		conn.Close() //nolint:errcheck // it should not be there
		t.Error("one more client could connect")
	}
	res, err := http.Get("http://" + b.HTTP + "/readyz")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the broker does not say that it is ready: %v, %v", res, err)
	}
}
