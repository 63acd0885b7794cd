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
// credit for it is chosen; what a dead node or process held comes back (sweep.go); memory follows what is out, not what waits.
//
// It does not route (package exchange), knows no delivery tags (those are AMQP's), and reads no clock.
//
// The keys and shards it owns:
//
//	q/<topic id><partition>   the cursor: the offset behind the last one taken; absent: 0
//	e/<node>                  the node's epoch
//	c/<node>                  the node's last epoch that ended in order
//	d/<topic id><partition>   after a crash, the offset below which messages may have been out unknown to the log; absent: 0
//	topic __claims            the index topic
//
// Start with take.go (from the log to a consumer), then settle.go (how it ends) and requeue.go (how it comes back).
package queue
