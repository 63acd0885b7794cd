package main

// class is one class of AMQP 0-9-1, with RabbitMQ's extensions.
type class struct {
	id      uint16
	name    string // as the specification writes it
	methods []method
}

// method is one method. Its fields are "name type" in the order of the wire; a name of "_" is a reserved field, which is sent as zero and not looked at. Bits that follow one
// another share octets.
type method struct {
	id      uint16
	name    string
	content bool // a content header and body follow
	fields  []string
}

// The types: octet, short, long, longlong (unsigned, big-endian), bit, shortstr (up to 255 bytes), longstr, table (raw, with its length).
var classes = []class{
	{10, "connection", []method{
		{10, "start", false, []string{"version-major octet", "version-minor octet", "server-properties table", "mechanisms longstr", "locales longstr"}},
		{11, "start-ok", false, []string{"client-properties table", "mechanism shortstr", "response longstr", "locale shortstr"}},
		{20, "secure", false, []string{"challenge longstr"}},
		{21, "secure-ok", false, []string{"response longstr"}},
		{30, "tune", false, []string{"channel-max short", "frame-max long", "heartbeat short"}},
		{31, "tune-ok", false, []string{"channel-max short", "frame-max long", "heartbeat short"}},
		{40, "open", false, []string{"virtual-host shortstr", "_ shortstr", "_ bit"}},
		{41, "open-ok", false, []string{"_ shortstr"}},
		{50, "close", false, []string{"reply-code short", "reply-text shortstr", "class-id short", "method-id short"}},
		{51, "close-ok", false, nil},
		{60, "blocked", false, []string{"reason shortstr"}},
		{61, "unblocked", false, nil},
		{70, "update-secret", false, []string{"new-secret longstr", "reason shortstr"}},
		{71, "update-secret-ok", false, nil},
	}},
	{20, "channel", []method{
		{10, "open", false, []string{"_ shortstr"}},
		{11, "open-ok", false, []string{"_ longstr"}},
		{20, "flow", false, []string{"active bit"}},
		{21, "flow-ok", false, []string{"active bit"}},
		{40, "close", false, []string{"reply-code short", "reply-text shortstr", "class-id short", "method-id short"}},
		{41, "close-ok", false, nil},
	}},
	{30, "access", []method{
		{10, "request", false, []string{"realm shortstr", "exclusive bit", "passive bit", "active bit", "write bit", "read bit"}},
		{11, "request-ok", false, []string{"ticket short"}},
	}},
	{40, "exchange", []method{
		{10, "declare", false, []string{"_ short", "exchange shortstr", "type shortstr", "passive bit", "durable bit", "auto-delete bit", "internal bit", "no-wait bit", "arguments table"}},
		{11, "declare-ok", false, nil},
		{20, "delete", false, []string{"_ short", "exchange shortstr", "if-unused bit", "no-wait bit"}},
		{21, "delete-ok", false, nil},
		{30, "bind", false, []string{"_ short", "destination shortstr", "source shortstr", "routing-key shortstr", "no-wait bit", "arguments table"}},
		{31, "bind-ok", false, nil},
		{40, "unbind", false, []string{"_ short", "destination shortstr", "source shortstr", "routing-key shortstr", "no-wait bit", "arguments table"}},
		{51, "unbind-ok", false, nil},
	}},
	{50, "queue", []method{
		{10, "declare", false, []string{"_ short", "queue shortstr", "passive bit", "durable bit", "exclusive bit", "auto-delete bit", "no-wait bit", "arguments table"}},
		{11, "declare-ok", false, []string{"queue shortstr", "message-count long", "consumer-count long"}},
		{20, "bind", false, []string{"_ short", "queue shortstr", "exchange shortstr", "routing-key shortstr", "no-wait bit", "arguments table"}},
		{21, "bind-ok", false, nil},
		{30, "purge", false, []string{"_ short", "queue shortstr", "no-wait bit"}},
		{31, "purge-ok", false, []string{"message-count long"}},
		{40, "delete", false, []string{"_ short", "queue shortstr", "if-unused bit", "if-empty bit", "no-wait bit"}},
		{41, "delete-ok", false, []string{"message-count long"}},
		{50, "unbind", false, []string{"_ short", "queue shortstr", "exchange shortstr", "routing-key shortstr", "arguments table"}},
		{51, "unbind-ok", false, nil},
	}},
	{60, "basic", []method{
		{10, "qos", false, []string{"prefetch-size long", "prefetch-count short", "global bit"}},
		{11, "qos-ok", false, nil},
		{20, "consume", false, []string{"_ short", "queue shortstr", "consumer-tag shortstr", "no-local bit", "no-ack bit", "exclusive bit", "no-wait bit", "arguments table"}},
		{21, "consume-ok", false, []string{"consumer-tag shortstr"}},
		{30, "cancel", false, []string{"consumer-tag shortstr", "no-wait bit"}},
		{31, "cancel-ok", false, []string{"consumer-tag shortstr"}},
		{40, "publish", true, []string{"_ short", "exchange shortstr", "routing-key shortstr", "mandatory bit", "immediate bit"}},
		{50, "return", true, []string{"reply-code short", "reply-text shortstr", "exchange shortstr", "routing-key shortstr"}},
		{60, "deliver", true, []string{"consumer-tag shortstr", "delivery-tag longlong", "redelivered bit", "exchange shortstr", "routing-key shortstr"}},
		{70, "get", false, []string{"_ short", "queue shortstr", "no-ack bit"}},
		{71, "get-ok", true, []string{"delivery-tag longlong", "redelivered bit", "exchange shortstr", "routing-key shortstr", "message-count long"}},
		{72, "get-empty", false, []string{"_ shortstr"}},
		{80, "ack", false, []string{"delivery-tag longlong", "multiple bit"}},
		{90, "reject", false, []string{"delivery-tag longlong", "requeue bit"}},
		{100, "recover-async", false, []string{"requeue bit"}},
		{110, "recover", false, []string{"requeue bit"}},
		{111, "recover-ok", false, nil},
		{120, "nack", false, []string{"delivery-tag longlong", "multiple bit", "requeue bit"}},
	}},
	{85, "confirm", []method{
		{10, "select", false, []string{"no-wait bit"}},
		{11, "select-ok", false, nil},
	}},
	{90, "tx", []method{
		{10, "select", false, nil},
		{11, "select-ok", false, nil},
		{20, "commit", false, nil},
		{21, "commit-ok", false, nil},
		{30, "rollback", false, nil},
		{31, "rollback-ok", false, nil},
	}},
}
