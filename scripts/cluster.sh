#!/usr/bin/env bash
# Runs a cluster of three nodes on this machine until it is interrupted. Data is kept in DIR (default: ./data-cluster), so that it goes on from there the next time.
#
#   node  AMQP   Kafka  HTTP    between the nodes
#   n1    5672   9092   15672   7001
#   n2    5673   9093   15673   7002
#   n3    5674   9094   15674   7003
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${DIR:-data-cluster}
mkdir -p "$dir"
export POLYLOG_CLUSTER_SECRET=${POLYLOG_CLUSTER_SECRET:-only-for-this-machine}
pids=()
trap 'trap - EXIT INT TERM; kill -TERM "${pids[@]}" 2>/dev/null; wait' EXIT INT TERM
for i in 1 2 3; do
	bin/polylog serve --node "n$i" --data "$dir/n$i" --cluster "127.0.0.1:700$i" --seeds 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 \
		--amqp "127.0.0.1:$((5671 + i))" --kafka "127.0.0.1:$((9091 + i))" --http "127.0.0.1:$((15671 + i))" "$@" 2> >(sed -u "s/^/n$i  /" >&2) &
	pids+=($!)
done
echo 'three nodes; look at them with: bin/polylog cluster status' >&2
wait -n
