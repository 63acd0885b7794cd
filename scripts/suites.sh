#!/usr/bin/env bash
# Runs the test suites of public Go clients against Polylog, or with -peers against RabbitMQ and Apache Kafka. See docs/conformance.md; -h lists the flags.
set -euo pipefail
cd "$(dirname "$0")/.."
for a in "$@"; do
	if [ "$a" = -peers ] || [ "$a" = --peers ]; then scripts/peers.sh; fi
done
exec go run ./e2e/suites "$@"
