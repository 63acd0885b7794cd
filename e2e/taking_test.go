package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/e2e/harness"
	"polylog/logstore/seed"
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

// TestDroppedSocketGivesBackAtOnce breaks a connection: what it held is delivered to others long before any timeout could have passed.
func TestDroppedSocketGivesBackAtOnce(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	waiting := openChannel(t, conn)
	declare(t, waiting, "orders", nil)
	publishConfirmed(t, conn, "orders", numbered("m", 20)...)
	broken := dialToDrop(t, b)
	ch := openChannel(t, broken.Connection)
	ds, err := ch.Consume("orders", "", false, false, false, false, nil)
	must(t, err)
	for range 20 {
		next(t, ds)
	}
	back, err := waiting.Consume("orders", "", false, false, false, false, nil)
	must(t, err)
	began := time.Now()
	broken.drop()
	for i := range 20 {
		if d := next(t, back); string(d.Body) != fmt.Sprint("m ", i) || !d.Redelivered {
			t.Errorf("delivery %d is %q, redelivered %v", i, d.Body, d.Redelivered)
		}
	}
	// A heartbeat is 10 s here, and a client counts as dead after two of them.
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v until what the broken connection held came back", took)
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

// TestWhatComesBackIsWhatWasGivenBack settles some messages of a claim and gives others back: exactly those come again, in their order or at the tail, marked and counted.
func TestWhatComesBackIsWhatWasGivenBack(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	for placement, want := range map[string][]string{
		"original": {"m 1", "m 3", "m 4", "m 7", "m 8", "m 9"},
		"tail":     {"m 8", "m 9", "m 3", "m 7", "m 1", "m 4"},
	} {
		declare(t, ch, placement, amqp.Table{"x-requeue": placement})
		publishConfirmed(t, conn, placement, numbered("m", 10)...)
		var ds []amqp.Delivery
		for range 8 {
			ds = append(ds, get(t, ch, placement))
		}
		must(t, ds[0].Ack(false))
		must(t, ds[3].Nack(false, true))
		must(t, ds[5].Reject(false))
		must(t, ds[7].Reject(true))
		must(t, ds[2].Ack(false))
		must(t, ds[6].Ack(false))
		must(t, ds[4].Nack(true, true)) // with 1
		var came []amqp.Delivery
		for range want {
			came = append(came, get(t, ch, placement))
		}
		expectEmpty(t, ch, placement)
		if got := texts(came); got != strings.Join(want, ", ") {
			t.Errorf("%s: came %s, expected %s", placement, got, strings.Join(want, ", "))
		}
		for _, d := range came {
			back := string(d.Body) != "m 8" && string(d.Body) != "m 9"
			count, _ := d.Headers["x-acquired-count"].(int64)
			if d.Redelivered != back || (count == 1) != back {
				t.Errorf("%s: %s is redelivered %v and was acquired %d times before; it came back: %v", placement, d.Body, d.Redelivered, count, back)
			}
			must(t, d.Ack(false))
		}
	}
	awaitNoClaims(t, b)
}

// TestOrderIsKeptWhenMessagesComeBack gives messages back again and again, by every way there is, and drains: each queue comes in the order of its publishing.
func TestOrderIsKeptWhenMessagesComeBack(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	admin := openChannel(t, conn)
	declare(t, admin, "orders", nil)
	publishConfirmed(t, conn, "orders", numbered("m", 200)...)
	for range 30 {
		c := dialToDrop(t, b)
		ch := openChannel(t, c.Connection)
		var held []amqp.Delivery
		for range 1 + r.IntN(40) {
			held = append(held, get(t, ch, "orders"))
		}
		if !slices.IsSortedFunc(held, func(x, y amqp.Delivery) int { return number(t, x) - number(t, y) }) {
			t.Fatalf("what one channel got is not in order: %s", texts(held))
		}
		switch r.IntN(5) {
		case 0:
			must(t, held[r.IntN(len(held))].Nack(true, true))
			must(t, ch.Close())
		case 1:
			for _, i := range r.Perm(len(held)) {
				must(t, held[i].Nack(false, true))
			}
			must(t, ch.Close())
		case 2:
			must(t, ch.Recover(true))
			must(t, ch.Close())
		case 3:
			must(t, c.Close())
		case 4:
			c.drop()
		}
		await(t, "all messages to be back", func() error {
			if n := ready(t, admin, "orders"); n != 200 {
				return fmt.Errorf("%d wait", n)
			}
			return nil
		})
	}
	for i := range 200 {
		if d := get(t, admin, "orders"); number(t, d) != i {
			t.Fatalf("drained in the wrong order: %q came at place %d", d.Body, i)
		} else {
			must(t, d.Ack(false))
		}
	}
	expectEmpty(t, admin, "orders")
	awaitNoClaims(t, b)
}

// number returns the number at the end of a text of numbered.
func number(t testing.TB, d amqp.Delivery) int {
	t.Helper()
	_, text, _ := strings.Cut(string(d.Body), " ")
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// TestSweepLeavesWhatLiveConsumersHold waits until the sweep has taken a message away from a consumer that held it for too long, twice, and sees that what others hold in queues
// without a timeout stays theirs.
func TestSweepLeavesWhatLiveConsumersHold(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	holder := openChannel(t, conn)
	declare(t, holder, "orders", nil)
	declare(t, holder, "hurried", amqp.Table{"x-consumer-timeout": int32(500)})
	publishConfirmed(t, conn, "orders", numbered("m", 10)...)
	publishConfirmed(t, conn, "hurried", "h")
	ds, err := holder.Consume("orders", "", false, false, false, false, nil)
	must(t, err)
	var held []amqp.Delivery
	for range 9 {
		held = append(held, next(t, ds))
	}
	for round := range 2 {
		slow := openChannel(t, dialAMQP(t, b))
		d := get(t, slow, "hurried")
		if d.Redelivered != (round > 0) {
			t.Errorf("in round %d redelivered is %v", round, d.Redelivered)
		}
		closed := slow.NotifyClose(make(chan *amqp.Error, 1))
		select {
		case e := <-closed:
			if e == nil || e.Code != amqp.PreconditionFailed {
				t.Errorf("the channel that held a message for too long was closed with %v, expected 406", e)
			}
		case <-time.After(patience):
			t.Fatal("nobody took the message away from who held it for too long")
		}
	}
	held = append(held, next(t, ds))
	other := openChannel(t, dialAMQP(t, b))
	expectEmpty(t, other, "orders")
	for i, d := range held {
		if number(t, d) != i || d.Redelivered {
			t.Errorf("delivery %d is %q, redelivered %v", i, d.Body, d.Redelivered)
		}
		must(t, d.Ack(false))
	}
	await(t, "the acknowledged messages to be gone", func() error {
		if first, end := bounds(t, b, "orders"); first[0] != 10 || end[0] != 10 {
			return fmt.Errorf("the bounds are %d and %d", first[0], end[0])
		}
		return nil
	})
}

// TestIndexTopicSaysWhoHasWhat reads the index topic with a Kafka client while messages are out: it names queue, offsets and holder, cannot be written, and is empty in the end.
func TestIndexTopicSaysWhoHasWhat(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialToDrop(t, b)
	ch := openChannel(t, conn.Connection)
	declare(t, ch, "orders", nil)
	declare(t, ch, "bills", nil)
	publishConfirmed(t, conn.Connection, "orders", numbered("m", 5)...)
	publishConfirmed(t, conn.Connection, "bills", "b")
	ds := []amqp.Delivery{get(t, ch, "orders"), get(t, ch, "orders"), get(t, ch, "bills")}
	second := openChannel(t, conn.Connection)
	ds = append(ds, get(t, second, "orders"))
	must(t, ds[1].Nack(false, true))
	if n := ready(t, ch, "orders"); n != 3 { // a synchronous reply: the nack has its place
		t.Errorf("%d messages wait, expected 3", n)
	}
	found := map[string]claimRecord{}
	for _, c := range claims(t, b) {
		found[fmt.Sprint(c.Queue, c.offsets())] = c
	}
	local := strings.TrimSpace(conn.LocalAddr().String())
	for place, want := range map[string]claimRecord{
		"orders[0]": {Kind: "claim", Holder: "1"}, "orders[1]": {Kind: "returned"}, "orders[2]": {Kind: "claim", Holder: "2"}, "bills[0]": {Kind: "claim", Holder: "1"},
	} {
		c, has := found[place]
		if !has || c.Kind != want.Kind || c.Namespace != "/" || c.Partition != 0 {
			t.Errorf("of %s the index topic says %+v, expected kind %s", place, c, want.Kind)
			continue
		}
		if age := time.Since(time.UnixMilli(c.Time)); age < -time.Minute || age > 5*time.Minute {
			t.Errorf("the record of %s is of %v ago", place, age)
		}
		if want.Kind == "claim" && (!strings.Contains(c.Holder, local) || c.Node == "" || c.Epoch == 0) {
			t.Errorf("the claim of %s names holder %q, node %q, epoch %d; the holder's address is %s", place, c.Holder, c.Node, c.Epoch, local)
		}
	}
	if len(found) != 4 {
		t.Errorf("the index topic has %d records, expected 4: %v", len(found), found)
	}
	if a, b := found["orders[0]"].Holder, found["orders[2]"].Holder; a == b || a != found["bills[0]"].Holder {
		t.Errorf("the two channels are called %q and %q", a, b)
	}
	k := kafkaClient(t, b)
	if err := k.ProduceSync(t.Context(), &kgo.Record{Topic: claimsTopic, Value: []byte("{}")}).FirstErr(); err == nil {
		t.Error("a client could write to the index topic")
	}
	must(t, ds[0].Ack(false))
	must(t, ds[2].Reject(false))
	must(t, ds[3].Ack(false))
	for range 4 {
		must(t, get(t, ch, "orders").Ack(false))
		if n := ready(t, ch, "orders"); n == 0 {
			break
		}
	}
	expectEmpty(t, ch, "orders")
	awaitNoClaims(t, b)
}

// TestIndexTopicHoldsOnlyWhatIsOut settles thousands of messages while one is held. The index topic holds the one claim, so that a start has one record to read.
func TestIndexTopicHoldsOnlyWhatIsOut(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	keeps, works := openChannel(t, conn), openChannel(t, conn)
	declare(t, keeps, "orders", nil)
	publishConfirmed(t, conn, "orders", numbered("m", 3000)...)
	get(t, keeps, "orders")
	must(t, works.Qos(100, 0, false))
	ds, err := works.Consume("orders", "", false, false, false, false, nil)
	must(t, err)
	for range 2999 {
		must(t, next(t, ds).Ack(false))
	}
	await(t, "the claims of settled messages to be gone", func() error {
		cs := claims(t, b)
		if len(cs) != 1 || !slices.Equal(cs[0].offsets(), []int64{0}) {
			return fmt.Errorf("the index topic has %d records", len(cs))
		}
		return nil
	})
}

// TestKafkaDoesNotSeeWhatWasSettled reads a queue's topic with Kafka while AMQP takes from it: settled messages are gone for both, held ones are still there, offsets stay.
func TestKafkaDoesNotSeeWhatWasSettled(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	declare(t, ch, "orders", nil)
	publishConfirmed(t, conn, "orders", numbered("m", 10)...)
	read := func() string {
		var s []string
		for _, r := range fetchAll(t, b, "orders") {
			s = append(s, fmt.Sprintf("%d:%s", r.Offset, r.Value))
		}
		return strings.Join(s, ", ")
	}
	if got, want := read(), "0:m 0, 1:m 1, 2:m 2, 3:m 3, 4:m 4, 5:m 5, 6:m 6, 7:m 7, 8:m 8, 9:m 9"; got != want {
		t.Errorf("before anything was taken Kafka reads %s", got)
	}
	var ds []amqp.Delivery
	for range 8 {
		ds = append(ds, get(t, ch, "orders"))
	}
	for _, i := range []int{0, 1, 4, 6} {
		must(t, ds[i].Ack(false))
	}
	must(t, ds[3].Nack(false, true))
	ready(t, ch, "orders")
	if got, want := read(), "2:m 2, 3:m 3, 5:m 5, 7:m 7, 8:m 8, 9:m 9"; got != want {
		t.Errorf("Kafka reads %s, expected %s", got, want)
	}
	if n := ready(t, ch, "orders"); n != 3 {
		t.Errorf("after Kafka has read, %d messages wait, expected 3: reading takes nothing", n)
	}
}

// TestBookmarksDoNotDeleteAndAcksDoNotMoveThem commits offsets of a group and acknowledges over AMQP, on a queue and on a topic made by Kafka: neither changes what the other sees.
func TestBookmarksDoNotDeleteAndAcksDoNotMoveThem(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{Args: []string{"--set", "group.initial_delay=0s"}})
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	createTopic(t, b, "events", 1)
	declare(t, ch, "orders", nil)
	publishConfirmed(t, conn, "orders", numbered("m", 10)...)
	k := kafkaClient(t, b)
	for i := range 10 {
		produce(t, k, &kgo.Record{Topic: "events", Value: []byte(fmt.Sprint("m ", i))})
	}
	adm := kadm.NewClient(k)
	for _, topic := range []string{"orders", "events"} {
		at := func() int64 {
			os, err := adm.FetchOffsets(t.Context(), "readers")
			must(t, err)
			o, has := os.Lookup(topic, 0)
			if !has {
				t.Fatalf("the group has no bookmark of %s", topic)
			}
			return o.At
		}
		var commit kadm.Offsets
		commit.AddOffset(topic, 0, 7, -1)
		must(t, adm.CommitAllOffsets(t.Context(), "readers", commit))
		if n := ready(t, ch, topic); n != 10 {
			t.Errorf("%s: after a bookmark was set %d messages wait, expected 10", topic, n)
		}
		for i := range 9 {
			d := get(t, ch, topic)
			if number(t, d) != i {
				t.Errorf("%s: got %q, expected message %d", topic, d.Body, i)
			}
			must(t, d.Ack(false))
		}
		if n := ready(t, ch, topic); n != 1 {
			t.Errorf("%s: after nine acknowledgements %d messages wait, expected 1", topic, n)
		}
		if o := at(); o != 7 {
			t.Errorf("%s: acknowledgements moved the bookmark from 7 to %d", topic, o)
		}
	}
	if rs := fetchAll(t, b, "events"); len(rs) != 10 {
		t.Errorf("a topic made by Kafka holds %d of 10 records after they were settled over AMQP; it should hold all", len(rs))
	}
	if rs := fetchAll(t, b, "orders"); len(rs) != 1 || string(rs[0].Value) != "m 9" {
		t.Errorf("a queue holds %d records after all but one were settled", len(rs))
	}
	// The group goes on behind its bookmark in the one, and at the first that is left in the other.
	g := kafkaClient(t, b, kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders", "events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(got) < 4 {
		fs := g.PollFetches(ctx)
		must(t, fs.Err0())
		fs.EachRecord(func(r *kgo.Record) { got = append(got, fmt.Sprint(r.Topic, " ", string(r.Value))) })
	}
	slices.Sort(got)
	if want := "[events m 7 events m 8 events m 9 orders m 9]"; fmt.Sprint(got) != want {
		t.Errorf("the group reads %v, expected %s", got, want)
	}
}

// TestTopicOfSeveralPartitionsKeepsCount consumes a topic of three partitions, made by Kafka, with AMQP: every record comes once, the counts are those of all partitions together,
// and each partition keeps its order.
func TestTopicOfSeveralPartitionsKeepsCount(t *testing.T) {
	t.Parallel()
	const each = 100
	b := harness.Start(t, harness.Options{})
	createTopic(t, b, "events", 3)
	k := kafkaClient(t, b)
	var rs []*kgo.Record
	for i := range each {
		for p := range int32(3) {
			rs = append(rs, &kgo.Record{Topic: "events", Partition: p, Value: []byte(fmt.Sprint(p, " ", i))})
		}
	}
	produce(t, k, rs...)
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	if n := ready(t, ch, "events"); n != 3*each {
		t.Errorf("%d messages wait, expected %d", n, 3*each)
	}
	came := map[string]bool{}
	following := map[int64]int{}
	took := func(d amqp.Delivery) {
		t.Helper()
		p, has := d.Headers["x-partition"].(int64)
		if !has || came[string(d.Body)] || d.Redelivered || string(d.Body) != fmt.Sprint(p, " ", following[p]) {
			t.Fatalf("%q came with the headers %v, twice: %v, redelivered %v; next of its partition is %d", d.Body, d.Headers, came[string(d.Body)], d.Redelivered, following[p])
		}
		came[string(d.Body)] = true
		following[p]++
	}
	var held []amqp.Delivery
	for range 60 {
		d := get(t, ch, "events")
		took(d)
		held = append(held, d)
	}
	if n := ready(t, ch, "events"); n != 3*each-60 {
		t.Errorf("with 60 messages out %d wait, expected %d", n, 3*each-60)
	}
	for _, d := range held[:30] {
		must(t, d.Ack(false))
	}
	for _, d := range held[30:] {
		must(t, d.Nack(false, true))
	}
	if n := ready(t, ch, "events"); n != 3*each-30 {
		t.Errorf("with 30 messages settled and 30 given back %d wait, expected %d", n, 3*each-30)
	}
	must(t, b.Restart())
	ch = openChannel(t, dialAMQP(t, b))
	if n := ready(t, ch, "events"); n != 3*each-30 {
		t.Errorf("after a restart %d messages wait, expected %d", n, 3*each-30)
	}
	must(t, ch.Qos(50, 0, false))
	ds, err := ch.Consume("events", "", false, false, false, false, nil)
	must(t, err)
	back := map[string]bool{}
	for _, d := range held[30:] {
		back[string(d.Body)] = true
	}
	for range 3*each - 30 {
		d := next(t, ds)
		if back[string(d.Body)] != d.Redelivered {
			t.Errorf("%q is redelivered %v; it was given back: %v", d.Body, d.Redelivered, back[string(d.Body)])
		}
		if back[string(d.Body)] {
			delete(back, string(d.Body))
		} else {
			took(d)
		}
		must(t, d.Ack(false))
	}
	if n := ready(t, ch, "events"); n != 0 || len(came) != 3*each {
		t.Errorf("%d different messages came and %d wait, expected %d and 0", len(came), n, 3*each)
	}
	awaitNoClaims(t, b)
	if rs := fetchAll(t, b, "events"); len(rs) != 3*each {
		t.Errorf("Kafka reads %d records of the topic, expected %d", len(rs), 3*each)
	}
}

// TestReaderOfDeletedOffsetsMovesOnAndWaits reads with Kafka from inside a run of settled messages: with something behind it the reader gets there at once, with nothing behind it
// its long poll waits, and the next message wakes it.
func TestReaderOfDeletedOffsetsMovesOnAndWaits(t *testing.T) {
	t.Parallel()
	const wait = 2 * time.Second
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	declare(t, ch, "orders", nil)
	publishConfirmed(t, conn, "orders", numbered("m", 1000)...)
	get(t, ch, "orders") // the first stays, so that the offsets behind it are no bounds of the topic
	for range 999 {
		must(t, get(t, ch, "orders").Ack(false))
	}
	expectEmpty(t, ch, "orders")
	read := func(from int64) (*kgo.Client, *fetchCount) {
		n := &fetchCount{}
		return kafkaClient(t, b, kgo.WithHooks(n), kgo.FetchMaxWait(wait), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(from)}})), n
	}
	c, count := read(500)
	ctx, cancel := context.WithTimeout(t.Context(), 3*wait)
	defer cancel()
	// Nothing is there. Each fetch should have waited its time.
	if fs := c.PollFetches(ctx); !errors.Is(fs.Err0(), context.DeadlineExceeded) {
		t.Errorf("reading settled messages gave %v, %v", fs.Records(), fs.Err())
	}
	if n := count.n.Load(); n > 5 {
		t.Errorf("%d fetches were answered in %v; each should have waited %v for a record", n, 3*wait, wait)
	}
	began := time.Now()
	publishConfirmed(t, conn, "orders", "the next")
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	fs := c.PollFetches(ctx)
	if rs := fs.Records(); len(rs) != 1 || string(rs[0].Value) != "the next" || rs[0].Offset != 1000 {
		t.Errorf("the waiting reader got %v, %v; expected the record at offset 1000", rs, fs.Err())
	}
	if took := time.Since(began); took > wait {
		t.Logf("the waiting reader was woken after %v", took)
	}
	// Now something lies behind the settled ones: a new reader is there with a fetch or two.
	c, count = read(1)
	if rs := c.PollFetches(ctx).Records(); len(rs) != 1 || rs[0].Offset != 1000 {
		t.Errorf("a reader at offset 1 got %v, expected the record at offset 1000", rs)
	}
	if n := count.n.Load(); n > 3 {
		t.Errorf("it took %d fetches over 999 settled messages", n)
	}
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

// TestCountersSurviveRestartAndCrash gives a message back in several ways, with an orderly end and a crash of the broker between them: x-acquired-count counts every return,
// x-delivery-count those that speak against the message.
func TestCountersSurviveRestartAndCrash(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	ch := openChannel(t, dialAMQP(t, b))
	declare(t, ch, "jobs", amqp.Table{"x-queue-type": "quorum"})
	declare(t, ch, "other", nil)
	publishConfirmed(t, dialAMQP(t, b), "jobs", "m")
	expect := func(acquired, failed int64) amqp.Delivery {
		t.Helper()
		d := get(t, ch, "jobs")
		a, _ := d.Headers["x-acquired-count"].(int64)
		f, _ := d.Headers["x-delivery-count"].(int64)
		if a != acquired || f != failed || d.Redelivered != (acquired > 0) {
			t.Errorf("acquired %d times and failed %d times before, redelivered %v; expected %d, %d", a, f, d.Redelivered, acquired, failed)
		}
		return d
	}
	must(t, expect(0, 0).Reject(true))
	must(t, expect(1, 1).Nack(false, true))
	must(t, expect(2, 1).Reject(true))
	d := expect(3, 2)
	must(t, ch.Recover(true)) // another return that says nothing against it
	must(t, b.Restart())
	ch = openChannel(t, dialAMQP(t, b))
	d = expect(4, 2)
	publishConfirmed(t, dialAMQP(t, b), "other", "so that the claim is on the disk")
	must(t, b.Kill())
	must(t, b.Start())
	ch = openChannel(t, dialAMQP(t, b))
	d = expect(5, 2)
	must(t, d.Ack(false))
	expectEmpty(t, ch, "jobs")
	awaitNoClaims(t, b)
}

// TestMessageThatBreaksItsConsumersIsDropped has a message whose consumers break off each time, in a queue with a delivery limit of 3: it is delivered four times, with a restart
// half-way, and then it is gone, and counted.
func TestMessageThatBreaksItsConsumersIsDropped(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	declare(t, openChannel(t, conn), "jobs", amqp.Table{"x-delivery-limit": int32(3)})
	publishConfirmed(t, conn, "jobs", "poison", "good")
	for i := range 4 {
		if i == 2 {
			must(t, b.Restart())
		}
		c := dialToDrop(t, b)
		d := get(t, openChannel(t, c.Connection), "jobs")
		if string(d.Body) != "poison" || d.Redelivered != (i > 0) {
			t.Fatalf("delivery %d is %q, redelivered %v", i, d.Body, d.Redelivered)
		}
		c.drop()
		admin := openChannel(t, dialAMQP(t, b))
		await(t, "the broker to notice", func() error {
			if n, want := ready(t, admin, "jobs"), 2-i/3; n != want {
				return fmt.Errorf("%d messages wait, expected %d", n, want)
			}
			return nil
		})
	}
	ch := openChannel(t, dialAMQP(t, b))
	d := get(t, ch, "jobs")
	if string(d.Body) != "good" || d.Redelivered {
		t.Errorf("behind it came %q, redelivered %v", d.Body, d.Redelivered)
	}
	must(t, d.Ack(false))
	expectEmpty(t, ch, "jobs")
	awaitNoClaims(t, b)
	if n, err := figure(b, "polylog_queue_over_limit_total"); err != nil || n != 1 {
		t.Errorf("the counter of dropped messages is %v, %v", n, err)
	}
}
