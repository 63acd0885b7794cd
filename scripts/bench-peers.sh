#!/usr/bin/env bash
# Measures Polylog beside RabbitMQ and Apache Kafka on this machine and prints the tables of docs/benchmarks.md; progress goes to stderr. It takes about half an hour,
# during which nothing else should run. What it needs is installed first (scripts/peers.sh); what it starts is ended, and its data removed, at the end.
#
#   scripts/bench-peers.sh                               all
#   scripts/bench-peers.sh -only amqp                    one of amqp, kafka and kafka-synced (Kafka that syncs before it acknowledges)
#   scripts/bench-peers.sh -only kafka -- -seconds 10    with flags of `polylog bench kafka`
set -euo pipefail
cd "$(dirname "$0")/.."

case " $* " in
*" -only amqp "*) scripts/peers.sh rabbitmq ;;
*" -only kafka "* | *" -only kafka-synced "*) scripts/peers.sh kafka ;;
*) scripts/peers.sh ;;
esac >&2
make --no-print-directory build >&2

# The data of all three lies beside each other on the disk of this folder: a temporary folder might be in memory.
mkdir -p bin/bench-data
trap 'rm -rf bin/bench-data' EXIT
go build -o bin/peerbench ./e2e/peerbench
POLYLOG_BINARY=bin/polylog TMPDIR=$PWD/bin/bench-data bin/peerbench "$@"
