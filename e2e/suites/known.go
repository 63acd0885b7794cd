package main

// The reasons why tests fail.
const (
	noExchanges    = "exchanges other than the default one are not there yet"
	noTransactions = "AMQP transactions (tx) are not there yet"
	noTTL          = "message TTL is not there yet"
	noMaxLength    = "queue length limits are not there yet"
	noManagement   = "the test closes connections through RabbitMQ's management API at port 15672, which is not there yet"
)

// amqp091Excluded crash the test process.
var amqp091Excluded = []string{"TestIntegrationConsumeFlow"}

const amqp091WhyExcluded = "it crashes when channel.flow(false) is no error: RabbitMQ refuses it, Polylog serves it"

var amqp091Known = map[string]string{
	"TestIntegrationExchangeDeclarePassiveOnDeclaredShouldNotError": noExchanges,
	"TestIntegrationExchange":                        noExchanges,
	"TestIntegrationExchangeToExchangeBindAndUnbind": noExchanges,
	"TestIntegrationBasicQueueOperations":            noExchanges,
	"TestIntegrationQueueUnbind":                     noExchanges,
	"TestIntegrationQueuePurge":                      noExchanges,
	"TestIntegrationTxCommit":                        noTransactions,
	"TestIntegrationTxRollback":                      noTransactions,
	"TestDeclareArgsXMessageTTL":                     noTTL,
	"TestDeclareArgsRejectToDeadLetterQueue":         noExchanges,
	"TestChannelExceptionWithCloseIssue43":           noExchanges,
	"TestExchangeDeclarePrecondition":                noExchanges,
	"TestIntegrationGetNextPublishSeqNo":             noExchanges,
	"TestIntegrationGetNextPublishSeqNoRace":         noExchanges,

	"TestConnectionRecoveryPublish":                                    noExchanges,
	"TestConnectionRecoveryConsume":                                    noExchanges,
	"TestConnectionRecoveryCustomSASLPlainAuth":                        noExchanges,
	"TestConnectionRecoveryChannelIDReservation":                       noExchanges,
	"TestConnectionRecoveryLifeCycleNotifyStateChange":                 noExchanges,
	"TestConnectionRecoveryCancelInterrupt":                            noExchanges,
	"TestConnectionRecoveryExclusiveQueue":                             noManagement,
	"TestConnectionRecoveryDeletedQueueSkip":                           noExchanges,
	"TestConnectionRecoveryTopologyOnlyTransient":                      noExchanges,
	"TestConnectionRecoveryMultiChannelTopology":                       noExchanges,
	"TestConnectionRecoveryTopologyAllEnabled":                         noExchanges,
	"TestConnectionRecoveryTopologyDisabled":                           noExchanges,
	"TestConnectionRecoveryExhaustionDoesNotPanic":                     noExchanges,
	"TestConnectionRecoveryAutoDeleteTopologyForgotten":                noManagement,
	"TestConnectionRecoveryAutoDeleteExchangeCascade":                  noExchanges,
	"TestConnectionRecoverySkipAndContinue":                            noMaxLength,
	"TestConnectionRecoverySkipAndContinueNoInfiniteLoop":              noMaxLength,
	"TestConnectionRecoveryConsumerNotForgottenAfterFailedResubscribe": noManagement,
}

// kgoExcluded does not end without what it needs.
var kgoExcluded = []string{"TestTxnEtl"}

const kgoWhyExcluded = "Kafka transactions are not there yet"

var kgoKnown = map[string]string{
	"TestConsumeRegex": "it wants a topic __consumer_offsets; Polylog keeps committed offsets elsewhere",
}

const (
	wantsDocker      = "it starts and stops brokers with docker compose"
	wantsCluster     = "it wants several brokers"
	noAdmin          = "this request is not served yet"
	noKafkaTxn       = kgoWhyExcluded
	noMorePartitions = "partitions cannot be added to a topic yet"
)

var saramaKnown = map[string]string{
	"TestFuncAdminQuotas":                                 noAdmin + ": DescribeClientQuotas, AlterClientQuotas",
	"TestFuncAdminDeleteRecords":                          noAdmin + ": DeleteRecords",
	"TestFuncAdminDescribeLogDirs":                        noAdmin + ": DescribeLogDirs; and " + wantsCluster,
	"TestFuncAdminElectLeadersV1":                         noAdmin + ": ElectLeaders",
	"TestFuncAdminIncrementalAlterConfigs":                noAdmin + ": IncrementalAlterConfigs",
	"TestFuncAdminAlterConfig":                            noAdmin + ": AlterConfigs",
	"TestFuncAdminUpdateFeatures":                         noAdmin + ": UpdateFeatures",
	"TestFuncDescribeProducers":                           noAdmin + ": DescribeProducers",
	"TestFuncConsumerGroupRebalanceAfterAddingPartitions": noMorePartitions,
	"TestFuncDescribeTransactions":                        noKafkaTxn,
	"TestFuncListTransactions":                            noKafkaTxn,
	"TestFuncTxnProduceNoBegin":                           noKafkaTxn,
	"TestFuncTxnCommitNoMessages":                         noKafkaTxn,
	"TestFuncTxnProduce":                                  noKafkaTxn,
	"TestFuncTxnProduceWithBrokerFailure":                 noKafkaTxn + "; and " + wantsDocker,
	"TestFuncTxnProduceEpochBump":                         noKafkaTxn,
	"TestFuncInitProducerId3":                             noKafkaTxn,
	"TestFuncTxnProduceAndCommitOffset":                   noKafkaTxn,
	"TestFuncTxnProduceMultiTxn":                          noKafkaTxn,
	"TestFuncTxnAbortedProduce":                           noKafkaTxn,
	"TestFuncAdminListConsumerGroupOffsets":               wantsDocker,
	"TestFuncIdempotentBufferedSequence":                  wantsDocker,
	"TestFuncAdminAlterPartitionReassignments":            wantsCluster,
	"TestConsumerFetchFollowerFailover":                   wantsCluster,
}

// saramaKnownOfPeer are those that a single Kafka fails.
var saramaKnownOfPeer = map[string]string{
	"TestFuncAdminListConsumerGroupOffsets":    wantsDocker,
	"TestFuncTxnProduceWithBrokerFailure":      wantsDocker,
	"TestFuncIdempotentBufferedSequence":       wantsDocker,
	"TestFuncAdminDescribeLogDirs":             wantsCluster,
	"TestFuncAdminAlterPartitionReassignments": wantsCluster,
	"TestConsumerFetchFollowerFailover":        wantsCluster,
}
