package message_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"polylog/logstore/record"
	"polylog/viewlayer/message"
	"polylog/viewlayer/message/mappingcases"
)

// TestReservedHeaderIsSmall holds the cost of a message over its body and the record's framing to what docs/mapping.md says.
func TestReservedHeaderIsSmall(t *testing.T) {
	t.Parallel()
	var c message.Converter
	body := make([]byte, 1000)
	cost := func(p *message.Published) int {
		b := record.NewBuilder()
		if err := c.AppendAMQP(b, 1, p); err != nil {
			t.Fatal(err)
		}
		with := b.Size()
		b.Reset()
		b.Append(1, nil, p.Body, nil)
		return with - b.Size()
	}
	for _, k := range []struct {
		name string
		p    message.Published
		most int
	}{
		{"no properties", message.Published{RoutingKey: []byte(strings.Repeat("q", 255)), Body: body}, 8},
		{"persistent", message.Published{RoutingKey: []byte("orders"), Properties: []byte{0x10, 0, 2}, Body: body}, 11},
		{"persistent, priority, timestamp", message.Published{RoutingKey: []byte("orders"), Properties: []byte{0x18, 0x40, 2, 5, 0, 0, 0, 0, 0, 0, 0, 9}, Body: body}, 20},
		{"named exchange", message.Published{Exchange: []byte("amq.topic"), RoutingKey: []byte("key"), Properties: []byte{0x10, 0, 2}, Body: body}, 11 + 10 + 3},
	} {
		if n := cost(&k.p); n > k.most || n > 32 {
			t.Errorf("%s: %d bytes over body and framing, want at most %d", k.name, n, k.most)
		}
	}
}

// TestReservedHeaderBytes holds the layout of the reserved header, which lies on disks, to bytes written by hand.
func TestReservedHeaderBytes(t *testing.T) {
	t.Parallel()
	var c message.Converter
	field := func(name string, v any) mappingcases.Field { return mappingcases.Field{Name: name, Value: v} }
	headers := func(f ...mappingcases.Field) message.Properties {
		return message.Properties{Flags: message.FlagHeaders, Headers: mappingcases.Table(f...)}
	}
	for _, k := range []struct {
		name string
		in   mappingcases.AMQP
		want string
	}{
		{"nothing", mappingcases.AMQP{RoutingKey: "q"}, "\x14"},
		{"exchange", mappingcases.AMQP{Exchange: "ex", RoutingKey: "k"}, "\x15\x02ex"},
		{"persistent", mappingcases.AMQP{RoutingKey: "q", Properties: message.Properties{Flags: message.FlagDeliveryMode, DeliveryMode: 2}}, "\x10\x10\x00\x02"},
		{"types", mappingcases.AMQP{RoutingKey: "q", Properties: headers(field("a", "1"), field("b", int32(1)), field("c", nil))}, "\x10\x20\x00\x03SIV"},
		{"record key", mappingcases.AMQP{Exchange: "ex", RoutingKey: "r", Properties: headers(field("x-record-key", "k"))}, "\x13\x02ex\x01r\x20\x00\x01\xd3\x04"},
		{"copies", mappingcases.AMQP{RoutingKey: "r", Properties: headers(field("BCC", mappingcases.Array{true}))}, "\x12\x01r\x20\x00\x01\xc1\x02\x02t\x01"},
		{"exact", mappingcases.AMQP{RoutingKey: "q", Properties: headers(field("\xff", mappingcases.Raw("t\x02")), field("F", mappingcases.Fields{field("i", nil)}))},
			"\x10\x20\x00\x02\xf4\x03\x01\xff\x01\x02\xc6\x02\x03\x01iV"},
		{"the rest", mappingcases.AMQP{RoutingKey: "q", Properties: message.Properties{
			Flags: message.FlagContentType | message.FlagDeliveryMode | message.FlagPriority | message.FlagExpiration | message.FlagTimestamp | message.FlagUserID |
				message.FlagAppID | message.FlagClusterID,
			ContentType: []byte("t"), DeliveryMode: 1, Priority: 3, Expiration: []byte("60"), Timestamp: 5, UserID: []byte("me"), AppID: []byte("a"), ClusterID: []byte("c")}},
			"\x10\x99\x5c\x01\x03\x0260\x00\x00\x00\x00\x00\x00\x00\x05\x02me\x01c"},
	} {
		rec, _ := publish(t, &c, published(t, k.in), 1)
		if h := headersOf(rec)[0]; string(h.Key) != "_amqp" || string(h.Value) != k.want {
			t.Errorf("%s: %s = %q, want %q", k.name, h.Key, h.Value, k.want)
		}
	}
}

// TestMalformedPropertiesAreRefused has each way in which a publisher's properties can be wrong. The batch stays as it was.
func TestMalformedPropertiesAreRefused(t *testing.T) {
	t.Parallel()
	var c message.Converter
	b := record.NewBuilder()
	var tableErr *message.TableError
	for name, k := range map[string]struct {
		properties string
		at         int
		isTable    bool
	}{
		"half of the flags":     {"\x10", 0, false},
		"more flags":            {"\x10\x01\x02", 0, false},
		"no value":              {"\x10\x00", 2, false},
		"short string too long": {"\x80\x00\x05text", 2, false},
		"no length":             {"\x80\x00", 2, false},
		"short timestamp":       {"\x00\x40\x00\x00\x00", 2, false},
		"bytes behind":          {"\x10\x00\x02\x00", 3, false},
		"bytes behind nothing":  {"\x00\x00\x00", 2, false},
		"bad table":             {"\x20\x00\x00\x00\x00\x03\x01k?", 2, true},
		"table over the end":    {"\x20\x00\x00\x00\x00\x03", 2, true},
	} {
		p := &message.Published{RoutingKey: []byte("q"), Properties: []byte(k.properties)}
		err := c.AppendAMQP(b, 1, p)
		var bad *message.PropertiesError
		if !errors.As(err, &bad) || bad.At != k.at || bad.Reason == "" || errors.As(err, &tableErr) != k.isTable {
			t.Errorf("%s: %v, want a *PropertiesError at byte %d", name, err, k.at)
		}
		if _, err := c.Key(p); !errors.As(err, &bad) {
			t.Errorf("%s: Key: %v", name, err)
		}
	}
	long := []byte(strings.Repeat("x", 256))
	for _, p := range []message.Published{{Exchange: long}, {RoutingKey: long}} {
		var bad *message.PropertiesError
		if err := c.AppendAMQP(b, 1, &p); !errors.As(err, &bad) {
			t.Errorf("a name of 256 bytes: %v", err)
		}
	}
	if b.Len() != 0 {
		t.Errorf("%d records of malformed messages", b.Len())
	}
	var bad *message.PropertiesError
	p := message.Properties{Flags: message.FlagMessageID, MessageID: long}
	if out, err := p.AppendTo([]byte("before")); !errors.As(err, &bad) || string(out) != "before" {
		t.Errorf("AppendTo = %q, %v", out, err)
	}
	p = message.Properties{Flags: 1}
	if _, err := p.AppendTo(nil); !errors.As(err, &bad) {
		t.Errorf("AppendTo of more flags: %v", err)
	}
	var d message.Delivered
	if err := c.ToAMQP(record.Record{}, 0, message.Origin{Topic: string(long)}, &d); !errors.As(err, &bad) {
		t.Errorf("a topic's name of 256 bytes: %v", err)
	}
}

// TestFullBatchIsToldBeforeItIsSpoilt appends what a batch has no room for; the batch can still be built and takes what fits.
func TestFullBatchIsToldBeforeItIsSpoilt(t *testing.T) {
	t.Parallel()
	var c message.Converter
	b := record.NewBuilder()
	half := &message.Published{RoutingKey: []byte("q"), Body: make([]byte, record.MaxBatchSize/2)}
	if err := c.AppendAMQP(b, 1, half); err != nil {
		t.Fatal(err)
	}
	var large *message.TooLargeError
	if err := c.AppendAMQP(b, 1, half); !errors.As(err, &large) || large.Bytes <= large.Max {
		t.Fatalf("%v, want a *TooLargeError", err)
	}
	if err := c.AppendMoved(b, record.Record{Value: half.Body}, 1, message.Moved{}); !errors.As(err, &large) {
		t.Fatalf("moved: %v, want a *TooLargeError", err)
	}
	if err := c.AppendAMQP(b, 1, &message.Published{RoutingKey: []byte("q"), Body: []byte("small")}); err != nil {
		t.Fatal(err)
	}
	if batch, err := b.Build(); err != nil || batch.Count() != 2 {
		t.Fatalf("%d records, %v", batch.Count(), err)
	}
}

// TestHeadersFitTheFrame delivers records with more headers than a content header has room for, as it cannot be split.
func TestHeadersFitTheFrame(t *testing.T) {
	t.Parallel()
	c := message.Converter{PropertiesMax: 4096 - 8 - 12} // the smallest frame, without its frame and the fixed part of a content header
	long := func(n int) mappingcases.Field {
		return mappingcases.Field{Name: "long", Value: strings.Repeat("v", n)}
	}
	full := mappingcases.FromAMQP()
	for _, k := range full {
		if k.Name != "all properties" {
			continue
		}
		in := k.In
		p := &in.Properties
		for _, s := range []*[]byte{&p.ContentType, &p.ContentEncoding, &p.CorrelationID, &p.ReplyTo, &p.Expiration, &p.MessageID, &p.Type, &p.UserID, &p.AppID, &p.ClusterID} {
			*s = bytes.Repeat([]byte("s"), 255)
		}
		p.Headers = mappingcases.Table(mappingcases.Field{Name: "a", Value: "1"}, long(2000), mappingcases.Field{Name: "b", Value: "2"})
		rec, ts := publish(t, &c, published(t, in), mappingcases.Time)
		o := here
		o.Counted, o.Acquired, o.Failed = true, 1, 1
		var d message.Delivered
		if err := c.ToAMQP(rec, ts, o, &d); err != nil {
			t.Fatal(err)
		}
		p.Headers = mappingcases.Table(mappingcases.Field{Name: "a", Value: "1"}, mappingcases.Field{Name: "b", Value: "2"},
			mappingcases.Field{Name: "x-acquired-count", Value: int64(1)}, mappingcases.Field{Name: "x-delivery-count", Value: int64(1)},
			mappingcases.Field{Name: "x-omitted-headers", Value: int64(1)})
		sameMessage(t, &d, published(t, in))
		if len(d.Properties) > c.PropertiesMax {
			t.Errorf("%d bytes of properties, at most %d are allowed", len(d.Properties), c.PropertiesMax)
		}
	}
	// A record of Kafka: a key and headers, all of which would fit alone.
	foreign := mappingcases.Record{Key: make([]byte, 3000), Value: []byte{}, Time: mappingcases.Time}
	for range 5 {
		foreign.Headers = append(foreign.Headers, mappingcases.Header{Key: strings.Repeat("k", len(foreign.Headers)+1), Value: make([]byte, 400)})
	}
	rec, ts := produce(t, foreign)
	var d message.Delivered
	if err := c.ToAMQP(rec, ts, here, &d); err != nil {
		t.Fatal(err)
	}
	var p message.Properties
	if err := p.Parse(d.Properties); err != nil || len(d.Properties) > c.PropertiesMax {
		t.Fatalf("%d bytes of properties, %v", len(d.Properties), err)
	}
	v, _ := p.Headers.Get("x-omitted-headers")
	if n, _ := v.Int(); n != 4 { // the key and three headers
		t.Errorf("%d headers were left out, want 4", n)
	}
	c.PropertiesMax = 1 // counts as the smallest that makes sense
	if err := c.ToAMQP(rec, ts, here, &d); err != nil {
		t.Fatal(err)
	}
	if err := p.Parse(d.Properties); err != nil {
		t.Fatal(err)
	}
}

// TestMovedMarkIsTakenOnlyWhole has marks that a client of Kafka may write.
func TestMovedMarkIsTakenOnlyWhole(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		key, value string
		want       bool
	}{
		{"_moved", "\x01\x05\x00\x00", true},
		{"_moved", "", false},
		{"_moved", "\x01", false},
		{"_moved", "\x02\x05\x00\x00", false},
		{"_moved", "\x01\x05\x00", false},
		{"_moved", "\x01\x05\x00\x00\x00", false},
		{"_moved", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00", false},
		{"_moved", "\x01\x05\xff\xff\xff\xff\x10\x00", false},
		{"_move", "\x01\x05\x00\x00", false},
	} {
		rec, _ := produce(t, mappingcases.Record{Value: []byte{}, Headers: []mappingcases.Header{{Key: k.key, Value: []byte(k.value)}}})
		if m, ok := message.MovedOf(rec); ok != k.want || ok && m.First != 5 {
			t.Errorf("%s %q: %+v, %v", k.key, k.value, m, ok)
		}
	}
	if _, ok := message.MovedOf(record.Record{}); ok {
		t.Error("a record without headers was moved")
	}
}

// plain is the usual message: 1 KiB, persistent.
func plain() *message.Published {
	return &message.Published{RoutingKey: []byte("orders"), Properties: []byte{0x10, 0, 2}, Body: make([]byte, 1024)}
}

// rich is a message with the headers that frameworks send.
func rich(t testing.TB) *message.Published {
	p := published(t, mappingcases.AMQP{Exchange: "amq.topic", RoutingKey: "orders.eu.new", Body: string(make([]byte, 1024)), Properties: message.Properties{
		Flags: message.FlagContentType | message.FlagHeaders | message.FlagDeliveryMode | message.FlagCorrelationID | message.FlagMessageID |
			message.FlagTimestamp | message.FlagType,
		ContentType: []byte("application/json"), DeliveryMode: 2, CorrelationID: []byte("5f1c9f0e"), MessageID: []byte("b52c9f0e-0001"), Timestamp: 1764636300,
		Type: []byte("order.created"), Headers: mappingcases.Table(mappingcases.Field{Name: "x-record-key", Value: "customer-7"},
			mappingcases.Field{Name: "tries", Value: int32(3)}, mappingcases.Field{Name: "weight", Value: 0.75}, mappingcases.Field{Name: "ok", Value: true},
			mappingcases.Field{Name: "at", Value: mappingcases.Timestamp(1764636300)}, mappingcases.Field{Name: "price", Value: mappingcases.Decimal{Scale: 2, Unscaled: 1999}},
			mappingcases.Field{Name: "CC", Value: mappingcases.Array{"a", "b"}}),
	}})
	return p
}

// foreignRecord is a record of a Kafka client with some headers.
func foreignRecord(t testing.TB) (record.Record, int64) {
	return produce(t, mappingcases.Record{Key: []byte("customer-7"), Value: make([]byte, 1024), Time: mappingcases.Time, Headers: []mappingcases.Header{
		{Key: "content-type", Value: []byte("application/json")}, {Key: "trace", Value: []byte("00-4bf92f-00f067-01")}, {Key: "b", Value: []byte{0xff}},
		{Key: "trace", Value: []byte("again")},
	}})
}

// TestConvertingDoesNotAlloc holds publish and delivery to no allocation, once the converter is warm.
func TestConvertingDoesNotAlloc(t *testing.T) {
	for _, k := range []struct {
		name string
		p    *message.Published
	}{{"plain", plain()}, {"rich", rich(t)}} {
		var c message.Converter
		b := record.NewBuilder()
		publishing := func() {
			b.Reset()
			if err := c.AppendAMQP(b, 1, k.p); err != nil {
				t.Fatal(err)
			}
		}
		publishing()
		if n := testing.AllocsPerRun(100, publishing); n != 0 {
			t.Errorf("publishing the %s message: %v allocations", k.name, n)
		}
		rec, ts := only(t, b)
		o := here
		var d message.Delivered
		if n := testing.AllocsPerRun(100, func() {
			if err := c.ToAMQP(rec, ts, o, &d); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("delivering the %s message: %v allocations", k.name, n)
		}
		if n := testing.AllocsPerRun(100, func() {
			b.Reset()
			if err := c.AppendMoved(b, rec, ts, message.Moved{First: 1}); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("moving the %s message: %v allocations", k.name, n)
		}
	}
	rec, ts := foreignRecord(t)
	var c message.Converter
	var d message.Delivered
	if n := testing.AllocsPerRun(100, func() {
		if err := c.ToAMQP(rec, ts, here, &d); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("delivering a record of Kafka: %v allocations", n)
	}
}

func BenchmarkAppendAMQP(b *testing.B) {
	for _, k := range []struct {
		name string
		p    *message.Published
	}{{"plain", plain()}, {"rich", rich(b)}} {
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(k.p.Body)))
			var c message.Converter
			batch := record.NewBuilder()
			for i := 0; b.Loop(); i++ {
				if i%100 == 0 {
					batch.Reset()
				}
				if err := c.AppendAMQP(batch, 1, k.p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkToAMQP(b *testing.B) {
	var c message.Converter
	plainRecord, _ := publish(b, &c, plain(), 1)
	richRecord, _ := publish(b, &c, rich(b), 1)
	kafkaRecord, _ := foreignRecord(b)
	for _, k := range []struct {
		name string
		rec  record.Record
	}{{"plain", plainRecord}, {"rich", richRecord}, {"kafka", kafkaRecord}} {
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			var d message.Delivered
			for b.Loop() {
				if err := c.ToAMQP(k.rec, 1, here, &d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
