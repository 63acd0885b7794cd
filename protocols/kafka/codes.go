package kafka

// Error codes of the protocol, those that this broker answers with.
const (
	codeUnknownServerError         int16 = -1
	codeNone                       int16 = 0
	codeOffsetOutOfRange           int16 = 1
	codeCorruptMessage             int16 = 2
	codeUnknownTopicOrPartition    int16 = 3
	codeLeaderNotAvailable         int16 = 5
	codeNotLeaderOrFollower        int16 = 6
	codeRequestTimedOut            int16 = 7
	codeMessageTooLarge            int16 = 10
	codeOffsetMetadataTooLarge     int16 = 12
	codeCoordinatorLoadInProgress  int16 = 14
	codeCoordinatorNotAvailable    int16 = 15
	codeNotCoordinator             int16 = 16
	codeInvalidTopicException      int16 = 17
	codeNotEnoughReplicas          int16 = 19
	codeInvalidRequiredAcks        int16 = 21
	codeIllegalGeneration          int16 = 22
	codeInconsistentGroupProtocol  int16 = 23
	codeInvalidGroupID             int16 = 24
	codeUnknownMemberID            int16 = 25
	codeInvalidSessionTimeout      int16 = 26
	codeRebalanceInProgress        int16 = 27
	codeTopicAuthorizationFailed   int16 = 29
	codeInvalidTimestamp           int16 = 32
	codeUnsupportedVersion         int16 = 35
	codeTopicAlreadyExists         int16 = 36
	codeInvalidPartitions          int16 = 37
	codeInvalidReplicationFactor   int16 = 38
	codeInvalidReplicaAssignment   int16 = 39
	codeInvalidConfig              int16 = 40
	codeNotController              int16 = 41
	codeInvalidRequest             int16 = 42
	codePolicyViolation            int16 = 44
	codeOutOfOrderSequenceNumber   int16 = 45
	codeInvalidProducerEpoch       int16 = 47
	codeInvalidTxnState            int16 = 48
	codeKafkaStorageError          int16 = 56
	codeUnknownProducerID          int16 = 59
	codeNonEmptyGroup              int16 = 68
	codeGroupIDNotFound            int16 = 69
	codeFetchSessionIDNotFound     int16 = 70
	codeInvalidFetchSessionEpoch   int16 = 71
	codeFencedLeaderEpoch          int16 = 74
	codeUnknownLeaderEpoch         int16 = 75
	codeUnsupportedCompressionType int16 = 76
	codeMemberIDRequired           int16 = 79
	codeGroupMaxSizeReached        int16 = 81
	codeFencedInstanceID           int16 = 82
	codeGroupSubscribedToTopic     int16 = 86
	codeInvalidRecord              int16 = 87
	codeUnknownTopicID             int16 = 100
	codeFetchSessionTopicIDError   int16 = 106
)
