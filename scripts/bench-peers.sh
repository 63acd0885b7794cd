#!/usr/bin/env bash
# Measures Polylog beside RabbitMQ and Apache Kafka on this machine and prints the tables of docs/benchmarks.md; progress goes to stderr. It takes about an hour and a
# half, during which nothing else should run. What it needs is installed first (scripts/peers.sh); what it starts is ended, and its data removed, at the end.
#
#   scripts/bench-peers.sh                               all
#   scripts/bench-peers.sh -only amqp,kafka              some of the comparisons
#   scripts/bench-peers.sh -only kafka -- -seconds 10    with flags of `polylog bench kafka`
#
# One node of each:
#   amqp                  RabbitMQ
#   kafka                 Kafka with its defaults
#   kafka-synced          Kafka that syncs before it acknowledges
# Three nodes of each, on this machine. The exit status is 1 if Polylog's rate is less than twice the other's somewhere:
#   amqp-cluster          RabbitMQ with quorum queues
#   kafka-cluster         Kafka with three copies, two of which are there before it acknowledges, with its defaults otherwise
#   kafka-cluster-synced  the same, but each copy is on its disk then
# Polylog alone, three nodes:
#   lag                   how long after one node's acknowledgement the others have a record
set -euo pipefail
cd "$(dirname "$0")/.."

# Which of them is known from the word behind -only; without it, both.
only=" $* "
only=${only##* -only }
only=,${only%% *},
needed=()
case $only in *,amqp,* | *,amqp-cluster,*) needed+=(rabbitmq) ;; esac
case $only in *,kafka,* | *,kafka-*) needed+=(kafka) ;; esac
if [ ${#needed[@]} -gt 0 ]; then scripts/peers.sh "${needed[@]}" >&2; elif [ "$only" != ,lag, ]; then scripts/peers.sh >&2; fi
make --no-print-directory build >&2

# The data of all lies beside each other on the disk of this folder: a temporary folder might be in memory.
mkdir -p bin/bench-data
trap 'rm -rf bin/bench-data' EXIT
go build -o bin/peerbench ./e2e/peerbench
E2E_BINARY=bin/polylog TMPDIR=$PWD/bin/bench-data bin/peerbench "$@"
