package kafka

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/group"
	"polylog/viewlayer/message"
	"polylog/viewlayer/queue"
	"polylog/viewlayer/topic"
)

// requestError means that bytes are not a request that is served, and that its sender cannot be answered in a way it would understand.
type requestError struct{ what string }

func (e *requestError) Error() string { return e.what }

func requestErrorf(format string, args ...any) error {
	return &requestError{fmt.Sprintf(format, args...)}
}

// errorCode is a row of the table from the views' errors to Kafka's codes.
type errorCode struct {
	name string // package.Type or package.ErrName
	is   func(error) bool
	code int16
}

// onType is the row for an error type.
func onType[T error](code int16) errorCode {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return errorCode{t.String(), func(err error) bool { _, ok := errors.AsType[T](err); return ok }, code}
}

// onValue is the row for an error that is one value; name is package.ErrName.
func onValue(name string, target error, code int16) errorCode {
	return errorCode{name, func(err error) bool { return errors.Is(err, target) }, code}
}

// errorCodes is the one table from what the views and the log return to what a client is told. The first row that fits decides, so a cause stands before what it is
// wrapped in. Every error that a view exports is in it.
var errorCodes = []errorCode{
	onType[*privateError](codeTopicAuthorizationFailed),
	onType[*readOnlyError](codeTopicAuthorizationFailed),
	onType[*partitionError](codeUnknownTopicOrPartition),

	onType[*topic.UnknownError](codeUnknownTopicOrPartition),
	onType[*topic.UnknownIDError](codeUnknownTopicID),
	onType[*topic.ExistsError](codeTopicAlreadyExists),
	onType[*topic.PartitionsError](codeInvalidPartitions),
	onType[*topic.ConfigError](codeInvalidConfig),
	onType[*topic.NameError](codeInvalidTopicException),

	onType[*message.TooLargeError](codeMessageTooLarge),
	onType[*message.PropertiesError](codeInvalidRecord),
	onType[*message.TableError](codeInvalidRecord),
	onType[*exchange.UnknownError](codeUnknownTopicOrPartition),
	onType[*exchange.FullError](codeMessageTooLarge),
	onType[*exchange.InternalTopicError](codeTopicAuthorizationFailed),
	onType[*queue.LockedError](codeTopicAuthorizationFailed),
	onType[*queue.InequivalentError](codeInvalidRequest),
	onType[*queue.ArgumentError](codeInvalidRequest),
	onType[*queue.InternalError](codeTopicAuthorizationFailed),
	onType[*queue.InUseError](codePolicyViolation),
	onType[*queue.NotEmptyError](codePolicyViolation),
	onType[*queue.ExclusiveError](codeTopicAuthorizationFailed),
	onType[*queue.GoneError](codeUnknownTopicOrPartition),

	onType[*group.InvalidGroupError](codeInvalidGroupID),
	onType[*group.InvalidSessionTimeoutError](codeInvalidSessionTimeout),
	onType[*group.InconsistentProtocolError](codeInconsistentGroupProtocol),
	onType[*group.UnknownMemberError](codeUnknownMemberID),
	onType[*group.MemberIDRequiredError](codeMemberIDRequired),
	onType[*group.FencedInstanceError](codeFencedInstanceID),
	onType[*group.IllegalGenerationError](codeIllegalGeneration),
	onType[*group.RebalanceInProgressError](codeRebalanceInProgress),
	onType[*group.FullGroupError](codeGroupMaxSizeReached),
	onType[*group.NonEmptyGroupError](codeNonEmptyGroup),
	onType[*group.NotFoundError](codeGroupIDNotFound),
	onType[*group.SubscribedError](codeGroupSubscribedToTopic),
	onType[*group.MetadataTooLargeError](codeOffsetMetadataTooLarge),
	onType[*group.NotCoordinatorError](codeNotCoordinator),
	onType[*group.UnavailableError](codeCoordinatorNotAvailable),
	onType[*group.OutOfOrderSequenceError](codeOutOfOrderSequenceNumber),
	onType[*group.UnknownProducerError](codeUnknownProducerID),
	onType[*group.InvalidEpochError](codeInvalidProducerEpoch),
	onType[*group.CorruptValueError](codeUnknownServerError),

	onType[*logstore.UnknownShardError](codeUnknownTopicOrPartition),
	onType[*logstore.OffsetRangeError](codeOffsetOutOfRange),
	onType[*logstore.LimitError](codeMessageTooLarge),
	onType[*logstore.DiskFullError](codeKafkaStorageError),
	onType[*logstore.FailedError](codeKafkaStorageError),
	onType[*logstore.CorruptError](codeKafkaStorageError),
	onValue("logstore.ErrClosed", logstore.ErrClosed, codeNotLeaderOrFollower),
	onValue("logstore.ErrReadOnly", logstore.ErrReadOnly, codePolicyViolation),

	onValue("record.ErrTooLarge", record.ErrTooLarge, codeMessageTooLarge),
	onValue("record.ErrMagic", record.ErrMagic, codeInvalidRecord),
	onValue("record.ErrCodec", record.ErrCodec, codeUnsupportedCompressionType),
	onValue("record.ErrMalformed", record.ErrMalformed, codeInvalidRecord),
	onValue("record.ErrCRC", record.ErrCRC, codeCorruptMessage),
	onValue("record.ErrTruncated", record.ErrTruncated, codeCorruptMessage),

	// Last, since they may be around any of the others.
	onType[*logstore.UnknownOutcomeError](codeRequestTimedOut),
	onType[*logstore.UnavailableError](codeNotEnoughReplicas), // behind the one before, which it may be the cause of
	onValue("context.DeadlineExceeded", context.DeadlineExceeded, codeRequestTimedOut),
	onValue("context.Canceled", context.Canceled, codeNotLeaderOrFollower),
}

// adminCode is code for requests that Kafka's controller answers: where none can be reached, the client looks for it anew.
func adminCode(err error) int16 {
	c := code(err)
	if c == codeNotEnoughReplicas {
		return codeNotController
	}
	return c
}

// code returns what a client is told of err. What is not in the table is a fault of the broker's own.
func code(err error) int16 {
	if err == nil {
		return codeNone
	}
	if e, ok := errors.AsType[*batchError](err); ok {
		return e.code
	}
	if e, ok := errors.AsType[*wishError](err); ok {
		return e.code
	}
	for i := range errorCodes {
		if errorCodes[i].is(err) {
			return errorCodes[i].code
		}
	}
	return codeUnknownServerError
}
