package logstore

import "context"

// Sequencer makes the one order outside the store: every store that follows it applies the same proposals, in the same order, with the same outcome.
// Without one (the default) the store's own log is the order.
type Sequencer interface {
	// Propose puts a proposal into the order. After nil it is there for good, and Follow will deliver it to every store, this one
	// included. After an error it may or may not be.
	Propose(ctx context.Context, proposal []byte) error
	// Follow calls deliver for every proposal whose sequence number is above after, in strictly ascending order of the numbers, which may have
	// gaps. It returns when ctx ends, when deliver fails, or with an error of its own; the store then follows anew from where it is. deliver does not keep
	// the proposal.
	Follow(ctx context.Context, after uint64, deliver func(seq uint64, proposal []byte) error) error
}

// ProposalID names a proposal, so that the store that made it knows it again when the order delivers it.
type ProposalID struct {
	Writer uint64 // drawn at random when a store is opened
	Number uint64 // counts that store's proposals
}
