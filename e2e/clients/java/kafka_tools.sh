#!/usr/bin/env bash
# Kafka with the command line tools of Apache Kafka itself, and so with its Java client.
. "$(dirname "$0")/../tools/checks.sh"

jars=$(cd "$(dirname "$0")/../../.." && pwd)/bin/peers/kafka
logging=$(dirname "$(readlink -f "$0")")/log4j2.properties

# java_tool CLASS ARGUMENT...: runs a tool of Kafka's.
java_tool() {
	local class=$1
	shift
	java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Xmx256m "-Dlog4j2.configurationFile=$logging" -cp "$jars/*" "org.apache.kafka.tools.$class" "$@"
}
at=(--bootstrap-server "$KAFKA_ADDRESS")

about check_topics 'kafka-topics creates, describes, lists and deletes'
check_topics() {
	topic=$(fresh topic)
	java_tool TopicCommand "${at[@]}" --create --topic "$topic" --partitions 3
	java_tool TopicCommand "${at[@]}" --describe --topic "$topic" >described
	grep -q "Topic: $topic.*PartitionCount: 3" described
	equal "$(grep -c 'Leader: [0-9]' described)" 3 'partitions with a leader'
	java_tool TopicCommand "${at[@]}" --list >listed
	grep -qx "$topic" listed
	java_tool TopicCommand "${at[@]}" --delete --topic "$topic"
	java_tool TopicCommand "${at[@]}" --list >listed
	if grep -qx "$topic" listed; then fail 'the topic is still listed'; fi
}

about check_console 'kafka-console-producer and kafka-console-consumer with a group; kafka-consumer-groups shows its lag'
check_console() {
	topic=$(fresh topic) group=$(fresh group)
	seq 100 | java_tool ConsoleProducer "${at[@]}" --topic "$topic" --compression-codec zstd --command-property linger.ms=5
	java_tool consumer.ConsoleConsumer "${at[@]}" --topic "$topic" --from-beginning --max-messages 60 --timeout-ms 30000 --group "$group" \
		--command-property enable.auto.commit=true --command-property auto.commit.interval.ms=100 --command-property max.poll.records=60 >got
	equal "$(tr '\n' ' ' <got)" "$(seq 60 | tr '\n' ' ')" 'what was consumed'
	java_tool consumer.group.ConsumerGroupCommand "${at[@]}" --describe --group "$group" >described
	equal "$(awk -v t="$topic" '$2 == t { print $4, $5, $6 }' described)" '60 100 40' 'offset, end and lag'
	java_tool consumer.group.ConsumerGroupCommand "${at[@]}" --reset-offsets --to-offset 90 --topic "$topic" --group "$group" --execute
	java_tool consumer.ConsoleConsumer "${at[@]}" --topic "$topic" --max-messages 10 --timeout-ms 30000 --group "$group" >got
	equal "$(tr '\n' ' ' <got)" "$(seq 91 100 | tr '\n' ' ')" 'what was consumed after the reset'
	java_tool consumer.group.ConsumerGroupCommand "${at[@]}" --list >listed
	grep -qx "$group" listed
	java_tool consumer.group.ConsumerGroupCommand "${at[@]}" --delete --group "$group"
}

about check_performance 'kafka-producer-perf-test and kafka-consumer-perf-test, 100,000 records, idempotent, acks=all'
check_performance() {
	topic=$(fresh topic)
	java_tool ProducerPerformance --topic "$topic" --num-records 100000 --record-size 200 --throughput -1 \
		--command-property "bootstrap.servers=$KAFKA_ADDRESS" acks=all enable.idempotence=true compression.type=lz4 >produced
	grep -q '^100000 records sent' produced
	java_tool ConsumerPerformance "${at[@]}" --topic "$topic" --num-records 100000 --timeout 30000 >consumed
	# The fifth column is how many were consumed.
	equal "$(tail -n 1 consumed | cut -d, -f5 | tr -d ' ')" 100000 'records consumed'
	java_tool GetOffsetShell "${at[@]}" --topic "$topic" >offsets
	equal "$(cat offsets)" "$topic:0:100000" 'the end of the topic'
}

about check_versions 'kafka-broker-api-versions understands what the broker serves'
check_versions() {
	java_tool BrokerApiVersionsCommand "${at[@]}" >versions
	grep -q 'Produce(0): .* \[usable: ' versions
	grep -q 'Fetch(1): .* \[usable: ' versions
	grep -q 'JoinGroup(11): .* \[usable: ' versions
}

run_checks "$@"
