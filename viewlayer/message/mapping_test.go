package message_test

import (
	"bytes"
	"fmt"
	"testing"

	"polylog/logstore/record"
	"polylog/viewlayer/message"
	"polylog/viewlayer/message/mappingcases"
)

var here = message.Origin{Topic: mappingcases.Topic, Partition: mappingcases.Partition, Offset: mappingcases.Offset}

// publish appends a message to a batch of its own and returns the record.
func publish(t testing.TB, c *message.Converter, p *message.Published, now int64) (rec record.Record, ts int64) {
	t.Helper()
	b := record.NewBuilder()
	if err := c.AppendAMQP(b, now, p); err != nil {
		t.Fatalf("publish: %v", err)
	}
	return only(t, b)
}

// only returns the one record of a batch.
func only(t testing.TB, b *record.Builder) (rec record.Record, ts int64) {
	t.Helper()
	raw, err := b.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	batch, _, err := record.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	it := batch.Iter(nil)
	if !it.Next() {
		t.Fatalf("no record: %v", it.Err())
	}
	return it.Record(), it.Timestamp()
}

// produce is the record as Kafka's clients make it.
func produce(t testing.TB, r mappingcases.Record) (rec record.Record, ts int64) {
	t.Helper()
	b := record.NewBuilder()
	var headers []record.RecordHeader
	for _, h := range r.Headers {
		headers = append(headers, record.RecordHeader{Key: []byte(h.Key), Value: h.Value})
	}
	b.Append(r.Time, r.Key, r.Value, headers)
	return only(t, b)
}

// published is the message as it comes from the wire.
func published(t testing.TB, m mappingcases.AMQP) *message.Published {
	t.Helper()
	properties, err := m.Properties.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &message.Published{Exchange: []byte(m.Exchange), RoutingKey: []byte(m.RoutingKey), Properties: properties, Body: []byte(m.Body)}
}

// sameMessage compares what was delivered with what was expected, byte for byte.
func sameMessage(t *testing.T, d *message.Delivered, want *message.Published) {
	t.Helper()
	if string(d.Exchange) != string(want.Exchange) || string(d.RoutingKey) != string(want.RoutingKey) {
		t.Errorf("exchange %q, routing key %q, want %q, %q", d.Exchange, d.RoutingKey, want.Exchange, want.RoutingKey)
	}
	if !bytes.Equal(d.Body, want.Body) {
		t.Errorf("body %q, want %q", d.Body, want.Body)
	}
	if !bytes.Equal(d.Properties, want.Properties) {
		t.Errorf("properties\n%s, want\n%s", show(d.Properties), show(want.Properties))
	}
}

// show writes a property list for people.
func show(b []byte) string {
	var p message.Properties
	if err := p.Parse(b); err != nil {
		return fmt.Sprintf("%q: %v", b, err)
	}
	s := fmt.Sprintf("%q\n flags %#04x\n", b, p.Flags)
	if p.Has(message.FlagHeaders) {
		for it := p.Headers.Fields(); it.Next(); {
			s += fmt.Sprintf(" %q: %q\n", it.Field().Name, it.Field().Value.Encoded())
		}
	}
	return s
}

// sameRecord compares a record, as Kafka's clients see it, with what was expected. skipReserved is for messages that came from AMQP.
func sameRecord(t *testing.T, rec record.Record, ts int64, want mappingcases.Record, skipReserved bool) {
	t.Helper()
	if !bytes.Equal(rec.Key, want.Key) || (rec.Key == nil) != (want.Key == nil) {
		t.Errorf("key %q (null: %v), want %q (null: %v)", rec.Key, rec.Key == nil, want.Key, want.Key == nil)
	}
	if !bytes.Equal(rec.Value, want.Value) || (rec.Value == nil) != (want.Value == nil) {
		t.Errorf("value %q (null: %v), want %q (null: %v)", rec.Value, rec.Value == nil, want.Value, want.Value == nil)
	}
	if ts != want.Time {
		t.Errorf("time %d, want %d", ts, want.Time)
	}
	it := rec.Headers()
	if skipReserved && (!it.Next() || string(it.Header().Key) != message.ReservedHeader) {
		t.Errorf("the first header is %q, want %q", it.Header().Key, message.ReservedHeader)
	}
	for i, w := range want.Headers {
		if !it.Next() {
			t.Errorf("%d plain headers, want %d", i, len(want.Headers))
			return
		}
		if h := it.Header(); string(h.Key) != w.Key || !bytes.Equal(h.Value, w.Value) || (h.Value == nil) != (w.Value == nil) {
			t.Errorf("header %d: %q = %q (null: %v), want %q = %q (null: %v)", i, h.Key, h.Value, h.Value == nil, w.Key, w.Value, w.Value == nil)
		}
	}
	if it.Next() {
		t.Errorf("an unexpected header %q = %q", it.Header().Key, it.Header().Value)
	}
}

// TestFromAMQPToAMQPNothingIsLost is the first cell of the table of protocols.
func TestFromAMQPToAMQPNothingIsLost(t *testing.T) {
	t.Parallel()
	var c message.Converter
	for _, k := range mappingcases.FromAMQP() {
		t.Run(k.Name, func(t *testing.T) {
			in := published(t, k.In)
			rec, ts := publish(t, &c, in, mappingcases.Time)
			var d message.Delivered
			if err := c.ToAMQP(rec, ts, here, &d); err != nil {
				t.Fatal(err)
			}
			sameMessage(t, &d, in)
			// A topic that keeps its records changes nothing about that.
			kept := here
			kept.Retained = true
			if err := c.ToAMQP(rec, ts, kept, &d); err != nil {
				t.Fatal(err)
			}
			sameMessage(t, &d, in)
		})
	}
}

// TestFromAMQPToKafkaUnderTheNamesOfKafka is the second cell.
func TestFromAMQPToKafkaUnderTheNamesOfKafka(t *testing.T) {
	t.Parallel()
	var c message.Converter
	for _, k := range mappingcases.FromAMQP() {
		t.Run(k.Name, func(t *testing.T) {
			in := published(t, k.In)
			rec, ts := publish(t, &c, in, mappingcases.Time)
			sameRecord(t, rec, ts, k.Kafka, true)
			if key, err := c.Key(in); err != nil || !bytes.Equal(key, rec.Key) || (key == nil) != (rec.Key == nil) {
				t.Errorf("Key = %q, %v; the record has %q", key, err, rec.Key)
			}
		})
	}
}

// TestFromKafkaToAMQPUnderTheNamesOfAMQP is the third cell.
func TestFromKafkaToAMQPUnderTheNamesOfAMQP(t *testing.T) {
	t.Parallel()
	var c message.Converter
	for _, k := range mappingcases.FromKafka() {
		t.Run(k.Name, func(t *testing.T) {
			rec, ts := produce(t, k.In)
			o := here
			o.Retained = k.Retained
			var d message.Delivered
			if err := c.ToAMQP(rec, ts, o, &d); err != nil {
				t.Fatal(err)
			}
			sameMessage(t, &d, published(t, k.AMQP))
		})
	}
}

// TestFromKafkaToKafkaTheRecordIsTheRecord is the fourth cell. Records are not converted on this way; what could touch them is being moved in their queue.
func TestFromKafkaToKafkaTheRecordIsTheRecord(t *testing.T) {
	t.Parallel()
	var c message.Converter
	for _, k := range mappingcases.FromKafka() {
		t.Run(k.Name, func(t *testing.T) {
			rec, ts := produce(t, k.In)
			sameRecord(t, rec, ts, k.In, false)
			b := record.NewBuilder()
			if err := c.AppendMoved(b, rec, ts, message.Moved{First: 7}); err != nil {
				t.Fatal(err)
			}
			moved, ts := only(t, b)
			want := k.In
			want.Headers = append([]mappingcases.Header{{Key: message.MovedHeader, Value: []byte{1, 7, 0, 0}}}, want.Headers...)
			sameRecord(t, moved, ts, want, false)
		})
	}
}

// TestMovedMessagesAreTheSameToAMQP moves every message of the table twice.
func TestMovedMessagesAreTheSameToAMQP(t *testing.T) {
	t.Parallel()
	var c message.Converter
	move := func(t *testing.T, rec record.Record, ts int64, m message.Moved) record.Record {
		t.Helper()
		b := record.NewBuilder()
		if err := c.AppendMoved(b, rec, ts, m); err != nil {
			t.Fatal(err)
		}
		out, outTime := only(t, b)
		if got, ok := message.MovedOf(out); !ok || got != m || outTime != ts {
			t.Fatalf("MovedOf = %+v, %v at %d, want %+v at %d", got, ok, outTime, m, ts)
		}
		return out
	}
	check := func(t *testing.T, rec record.Record, ts int64, want *message.Published) {
		t.Helper()
		first := move(t, rec, ts, message.Moved{First: 1 << 40, Acquired: 3, Failed: 1})
		second := move(t, first, ts, message.Moved{First: 1 << 40, Acquired: 1<<32 - 1, Failed: 1<<32 - 1})
		if second.HeaderCount() != rec.HeaderCount()+1 {
			t.Errorf("%d headers after two moves, %d before", second.HeaderCount(), rec.HeaderCount())
		}
		var d message.Delivered
		if err := c.ToAMQP(second, ts, here, &d); err != nil {
			t.Fatal(err)
		}
		sameMessage(t, &d, want)
	}
	for _, k := range mappingcases.FromAMQP() {
		t.Run(k.Name, func(t *testing.T) {
			in := published(t, k.In)
			rec, ts := publish(t, &c, in, mappingcases.Time)
			if m, ok := message.MovedOf(rec); ok {
				t.Errorf("MovedOf = %+v for a record that was not moved", m)
			}
			check(t, rec, ts, in)
		})
	}
	for _, k := range mappingcases.FromKafka() {
		if k.Retained {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			rec, ts := produce(t, k.In)
			check(t, rec, ts, published(t, k.AMQP))
		})
	}
}

// TestCountersTravelWithTheMessage adds the queue's counters to every message of the table.
func TestCountersTravelWithTheMessage(t *testing.T) {
	t.Parallel()
	var c message.Converter
	for _, k := range mappingcases.FromAMQP() {
		t.Run(k.Name, func(t *testing.T) {
			rec, ts := publish(t, &c, published(t, k.In), mappingcases.Time)
			for _, n := range []struct {
				counted          bool
				acquired, failed uint32
			}{{false, 0, 5}, {false, 2, 1}, {true, 2, 1}, {true, 3, 0}, {true, 0, 4}} {
				o := here
				o.Counted, o.Acquired, o.Failed = n.counted, n.acquired, n.failed
				var d message.Delivered
				if err := c.ToAMQP(rec, ts, o, &d); err != nil {
					t.Fatal(err)
				}
				want := k.In
				var fields []mappingcases.Field
				drop := map[string]bool{message.HeaderAcquiredCount: n.acquired > 0, message.HeaderDeliveryCount: n.counted && n.failed > 0}
				for it := want.Properties.Headers.Fields(); it.Next(); {
					if f := it.Field(); !drop[string(f.Name)] {
						fields = append(fields, mappingcases.Field{Name: string(f.Name), Value: mappingcases.Raw(f.Value.Encoded())})
					}
				}
				for _, counter := range []struct {
					name  string
					value uint32
				}{{message.HeaderAcquiredCount, n.acquired}, {message.HeaderDeliveryCount, n.failed}} {
					if drop[counter.name] {
						fields = append(fields, mappingcases.Field{Name: counter.name, Value: int64(counter.value)})
						want.Properties.Flags |= message.FlagHeaders
					}
				}
				want.Properties.Headers = mappingcases.Table(fields...)
				sameMessage(t, &d, published(t, want))
			}
		})
	}
}
