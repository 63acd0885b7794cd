package e2e

import (
	"context"
	"fmt"
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
)

// What must never happen when messages are taken from a queue, and which test would see it. Tests without a package are in this folder.
//
//	never                                                  | test
//	two live claims cover one offset                       | TestEveryMessageIsSettledOnceByManyTakers, queue.TestOneClaimAtMostCoversAnOffset,
//	                                                       | queue.TestEveryMessageIsSettledOnce, queue.TestRandomHistoriesMatchTheModel
//	a message neither waits, nor is claimed, nor settled   | TestNothingIsLostWhenTheProcessIsKilled, queue.TestWhatADeadProcessHeldComesBack
//	an acknowledged message comes back                     | TestNothingIsLostWhenTheProcessIsKilled
//	a conditional write with a stale value goes through    | logstore.TestEveryCrashLeavesAWholePrefix and its model, queue.TestTakerWithAStaleCursorChangesNothing
//	a cancelled consumer's messages vanish or are given    | TestCancelledConsumerKeepsWhatItHas, queue.TestCancelledConsumersDeliveriesStayValid
//	away early                                             |
//	index records are left behind                          | TestIndexTopicSaysWhoHasWhat, TestNothingIsLostWhenTheProcessIsKilled
//
// What an earlier broker on the same idea did wrong, and the same:
//
//	the cursor was moved before the index was written      | TestNothingIsLostWhenTheProcessIsKilled
//	a message was claimed before a consumer with credit    | TestNothingIsTakenWithoutCredit, queue.TestNothingIsClaimedWithoutCredit
//	was chosen                                             |
//	the frame was sent before the record in memory stood   | TestEveryMessageIsSettledOnceByManyTakers: its consumers acknowledge at once
//	the sweep requeued what live consumers held            | TestSweepLeavesWhatLiveConsumersHold, queue.TestConsumerTimeoutGivesBack
//	it requeued the record behind the one that was meant   | TestWhatComesBackIsWhatWasGivenBack, queue.TestReturnedMessagesKeepTheirPlaceAndCount
//	it read all history again each minute                  | TestIndexTopicHoldsOnlyWhatIsOut
//	deliveries without acknowledgement were never deleted  | TestDeliveriesWithoutAcknowledgementAreDeleted, queue.TestNoAckDeliveriesAreDeleted
//	a dropped socket waited for minutes                    | TestDroppedSocketGivesBackAtOnce
//	deletions did not reach replicas                       | TestKafkaDoesNotSeeWhatWasSettled; there are no replicas yet
//	a queue with several partitions lost count             | TestTopicOfSeveralPartitionsKeepsCount
//	a Kafka reader that met only deleted offsets spun      | TestReaderOfDeletedOffsetsMovesOnAndWaits, kafka.TestFetchOfDeletedOffsetsMovesOnAndDoesNotSpin
//	all acknowledgements went through one map of the node  | amqp.TestLedgerAgreesWithAListOfTags, amqp.TestLedgerStaysSmallBehindAnOldEntry

// TestEveryMessageIsSettledOnceByManyTakers lets Gets and consumers of several connections take from one queue at the same time. Each message reaches one of them, once, is
// acknowledged at once, and its offset is in exactly one claim.
func TestEveryMessageIsSettledOnceByManyTakers(t *testing.T) {
	t.Parallel()
	const messages, connections = 6000, 5
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	declare(t, openChannel(t, conn), "orders", nil)
	// Who reads the index topic all the while sees the claims; those whose messages were settled before it came are gone, which is as well.
	index := kafkaClient(t, b, kgo.ConsumeTopics(claimsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	claimed := map[int64]int64{} // offset of a message, of its claim
	reading, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		for reading.Err() == nil {
			index.PollFetches(reading).EachRecord(func(r *kgo.Record) {
				c := parseClaim(t, r.Value)
				for _, o := range c.offsets() {
					if other, twice := claimed[o]; twice && other != r.Offset {
						t.Errorf("offset %d is in the claims at %d and %d", o, other, r.Offset)
					}
					claimed[o] = r.Offset
				}
			})
		}
	})
	var mu sync.Mutex
	came := map[string]int{}
	var left atomic.Int64
	left.Store(messages)
	done := make(chan struct{})
	took := func(d amqp.Delivery) {
		mu.Lock()
		came[string(d.Body)]++
		mu.Unlock()
		if d.Redelivered {
			t.Errorf("%s is marked redelivered, and nobody gave it back", d.Body)
		}
		if err := d.Ack(false); err != nil {
			t.Errorf("acknowledging %s: %v", d.Body, err)
		}
		if left.Add(-1) == 0 {
			close(done)
		}
	}
	var takers sync.WaitGroup
	var gets, consumed atomic.Int64
	for range connections {
		c := dialAMQP(t, b)
		consumes, getting := openChannel(t, c), openChannel(t, c)
		must(t, consumes.Qos(20, 0, false))
		for range 2 {
			ds, err := consumes.Consume("orders", "", false, false, false, false, nil)
			must(t, err)
			takers.Go(func() {
				for d := range ds {
					took(d)
					consumed.Add(1)
				}
			})
		}
		takers.Go(func() {
			for left.Load() > 0 {
				d, ok, err := getting.Get("orders", false)
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					took(d)
					gets.Add(1)
				}
			}
			getting.Close() //nolint:errcheck // a broken channel shows in what came
		})
		takers.Go(func() { <-done; consumes.Close() })
	}
	var feed sync.WaitGroup
	for p := range 3 {
		feed.Go(func() { publishConfirmed(t, dialAMQP(t, b), "orders", numbered(fmt.Sprint("p", p), messages/3)...) })
	}
	feed.Wait()
	select {
	case <-done:
	case <-time.After(2 * patience):
		t.Errorf("%d of %d messages did not come", left.Load(), messages)
		close(done)
	}
	takers.Wait()
	awaitNoClaims(t, b)
	stop()
	watch.Wait()
	for m, n := range came {
		if n != 1 {
			t.Errorf("%s came %d times", m, n)
		}
	}
	if len(came) != messages {
		t.Errorf("%d different messages came, %d were published", len(came), messages)
	}
	if gets.Load() == 0 || consumed.Load() == 0 {
		t.Errorf("%d messages were got and %d consumed; both ways should have had some", gets.Load(), consumed.Load())
	}
	if first, next := bounds(t, b, "orders"); first[0] != messages || next[0] != messages {
		t.Errorf("the drained queue's topic has the bounds %d and %d, expected %d", first[0], next[0], messages)
	}
	expectEmpty(t, openChannel(t, conn), "orders")
}

// TestGetAndConsumeShareProgress takes by turns with both.
func TestGetAndConsumeShareProgress(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	one, two := dialAMQP(t, b), dialAMQP(t, b)
	gets, consumes := openChannel(t, one), openChannel(t, two)
	declare(t, gets, "orders", nil)
	publishConfirmed(t, one, "orders", numbered("m", 6)...)
	must(t, consumes.Qos(1, 0, false))
	expect := func(d amqp.Delivery, n int) {
		t.Helper()
		if want := fmt.Sprint("m ", n); string(d.Body) != want {
			t.Errorf("came %q, expected %q", d.Body, want)
		}
	}
	first := get(t, gets, "orders")
	expect(first, 0)
	ds, err := consumes.Consume("orders", "", false, false, false, false, nil)
	must(t, err)
	d := next(t, ds)
	expect(d, 1)
	expect(get(t, gets, "orders"), 2)
	must(t, d.Ack(false))
	d = next(t, ds)
	expect(d, 3)
	expect(get(t, gets, "orders"), 4)
	must(t, first.Nack(false, true)) // the lowest that waits now
	ready(t, gets, "orders")         // its place in the order is before the acknowledgement of the other connection
	must(t, d.Ack(false))
	d = next(t, ds)
	expect(d, 0)
	if !d.Redelivered {
		t.Error("a message that was given back is not marked redelivered")
	}
	must(t, d.Ack(false))
	expect(next(t, ds), 5)
	expectEmpty(t, gets, "orders")
}

// TestCancelledConsumerKeepsWhatItHas cancels a consumer: what it has is not given to others, can be acknowledged, and comes back only with the end of the channel.
func TestCancelledConsumerKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	other := openChannel(t, dialAMQP(t, b))
	for _, end := range []string{"channel", "connection"} {
		declare(t, other, end, nil)
		publishConfirmed(t, conn, end, numbered("m", 10)...)
		c := dialAMQP(t, b)
		ch := openChannel(t, c)
		ds, err := ch.Consume(end, "tag", false, false, false, false, nil)
		must(t, err)
		var held []amqp.Delivery
		for range 10 {
			held = append(held, next(t, ds))
		}
		must(t, ch.Cancel("tag", false))
		expectEmpty(t, other, end)
		for _, d := range held[:4] {
			must(t, d.Ack(false))
		}
		must(t, held[6].Ack(false))
		publishConfirmed(t, conn, end, "late")
		if d := get(t, other, end); string(d.Body) != "late" || d.Redelivered {
			t.Errorf("another one got %q, redelivered %v; expected the message that was published last", d.Body, d.Redelivered)
		}
		if end == "channel" {
			must(t, ch.Close())
		} else {
			must(t, c.Close())
		}
		// Both closes are answered when what was held is available.
		for _, want := range []string{"m 4", "m 5", "m 7", "m 8", "m 9"} {
			if d := get(t, other, end); string(d.Body) != want || !d.Redelivered {
				t.Errorf("after the end of the %s came %q, redelivered %v; expected %q, redelivered", end, d.Body, d.Redelivered, want)
			}
		}
		expectEmpty(t, other, end)
	}
}

// TestDeliveriesWithoutAcknowledgementAreDeleted takes with no_ack: messages are gone when they are delivered, by Get and by Consume.
func TestDeliveriesWithoutAcknowledgementAreDeleted(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	declare(t, ch, "orders", nil)
	publishConfirmed(t, conn, "orders", numbered("m", 50)...)
	for i := range 10 {
		d, ok, err := ch.Get("orders", true)
		if err != nil || !ok || string(d.Body) != fmt.Sprint("m ", i) {
			t.Fatalf("got %q, %v, %v, expected message %d", d.Body, ok, err, i)
		}
	}
	ds, err := ch.Consume("orders", "tag", true, false, false, false, nil)
	must(t, err)
	for i := 10; i < 50; i++ {
		if d := next(t, ds); string(d.Body) != fmt.Sprint("m ", i) {
			t.Fatalf("came %q, expected message %d", d.Body, i)
		}
	}
	must(t, conn.Close())
	first, end := bounds(t, b, "orders")
	if first[0] != 50 || end[0] != 50 {
		t.Errorf("the topic has the bounds %d and %d, expected 50: delivered means deleted", first[0], end[0])
	}
	awaitNoClaims(t, b)
	must(t, b.Restart())
	expectEmpty(t, openChannel(t, dialAMQP(t, b)), "orders")
}

// TestNothingIsTakenWithoutCredit has a consumer with credit for two of a hundred messages: it holds two, and the others are there for whoever asks.
func TestNothingIsTakenWithoutCredit(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	declare(t, ch, "orders", nil)
	must(t, ch.Qos(2, 0, false))
	ds, err := ch.Consume("orders", "", false, false, false, false, nil)
	must(t, err)
	publishConfirmed(t, conn, "orders", numbered("m", 100)...)
	held := []amqp.Delivery{next(t, ds), next(t, ds)}
	var out []int64
	for _, c := range claims(t, b) {
		out = append(out, c.offsets()...)
	}
	slices.Sort(out)
	if !slices.Equal(out, []int64{0, 1}) {
		t.Errorf("the claims cover the offsets %v, expected those of the two that are out", out)
	}
	other := openChannel(t, dialAMQP(t, b))
	if n := ready(t, other, "orders"); n != 98 {
		t.Errorf("%d messages wait, expected 98", n)
	}
	for i := 2; i < 100; i++ {
		if d := get(t, other, "orders"); string(d.Body) != fmt.Sprint("m ", i) {
			t.Errorf("another one got %q, expected message %d", d.Body, i)
		} else {
			must(t, d.Ack(false))
		}
	}
	expectEmpty(t, other, "orders")
	for _, d := range held {
		must(t, d.Ack(false))
	}
	awaitNoClaims(t, b)
}

// TestNothingIsLostUnderBackPressure has two consumers without a limit on a queue of which they get more than sockets and buffers hold. One stops reading: the other gets all
// but what the first has on its way, in order; the first gets the rest of it when it reads on; and each message comes once.
func TestNothingIsLostUnderBackPressure(t *testing.T) {
	t.Parallel()
	const messages, size = 2500, 16 << 10 // 40 MiB
	b := harness.Start(t, harness.Options{Args: []string{"--set", "amqp.delivery_buffer=64KiB"}})
	conn := dialAMQP(t, b)
	admin := openChannel(t, conn)
	declare(t, admin, "orders", nil)
	slow, sock := dialDeaf(t, b)
	late, err := slow.Consume("orders", "", false, false, false, false, nil)
	must(t, err)
	sock.stop()
	bodies := numbered("m", messages)
	for i := range bodies {
		bodies[i] += " " + strings.Repeat("x", size)
	}
	publishConfirmed(t, conn, "orders", bodies...)
	came := map[string]bool{}
	took := func(d amqp.Delivery, last int) int {
		t.Helper()
		text, _, _ := strings.Cut(strings.TrimPrefix(string(d.Body), "m "), " ")
		n, err := strconv.Atoi(text)
		must(t, err)
		if n <= last || came[text] || d.Redelivered || len(d.Body) < size {
			t.Fatalf("message %d of %d bytes came behind %d, twice: %v, redelivered %v", n, len(d.Body), last, came[text], d.Redelivered)
		}
		came[text] = true
		must(t, d.Ack(false))
		return n
	}
	quick, err := openChannel(t, conn).Consume("orders", "", false, false, false, false, nil)
	must(t, err)
	last := -1
	await(t, "the consumer that reads to have all but what the other one has", func() error {
		for {
			select {
			case d := <-quick:
				last = took(d, last)
				continue
			default:
			}
			if n := ready(t, admin, "orders"); n > 0 {
				return fmt.Errorf("%d messages wait", n)
			}
			return nil
		}
	})
	select {
	case <-slow.NotifyClose(make(chan *amqp.Error, 1)):
		t.Fatal("the consumer that did not read for a moment was cut off")
	default:
	}
	sock.goOn()
	last, both, slowly := -1, last, 0
	for len(came) < messages {
		select {
		case d := <-late:
			last = took(d, last)
			slowly++
		case d := <-quick:
			both = took(d, both)
		case <-time.After(patience):
			t.Fatalf("%d of %d messages came", len(came), messages)
		}
	}
	t.Logf("%d messages were on their way to the consumer that did not read", slowly)
	if slowly == 0 || slowly > messages/2 {
		t.Errorf("%d of %d messages went to the consumer that did not read; expected what its sockets and 64 KiB hold", slowly, messages)
	}
	await(t, "the queue to be empty", func() error {
		first, next := bounds(t, b, "orders")
		if first[0] != messages || next[0] != messages {
			return fmt.Errorf("its bounds are %d and %d", first[0], next[0])
		}
		return nil
	})
	awaitNoClaims(t, b)
}
