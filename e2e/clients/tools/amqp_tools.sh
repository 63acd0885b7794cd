#!/usr/bin/env bash
# AMQP 0-9-1 with amqp-tools: rabbitmq-c, the C client under several languages.
. "$(dirname "$0")/checks.sh"

url=amqp://guest:guest@$AMQP_ADDRESS

# get WHAT: takes a message from $queue. A publish of these tools is not confirmed, so it may not be there yet.
get() { until_true "$1" amqp-get --url "$url" -q "$queue"; }

# program NAME: makes an executable of what is read. (amqp-consume would take the options of a command for its own.)
program() {
	{ echo '#!/bin/sh' && cat; } >"$1"
	chmod +x "$1"
}

about check_publish_get 'amqp-publish and amqp-get'
check_publish_get() {
	queue=$(fresh queue)
	equal "$(amqp-declare-queue --url "$url" -d -q "$queue")" "$queue" 'what amqp-declare-queue prints'
	amqp-publish --url "$url" -r "$queue" -p -C text/plain -H 'kind: test' -b 'one'
	printf 'two\nthree\n' | amqp-publish --url "$url" -r "$queue" -l
	get 'the first message' >got
	equal "$(cat got)" one 'the first message'
	equal "$(get 'the second message')" two 'the second message'
	equal "$(get 'the third message')" three 'the third message'
	if amqp-get --url "$url" -q "$queue"; then fail 'amqp-get of an empty queue succeeded'; fi
	equal "$(amqp-delete-queue --url "$url" -q "$queue")" 0 'what amqp-delete-queue prints'
}

about check_consume 'amqp-consume runs a command for each message and acknowledges it'
check_consume() {
	queue=$(fresh queue)
	amqp-declare-queue --url "$url" -d -q "$queue"
	seq 200 | amqp-publish --url "$url" -r "$queue" -l
	program each <<<cat
	amqp-consume --url "$url" -q "$queue" -c 150 -p 10 ./each >got
	equal "$(tr '\n' ' ' <got)" "$(seq 150 | tr '\n' ' ')" 'what was consumed'
	# What was prefetched and not acknowledged comes back when the tool's connection closes.
	amqp-consume --url "$url" -q "$queue" -c 50 -p 10 ./each >rest
	equal "$(tr '\n' ' ' <rest)" "$(seq 151 200 | tr '\n' ' ')" 'what was consumed later'
	equal "$(amqp-delete-queue --url "$url" -q "$queue")" 0 'messages left'
}

about check_failing 'a command that fails sends its message back'
check_failing() {
	queue=$(fresh queue)
	amqp-declare-queue --url "$url" -d -q "$queue"
	amqp-publish --url "$url" -r "$queue" -b 'again'
	program each <<<'cat; exit 1'
	equal "$(amqp-consume --url "$url" -q "$queue" -c 1 -p 1 ./each)" again 'what the command read'
	equal "$(get 'the message to be back')" again 'the message that came back'
}

about check_unknown 'an unknown queue is an error that names it'
check_unknown() {
	queue=$(fresh queue)
	if amqp-get --url "$url" -q "$queue" 2>err; then fail 'amqp-get succeeded'; fi
	[[ $(cat err) == *404* && $(cat err) == *"$queue"* ]] || fail "the error is $(cat err)"
}

about check_body 'a body of a megabyte comes back equal'
check_body() {
	queue=$(fresh queue)
	amqp-declare-queue --url "$url" -d -q "$queue"
	head -c 1048576 /dev/urandom >sent
	amqp-publish --url "$url" -r "$queue" <sent
	get 'the message' >got
	cmp sent got
}

run_checks "$@"
