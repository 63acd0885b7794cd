package message_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/seed"
	"polylog/viewlayer/message"
	"polylog/viewlayer/message/mappingcases"
)

// randomBytes returns text, or bytes that are none, often with a meaning elsewhere.
func randomBytes(rng *rand.Rand, most int) []byte {
	known := []string{
		"", "a", "content-type", "message-id", "x-record-key", "x-death", "CC", "_amqp", "_moved", "x-delivery-count", "x-acquired-count", "42", "-0", "NaN",
		"true", "null", "{}", "2025-12-02T00:45:00Z", "größe", "\xff\xfe", "\x00",
	}
	if rng.IntN(3) > 0 {
		return []byte(known[rng.IntN(len(known))])
	}
	b := make([]byte, rng.IntN(most+1))
	for i := range b {
		if b[i] = byte(rng.IntN(256)); rng.IntN(4) > 0 {
			b[i] = byte('a' + rng.IntN(26))
		}
	}
	return b
}

func randomTable(rng *rand.Rand, depth int) []mappingcases.Field {
	var f []mappingcases.Field
	for range rng.IntN(6) {
		f = append(f, mappingcases.Field{Name: string(randomBytes(rng, 40)), Value: randomValue(rng, depth)})
	}
	return f
}

// randomValue returns a value of any type; its bits are any.
func randomValue(rng *rand.Rand, depth int) any {
	n := rng.Uint64() >> rng.IntN(64)
	switch rng.IntN(19) {
	case 0:
		return rng.IntN(2) == 0
	case 1:
		return mappingcases.Raw([]byte{'t', byte(n)})
	case 2:
		return int8(n)
	case 3:
		return uint8(n)
	case 4:
		return int16(n)
	case 5:
		return uint16(n)
	case 6:
		return int32(n)
	case 7:
		return uint32(n)
	case 8:
		return int64(n)
	case 9:
		return mappingcases.Raw([]byte{'L', byte(n), 2, 3, 4, 5, 6, 7, 8})
	case 10:
		return mappingcases.Raw([]byte{'U', byte(n), byte(n >> 8)})
	case 11:
		return math.Float32frombits(rng.Uint32() >> rng.IntN(32))
	case 12:
		return math.Float64frombits(n)
	case 13:
		return mappingcases.Decimal{Scale: uint8(rng.IntN(256)), Unscaled: int32(n)}
	case 14:
		return mappingcases.Timestamp(n)
	case 15:
		return string(randomBytes(rng, 300))
	case 16:
		return randomBytes(rng, 300)
	case 17:
		if depth < 4 {
			a := mappingcases.Array{}
			for range rng.IntN(4) {
				a = append(a, randomValue(rng, depth+1))
			}
			return a
		}
	case 18:
		if depth < 4 {
			return mappingcases.Fields(randomTable(rng, depth+1))
		}
	}
	return nil
}

func randomAMQP(rng *rand.Rand) mappingcases.AMQP {
	m := mappingcases.AMQP{RoutingKey: mappingcases.Topic, Body: string(randomBytes(rng, 2000))}
	if rng.IntN(2) == 0 {
		m.Exchange, m.RoutingKey = string(append(randomBytes(rng, 100), 'x')), string(randomBytes(rng, 255))
	}
	p := &m.Properties
	p.Flags = uint16(rng.Uint32()) &^ 1
	if rng.IntN(3) == 0 {
		p.Flags &= uint16(rng.Uint32())
	}
	p.Headers = mappingcases.Table(randomTable(rng, 0)...)
	p.DeliveryMode, p.Priority, p.Timestamp = uint8(rng.Uint32()), uint8(rng.Uint32()), rng.Uint64()
	for _, s := range []*[]byte{&p.ContentType, &p.ContentEncoding, &p.CorrelationID, &p.ReplyTo, &p.Expiration, &p.MessageID, &p.Type, &p.UserID, &p.AppID, &p.ClusterID} {
		*s = randomBytes(rng, 255)
	}
	return m
}

// TestRandomMessagesComeBack publishes random messages, several to a batch, and delivers them.
func TestRandomMessagesComeBack(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	var in, out message.Converter
	b := record.NewBuilder()
	for range 400 {
		var want []*message.Published
		b.Reset()
		for range 1 + rng.IntN(10) {
			p := published(t, randomAMQP(rng))
			if err := in.AppendAMQP(b, rng.Int64N(1<<41), p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p)
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for it := batch.Iter(nil); it.Next(); i++ {
			var d message.Delivered
			if err := out.ToAMQP(it.Record(), it.Timestamp(), here, &d); err != nil {
				t.Fatal(err)
			}
			sameMessage(t, &d, want[i])
		}
		if t.Failed() || i != len(want) {
			t.Fatalf("%d records, want %d", i, len(want))
		}
	}
}

// TestNoRecordBreaksADelivery damages the reserved header and the plain ones of random messages in every way, as a client of Kafka can write them. What comes out
// is a message that can be read.
func TestNoRecordBreaksADelivery(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	var c message.Converter
	foreign := 0
	const rounds = 5000
	for range rounds {
		rec, ts := publish(t, &c, published(t, randomAMQP(rng)), mappingcases.Time)
		headers := headersOf(rec)
		switch i := rng.IntN(len(headers)); rng.IntN(8) {
		case 0: // the reserved header, mostly
			i = 0
			fallthrough
		case 1:
			if v := headers[i].Value; len(v) > 0 {
				v[rng.IntN(len(v))] ^= byte(1 + rng.IntN(255))
			}
		case 2:
			headers[0].Value = headers[0].Value[:rng.IntN(len(headers[0].Value))]
		case 3:
			headers[0].Value = append(headers[0].Value, byte(rng.IntN(256)))
		case 4:
			headers = append(headers[:i], headers[i+1:]...)
		case 5:
			headers = append(headers, record.RecordHeader{Key: randomBytes(rng, 300), Value: randomBytes(rng, 300)})
		case 6:
			headers[i].Key = randomBytes(rng, 300)
		case 7:
			headers[i].Value = nil
		}
		b := record.NewBuilder()
		b.Append(ts, rec.Key, rec.Value, headers)
		damaged, ts := only(t, b)
		var d message.Delivered
		if err := c.ToAMQP(damaged, ts, here, &d); err != nil {
			t.Fatal(err)
		}
		var p message.Properties
		if err := p.Parse(d.Properties); err != nil {
			t.Fatalf("headers %q: properties %q: %v", headers, d.Properties, err)
		}
		if !bytes.Equal(d.Body, rec.Value) || len(d.RoutingKey) > 255 || len(d.Exchange) > 255 {
			t.Fatalf("headers %q: exchange %q, routing key %q, body %q", headers, d.Exchange, d.RoutingKey, d.Body)
		}
		if v, ok := p.Headers.Get(message.HeaderPartition); ok && p.Has(message.FlagHeaders) {
			if n, isInt := v.Int(); isInt && n == mappingcases.Partition {
				foreign++
			}
		}
	}
	if foreign < rounds/10 {
		t.Errorf("only %d of %d damaged records were taken for what they are", foreign, rounds)
	}
}

// headersOf copies the headers of a record.
func headersOf(rec record.Record) (headers []record.RecordHeader) {
	for it := rec.Headers(); it.Next(); {
		h := it.Header()
		headers = append(headers, record.RecordHeader{Key: bytes.Clone(h.Key), Value: bytes.Clone(h.Value)})
	}
	return headers
}

// FuzzToAMQP looks for a record that makes a delivery fail or that cannot be read. The record has two headers, the first of them reserved.
func FuzzToAMQP(f *testing.F) {
	var c message.Converter
	for _, k := range mappingcases.FromAMQP() {
		rec, _ := publish(f, &c, published(f, k.In), mappingcases.Time)
		h := append(headersOf(rec), record.RecordHeader{})
		f.Add(message.ReservedHeader, h[0].Value, string(h[1].Key), h[1].Value, rec.Key)
	}
	f.Add(message.MovedHeader, []byte("\x01\x80\x01\x02\x03"), message.ReservedHeader, []byte("\x14"), []byte(nil))
	f.Fuzz(func(t *testing.T, key string, reserved []byte, name string, value, recordKey []byte) {
		b := record.NewBuilder()
		b.Append(5, recordKey, []byte("body"), []record.RecordHeader{{Key: []byte(key), Value: reserved}, {Key: []byte(name), Value: value}})
		rec, ts := only(t, b)
		message.MovedOf(rec)
		var c message.Converter
		var d message.Delivered
		for _, o := range []message.Origin{here, {Topic: "t", Retained: true, Counted: true, Acquired: 1, Failed: 2}} {
			if err := c.ToAMQP(rec, ts, o, &d); err != nil {
				t.Fatal(err)
			}
			var p message.Properties
			if err := p.Parse(d.Properties); err != nil {
				t.Fatalf("properties %q: %v", d.Properties, err)
			}
		}
	})
}

// FuzzParseProperties looks for a property list that is taken and does not come back.
func FuzzParseProperties(f *testing.F) {
	for _, k := range mappingcases.FromAMQP() {
		f.Add(published(f, k.In).Properties)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c message.Converter
		builder := record.NewBuilder()
		p := &message.Published{RoutingKey: []byte(mappingcases.Topic), Properties: b}
		if err := c.AppendAMQP(builder, 1, p); err != nil {
			if builder.Len() != 0 {
				t.Fatalf("%v, and yet there is a record", err)
			}
			return
		}
		var parsed message.Properties
		if err := parsed.Parse(b); err != nil {
			t.Fatal(err)
		}
		again, err := parsed.AppendTo(nil)
		if len(b) > 0 && (err != nil || !bytes.Equal(again, b)) {
			t.Fatalf("%q came back as %q, %v", b, again, err)
		}
		rec, ts := only(t, builder)
		var d message.Delivered
		if err := c.ToAMQP(rec, ts, here, &d); err != nil {
			t.Fatal(err)
		}
		if len(b) > 0 && !bytes.Equal(d.Properties, b) {
			t.Fatalf("%q was delivered as %q", b, d.Properties)
		}
	})
}
