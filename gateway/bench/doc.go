// Package bench drives brokers that it reaches by address and says how fast they are: Polylog, or another one that speaks AMQP 0-9-1 or Kafka. It is
// what `polylog bench amqp`, `polylog bench kafka` and `polylog bench lag` run.
//
// A load has producers and consumers, each with a connection of its own, and messages that carry who sent them, their number and the time. So one run says how many
// messages went through in a second, how long they took to be confirmed and to be delivered, what processor time that cost the broker and the driver,
// and that nothing is missing: each confirmed message must arrive, and what arrives twice is counted.
//
// A broker may have several nodes: clients are then spread over them, messages cross from one to another, and the processor time is that of all. How long after one node's
// acknowledgement another one has a record is measured by itself (lag.go).
//
// It promises: the broker is used through its protocol alone, as clients use it; queues and topics are made for the run and removed after it;
// the driver holds back as a careful client does (a bounded window of unconfirmed messages, a bounded prefetch). It judges nothing beyond comparing a ratio with a target.
//
// Start with load.go (what can be asked for) and run.go (how a round goes); broker.go is what a protocol must bring along, amqp.go and kafka.go bring it; nodes.go deals out clients to nodes. compare.go has two brokers take turns.
// docs/benchmarks.md says how to read the results.
package bench
