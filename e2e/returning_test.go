package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"polylog/e2e/harness"
	"polylog/logstore/seed"
)

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
			//lint:ignore SA1019 clients that call it exist
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
	expect(3, 2)
	//lint:ignore SA1019 clients that call it exist; it is another return that says nothing against the message
	must(t, ch.Recover(true))
	must(t, b.Restart())
	ch = openChannel(t, dialAMQP(t, b))
	expect(4, 2)
	publishConfirmed(t, dialAMQP(t, b), "other", "so that the claim is on the disk")
	must(t, b.Kill())
	must(t, b.Start())
	ch = openChannel(t, dialAMQP(t, b))
	must(t, expect(5, 2).Ack(false))
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
		must(t, b.Settle())
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
