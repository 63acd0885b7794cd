// Package e2e holds the tests that speak of Polylog as a whole: that the source keeps the order of the house (tidy_test.go), and that the real binary does for
// clients that are not ours what the documents promise. Each file is named by its promise:
//
//	crash_test.go       nothing is lost or forged when the broker is killed, again and again
//	crossing_test.go    what goes in by one protocol comes out by each as the table says
//	taking_test.go      taking messages away: what must never happen, line by line
//	hostile_test.go     a client that misbehaves harms nobody else
//	shutdown_test.go    an orderly end tells clients and loses nothing
//	chaos_test.go       in a cluster nothing is lost or forged either, whatever befalls its nodes and what connects them
//	failover_test.go    a cluster goes on when a node ends; a minority refuses, and catches up
//	join_test.go        nodes come, come back, and are refused
//	promises_test.go    the tests that documents name exist
//
// Beside it: harness (starts, kills and restarts the binary), clients (clients in other languages: make conformance), suites (public test suites), demo (make demo)
// and peerbench (load beside other brokers).
//
// It promises nothing to other packages and nobody imports it. It may import all of them.
package e2e
