package e2e

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/e2e/harness"
)

// TestStopTellsClientsAndLosesNothing stops a broker that is in use: AMQP clients are told why, the process ends with status 0, and the next start finds all that was
// confirmed and all that was settled.
func TestStopTellsClientsAndLosesNothing(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	idle, busy := dialAMQP(t, b), dialAMQP(t, b)
	ch := openChannel(t, busy)
	declare(t, ch, "orders", nil)
	publishConfirmed(t, busy, "orders", numbered("m", 100)...)
	must(t, ch.Qos(10, 0, false))
	ds, err := ch.Consume("orders", "", false, false, false, false, nil)
	must(t, err)
	for range 10 { // of which the first five are settled and the others are held when the broker stops
		if d := next(t, ds); d.DeliveryTag == 5 {
			must(t, d.Ack(true))
		}
	}
	k := kafkaClient(t, b, kgo.AllowAutoTopicCreation())
	produce(t, k, &kgo.Record{Topic: "events", Value: []byte("e")})
	// Somebody publishes all the while. What is not confirmed in the end may be there or not.
	fast := openChannel(t, dialAMQP(t, b))
	declare(t, fast, "stream of work", nil)
	must(t, fast.Confirm(false))
	confirmed := make(chan int)
	begun := make(chan struct{})
	go func() {
		n := 0
		for {
			d, err := fast.PublishWithDeferredConfirmWithContext(context.Background(), "", "stream of work", false, false, amqp.Publishing{Body: []byte("x")})
			if err != nil {
				break
			}
			if ok, err := d.WaitContext(t.Context()); err != nil || !ok {
				break
			}
			if n++; n == 10 {
				close(begun)
			}
		}
		confirmed <- n
	}()
	<-begun
	told := []chan *amqp.Error{idle.NotifyClose(make(chan *amqp.Error, 1)), busy.NotifyClose(make(chan *amqp.Error, 1))}
	began := time.Now()
	must(t, b.Stop()) // exit status 0
	t.Logf("stopping took %v", time.Since(began))
	for i, c := range told {
		select {
		case e := <-c:
			if e == nil || e.Code != amqp.ConnectionForced || !e.Server {
				t.Errorf("connection %d was told %v, expected code 320 from the server", i, e)
			}
		case <-time.After(patience):
			t.Errorf("connection %d was not told anything", i)
		}
	}
	n := <-confirmed
	checkLog(t, b)

	must(t, b.Start())
	ch = openChannel(t, dialAMQP(t, b))
	if left := ready(t, ch, "orders"); left != 95 {
		t.Errorf("after the restart 95 messages should wait, %d do", left)
	}
	for i := 5; i < 100; i++ {
		d, want := get(t, ch, "orders"), numbered("m", 100)[i]
		// The settling of five let five more go out, which may have been delivered or not.
		if string(d.Body) != want || i < 10 && !d.Redelivered || i >= 15 && d.Redelivered {
			t.Fatalf("after the restart came %q, redelivered %v; expected %q, redelivered %v", d.Body, d.Redelivered, want, i < 10)
		}
		must(t, d.Ack(false))
	}
	expectEmpty(t, ch, "orders")
	if found := ready(t, ch, "stream of work"); found < n || found > n+1 {
		t.Errorf("%d messages were confirmed one after another and %d are there", n, found)
	}
	if rs := fetchAll(t, b, "events"); len(rs) != 1 || string(rs[0].Value) != "e" {
		t.Errorf("after the restart topic events holds %d records, expected the one that was produced", len(rs))
	}
	awaitNoClaims(t, b)
}

// TestStopDoesNotWaitForSilentClients stops a broker whose clients do not answer: it waits no longer than it was told to.
func TestStopDoesNotWaitForSilentClients(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{Args: []string{"--set", "shutdown.timeout=2s", "--set", "amqp.close_timeout=1s"}})
	for range 20 {
		mute(t, b.AMQP, "AMQP\x00\x00\x09\x01")
		mute(t, b.Kafka, "\x00\x00\x00\x0c")
	}
	conn := dialAMQP(t, b)
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	began := time.Now()
	must(t, b.Stop())
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("stopping took %v; clients that say nothing should hold it up for 2 s", took)
	}
	if e := <-closed; e == nil || e.Code != amqp.ConnectionForced {
		t.Errorf("the client that does answer was told %v", e)
	}
}

// TestSecondProcessOnTheSameDataIsRefused starts a second process on the data of a running one: it is refused by name and harms nothing.
func TestSecondProcessOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{Alone: true})
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	declare(t, ch, "orders", nil)
	publishConfirmed(t, conn, "orders", "before")
	binary, err := harness.Binary()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := exec.CommandContext(ctx, binary, "serve", "--data", b.Dir, "--amqp", "127.0.0.1:0", "--kafka", "", "--http", "").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(text), "in use") || !strings.Contains(string(text), b.Dir) {
		t.Errorf("the second process ended with %v and said\n%s\nexpected exit status 1 and a message that names the directory", err, text)
	}
	publishConfirmed(t, conn, "orders", "after")
	for _, want := range []string{"before", "after"} {
		if d := get(t, ch, "orders"); string(d.Body) != want {
			t.Errorf("got %q, expected %q", d.Body, want)
		}
	}
}
