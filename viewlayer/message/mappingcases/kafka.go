package mappingcases

import (
	"strings"

	"polylog/viewlayer/message"
)

// got is what AMQP gets of a record: the topic's name as routing key, and the headers that say where the record lies, in front of the others.
func got(body string, p message.Properties, before []Field, after ...Field) AMQP {
	fields := append(before[:len(before):len(before)], Field{"x-partition", int64(Partition)}, Field{"x-timestamp-ms", int64(Time)})
	p.Flags |= message.FlagHeaders | message.FlagTimestamp
	p.Headers = Table(append(fields, after...)...)
	p.Timestamp = Time / 1000
	return AMQP{RoutingKey: Topic, Properties: p, Body: body}
}

// FromKafka returns the records that a Kafka client produces.
func FromKafka() []KafkaCase {
	value := []byte("value")
	none := message.Properties{}
	record := func(headers ...Header) Record { return Record{Value: value, Headers: headers, Time: Time} }
	long := strings.Repeat("ö", 128) // 256 bytes
	b := func(s string) []byte { return []byte(s) }
	return []KafkaCase{
		{Name: "value", In: record(), AMQP: got("value", none, nil)},
		{Name: "empty value", In: Record{Value: []byte{}, Time: Time}, AMQP: got("", none, nil)},
		{Name: "key", In: Record{Key: b("k"), Value: value, Time: Time}, AMQP: got("value", none, []Field{{"x-record-key", "k"}})},
		{Name: "empty key", In: Record{Key: []byte{}, Value: value, Time: Time}, AMQP: got("value", none, []Field{{"x-record-key", ""}})},
		{Name: "key that is no text", In: Record{Key: b("\xff"), Value: value, Time: Time}, AMQP: got("value", none, []Field{{"x-record-key", b("\xff")}})},
		{Name: "tombstone", In: Record{Key: b("k"), Time: Time}, AMQP: got("", none, []Field{{"x-record-key", "k"}}, Field{"x-tombstone", true})},
		{Name: "retained", In: record(), Retained: true, AMQP: got("value", none, []Field{{"x-stream-offset", int64(Offset)}})},
		{
			Name: "headers",
			In:   record(h("text", "größe"), Header{"bytes", b("\xff\x00")}, Header{"null", nil}, h("", "empty name"), h("number", "42")),
			AMQP: got("value", none, nil, Field{"text", "größe"}, Field{"bytes", b("\xff\x00")}, Field{"null", nil}, Field{"", "empty name"}, Field{"number", "42"}),
		},
		{
			Name: "repeated headers",
			In:   record(h("a", "1"), h("b", "2"), Header{"a", nil}, Header{"a", b("\xff")}),
			AMQP: got("value", none, nil, Field{"a", Array{"1", nil, b("\xff")}}, Field{"b", "2"}),
		},
		{
			Name: "headers that are properties",
			In: record(h("content-type", "application/json"), h("content-encoding", "gzip"), h("other", "o"), h("correlation-id", "c"), h("reply-to", "r"),
				h("message-id", "m"), h("type", "t"), h("app-id", "")),
			AMQP: got("value", message.Properties{
				Flags: message.FlagContentType | message.FlagContentEncoding | message.FlagCorrelationID | message.FlagReplyTo | message.FlagMessageID |
					message.FlagType | message.FlagAppID,
				ContentType: b("application/json"), ContentEncoding: b("gzip"), CorrelationID: b("c"), ReplyTo: b("r"), MessageID: b("m"), Type: b("t"),
			}, nil, Field{"other", "o"}),
		},
		{
			Name: "headers that no property can hold",
			In:   record(h("content-type", long), Header{"message-id", nil}, Header{"correlation-id", b("\xff")}, h("type", "1"), h("type", "2"), h("user-id", "root"), h("priority", "9")),
			AMQP: got("value", none, nil, Field{"content-type", long}, Field{"message-id", nil}, Field{"correlation-id", b("\xff")}, Field{"type", Array{"1", "2"}},
				Field{"user-id", "root"}, Field{"priority", "9"}),
		},
		{
			Name: "headers that the broker says itself",
			In: Record{Key: b("k"), Value: value, Time: Time, Headers: []Header{h("x-record-key", "other"), h("x-partition", "9"), h("x-timestamp-ms", "1"), h("x-tombstone", "yes"),
				h("x-stream-offset", "7")}},
			AMQP: got("value", none, []Field{{"x-record-key", "k"}}, Field{"x-tombstone", "yes"}, Field{"x-stream-offset", "7"}),
		},
		{
			Name: "header names that are too long",
			In:   record(h(long, "1"), h(strings.Repeat("x", 300), "2"), Header{strings.Repeat("x", 255), b("3")}),
			AMQP: got("value", none, nil, Field{strings.Repeat("ö", 127), "1"}, Field{strings.Repeat("x", 255), Array{"2", "3"}}),
		},
		{Name: "damaged reserved header", In: record(h("_amqp", "\x10"), h("a", "1")), AMQP: got("value", none, nil, Field{"_amqp", "\x10"}, Field{"a", "1"})},
		{Name: "reserved header of another version", In: record(Header{"_amqp", b("\xf4")}), AMQP: got("value", none, nil, Field{"_amqp", b("\xf4")})},
		{Name: "reserved header not in front", In: record(h("a", "1"), h("_amqp", "\x14")), AMQP: got("value", none, nil, Field{"a", "1"}, Field{"_amqp", "\x14"})},
		{Name: "reserved header that fits", In: record(Header{"_amqp", b("\x14")}), AMQP: AMQP{RoutingKey: Topic, Body: "value"}}, // a copy of a message, or as good as one
		{Name: "reserved header that fits no tombstone", In: Record{Headers: []Header{{"_amqp", b("\x14")}}, Time: Time},
			AMQP: got("", none, nil, Field{"x-tombstone", true}, Field{"_amqp", "\x14"})},
		{
			Name: "no time",
			In:   Record{Value: value, Time: -1},
			AMQP: AMQP{RoutingKey: Topic, Body: "value", Properties: message.Properties{Flags: message.FlagHeaders, Headers: Table(Field{"x-partition", int64(Partition)})}},
		},
		{
			Name: "time before 1970",
			In:   Record{Value: value, Time: -1500},
			AMQP: AMQP{RoutingKey: Topic, Body: "value", Properties: message.Properties{Flags: message.FlagHeaders,
				Headers: Table(Field{"x-partition", int64(Partition)}, Field{"x-timestamp-ms", int64(-1500)})}},
		},
	}
}
