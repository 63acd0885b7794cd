// Package message is the neutral message: what a message of one protocol becomes as a record of the log, and what a record becomes in the other
// protocols. docs/mapping.md says the same in words for users; the table of cases in package mappingcases holds both to it.
//
// What it promises:
//
//   - Home is lossless. A message that enters by AMQP and leaves by AMQP has the same property list, byte for byte: field types, order, repeated names,
//     nested tables, numbers that no text can carry. Exchange and routing key come back too.
//   - Abroad is useful. What a client of another protocol would look for is a header of the name it knows, as text or JSON.
//   - No record makes it panic or fail, whoever wrote it. A reserved header that does not fit its record is an ordinary header.
//   - Publishing and delivering a message without exotic headers allocates nothing.
//
// What it does not do: it routes nothing, counts nothing and checks no rights; it does not know what a queue is. Records are not converted for Kafka
// clients at all: they read the batch as it lies.
//
// Start with convert.go (the two directions of AMQP) and reserved.go (the layout of the reserved header); table.go, build.go and equal.go are AMQP field
// tables, properties.go is the property list of a content header, text.go what a field value looks like to Kafka, moved.go the mark of a record that
// was appended again.
//
// The front-ends, the exchanges and the queues call it.
package message
