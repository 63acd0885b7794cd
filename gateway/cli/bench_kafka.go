package cli

import (
	"context"
	"flag"
	"strings"

	"polylog/gateway/bench"
)

func benchKafkaCommand() Command {
	return Command{
		Name:    "kafka",
		Summary: "drive a broker through the Kafka protocol",
		Usage: `polylog bench kafka [flags]

Produces records to a topic of a broker, consumes them, and prints how many a second went all the way, how long they took to be acknowledged and to arrive, and what
processor time that cost. The topic is made for it and deleted at the end.
` + loadHelp,
		Run: runBenchKafka,
	}
}

// What should be reached beside the broker that is compared with: its rate, while every acknowledgement is on the disk. Latencies have no target: one that does not wait for
// the disk has an easier life.
const (
	kafkaTarget        = 1
	kafkaLatencyTarget = 0
)

func runBenchKafka(ctx context.Context, env Env, args []string) int {
	l := env.loadFlags("partitions", 0, "spread the records over `N` partitions; 0: as many as there are producers, or consumers if they are more", "HOST:PORT", kafkaTarget, kafkaLatencyTarget)
	fs := l.fs
	var k bench.Kafka
	kafkaFlags(fs, &k)
	fs.StringVar(&k.Group, "group", "", "consume as the group `NAME`, which commits; else partitions are dealt out to consumers")
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	loads, err := l.loads()
	keepIdempotence(fs, &k)
	if err == nil {
		err = k.Check()
	}
	if err != nil {
		return env.Misused("%v", err)
	}
	if *l.against == "" {
		return l.drive(ctx, loads, &k, nil)
	}
	other := k
	other.Broker = *l.against
	if err := other.Check(); err != nil {
		return env.Misused("-against: %v", err)
	}
	return l.drive(ctx, loads, &k, &other)
}

// kafkaFlags adds the flags of all that produces to Kafka's protocol.
func kafkaFlags(fs *flag.FlagSet, k *bench.Kafka) {
	fs.StringVar(&k.Broker, "broker", "127.0.0.1:9092", "drive the broker at `HOST:PORT`, or the one whose nodes are at several with commas between")
	fs.StringVar(&k.Topic, "topic", "polylog-bench", "topics whose names begin with `NAME`")
	fs.IntVar(&k.Replicas, "replicas", -1, "ask for `N` copies of each partition; -1: as many as the broker makes by default")
	fs.StringVar(&k.Acks, "acks", "all", "ask for `N` acknowledgements: all, 1 or 0")
	fs.BoolVar(&k.Idempotent, "idempotent", true, "number the batches so that none is written twice; goes with -acks all")
	fs.DurationVar(&k.Linger, "linger", 0, "wait so `LONG` for a batch to fill")
	fs.IntVar(&k.BatchBytes, "batch-bytes", 1_000_000, "batches of at most `BYTES`")
	fs.StringVar(&k.Compression, "compression", "none", "compress batches with `CODEC`: "+strings.Join(bench.Compressions, ", "))
}

// keepIdempotence leaves out the numbers of batches where they cannot be, unless they were asked for.
func keepIdempotence(fs *flag.FlagSet, k *bench.Kafka) {
	if k.Acks != "all" && !given(fs, "idempotent") {
		k.Idempotent = false
	}
}
