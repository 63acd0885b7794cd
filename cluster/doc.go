// Package cluster makes many nodes one: it is the order of entries (logstore.Sequencer) made by a replicated stream of NATS JetStream, with a server embedded in each node or operated
// elsewhere; who is a member, who leads, and how a node's log begins with a copy of another's.
//
//	Commit -> outbox -> chunk -> stream (Raft, every replica syncs) -> each node: roster judges -> its log applies -> the committer's node answers
//
// It promises: what a node is told has its place in the order is on the disks of a majority; every node applies the same proposals in the same order, each once, whatever becomes of
// single messages; nothing that a node wrote in an epoch that is over has effect; a gap or damage in the stream stops the node that sees it and is never passed over.
//
// It does not trust the stream with more than the order of messages: repeats, disorder and damage are found by this package (roster.go, chunk.go). It keeps no data: the stream is
// trimmed once every node has applied it. It knows nothing of topics and protocols.
//
// Start with roster.go (which chunks count), then outbox.go (how they get there), order.go (how they are followed), node.go (a node's life), membership.go (who is there, who leads,
// trimming), copy.go.
package cluster
