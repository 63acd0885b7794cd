package amqp

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"polylog/logstore/vfs"
	"polylog/protocols/amqp/wire"
)

func TestUnknownExchangeClosesTheChannel(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	closed := ch.NotifyClose(make(chan *client.Error, 1))
	if err := ch.PublishWithContext(t.Context(), "nowhere", "x", false, false, client.Publishing{}); err != nil {
		t.Fatal(err)
	}
	e := <-closed
	refusedWith(t, e, wire.NotFound)
	if e.Reason != "NOT_FOUND - no exchange 'nowhere' in vhost '/'" {
		t.Errorf("it says %q", e.Reason)
	}
}

func TestConfirmsDueAreSentBeforeTheChannelIsClosedForAnError(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	r := b.login()
	r.channel(1)
	r.send(1, &wire.ConfirmSelect{})
	expect[wire.ConfirmSelectOk](r, 1)
	r.publish(1, "orders", "x")
	r.send(1, &wire.BasicAck{DeliveryTag: 7})
	if m := expect[wire.BasicAck](r, 1); m.DeliveryTag != 1 {
		t.Errorf("%+v", m)
	}
	r.channelClosed(1, wire.PreconditionFailed)
}

func TestUnroutableMandatoryMessageIsReturnedBeforeItIsConfirmed(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	r := b.login()
	r.channel(1)
	r.send(1, &wire.ConfirmSelect{})
	expect[wire.ConfirmSelectOk](r, 1)
	properties := []byte{0x90, 0x00, 4, 't', 'e', 'x', 't', 2} // content-type and delivery-mode
	body := bytes.Repeat([]byte("x"), 300_000)
	send := func(queue string, mandatory bool) {
		m := (&wire.BasicPublish{RoutingKey: []byte(queue), Mandatory: mandatory}).AppendFrame(nil, 1)
		r.write(wire.AppendContent(m, 1, properties, body, 131072))
	}
	send("nowhere", true)
	m := expect[wire.BasicReturn](r, 1)
	if m.ReplyCode != 312 || string(m.ReplyText) != "NO_ROUTE" || len(m.Exchange) != 0 || string(m.RoutingKey) != "nowhere" {
		t.Errorf("%+v", m)
	}
	if p, got := r.content(1); !bytes.Equal(p, properties) || !bytes.Equal(got, body) {
		t.Errorf("returned are properties %x and %d bytes", p, len(got))
	}
	if a := expect[wire.BasicAck](r, 1); a.DeliveryTag != 1 {
		t.Errorf("%+v", a)
	}
	send("nowhere", false) // dropped, and confirmed
	if a := expect[wire.BasicAck](r, 1); a.DeliveryTag != 2 {
		t.Errorf("%+v", a)
	}
	send("orders", true)
	if a := expect[wire.BasicAck](r, 1); a.DeliveryTag != 3 {
		t.Errorf("%+v", a)
	}
	b.ready("orders", 1)
	if f := b.server.Figures(); f.Returned != 1 || f.Unroutable != 2 || f.Published != 3 || f.Confirmed != 3 {
		t.Errorf("figures %+v", f)
	}
}

func TestConfirmsOfInterleavedChannelsEachAscendAndAnswerOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	declare(t, b.open(), "orders")
	r := b.login()
	const channels, each = 5, 400
	for ch := range uint16(channels) {
		r.channel(ch + 1)
		r.publish(ch+1, "orders", "before confirm.select") // not counted
		r.send(ch+1, &wire.ConfirmSelect{})
		expect[wire.ConfirmSelectOk](r, ch+1)
	}
	go func() {
		for i := range each {
			var buf []byte
			// The frames of one message lie between those of others.
			for ch := range uint16(channels) {
				buf = (&wire.BasicPublish{RoutingKey: []byte("orders")}).AppendFrame(buf, ch+1)
			}
			for ch := range uint16(channels) {
				buf = wire.AppendContent(buf, ch+1, []byte{0, 0}, []byte(fmt.Sprintf("%d/%d", ch+1, i)), 0)
			}
			r.sock.Write(buf) //nolint:errcheck // the test sees that something is missing
		}
	}()
	var last [channels + 1]uint64
	for done := 0; done < channels; {
		f, err := r.frame()
		if err != nil {
			t.Fatal(err)
		}
		id, args, err := wire.SplitMethod(f.Payload)
		if err != nil || id != wire.BasicAckID {
			t.Fatalf("%v came, %v", id, err)
		}
		var m wire.BasicAck
		if err := m.Decode(args); err != nil {
			t.Fatal(err)
		}
		if m.DeliveryTag <= last[f.Channel] || !m.Multiple && m.DeliveryTag != last[f.Channel]+1 || m.DeliveryTag > each {
			t.Fatalf("channel %d: %+v after %d", f.Channel, m, last[f.Channel])
		}
		if last[f.Channel] = m.DeliveryTag; m.DeliveryTag == each {
			done++
		}
	}
	b.ready("orders", channels*(each+1))
	// Every channel's messages lie in their order.
	ch := b.open()
	ds, err := ch.Consume("orders", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var seen [channels + 1]int
	for range channels * (each + 1) {
		d := next(t, ds)
		var c, i int
		if n, _ := fmt.Sscanf(string(d.Body), "%d/%d", &c, &i); n < 2 {
			continue
		}
		if i != seen[c] {
			t.Fatalf("message %d of channel %d came where %d was due", i, c, seen[c])
		}
		seen[c]++
	}
}

func TestBodiesOfAllSizesComeBackWhole(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for _, frameMax := range []int{4096, 131072} {
		conn, err := client.DialConfig("amqp://guest:guest@"+b.addr+"/", client.Config{FrameSize: frameMax})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		q, err := ch.QueueDeclare("", false, false, true, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		ds, err := ch.Consume(q.Name, "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 1, frameMax - 9, frameMax - 8, frameMax - 7, 2 * (frameMax - 8), 5*frameMax + 3, 2 << 20} {
			body := bytes.Repeat([]byte("polylog"), size/7+1)[:size]
			put(t, ch, q.Name, string(body))
			if d := next(t, ds); !bytes.Equal(d.Body, body) {
				t.Errorf("frame-max %d: of %d bytes came %d", frameMax, size, len(d.Body))
			}
			put(t, ch, q.Name, string(body))
			if d := next(t, ds); !bytes.Equal(d.Body, body) {
				t.Errorf("frame-max %d: of %d bytes came %d", frameMax, size, len(d.Body))
			}
		}
	}
}

func TestMessageOverTheLimitClosesTheChannel(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options) { o.Limits.MessageMax = 1000 })
	ch := b.open()
	declare(t, ch, "orders")
	put(t, ch, "orders", strings.Repeat("x", 1000))
	closed := ch.NotifyClose(make(chan *client.Error, 1))
	put(t, ch, "orders", strings.Repeat("x", 1001))
	refusedWith(t, <-closed, wire.PreconditionFailed)
	b.ready("orders", 1)
}

func TestPropertiesComeBackAsTheyWereSent(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	now := time.Unix(1_700_000_000, 0)
	nested := client.Table{
		"bool": true, "int8": int8(-3), "uint8": uint8(200), "int16": int16(-300), "int32": int32(-70000), "int64": int64(1 << 40), "float": float32(1.5),
		"double": 2.25, "decimal": client.Decimal{Scale: 2, Value: 12345}, "text": "täxt", "binary": []byte{0, 1, 0xff}, "time": now, "void": nil,
		"empty": client.Table{}, "array": []any{int32(1), "two", client.Table{"three": []any{int64(3)}}, nil},
	}
	all := client.Publishing{
		Headers: nested, ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 9, CorrelationId: "c\x00\xff", ReplyTo: "r",
		Expiration: "60000", MessageId: "m", Timestamp: now, Type: "t", UserId: "guest", AppId: "a", Body: []byte("b"),
	}
	alone := []client.Publishing{
		{}, all, {Headers: nested}, {ContentType: "x"}, {ContentEncoding: "x"}, {DeliveryMode: 1}, {DeliveryMode: 2}, {Priority: 255}, {CorrelationId: "x"}, {ReplyTo: "x"},
		{Expiration: "1000000"}, {MessageId: "x"}, {Timestamp: now}, {Type: "x"}, {UserId: "guest"}, {AppId: "x"}, {ContentType: strings.Repeat("x", 255)},
	}
	for i, p := range alone {
		if err := ch.PublishWithContext(t.Context(), "", "orders", false, false, p); err != nil {
			t.Fatal(err)
		}
		d, ok, err := ch.Get("orders", true)
		if err != nil || !ok {
			t.Fatal(i, ok, err)
		}
		got := client.Publishing{
			Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
			CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type,
			UserId: d.UserId, AppId: d.AppId, Body: d.Body,
		}
		if len(got.Body) == 0 {
			got.Body = nil
		}
		if !reflect.DeepEqual(got, p) {
			t.Errorf("message %d\n got %#v\nsent %#v", i, got, p)
		}
	}
}

func TestUserIDMustBeTheUser(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	declare(t, ch, "orders")
	closed := ch.NotifyClose(make(chan *client.Error, 1))
	if err := ch.PublishWithContext(t.Context(), "", "orders", false, false, client.Publishing{UserId: "somebody"}); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, <-closed, wire.PreconditionFailed)
}

func TestCarbonCopiesGoToFurtherQueuesOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	for _, q := range []string{"a", "b", "c", "d"} {
		declare(t, ch, q)
	}
	p := client.Publishing{Body: []byte("x"), Headers: client.Table{"CC": []any{"b", "a", "nowhere"}, "BCC": []any{"c", "b"}, "other": "y"}}
	if err := ch.PublishWithContext(t.Context(), "", "a", true, false, p); err != nil {
		t.Fatal(err)
	}
	for q, n := range map[string]int{"a": 1, "b": 1, "c": 1, "d": 0} {
		for range n {
			d, ok, err := ch.Get(q, true)
			if err != nil || !ok {
				t.Fatalf("queue %s: %v %v %q", q, ok, err, d.RoutingKey)
			}
			if d.RoutingKey != "a" {
				t.Errorf("queue %s: routing key %q", q, d.RoutingKey)
			}
			if want := (client.Table{"CC": []any{"b", "a", "nowhere"}, "other": "y"}); !reflect.DeepEqual(d.Headers, want) {
				t.Errorf("queue %s: headers %v", q, d.Headers)
			}
		}
		if _, ok, err := ch.Get(q, true); ok || err != nil {
			t.Errorf("queue %s: one more, %v", q, err)
		}
	}
	// A message only copies of which can be routed is routed.
	returns := ch.NotifyReturn(make(chan client.Return, 1))
	p.Headers = client.Table{"BCC": []any{"d"}}
	if err := ch.PublishWithContext(t.Context(), "", "nowhere", true, false, p); err != nil {
		t.Fatal(err)
	}
	d, ok, err := ch.Get("d", true)
	if err != nil || !ok || len(d.Headers) > 0 || len(returns) > 0 || d.RoutingKey != "nowhere" {
		t.Errorf("%v %v %+v, %d returned", ok, err, d, len(returns))
	}
	closed := ch.NotifyClose(make(chan *client.Error, 1))
	p.Headers = client.Table{"CC": "b"}
	if err := ch.PublishWithContext(t.Context(), "", "a", true, false, p); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, <-closed, wire.PreconditionFailed)
}

func TestWhatAConnectionPublishedIsThereForItsNextMethod(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	conn := b.dial()
	one, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	other, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	declare(t, one, "orders")
	for i := range 200 {
		put(t, one, "orders", fmt.Sprint(i))
		d, ok, err := other.Get("orders", true)
		if err != nil || !ok || string(d.Body) != fmt.Sprint(i) {
			t.Fatalf("round %d: %v %v %q", i, ok, err, d.Body)
		}
	}
	put(t, one, "orders", "a", "b")
	if q, err := other.QueueDeclarePassive("orders", true, false, false, false, nil); err != nil || q.Messages != 2 {
		t.Errorf("%+v %v", q, err)
	}
}

func TestConfirmSurvivesPowerCut(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	b := startBroker(t, disk)
	ch := b.open()
	declare(t, ch, "orders")
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirms := ch.NotifyPublish(make(chan client.Confirmation, 100))
	put(t, ch, "orders", "a", "b", "c")
	for range 3 {
		if c := <-confirms; !c.Ack {
			t.Fatalf("%+v", c)
		}
	}
	d, ok, err := ch.Get("orders", false)
	if err != nil || !ok || string(d.Body) != "a" {
		t.Fatal(ok, err)
	}
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	// The answer to this means that the acknowledgement before it holds.
	if d, ok, err := ch.Get("orders", false); err != nil || !ok || string(d.Body) != "b" {
		t.Fatal(ok, err)
	}
	after := startBroker(t, disk.Snapshot().Crash(vfs.CrashPlan{Kind: vfs.DropUnsynced}))
	ch = after.open()
	for _, want := range []string{"b", "c"} {
		// Whether c was taken nobody knows after the crash, so it is marked too.
		if d, ok, err := ch.Get("orders", true); err != nil || !ok || string(d.Body) != want || !d.Redelivered {
			t.Fatalf("%q redelivered %v, %v %v; expected %s", d.Body, d.Redelivered, ok, err, want)
		}
	}
	if _, ok, err := ch.Get("orders", true); ok || err != nil {
		t.Errorf("one more, %v", err)
	}
}

func TestMessagesForADeletedQueueAreConfirmed(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	done := make(chan error, 1)
	other := b.open()
	go func() {
		for {
			if _, err := other.QueueDeclare("orders", true, false, false, false, nil); err != nil {
				done <- err
				return
			}
			if _, err := other.QueueDelete("orders", false, false, false); err != nil {
				done <- err
				return
			}
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
		}
	}()
	for range 50 {
		var all []*client.DeferredConfirmation
		for range 20 {
			c, err := ch.PublishWithDeferredConfirm("", "orders", false, false, client.Publishing{Body: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for _, c := range all {
			if !c.Wait() {
				t.Fatal("a message was refused")
			}
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskBlocksPublishersAndNobodyElse(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	b := startBroker(t, mem)
	setup := b.open()
	declare(t, setup, "orders")
	declare(t, setup, "small")
	put(t, setup, "small", "x")
	conn := b.dial()
	blocked := conn.NotifyBlocked(make(chan client.Blocking, 10))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(mem.Used() + 100)
	body := make([]byte, 1<<20)
	var confirms []*client.DeferredConfirmation
	for blockedNow := false; !blockedNow; {
		c, err := ch.PublishWithDeferredConfirm("", "orders", false, false, client.Publishing{Body: body})
		if err != nil {
			t.Fatal(err)
		}
		confirms = append(confirms, c)
		select {
		case e := <-blocked:
			blockedNow = e.Active
		case <-time.After(10 * time.Millisecond):
		}
		if len(confirms) > 1000 {
			t.Fatal("the disk does not get full")
		}
	}
	// A consumer goes on.
	if d, ok, err := setup.Get("small", true); err != nil || !ok || string(d.Body) != "x" {
		t.Fatal(ok, err)
	}
	mem.SetCapacity(-1)
	if e := <-blocked; e.Active {
		t.Error("still blocked")
	}
	for i, c := range confirms {
		if !c.Wait() {
			t.Errorf("message %d was refused", i)
		}
	}
	b.ready("orders", int64(len(confirms)))
	if n := b.server.Figures(); n.PublishersBlocked == 0 || n.Refused != 0 {
		t.Errorf("figures %+v", n)
	}
}

func TestErrorsOfTheClientAreNotLost(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	conn := b.dial()
	closed := conn.NotifyClose(make(chan *client.Error, 1))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	_, err = ch.QueueDeclare("orders", true, false, false, false, nil)
	var e *client.Error
	if !errors.As(err, &e) && !errors.Is(err, client.ErrClosed) {
		t.Fatalf("declaring in a closed store: %v", err)
	}
	refusedWith(t, <-closed, wire.InternalError)
}

func TestMessageForMoreQueuesThanOneTransactionHoldsIsRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ch := b.open()
	var queues []any
	for i := range 8 {
		declare(t, ch, fmt.Sprint(i))
		queues = append(queues, fmt.Sprint(i))
	}
	closed := ch.NotifyClose(make(chan *client.Error, 1))
	p := client.Publishing{Body: make([]byte, 8<<20), Headers: client.Table{"CC": queues}}
	if err := ch.PublishWithContext(t.Context(), "", "0", false, false, p); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, <-closed, wire.PreconditionFailed)
}

func TestLargeMessagesThatGatherAreStoredInSeveralTransactions(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options) { o.Limits.PublishBytes = 64 << 20 })
	ch := b.open()
	declare(t, ch, "orders")
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var all []*client.DeferredConfirmation
	body := make([]byte, 12<<20)
	for range 7 { // one is committed while the others gather
		c, err := ch.PublishWithDeferredConfirm("", "orders", false, false, client.Publishing{Body: body})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for i, c := range all {
		if !c.Wait() {
			t.Errorf("message %d was refused", i)
		}
	}
	b.ready("orders", 7)
}
