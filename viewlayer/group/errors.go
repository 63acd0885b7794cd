package group

import (
	"fmt"
	"time"
)

// InvalidGroupError means that a group cannot have this name.
type InvalidGroupError struct{ Group string }

func (e *InvalidGroupError) Error() string {
	if e.Group == "" {
		return "the group has no name; set the consumer's group id"
	}
	return fmt.Sprintf("the group's name has %d bytes, at most %d are allowed", len(e.Group), NameMax)
}

// InvalidSessionTimeoutError means that a member asked for a session timeout outside of what is allowed.
type InvalidSessionTimeoutError struct{ Got, Min, Max time.Duration }

func (e *InvalidSessionTimeoutError) Error() string {
	return fmt.Sprintf("session timeout %v; it is %v to %v", e.Got, e.Min, e.Max)
}

// InconsistentProtocolError means that a member does not speak what the group has agreed on: its type, or a protocol that all members have.
type InconsistentProtocolError struct{ Group, What string }

func (e *InconsistentProtocolError) Error() string {
	return fmt.Sprintf("group '%s': %s", e.Group, e.What)
}

// UnknownMemberError means that the group has no such member (any more). The client joins anew, without a member id.
type UnknownMemberError struct{ Group, MemberID, InstanceID string }

func (e *UnknownMemberError) Error() string {
	if e.InstanceID != "" {
		return fmt.Sprintf("group '%s' has no member '%s' of instance '%s'; join anew", e.Group, e.MemberID, e.InstanceID)
	}
	return fmt.Sprintf("group '%s' has no member '%s'; join anew", e.Group, e.MemberID)
}

// MemberIDRequiredError gives a new member the id that it joins with (KIP-394).
type MemberIDRequiredError struct{ MemberID string }

func (e *MemberIDRequiredError) Error() string { return "join again with the member id " + e.MemberID }

// FencedInstanceError means that a static member's place was taken by another process with the same instance id (KIP-345).
type FencedInstanceError struct{ Group, InstanceID string }

func (e *FencedInstanceError) Error() string {
	return fmt.Sprintf("another member of group '%s' took over the instance '%s'; two processes use the same instance id", e.Group, e.InstanceID)
}

// IllegalGenerationError means that a member speaks of another generation than the group's.
type IllegalGenerationError struct {
	Group     string
	Got, Want int32
}

func (e *IllegalGenerationError) Error() string {
	return fmt.Sprintf("generation %d of group '%s' is not the current one, %d; join anew", e.Got, e.Group, e.Want)
}

// RebalanceInProgressError means that the members are about to join anew.
type RebalanceInProgressError struct{ Group string }

func (e *RebalanceInProgressError) Error() string {
	return fmt.Sprintf("group '%s' rebalances; join anew", e.Group)
}

// FullGroupError means that the group has as many members as one may have.
type FullGroupError struct {
	Group string
	Max   int
}

func (e *FullGroupError) Error() string {
	return fmt.Sprintf("group '%s' has its %d members, more are not allowed", e.Group, e.Max)
}

// NonEmptyGroupError means that what was asked is for groups without members.
type NonEmptyGroupError struct{ Group string }

func (e *NonEmptyGroupError) Error() string {
	return fmt.Sprintf("group '%s' has members; stop them first", e.Group)
}

// NotFoundError means that there is no such group.
type NotFoundError struct{ Group string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no group '%s'", e.Group) }

// SubscribedError means that a bookmark was to be removed whose topic the group reads.
type SubscribedError struct{ Group, Topic string }

func (e *SubscribedError) Error() string {
	return fmt.Sprintf("group '%s' reads topic '%s'; its members must end or read something else first", e.Group, e.Topic)
}

// MetadataTooLargeError means that the text that goes with a bookmark is too long.
type MetadataTooLargeError struct{ Got, Max int }

func (e *MetadataTooLargeError) Error() string {
	return fmt.Sprintf("a bookmark's metadata has %d bytes, at most %d are allowed", e.Got, e.Max)
}

// NotCoordinatorError means that this coordinator is not the group's (any more), or that another one changed the group. Nothing was changed by what was asked. The group
// is read anew when it is next asked for here.
type NotCoordinatorError struct{ Group string }

func (e *NotCoordinatorError) Error() string {
	return fmt.Sprintf("another node coordinates group '%s', or did in between; ask for its coordinator again", e.Group)
}

// UnavailableError means that the group's state could not be stored, as without a majority of the nodes, or that the coordinator is closing. The same may be asked
// again: nothing was changed, save perhaps by a commit of bookmarks, which then has effect before the next commit of the group or never.
type UnavailableError struct {
	Group string
	Err   error // nil: the coordinator is closing
}

func (e *UnavailableError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("group '%s' is not coordinated here any more: the broker is going down", e.Group)
	}
	return fmt.Sprintf("group '%s': its state could not be stored: %v", e.Group, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// OutOfOrderSequenceError means that a producer's batch does not follow the one before it: some are missing, or it is old and no duplicate of a recent one.
type OutOfOrderSequenceError struct {
	ProducerID int64
	Epoch      int16
	Got, Want  int32
}

func (e *OutOfOrderSequenceError) Error() string {
	return fmt.Sprintf("producer %d, epoch %d: sequence %d, the next is %d; batches between them were not stored", e.ProducerID, e.Epoch, e.Got, e.Want)
}

// UnknownProducerError means that nothing is known of a producer that goes on with a sequence: it was idle for so long that it is forgotten, or wrote to a topic of
// this name that is gone. The client begins anew.
type UnknownProducerError struct {
	ProducerID int64
	Sequence   int32
}

func (e *UnknownProducerError) Error() string {
	return fmt.Sprintf("producer %d goes on with sequence %d and is not known (any more); it begins anew with sequence 0 and a new id or epoch", e.ProducerID, e.Sequence)
}

// InvalidEpochError means that a producer has been replaced by one with the same id and a higher epoch.
type InvalidEpochError struct {
	ProducerID int64
	Got, Want  int16
}

func (e *InvalidEpochError) Error() string {
	return fmt.Sprintf("producer %d has epoch %d, and a newer one has %d; this one must end", e.ProducerID, e.Got, e.Want)
}

// CorruptValueError means that a key of this view has a value that it did not write, or that a newer program did.
type CorruptValueError struct{ Key, What string }

func (e *CorruptValueError) Error() string {
	return fmt.Sprintf("the value of key %q: %s", e.Key, e.What)
}
