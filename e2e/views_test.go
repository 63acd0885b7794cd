package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/e2e/harness"
)

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
	if len(b.All()) > 1 { // the address is that of what spreads connections
		local = "127.0.0.1"
	}
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
