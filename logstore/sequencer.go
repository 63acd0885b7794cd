package logstore

import "context"

// Sequencer makes the one order outside the store: every store that follows it applies the same proposals, in the same order, with the same outcome.
// Without one (the default) the store's own log is the order.
type Sequencer interface {
	// Propose hands a proposal over to be put into the order, and returns before it is there. After nil Follow will deliver it to every store, this one included, once; save when this
	// store's membership in the order ends before, in which case it is never delivered and the store must be closed. After an error it will not be delivered; it is an *UnavailableError
	// when trying again may help. The proposal is not kept.
	Propose(ctx context.Context, proposal []byte) error
	// Follow calls deliver for every proposal whose sequence number is above after, in strictly ascending order of the numbers, which may have
	// gaps. It returns when ctx ends, when deliver fails, or with an error of its own; the store then follows anew from where it is. deliver keeps the proposal, which is not
	// changed any more.
	Follow(ctx context.Context, after uint64, deliver func(seq uint64, proposal []byte) error) error
	// Attach is called once, with the store that is about to follow: it has recovered and applied what Follow's first after says.
	Attach(s *Store) error
	// Available returns nil, or why proposals are refused at the moment: an *UnavailableError.
	Available() error
}

// ProposalID names a proposal, so that the store that made it knows it again when the order delivers it.
type ProposalID struct {
	Writer uint64 // drawn at random when a store is opened
	Number uint64 // counts that store's proposals
}

// EncodeProposal encodes a transaction that the sequencer itself puts into the order, as what it delivers to every store. Nobody waits for it.
func EncodeProposal(t *Txn) []byte { return encodeProposal(nil, ProposalID{}, t) }

// Available returns nil when transactions are taken, or an *UnavailableError: the order is made by several stores, and this one is not in touch with a majority of them. Without
// a Sequencer it is always nil.
func (s *Store) Available() error {
	if s.follower == nil {
		return nil
	}
	return s.follower.seq.Available()
}

// Following returns the number of the last transaction that took effect, and how many proposals were delivered by the order and are not applied yet.
func (s *Store) Following() (applied uint64, pending int) {
	if f := s.follower; f != nil {
		f.mu.Lock()
		pending = f.ahead
		f.mu.Unlock()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.st.seq, pending
}

// CatchUp returns when everything that had its place in the order before the call can be read here. Only with an outside order does that take something: a way through it. Else what other
// stores have answered a moment ago may not have come yet. The error is as that of Commit.
func (s *Store) CatchUp(ctx context.Context) error {
	if s.follower == nil {
		return nil
	}
	// A transaction with a condition goes through the order, and, being durable, it is answered when what came before it can be read.
	_, err := s.Commit(ctx, Txn{If: []Condition{KeyAbsent(nobodysKey)}})
	return err
}

// nobodysKey has no value, ever.
const nobodysKey = "-"

// IsFollowing reports whether the order is made outside, by several stores.
func (s *Store) IsFollowing() bool { return s.follower != nil }

// Interrupt ends the waiting for transactions that are on their way into an outside order and are not Patient: their outcome is unknown, because of err. A Sequencer's owner
// calls it when the majority has been lost.
func (s *Store) Interrupt(err error) {
	if s.follower != nil {
		s.follower.interrupt(err, false)
	}
}

// GiveUp ends the waiting for all transactions, those too that are Patient, because of err: the store will follow no more, and is to be closed. A Sequencer's owner calls it when this
// store's part in the order is over.
func (s *Store) GiveUp(err error) {
	if s.follower != nil {
		s.follower.interrupt(err, true)
	}
}
