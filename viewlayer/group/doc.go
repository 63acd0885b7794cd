// Package group is the view that reads and takes nothing away: consumer groups, their bookmarks, and the memory of idempotent producers.
//
// A group is members that share out work among themselves, generation by generation, and bookmarks that say how far the group has read each partition. Moving a
// bookmark deletes nothing; what is deleted or taken by somebody else moves no bookmark. Bookmarks belong to a topic's identity, not its name: a topic
// that is deleted and made anew begins without any.
//
// It promises:
//   - At most one leader, and a generation that ascends; every answer that was asked for comes exactly once.
//   - A generation that was told to a member after the disk had it is there after a crash, with its members and their work. Their sessions begin anew.
//   - A coordinator that lost its place changes nothing: everything it writes of a group has the condition that the group's head is as it knows it.
//   - A member's commit counts only while its generation is the group's. A bookmark never moves back behind a commit that was answered, by one that came before it, whichever node
//     takes it and however late it gets its place.
//   - A batch of an idempotent producer is stored once, whatever crashes when and however often it is sent, since its sequence is remembered in the transaction
//     that appends it. A producer id is never given out twice.
//   - Memory follows the groups that have members; a group that has only bookmarks is keys of the store. Sweeps go in bounded steps.
//
// Several coordinators, each on a store that follows one order, share the groups; Options.Mine says which are whose, and Reassigned that this has changed.
// takeover.go says what keeps them apart.
//
// It does not know how requests look on the wire, reads no topics, and has no clock, randomness or goroutine of its own: Options bring the clock and the ids, and
// somebody calls Tick and Sweep. What it stores it orders and does not wait for the disk (save for producer ids): who tells a client of it commits an
// empty durable transaction first.
//
// The keys that it owns; text is its length (uvarint) and its bytes, numbers are big-endian:
//
//	key                                                            value                          invariant
//	g/h/ namespace text, group text                                head (encode.go)               changes with everything that is stored of the group
//	g/m/ namespace text, group text, number u32                    member (encode.go)             there are as many as the head says, numbered from 0
//	g/b/ namespace text, group text, topic id 16, partition u32    bookmark (encode.go)           the group has a head
//	p/ids                                                          producer ids (producer_id.go)  the next id never falls
//	p/s/ shard u64, producer id u64                                producer (producer_state.go)   its last batch is the last of that producer in the shard
//
// Start with classic.go (the state machine: who is a member), rebalance.go and sync.go (how a generation comes about); then coordinator.go (the store) with turn.go
// (locks) and timers.go; takeover.go and elect.go (several nodes); bookmark.go; listing.go; sweep.go. Producers are on their own: producer.go, producer_state.go,
// producer_id.go.
package group
