#!/usr/bin/env bash
# AMQP and Kafka over one log from the command line: amqp-tools and kcat.
. "$(dirname "$0")/checks.sh"

url=amqp://guest:guest@$AMQP_ADDRESS
k() { kcat -b "$KAFKA_ADDRESS" -m 30 "$@"; }
get() { until_true "$1" amqp-get --url "$url" -q "$queue"; }

about check_publish_read 'amqp-publish, read with kcat'
check_publish_read() {
	queue=$(fresh queue)
	amqp-declare-queue --url "$url" -d -q "$queue"
	amqp-publish --url "$url" -r "$queue" -p -C text/plain -H 'kind: test' -b 'hello'
	# _amqp is the broker's own header.
	equal "$(k -C -t "$queue" -p 0 -o beginning -c 1 -q -f '%s %h\n' | LC_ALL=C sed 's/_amqp=[^,]*,//')" 'hello kind=test,content-type=text/plain' 'the record'
	amqp-get --url "$url" -q "$queue" >got
	equal "$(cat got)" hello 'the message'
	until_true 'the record to be gone' gone
}
gone() { [ "$(k -Q -t "$queue:0:-2")" == "$queue [0] offset 1" ]; }

about check_produce_get 'produced with kcat, amqp-get and amqp-consume'
check_produce_get() {
	queue=$(fresh queue)
	amqp-declare-queue --url "$url" -d -q "$queue"
	seq 100 | k -P -t "$queue" -p 0 -z lz4
	equal "$(get 'the first message')" 1 'the first message'
	printf '#!/bin/sh\ncat\necho\n' >each
	chmod +x each
	amqp-consume --url "$url" -q "$queue" -c 99 -p 10 ./each >got
	equal "$(tr '\n' ' ' <got)" "$(seq 2 100 | tr '\n' ' ')" 'what was consumed'
	equal "$(amqp-delete-queue --url "$url" -q "$queue")" 0 'messages left'
}

run_checks "$@"
