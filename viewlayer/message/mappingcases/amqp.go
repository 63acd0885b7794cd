package mappingcases

import (
	"math"
	"strings"

	"polylog/viewlayer/message"
)

// h is a header of text.
func h(key, value string) Header { return Header{key, []byte(value)} }

// toQueue is a message to the queue Topic by the default exchange.
func toQueue(p message.Properties) AMQP {
	return AMQP{RoutingKey: Topic, Properties: p, Body: "body"}
}

// seen is what Kafka sees of toQueue.
func seen(headers ...Header) Record {
	return Record{Value: []byte("body"), Headers: headers, Time: Time}
}

// withHeaders is a message with nothing but headers.
func withHeaders(fields ...Field) AMQP {
	return toQueue(message.Properties{Flags: message.FlagHeaders, Headers: Table(fields...)})
}

// FromAMQP returns the messages that an AMQP client publishes.
func FromAMQP() []AMQPCase {
	cases := []AMQPCase{
		{Name: "no properties", In: toQueue(message.Properties{}), Kafka: seen()},
		{Name: "empty body", In: AMQP{RoutingKey: Topic}, Kafka: Record{Value: []byte{}, Time: Time}},
	}
	cases = append(cases, singleProperties()...)
	cases = append(cases, AMQPCase{
		Name: "all properties",
		In: AMQP{Exchange: "billing", RoutingKey: "orders.new", Body: "body", Properties: message.Properties{
			Flags: message.FlagContentType | message.FlagContentEncoding | message.FlagHeaders | message.FlagDeliveryMode | message.FlagPriority |
				message.FlagCorrelationID | message.FlagReplyTo | message.FlagExpiration | message.FlagMessageID | message.FlagTimestamp |
				message.FlagType | message.FlagUserID | message.FlagAppID | message.FlagClusterID,
			ContentType: []byte("application/json"), ContentEncoding: []byte("gzip"), Headers: Table(Field{"region", "eu"}, Field{"tries", int32(2)}),
			DeliveryMode: 2, Priority: 9, CorrelationID: []byte("c-1"), ReplyTo: []byte("amq.gen-1"), Expiration: []byte("60000"),
			MessageID: []byte("m-1"), Timestamp: 1764636300, Type: []byte("order"), UserID: []byte("guest"), AppID: []byte("shop"),
			ClusterID: []byte("cluster"),
		}},
		Kafka: Record{Key: []byte("orders.new"), Value: []byte("body"), Time: Time, Headers: []Header{
			h("region", "eu"), h("tries", "2"),
			h("content-type", "application/json"), h("content-encoding", "gzip"), h("correlation-id", "c-1"), h("reply-to", "amq.gen-1"),
			h("message-id", "m-1"), h("type", "order"), h("app-id", "shop"),
		}},
	})
	cases = append(cases, fieldTypes()...)
	cases = append(cases, oddHeaders()...)
	return append(cases, keys()...)
}

// singleProperties has every property alone, as text and empty.
func singleProperties() []AMQPCase {
	b := func(s string) []byte { return []byte(s) }
	return []AMQPCase{
		{Name: "content-type", In: toQueue(message.Properties{Flags: message.FlagContentType, ContentType: b("text/plain")}), Kafka: seen(h("content-type", "text/plain"))},
		{Name: "content-encoding", In: toQueue(message.Properties{Flags: message.FlagContentEncoding, ContentEncoding: b("utf-8")}), Kafka: seen(h("content-encoding", "utf-8"))},
		{Name: "no headers", In: withHeaders(), Kafka: seen()},
		{Name: "delivery-mode", In: toQueue(message.Properties{Flags: message.FlagDeliveryMode, DeliveryMode: 2}), Kafka: seen()},
		{Name: "transient", In: toQueue(message.Properties{Flags: message.FlagDeliveryMode, DeliveryMode: 1}), Kafka: seen()},
		{Name: "unknown delivery-mode", In: toQueue(message.Properties{Flags: message.FlagDeliveryMode, DeliveryMode: 255}), Kafka: seen()},
		{Name: "priority", In: toQueue(message.Properties{Flags: message.FlagPriority, Priority: 7}), Kafka: seen()},
		{Name: "correlation-id", In: toQueue(message.Properties{Flags: message.FlagCorrelationID, CorrelationID: b("c-1")}), Kafka: seen(h("correlation-id", "c-1"))},
		{Name: "reply-to", In: toQueue(message.Properties{Flags: message.FlagReplyTo, ReplyTo: b("answers")}), Kafka: seen(h("reply-to", "answers"))},
		{Name: "expiration", In: toQueue(message.Properties{Flags: message.FlagExpiration, Expiration: b("1000")}), Kafka: seen()},
		{Name: "message-id", In: toQueue(message.Properties{Flags: message.FlagMessageID, MessageID: b("m-1")}), Kafka: seen(h("message-id", "m-1"))},
		{Name: "timestamp", In: toQueue(message.Properties{Flags: message.FlagTimestamp, Timestamp: 1764636300}), Kafka: seen()},
		{Name: "timestamp beyond all calendars", In: toQueue(message.Properties{Flags: message.FlagTimestamp, Timestamp: math.MaxUint64}), Kafka: seen(), OnlyRaw: true},
		{Name: "type", In: toQueue(message.Properties{Flags: message.FlagType, Type: b("order")}), Kafka: seen(h("type", "order"))},
		{Name: "user-id", In: toQueue(message.Properties{Flags: message.FlagUserID, UserID: b("guest")}), Kafka: seen()},
		{Name: "app-id", In: toQueue(message.Properties{Flags: message.FlagAppID, AppID: b("shop")}), Kafka: seen(h("app-id", "shop"))},
		{Name: "cluster-id", In: toQueue(message.Properties{Flags: message.FlagClusterID, ClusterID: b("cluster")}), Kafka: seen(), OnlyRaw: true},
		{Name: "empty message-id", In: toQueue(message.Properties{Flags: message.FlagMessageID}), Kafka: seen(h("message-id", "")), OnlyRaw: true},
		{
			Name:    "longest message-id",
			In:      toQueue(message.Properties{Flags: message.FlagMessageID, MessageID: b(strings.Repeat("m", 255))}),
			Kafka:   seen(h("message-id", strings.Repeat("m", 255))),
			OnlyRaw: false,
		},
		{
			Name:    "message-id that is no text",
			In:      toQueue(message.Properties{Flags: message.FlagMessageID, MessageID: b("\xff\x00\xfe")}),
			Kafka:   seen(h("message-id", "\xff\x00\xfe")),
			OnlyRaw: true,
		},
		{Name: "the flag without a meaning", In: toQueue(message.Properties{Flags: 2}), Kafka: seen(), OnlyRaw: true},
	}
}

// fieldTypes has a headers entry of every type.
func fieldTypes() []AMQPCase {
	return []AMQPCase{
		{Name: "true", In: withHeaders(Field{"k", true}), Kafka: seen(h("k", "true"))},
		{Name: "false", In: withHeaders(Field{"k", false}), Kafka: seen(h("k", "false"))},
		{Name: "a boolean of 2", In: withHeaders(Field{"k", Raw("t\x02")}), Kafka: seen(h("k", "true")), OnlyRaw: true},
		{Name: "int8", In: withHeaders(Field{"k", int8(-128)}), Kafka: seen(h("k", "-128")), OnlyRaw: true},
		{Name: "uint8", In: withHeaders(Field{"k", uint8(255)}), Kafka: seen(h("k", "255")), OnlyRaw: true},
		{Name: "int16", In: withHeaders(Field{"k", int16(-32768)}), Kafka: seen(h("k", "-32768"))},
		{Name: "int16 of the specification", In: withHeaders(Field{"k", Raw("U\x7f\xff")}), Kafka: seen(h("k", "32767")), OnlyRaw: true},
		{Name: "uint16", In: withHeaders(Field{"k", uint16(65535)}), Kafka: seen(h("k", "65535")), OnlyRaw: true},
		{Name: "int32", In: withHeaders(Field{"k", int32(42)}), Kafka: seen(h("k", "42"))},
		{Name: "smallest int32", In: withHeaders(Field{"k", int32(math.MinInt32)}), Kafka: seen(h("k", "-2147483648"))},
		{Name: "uint32", In: withHeaders(Field{"k", uint32(math.MaxUint32)}), Kafka: seen(h("k", "4294967295")), OnlyRaw: true},
		{Name: "int64", In: withHeaders(Field{"k", int64(math.MinInt64)}), Kafka: seen(h("k", "-9223372036854775808"))},
		{Name: "int64 of the specification", In: withHeaders(Field{"k", Raw("L\x00\x00\x00\x00\x00\x00\x00\x07")}), Kafka: seen(h("k", "7")), OnlyRaw: true},
		{Name: "float", In: withHeaders(Field{"k", float32(0.1)}), Kafka: seen(h("k", "0.1"))},
		{Name: "double", In: withHeaders(Field{"k", 0.1}), Kafka: seen(h("k", "0.1"))},
		{Name: "whole double", In: withHeaders(Field{"k", 1.0}), Kafka: seen(h("k", "1"))},
		{Name: "large double", In: withHeaders(Field{"k", 1e300}), Kafka: seen(h("k", "1e+300"))},
		{Name: "smallest double", In: withHeaders(Field{"k", math.SmallestNonzeroFloat64}), Kafka: seen(h("k", "5e-324"))},
		{Name: "negative zero", In: withHeaders(Field{"k", math.Copysign(0, -1)}), Kafka: seen(h("k", "-0"))},
		{Name: "infinity", In: withHeaders(Field{"k", math.Inf(1)}), Kafka: seen(h("k", "Infinity"))},
		{Name: "negative infinity", In: withHeaders(Field{"k", float32(math.Inf(-1))}), Kafka: seen(h("k", "-Infinity"))},
		{Name: "no number", In: withHeaders(Field{"k", math.Float64frombits(0x7ff8000000000000)}), Kafka: seen(h("k", "NaN"))},
		{Name: "no number of another kind", In: withHeaders(Field{"k", math.Float64frombits(0xfff0000000000001)}), Kafka: seen(h("k", "NaN")), OnlyRaw: true},
		{Name: "no short number of another kind", In: withHeaders(Field{"k", Raw("f\x7f\x80\x00\x01")}), Kafka: seen(h("k", "NaN")), OnlyRaw: true},
		{Name: "decimal", In: withHeaders(Field{"k", Decimal{2, 1234}}), Kafka: seen(h("k", "12.34"))},
		{Name: "small decimal", In: withHeaders(Field{"k", Decimal{4, -5}}), Kafka: seen(h("k", "-0.0005"))},
		{Name: "whole decimal", In: withHeaders(Field{"k", Decimal{0, 7}}), Kafka: seen(h("k", "7"))},
		{Name: "decimal with zeros", In: withHeaders(Field{"k", Decimal{3, 1000}}), Kafka: seen(h("k", "1.000"))},
		{Name: "most negative decimal", In: withHeaders(Field{"k", Decimal{10, math.MinInt32}}), Kafka: seen(h("k", "-0.2147483648"))},
		{Name: "timestamp in headers", In: withHeaders(Field{"k", Timestamp(1764636300)}), Kafka: seen(h("k", "2025-12-02T00:45:00Z"))},
		{Name: "timestamp zero", In: withHeaders(Field{"k", Timestamp(0)}), Kafka: seen(h("k", "1970-01-01T00:00:00Z"))},
		{Name: "timestamp after 9999", In: withHeaders(Field{"k", Timestamp(253402300800)}), Kafka: seen(h("k", "253402300800")), OnlyRaw: true},
		{Name: "largest timestamp", In: withHeaders(Field{"k", Timestamp(math.MaxUint64)}), Kafka: seen(h("k", "18446744073709551615")), OnlyRaw: true},
		{Name: "text", In: withHeaders(Field{"k", "größe"}), Kafka: seen(h("k", "größe"))},
		{Name: "empty text", In: withHeaders(Field{"k", ""}), Kafka: seen(h("k", ""))},
		{Name: "text like a number", In: withHeaders(Field{"k", "42"}), Kafka: seen(h("k", "42"))},
		{Name: "text like JSON", In: withHeaders(Field{"k", `{"a":1}`}), Kafka: seen(h("k", `{"a":1}`))},
		{Name: "text that is none", In: withHeaders(Field{"k", "\xc3\x28\x00"}), Kafka: seen(h("k", "\xc3\x28\x00")), OnlyRaw: true},
		{Name: "bytes", In: withHeaders(Field{"k", []byte{0, 1, 0xff}}), Kafka: seen(h("k", "\x00\x01\xff"))},
		{Name: "void", In: withHeaders(Field{"k", nil}), Kafka: seen(Header{"k", nil})},
		{Name: "empty array", In: withHeaders(Field{"k", Array{}}), Kafka: seen(h("k", "[]"))},
		{Name: "empty table", In: withHeaders(Field{"k", Fields{}}), Kafka: seen(h("k", "{}"))},
		{
			Name:  "array",
			In:    withHeaders(Field{"k", Array{int32(1), "two", true, nil, 0.5, Array{int64(3)}}}),
			Kafka: seen(h("k", `[1,"two",true,null,0.5,[3]]`)),
		},
		{
			Name: "table with everything",
			In: withHeaders(Field{"k", Fields{
				{"n", int16(1)}, {"f", float32(0.25)}, {"nan", math.NaN()}, {"inf", math.Inf(-1)}, {"d", Decimal{1, 15}}, {"t", Timestamp(1764636300)},
				{"s", "a\"\\\n\t\r\x01\x7fö"}, {"x", []byte{0xff, 0}}, {"v", nil}, {"F", Fields{{"in", Array{false}}}}, {"n", int16(2)},
			}}),
			Kafka: seen(h("k", `{"n":1,"f":0.25,"nan":"NaN","inf":"-Infinity","d":1.5,"t":"2025-12-02T00:45:00Z",`+
				`"s":"a\"\\\n\t\r\u0001\u007fö","x":"/wA=","v":null,"F":{"in":[false]},"n":2}`)),
			OnlyRaw: true,
		},
		{
			Name:    "table with names and texts that are none",
			In:      withHeaders(Field{"k", Fields{{"\xff", "\xfe\xff"}, {"", "ok"}}}),
			Kafka:   seen(h("k", `{"�":"��","":"ok"}`)),
			OnlyRaw: true,
		},
		{
			Name: "dead letter history",
			In: withHeaders(Field{"x-death", Array{Fields{
				{"count", int64(1)}, {"reason", "expired"}, {"queue", "q"}, {"time", Timestamp(1764636300)}, {"exchange", ""}, {"routing-keys", Array{"q"}},
			}}}),
			Kafka: seen(h("x-death", `[{"count":1,"reason":"expired","queue":"q","time":"2025-12-02T00:45:00Z","exchange":"","routing-keys":["q"]}]`)),
		},
	}
}

// oddHeaders has headers whose names or order are a trap.
func oddHeaders() []AMQPCase {
	long := strings.Repeat("n", 255)
	return []AMQPCase{
		{Name: "order", In: withHeaders(Field{"b", "1"}, Field{"a", "2"}, Field{"c", "3"}), Kafka: seen(h("b", "1"), h("a", "2"), h("c", "3")), OnlyRaw: true},
		{Name: "a name twice", In: withHeaders(Field{"a", "1"}, Field{"a", int32(1)}), Kafka: seen(h("a", "1"), h("a", "1")), OnlyRaw: true},
		{Name: "empty name", In: withHeaders(Field{"", "1"}), Kafka: seen(h("", "1")), OnlyRaw: true},
		{Name: "longest name", In: withHeaders(Field{long, "1"}), Kafka: seen(h(long, "1"))},
		{Name: "name that is no text", In: withHeaders(Field{"a\xffb", int32(1)}), Kafka: seen(h("a�b", "1")), OnlyRaw: true},
		{Name: "name and value that are no text", In: withHeaders(Field{"\xff", Raw("t\x07")}), Kafka: seen(h("�", "true")), OnlyRaw: true},
		{
			Name: "named as a property",
			In: toQueue(message.Properties{Flags: message.FlagContentType | message.FlagHeaders, ContentType: []byte("real"),
				Headers: Table(Field{"content-type", "mine"}, Field{"message-id", int32(1)})}),
			Kafka: seen(h("content-type", "mine"), h("message-id", "1"), h("content-type", "real")), // so the last one is the property
		},
		{
			Name:  "named as the reserved headers",
			In:    withHeaders(Field{"_amqp", "\x10"}, Field{"_moved", "\x01\x00\x00\x00"}, Field{"_amqp", nil}),
			Kafka: seen(h("_amqp", "\x10"), h("_moved", "\x01\x00\x00\x00"), Header{"_amqp", nil}), OnlyRaw: true,
		},
		{
			Name: "named as what the broker says",
			In: withHeaders(Field{"x-stream-offset", int64(7)}, Field{"x-partition", "p"}, Field{"x-timestamp-ms", int64(1)}, Field{"x-delivery-count", int64(3)},
				Field{"x-acquired-count", int64(9)}),
			Kafka: seen(h("x-stream-offset", "7"), h("x-partition", "p"), h("x-timestamp-ms", "1"), h("x-delivery-count", "3"), h("x-acquired-count", "9")),
		},
	}
}

// keys has what decides over the record's key.
func keys() []AMQPCase {
	keyed := func(key []byte, m AMQP, headers ...Header) AMQPCase {
		return AMQPCase{In: m, Kafka: Record{Key: key, Value: []byte("body"), Headers: headers, Time: Time}}
	}
	named := func(name string, c AMQPCase) AMQPCase { c.Name = name; return c }
	via := func(exchange, key string, m AMQP) AMQP { m.Exchange, m.RoutingKey = exchange, key; return m }
	raw := func(c AMQPCase) AMQPCase { c.OnlyRaw = true; return c }
	plain := toQueue(message.Properties{})
	return []AMQPCase{
		named("routing key of a named exchange", keyed([]byte("eu.new"), via("orders-ex", "eu.new", plain))),
		named("empty routing key", keyed(nil, via("fan", "", plain))),
		named("routing key that is no text", raw(keyed([]byte("\xff\xfe"), via("ex", "\xff\xfe", plain)))),
		named("record key", keyed([]byte("customer-7"), withHeaders(Field{"a", "1"}, Field{"x-record-key", "customer-7"}, Field{"b", "2"}), h("a", "1"), h("b", "2"))),
		named("record key of bytes", keyed([]byte{0xff, 0}, withHeaders(Field{"x-record-key", []byte{0xff, 0}}))),
		named("empty record key", keyed([]byte{}, withHeaders(Field{"x-record-key", ""}))),
		named("record key of a number", keyed([]byte("42"), withHeaders(Field{"x-record-key", int32(42)}))),
		named("record key of a table", keyed([]byte(`{"a":1}`), withHeaders(Field{"x-record-key", Fields{{"a", int32(1)}}}))),
		named("record key void", keyed(nil, withHeaders(Field{"x-record-key", nil}), Header{"x-record-key", nil})),
		named("record key twice", raw(keyed([]byte("1"), withHeaders(Field{"x-record-key", "1"}, Field{"x-record-key", "2"}), h("x-record-key", "2")))),
		named("record key and routing key", keyed([]byte("k"), via("ex", "r", withHeaders(Field{"x-record-key", "k"})))),
		named("record key and empty routing key", keyed([]byte("k"), via("ex", "", withHeaders(Field{"x-record-key", "k"})))),
		named("copies to other queues", keyed(nil, via("", "elsewhere", withHeaders(Field{"CC", Array{"orders"}})), h("CC", `["orders"]`))),
	}
}
