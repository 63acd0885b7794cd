#!/usr/bin/env bash
# Kafka with kcat, the command line tool on librdkafka.
. "$(dirname "$0")/checks.sh"

k() { kcat -b "$KAFKA_ADDRESS" -m 30 "$@"; }

about check_lines 'lines produced and consumed, with keys and headers'
check_lines() {
	topic=$(fresh topic)
	printf 'a:one\nb:two\n:three\n' | k -P -t "$topic" -p 0 -K: -Z -H kind=test -H n=1
	equal "$(k -C -t "$topic" -o beginning -e -q -f '%o %k=%s %h\n')" $'0 a=one kind=test,n=1\n1 b=two kind=test,n=1\n2 =three kind=test,n=1' 'what was consumed'
}

for codec in gzip snappy lz4 zstd; do
	about "check_$codec" "compressed with $codec"
	eval "check_$codec() { compressed $codec; }"
done
compressed() {
	topic=$(fresh topic)
	seq 20000 >sent
	k -P -t "$topic" -p 0 -z "$1" -X enable.idempotence=true -X linger.ms=5 <sent
	k -C -t "$topic" -p 0 -o beginning -e -q >got
	cmp sent got
}

about check_metadata 'metadata of brokers and topics'
check_metadata() {
	topic=$(fresh topic)
	echo x | k -P -t "$topic" -p 0
	k -L -t "$topic" >listed
	grep -q "topic \"$topic\" with" listed
	grep -q "at $KAFKA_ADDRESS" listed
	equal "$(k -L -J -t "$topic" | grep -o "\"topic\":\"$topic\"" | sort -u)" "\"topic\":\"$topic\"" 'the topic in JSON'
}

about check_offsets 'offsets: from the end, by time, queried'
check_offsets() {
	topic=$(fresh topic)
	seq 10 | k -P -t "$topic" -p 0
	equal "$(k -C -t "$topic" -p 0 -o -3 -e -q | tr '\n' ' ')" '8 9 10 ' 'the last three'
	equal "$(k -C -t "$topic" -p 0 -o 4 -c 2 -q | tr '\n' ' ')" '5 6 ' 'two from offset 4'
	equal "$(k -Q -t "$topic:0:-1")" "$topic [0] offset 10" 'the end'
	equal "$(k -Q -t "$topic:0:-2")" "$topic [0] offset 0" 'the beginning'
	equal "$(k -C -t "$topic" -p 0 -o s@1000 -o e@4000000000000 -e -q | wc -l)" 10 'number of records from 1970 on'
}

about check_group 'a group goes on where it was'
check_group() {
	topic=$(fresh topic) group=$(fresh group)
	seq 20 | k -P -t "$topic" -p 0
	equal "$(k -G "$group" -X auto.offset.reset=earliest -c 8 -q "$topic" 2>/dev/null | tr '\n' ' ')" "$(seq 8 | tr '\n' ' ')" 'the first eight'
	equal "$(k -G "$group" -X auto.offset.reset=earliest -c 12 -q "$topic" 2>/dev/null | tr '\n' ' ')" "$(seq 9 20 | tr '\n' ' ')" 'the rest'
}

about check_follow 'a reader at the end gets what comes'
check_follow() {
	topic=$(fresh topic)
	echo first | k -P -t "$topic" -p 0
	k -C -t "$topic" -p 0 -o beginning -c 2 -q -u >got &
	reader=$!
	until_true 'the first record' test -s got
	echo second | k -P -t "$topic" -p 0
	wait $reader
	equal "$(cat got)" $'first\nsecond' 'what was read'
}

run_checks "$@"
