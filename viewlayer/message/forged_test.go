package message_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"polylog/logstore/record"
	"polylog/viewlayer/message"
	"polylog/viewlayer/message/mappingcases"
)

// TestReservedHeaderThatDoesNotFitIsOrdinary has each way in which a reserved header, written or damaged by a client of Kafka, contradicts itself or its record.
func TestReservedHeaderThatDoesNotFitIsOrdinary(t *testing.T) {
	t.Parallel()
	type header = mappingcases.Header
	h := func(key, value string) header { return header{Key: key, Value: []byte(value)} }
	long := strings.Repeat("x", 256)
	// entry is a reserved header of one entry of the headers table.
	entry := func(s string) string { return "\x10\x20\x00\x01" + s }
	for _, k := range []struct {
		name     string
		reserved string
		key      []byte
		plain    []header
	}{
		{name: "empty", reserved: ""},
		{name: "version 0", reserved: "\x04"},
		{name: "version 2", reserved: "\x24"},
		{name: "the unused bit", reserved: "\x1c"},
		{name: "bytes behind", reserved: "\x14\x00"},
		{name: "bytes behind properties", reserved: "\x10\x10\x00\x02\x00"},
		{name: "no flags", reserved: "\x10"},
		{name: "half of the flags", reserved: "\x10\x10"},
		{name: "more flags", reserved: "\x10\x00\x01"},
		{name: "no exchange", reserved: "\x15"},
		{name: "empty exchange", reserved: "\x15\x00"},
		{name: "exchange over the end", reserved: "\x15\x05ex"},
		{name: "routing key over the end", reserved: "\x16\x05r"},
		{name: "a key that is no routing key", reserved: "\x15\x02ex", key: []byte(long)},
		{name: "a plain header too many", reserved: "\x14", plain: []header{h("a", "1")}},
		{name: "a plain header too few", reserved: entry("S")},
		{name: "an entry too few", reserved: "\x10\x20\x00\x01S", plain: []header{h("a", "1"), h("b", "2")}},
		{name: "a count without end", reserved: "\x10\x20\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"},
		{name: "a huge count", reserved: "\x10\x20\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7fS", plain: []header{h("a", "1")}},
		{name: "a property without its header", reserved: "\x10\x80\x00"},
		{name: "more properties than headers", reserved: "\x10\xc0\x00", plain: []header{h("content-type", "1")}},
		{name: "a property under another name", reserved: "\x10\x80\x00", plain: []header{h("message-id", "1")}},
		{name: "a property that is null", reserved: "\x10\x80\x00", plain: []header{{Key: "content-type"}}},
		{name: "a property that is too long", reserved: "\x10\x80\x00", plain: []header{h("content-type", long)}},
		{name: "no delivery-mode", reserved: "\x10\x10\x00"},
		{name: "half a timestamp", reserved: "\x10\x00\x40\x00\x00\x00\x00"},
		{name: "an unknown type", reserved: entry("?"), plain: []header{h("a", "1")}},
		{name: "an array without its bytes", reserved: entry("A"), plain: []header{h("a", "[]")}},
		{name: "no details", reserved: entry("\xd3"), plain: []header{h("a", "1")}},
		{name: "empty details", reserved: entry("\xd3\x00"), plain: []header{h("a", "1")}},
		{name: "unknown details", reserved: entry("\xd3\x08"), plain: []header{h("a", "1")}},
		{name: "exact name over the end", reserved: entry("\xd3\x01\x05a"), plain: []header{h("a", "1")}},
		{name: "exact value over the end", reserved: entry("\xf4\x02\x05\x01"), plain: []header{h("a", "1")}},
		{name: "exact value too long", reserved: entry("\xf4\x02\x02\x01\x01"), plain: []header{h("a", "true")}},
		{name: "exact value too short", reserved: entry("\xc9\x02\x02\x01\x01"), plain: []header{h("a", "1")}},
		{name: "exact value of an unknown type", reserved: entry("\xbf\x02\x01\x01"), plain: []header{h("a", "1")}},
		{name: "exact table that is none", reserved: entry("\xc6\x02\x01\x05"), plain: []header{h("a", "{}")}},
		{name: "exact table that is too deep", reserved: entry("\xc6\x02\xc0\x01" + deepFields(32)), plain: []header{h("a", "{}")}},
		{name: "a record key that is null", reserved: entry("\xd3\x04")},
		{name: "an exact record key that is null", reserved: entry("\xf4\x06\x01\x02")},
		{name: "a void record key", reserved: entry("\xd6\x04")},
		{name: "a name that is too long", reserved: entry("S"), plain: []header{h(long, "1")}},
		{name: "a void with a value", reserved: entry("V"), plain: []header{h("a", "")}},
		{name: "a text that is null", reserved: entry("S"), plain: []header{{Key: "a"}}},
		{name: "an int that is null", reserved: entry("I"), plain: []header{{Key: "a"}}},
		{name: "no int", reserved: entry("I"), plain: []header{h("a", "one")}},
		{name: "an empty int", reserved: entry("I"), plain: []header{h("a", "")}},
		{name: "a long int", reserved: entry("I"), plain: []header{h("a", strings.Repeat("0", 40))}},
		{name: "int8 over its range", reserved: entry("b"), plain: []header{h("a", "128")}},
		{name: "int8 under its range", reserved: entry("b"), plain: []header{h("a", "-129")}},
		{name: "uint8 over its range", reserved: entry("B"), plain: []header{h("a", "256")}},
		{name: "uint32 under its range", reserved: entry("i"), plain: []header{h("a", "-1")}},
		{name: "int64 over its range", reserved: entry("l"), plain: []header{h("a", "9223372036854775808")}},
		{name: "no bool", reserved: entry("t"), plain: []header{h("a", "TRUE")}},
		{name: "no float", reserved: entry("f"), plain: []header{h("a", "1,5")}},
		{name: "a float over its range", reserved: entry("f"), plain: []header{h("a", "1e39")}},
		{name: "a long double", reserved: entry("d"), plain: []header{h("a", "0."+strings.Repeat("0", 40))}},
		{name: "no decimal", reserved: entry("D"), plain: []header{h("a", "1e3")}},
		{name: "an empty decimal", reserved: entry("D"), plain: []header{h("a", "-")}},
		{name: "a decimal with two points", reserved: entry("D"), plain: []header{h("a", "1.2.3")}},
		{name: "a decimal that ends in its point", reserved: entry("D"), plain: []header{h("a", "1.")}},
		{name: "a decimal that begins with its point", reserved: entry("D"), plain: []header{h("a", ".1")}},
		{name: "a decimal over its range", reserved: entry("D"), plain: []header{h("a", "2147483648")}},
		{name: "a decimal of 256 places", reserved: entry("D"), plain: []header{h("a", "0."+strings.Repeat("0", 256))}},
		{name: "no timestamp", reserved: entry("T"), plain: []header{h("a", "2025-13-02T00:45:00Z")}},
		{name: "a timestamp before 1970", reserved: entry("T"), plain: []header{h("a", "1969-12-31T23:59:59Z")}},
		{name: "a negative timestamp", reserved: entry("T"), plain: []header{h("a", "-1")}},
		{name: "a long timestamp", reserved: entry("T"), plain: []header{h("a", strings.Repeat("0", 40))}},
	} {
		t.Run(k.name, func(t *testing.T) {
			in := mappingcases.Record{Key: k.key, Value: []byte("value"), Time: mappingcases.Time, Headers: append([]header{h(message.ReservedHeader, k.reserved)}, k.plain...)}
			rec, ts := produce(t, in)
			var c message.Converter
			var d message.Delivered
			if err := c.ToAMQP(rec, ts, here, &d); err != nil {
				t.Fatal(err)
			}
			var p message.Properties
			if err := p.Parse(d.Properties); err != nil {
				t.Fatal(err)
			}
			v, ok := p.Headers.Get(message.ReservedHeader)
			if s, isBytes := v.Bytes(); !ok || !isBytes || string(s) != k.reserved {
				t.Errorf("the reserved header was taken as one: %s", show(d.Properties))
			}
			if string(d.RoutingKey) != mappingcases.Topic || len(d.Exchange) > 0 || string(d.Body) != "value" {
				t.Errorf("exchange %q, routing key %q, body %q", d.Exchange, d.RoutingKey, d.Body)
			}
		})
	}
}

// deepFields returns the fields of a table in which tables lie as deep in each other, under empty names: 6 bytes a level.
func deepFields(depth int) string {
	inner := ""
	for range depth {
		inner = "\x00F" + string(binary.BigEndian.AppendUint32(nil, uint32(len(inner)))) + inner
	}
	return inner
}

// TestDeepestHeadersComeBack publishes headers that are nested as deep as any may be.
func TestDeepestHeadersComeBack(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		depth int
		taken bool
	}{{message.TableDepthMax - 1, true}, {message.TableDepthMax, false}} {
		inner := deepFields(k.depth)
		in := &message.Published{RoutingKey: []byte(mappingcases.Topic), Body: []byte{1}}
		in.Properties = append(binary.BigEndian.AppendUint32([]byte{0x20, 0}, uint32(len(inner))), inner...)
		var c message.Converter
		b := record.NewBuilder()
		if err := c.AppendAMQP(b, 1, in); (err == nil) != k.taken {
			t.Fatalf("%d tables in the headers: %v", k.depth, err)
		}
		if !k.taken {
			continue
		}
		rec, ts := only(t, b)
		var d message.Delivered
		if err := c.ToAMQP(rec, ts, here, &d); err != nil {
			t.Fatal(err)
		}
		sameMessage(t, &d, in)
	}
}
