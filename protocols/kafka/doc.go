// Package kafka serves the Kafka protocol: bytes on the wire become calls on the views, and what those say becomes bytes again. What a topic, a group or a
// producer is, the views decide; here is only how Kafka asks for it.
//
// It promises:
//   - Every version of every request that ApiVersions names is served (versions.go is the one table).
//   - Requests of one connection are answered in their order, however many are in flight and whichever is ready first.
//   - A produce that wants an acknowledgement is answered when its records are as durable as the log's sync policy says.
//   - A client holds bounded memory (Limits), whatever it sends and however slowly it reads: a connection that has reached its bounds is not read from.
//   - Where several nodes serve the same log, a client may ask any of them for any partition. What one of them has acknowledged or given out, no other calls unknown, out of order
//     or out of range, however far it is behind.
//   - Bytes that are no request end their connection and harm no other.
//
// It does not: convert to the record formats before v2, keep transactions, or change what a batch contains (log append time excepted, which is in its header).
//
// Where to begin: server.go and connection.go (frames in, answers out, in order), call.go (one request), then one file for each request, named by its key.
// fetchread.go and fetchsession.go are what a fetch reads and remembers; brokers.go (who leads and coordinates what) and catchup.go are about several nodes; errors.go is the one table from the views' errors to Kafka's codes. Package wire has the
// parts of the format that are decoded or encoded by hand.
package kafka
