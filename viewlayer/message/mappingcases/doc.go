// Package mappingcases is the table that says what a message of AMQP or Kafka is to a client of AMQP and of Kafka: messages with everything that a protocol has,
// and what comes out, written out by hand. docs/mapping.md is the same table in words.
//
// It is a package and not a test so that it can be held against the converter as well as against a running broker with real clients. Only tests import it.
// What is expected is encoded here (field.go) and not by package message, so that an error there cannot hide.
//
// Start with FromAMQP (amqp.go) and FromKafka (kafka.go).
package mappingcases

import "polylog/viewlayer/message"

// The place where every record of the table lies.
const (
	Topic     = "orders"
	Partition = 3
	Offset    = 42
	Time      = 1764636300123 // 2025-12-02T00:45:00.123Z, when the record was appended or its producer says it was made
)

// AMQP is a message as an AMQP client publishes or gets it.
type AMQP struct {
	Exchange   string
	RoutingKey string
	Properties message.Properties
	Body       string
}

// Header is a header of a record. A nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record as a Kafka client produces or fetches it. A nil Key or Value is null.
type Record struct {
	Key, Value []byte
	Headers    []Header // without the reserved one
	Time       int64    // milliseconds
}

// AMQPCase is a message that an AMQP client publishes. To AMQP it comes out as it went in.
type AMQPCase struct {
	Name    string
	In      AMQP
	Kafka   Record
	OnlyRaw bool // no client library writes or reads all of it: types and bytes that only raw frames can carry
}

// KafkaCase is a record that a Kafka client produces. To Kafka it comes out as it went in.
type KafkaCase struct {
	Name     string
	In       Record
	Retained bool // the topic keeps what was settled
	AMQP     AMQP
}
