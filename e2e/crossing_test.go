package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/e2e/harness"
	"polylog/viewlayer/message"
	"polylog/viewlayer/message/mappingcases"
	"polylog/viewlayer/topic"
)

// The table of protocols: what is published by one comes out by each. The messages and what becomes of them are those of package mappingcases, where they are written out;
// package message holds the converter to them byte for byte, and these tests hold the broker to them as clients see it. Left out are the cases that no client library can send or
// tell apart. Messages to an exchange with a name go to the default exchange here.

// TestWhatAMQPPublishesComesOutByEachProtocol is the first row.
func TestWhatAMQPPublishesComesOutByEachProtocol(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	declare(t, ch, mappingcases.Topic, nil)
	must(t, ch.Confirm(false))
	var cases []mappingcases.AMQPCase
	began := time.Now().Add(-time.Second)
	for _, c := range mappingcases.FromAMQP() {
		if c.OnlyRaw {
			continue
		}
		if c.In.Exchange != "" {
			c.In.Exchange, c.In.RoutingKey = "", mappingcases.Topic
			if !c.In.Properties.Has(message.FlagHeaders) || !hasRecordKey(c.In.Properties.Headers) {
				c.Kafka.Key = nil // only a named exchange's routing key is one
			}
		}
		d, err := ch.PublishWithDeferredConfirm("", c.In.RoutingKey, true, false, publishing(t, c.In))
		must(t, err)
		if ok, err := d.WaitContext(t.Context()); err != nil || !ok {
			t.Fatalf("%s: not confirmed: %v", c.Name, err)
		}
		cases = append(cases, c)
	}
	ended := time.Now().Add(time.Second)
	if len(cases) < 40 {
		t.Fatalf("only %d cases of the table were sent", len(cases))
	}
	records := fetchAll(t, b, mappingcases.Topic)
	if len(records) != len(cases) {
		t.Fatalf("Kafka reads %d records of %d messages", len(records), len(cases))
	}
	for i, c := range cases {
		t.Run("Kafka/"+c.Name, func(t *testing.T) {
			r := records[i]
			if r.Timestamp.Before(began) || r.Timestamp.After(ended) {
				t.Errorf("time %v; it should be that of its arrival, %v to %v", r.Timestamp, began, ended)
			}
			if len(r.Headers) == 0 || r.Headers[0].Key != message.ReservedHeader {
				t.Errorf("headers %q; the first should be %s", r.Headers, message.ReservedHeader)
			} else {
				r.Headers = r.Headers[1:]
			}
			c.Kafka.Time = r.Timestamp.UnixMilli()
			// The client sends its map of headers in any order.
			slices.SortStableFunc(r.Headers, func(a, b kgo.RecordHeader) int { return cmp.Compare(a.Key, b.Key) })
			slices.SortStableFunc(c.Kafka.Headers, func(a, b mappingcases.Header) int { return cmp.Compare(a.Key, b.Key) })
			for i := range min(len(r.Headers), len(c.Kafka.Headers)) { // and of nested tables
				if want := c.Kafka.Headers[i].Value; sameJSON(r.Headers[i].Value, want) {
					r.Headers[i].Value = want
				}
			}
			sameRecord(t, r, c.Kafka)
		})
	}
	for _, c := range cases {
		d := get(t, ch, mappingcases.Topic)
		t.Run("AMQP/"+c.Name, func(t *testing.T) { sameDelivery(t, d, c.In) })
		must(t, d.Ack(false))
	}
	expectEmpty(t, ch, mappingcases.Topic)
}

// sameJSON reports whether two values are the same JSON but for the order of fields.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && len(a) == len(b) && reflect.DeepEqual(x, y)
}

// hasRecordKey reports whether a message names its record's key.
func hasRecordKey(headers message.Table) bool {
	_, has := headers.Get("x-record-key")
	return has
}

// TestWhatKafkaProducesComesOutByEachProtocol is the second row.
func TestWhatKafkaProducesComesOutByEachProtocol(t *testing.T) {
	t.Parallel()
	for _, retained := range []bool{false, true} {
		b := harness.Start(t, harness.Options{})
		conn := dialAMQP(t, b)
		ch := openChannel(t, conn)
		k := kafkaClient(t, b)
		partition, offset, what := int32(0), 0, "queue"
		if retained { // a topic made by Kafka, where the record lies just where the table says
			createTopic(t, b, mappingcases.Topic, mappingcases.Partition+1)
			for range mappingcases.Offset {
				produce(t, k, &kgo.Record{Topic: mappingcases.Topic, Partition: mappingcases.Partition, Value: []byte("before")})
			}
			partition, offset, what = mappingcases.Partition, mappingcases.Offset, "topic"
		} else {
			declare(t, ch, mappingcases.Topic, nil)
		}
		var cases []mappingcases.KafkaCase
		for _, c := range mappingcases.FromKafka() {
			if c.Retained != retained {
				continue
			}
			r := &kgo.Record{Topic: mappingcases.Topic, Partition: partition, Key: c.In.Key, Value: c.In.Value, Timestamp: time.UnixMilli(c.In.Time)}
			for _, h := range c.In.Headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			produce(t, k, r)
			cases = append(cases, c)
		}
		if len(cases) == 0 {
			t.Fatalf("the table has no records for a %s", what)
		}
		records := fetchAll(t, b, mappingcases.Topic)
		if len(records) != offset+len(cases) {
			t.Fatalf("Kafka reads %d records of %d", len(records), offset+len(cases))
		}
		for i, c := range cases {
			t.Run("Kafka/"+what+"/"+c.Name, func(t *testing.T) { sameRecord(t, records[offset+i], c.In) })
		}
		for range offset {
			must(t, get(t, ch, mappingcases.Topic).Ack(false))
		}
		for _, c := range cases {
			d := get(t, ch, mappingcases.Topic)
			t.Run("AMQP/"+what+"/"+c.Name, func(t *testing.T) {
				if _, has := d.Headers["x-partition"]; has && !retained {
					if d.Headers["x-partition"] != int64(0) {
						t.Errorf("x-partition is %v in a queue, which has one partition", d.Headers["x-partition"])
					}
					d.Headers["x-partition"] = int64(mappingcases.Partition)
				}
				sameDelivery(t, d, c.AMQP)
			})
			must(t, d.Ack(false))
		}
		expectEmpty(t, ch, mappingcases.Topic)
	}
}

// publishing is a message as amqp091-go sends it.
func publishing(t testing.TB, m mappingcases.AMQP) amqp.Publishing {
	t.Helper()
	p := &m.Properties
	out := amqp.Publishing{
		ContentType: string(p.ContentType), ContentEncoding: string(p.ContentEncoding), DeliveryMode: p.DeliveryMode, Priority: p.Priority,
		CorrelationId: string(p.CorrelationID), ReplyTo: string(p.ReplyTo), Expiration: string(p.Expiration), MessageId: string(p.MessageID),
		Type: string(p.Type), UserId: string(p.UserID), AppId: string(p.AppID), Body: []byte(m.Body),
	}
	if p.Has(message.FlagTimestamp) {
		out.Timestamp = time.Unix(int64(p.Timestamp), 0)
	}
	if p.Has(message.FlagHeaders) {
		out.Headers = table(t, p.Headers)
	}
	return out
}

// table is a field table as amqp091-go has it.
func table(t testing.TB, from message.Table) amqp.Table {
	t.Helper()
	to := amqp.Table{}
	for it := from.Fields(); it.Next(); {
		to[string(it.Field().Name)] = fieldValue(t, it.Field().Value)
	}
	return to
}

func fieldValue(t testing.TB, v message.Value) any {
	t.Helper()
	n, _ := v.Int()
	switch v.Type() {
	case message.TypeVoid:
		return nil
	case message.TypeBool:
		b, _ := v.Bool()
		return b
	case message.TypeInt8:
		return int8(n)
	case message.TypeUint8:
		return uint8(n)
	case message.TypeInt16:
		return int16(n)
	case message.TypeUint16:
		return uint16(n)
	case message.TypeInt32:
		return int32(n)
	case message.TypeUint32:
		return uint32(n)
	case message.TypeInt64:
		return n
	case message.TypeFloat:
		f, _ := v.Float()
		return float32(f)
	case message.TypeDouble:
		f, _ := v.Float()
		return f
	case message.TypeDecimal:
		unscaled, scale, _ := v.Decimal()
		return amqp.Decimal{Scale: scale, Value: unscaled}
	case message.TypeTimestamp:
		s, _ := v.Timestamp()
		return time.Unix(int64(s), 0)
	case message.TypeText:
		s, _ := v.Text()
		return string(s)
	case message.TypeBytes:
		b, _ := v.Bytes()
		return append([]byte{}, b...)
	case message.TypeArray:
		a, _ := v.Array()
		list := []any{}
		for it := a.Values(); it.Next(); {
			list = append(list, fieldValue(t, it.Value()))
		}
		return list
	case message.TypeTable:
		in, _ := v.Table()
		return table(t, in)
	}
	t.Fatalf("amqp091-go knows no field of type %c", v.Type())
	return nil
}

// spell writes a field value with its types, so that equal values have equal texts.
func spell(v any) string {
	switch v := v.(type) {
	case amqp.Table:
		var fields []string
		for name, value := range v {
			fields = append(fields, strconv.Quote(name)+":"+spell(value))
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, " ") + "}"
	case []any:
		var values []string
		for _, value := range v {
			values = append(values, spell(value))
		}
		return "[" + strings.Join(values, " ") + "]"
	case time.Time:
		return fmt.Sprint("time ", v.Unix())
	case string, []byte:
		return fmt.Sprintf("%T %q", v, v)
	}
	return fmt.Sprintf("%T %v", v, v)
}

// sameDelivery compares a delivery with the message that is expected, as far as the client tells: not whether a property is there, but its value; not the order of
// headers; and not cluster-id, which it does not know.
func sameDelivery(t *testing.T, d amqp.Delivery, want mappingcases.AMQP) {
	t.Helper()
	p := publishing(t, want)
	unix := func(at time.Time) string {
		if at.IsZero() {
			return "none"
		}
		return fmt.Sprint(at.Unix())
	}
	for _, c := range []struct{ name, got, want string }{
		{"exchange", d.Exchange, want.Exchange}, {"routing key", d.RoutingKey, want.RoutingKey}, {"body", string(d.Body), want.Body},
		{"content-type", d.ContentType, p.ContentType}, {"content-encoding", d.ContentEncoding, p.ContentEncoding},
		{"delivery-mode", fmt.Sprint(d.DeliveryMode), fmt.Sprint(p.DeliveryMode)}, {"priority", fmt.Sprint(d.Priority), fmt.Sprint(p.Priority)},
		{"correlation-id", d.CorrelationId, p.CorrelationId}, {"reply-to", d.ReplyTo, p.ReplyTo}, {"expiration", d.Expiration, p.Expiration},
		{"message-id", d.MessageId, p.MessageId}, {"timestamp", unix(d.Timestamp), unix(p.Timestamp)}, {"type", d.Type, p.Type},
		{"user-id", d.UserId, p.UserId}, {"app-id", d.AppId, p.AppId}, {"redelivered", fmt.Sprint(d.Redelivered), "false"},
		{"headers", spell(d.Headers), spell(p.Headers)},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, expected %q", c.name, c.got, c.want)
		}
	}
}

// sameRecord compares a record with the one that is expected.
func sameRecord(t *testing.T, got *kgo.Record, want mappingcases.Record) {
	t.Helper()
	same := func(what string, got, want []byte) {
		t.Helper()
		if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s is %q (null: %v), expected %q (null: %v)", what, got, got == nil, want, want == nil)
		}
	}
	same("key", got.Key, want.Key)
	same("value", got.Value, want.Value)
	if ms := got.Timestamp.UnixMilli(); ms != want.Time {
		t.Errorf("time is %d ms, expected %d", ms, want.Time)
	}
	if len(got.Headers) != len(want.Headers) {
		t.Fatalf("headers are %q, expected %q", got.Headers, want.Headers)
	}
	for i, h := range want.Headers {
		if got.Headers[i].Key != h.Key {
			t.Errorf("header %d is %q, expected %q", i, got.Headers[i].Key, h.Key)
		}
		same("header "+h.Key, got.Headers[i].Value, h.Value)
	}
}

// TestSameNameIsTheSameTopic makes queues and topics by one protocol and uses them by the other, with names that are no legal names there as well.
func TestSameNameIsTheSameTopic(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	conn := dialAMQP(t, b)
	ch := openChannel(t, conn)
	k := kafkaClient(t, b)
	names := []string{"orders", "a.b_c-d", "größe/1 of 2", "with.dots and spaces", strings.Repeat("long", 59) + "name that is long", "%", "~x", "..."}
	for _, name := range names {
		declare(t, ch, name, nil)
		inKafka := topic.KafkaName(name)
		publishConfirmed(t, conn, name, "by AMQP")
		produce(t, k, &kgo.Record{Topic: inKafka, Value: []byte("by Kafka")})
		var got []string
		for _, r := range fetchAll(t, b, inKafka) {
			got = append(got, string(r.Value))
		}
		if fmt.Sprint(got) != "[by AMQP by Kafka]" {
			t.Errorf("queue %q is topic %q to Kafka, which reads %q of it", name, inKafka, got)
		}
		for _, want := range []string{"by AMQP", "by Kafka"} {
			d := get(t, ch, name)
			if string(d.Body) != want || d.RoutingKey != name {
				t.Errorf("queue %q: got %q with routing key %q, expected %q", name, d.Body, d.RoutingKey, want)
			}
			must(t, d.Ack(false))
		}
	}
	createTopic(t, b, "made.by-kafka", 1)
	publishConfirmed(t, conn, "made.by-kafka", "by AMQP")
	if rs := fetchAll(t, b, "made.by-kafka"); len(rs) != 1 || string(rs[0].Value) != "by AMQP" {
		t.Errorf("Kafka reads %d records of its own topic that AMQP has published to", len(rs))
	}
	// Queues that are somebody's own are nobody else's to see.
	own, err := ch.QueueDeclare("", false, false, true, false, nil)
	must(t, err)
	_, err = ch.QueueDeclare("passing", false, true, false, false, nil)
	must(t, err)
	listed, err := kadm.NewClient(k).ListTopicsWithInternal(t.Context())
	must(t, err)
	for _, name := range append(names, "made.by-kafka") {
		if !listed.Has(topic.KafkaName(name)) {
			t.Errorf("%q is not listed to Kafka", name)
		}
	}
	for _, name := range []string{own.Name, "passing"} {
		if listed.Has(topic.KafkaName(name)) {
			t.Errorf("%q is listed to Kafka", name)
		}
	}
}
