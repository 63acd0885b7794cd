// Package amqp serves AMQP 0-9-1 as RabbitMQ speaks it: it turns frames into calls on the views and what the views hand out into frames. No rule about messages lives
// here: which queue gets a message is package exchange's to say, who gets it and what becomes of it package queue's.
//
// What it promises:
//
//   - A message is confirmed once every queue it goes to has it on the disk; confirms of a channel ascend, and each message is answered once.
//   - A synchronous method sees all that its connection sent before it, and its reply means that the acknowledgements of its channel before it are on the disk.
//   - A delivery is in the channel's ledger before its frames leave, so no acknowledgement comes too early; what a channel held when it ends goes back at once.
//   - While there is no majority of the cluster, no client waits for an answer, and none gets one that is not true: a message that is to be confirmed is
//     refused, a synchronous method ends the connection, acknowledgements and messages without confirms wait.
//   - A client that sends garbage, stops in the middle of a frame, or takes nothing, harms its own connection only, and what it makes the broker hold is bounded.
//
// What it does not do: docs/amqp.md lists what is answered with 540 NOT_IMPLEMENTED, and where it deviates from RabbitMQ.
//
// A connection has these goroutines, and each of them one thing to do:
//
//	reader      (connection.go)  Handle's own: reads frames and acts on them; owns the channels
//	writer      (package stream) writes what the others appended
//	publisher   (publisher.go)   commits what was published, in one transaction whatever has gathered meanwhile, and confirms it; from the first publish on
//	settler     (settler.go)     hands acknowledgements to the queues, likewise in groups; from the first acknowledgement on
//
// and the queues' own goroutines call it to deliver (deliver.go). What others have to tell the reader they leave with connection.post.
//
// Locks, in the order in which they are taken: channel.out (what is written for a channel, and in which order), ledger.mu (delivery tags and credit), then the
// writer's own. The reader holds none of them while it calls a queue.
//
// Start with connection.go, then channel.go, publish.go and deliver.go; ending.go is how a connection ends. There is one file for each class of the
// specification, class10_connection.go to class90_tx.go, and errors.go is the one table that says which reply code an error of the views becomes.
package amqp
