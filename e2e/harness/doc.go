// Package harness runs brokers for tests and measurements: the real polylog binary, and the brokers it is compared with (RabbitMQ, Apache Kafka).
//
// A broker runs as a process of its own on ports that were free, with a data directory of its own, so any number of tests can run at once. The binary is
// built once per process that asks for it. A broker counts as started when it says itself that it serves, never after a pause. What it prints is kept, and
// shown when the test fails.
//
// The package ends only processes that it started. A broker does not outlive the process that started it, even if that is killed.
//
// A cluster is several of them (cluster.go), each in a network namespace of its own if a test wants to cut what connects them (netns.go).
//
// Start reading at Start (in a test) or Launch (in a program); Await is how a test waits for anything.
package harness
