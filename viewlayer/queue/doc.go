// Package queue is the view that takes messages away: AMQP's queues, laid over topics of the log.
//
// A queue has one cursor for each partition of its topic, a key in the log that all takers on all nodes share. Who takes messages puts the new cursor into the
// order together with the one it read, and with a claim: a record of the index topic that says who holds which offsets.
//
//	                  settled    held by A      held by B  returned       waiting
//	topic "orders"    x x x x x  5 6 7 8        9 10 11    12             13 14 15 16 ...
//	                                                                      ^ cursor
//	topic "__claims"  {"kind":"claim","queue":"orders","ranges":[[5,4]],"holder":"A",...}
//	                  {"kind":"claim","queue":"orders","ranges":[[9,3]],"holder":"B",...}
//	                  {"kind":"returned","queue":"orders","ranges":[[12,1,1,1]],...}
//
// A settled message is deleted from its topic, and the claim's record when all of its messages are settled; in a topic that retains, the claim is narrowed
// instead. A message that comes back keeps its offset: a record "returned" takes the place of the claim's, and takers serve such offsets first, lowest
// first. All of it are single transactions whose conditions are that the cursor is still the one that was read, or the claim still there.
//
// It promises: one claim at most covers an offset; every offset below the cursor is deleted, claimed or returned; nothing is claimed before a consumer with
// credit for it is chosen; what a dead node or process held comes back (reap.go); memory follows what is out and what has come back, not what waits.
//
// Several nodes may use one log, each with a View of its own. They need nothing of each other but the log: a cursor that somebody else moved is read anew, what
// has come back on one node the others read in the index topic (follow.go), and who consumes from a queue stands under keys (consumers.go). A node in one of its
// epochs is what claims, consumers, and the queues that are not to outlive it are bound to (bound.go); when the epoch has ended, any other node ends them too
// (reap.go). What a node has not heard of yet costs it a conflict, never a message: all that it takes and returns is conditional. While there is no majority of
// the nodes, calls end with the store's *logstore.UnavailableError, and what could not be given back or taken away the sweep does later (sweep.go).
//
// It does not route (package exchange), knows no delivery tags (those are AMQP's), and reads no clock.
//
// The keys and shards it owns:
//
//	q/<topic id><partition>   the cursor: the offset behind the last one taken; absent: 0
//	e/<node>                  the node's epoch, unless its cluster counts them
//	c/<node>                  the node's last epoch that ended in order, likewise
//	d/<topic id><partition>   after a crash, the offset below which messages may have been out unknown to the log; absent: 0
//	b/<topic id>              the node and epoch that a queue goes with; absent: it goes with none
//	u/<topic id><epoch><serial><node>  a consumer
//	n/<topic id>              1 for an auto-delete queue, else 0, and the name of the last key above that was put; absent: it never had a consumer
//	x/<topic id>              the name of the key of its exclusive consumer; absent: it has none
//	topic __claims            the index topic
//
// Start with take.go (from the log to a consumer), then settle.go (how it ends) and requeue.go (how it comes back). Package sameorder is for tests.
package queue
