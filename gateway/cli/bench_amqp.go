package cli

import (
	"context"

	"polylog/gateway/bench"
)

func benchAMQPCommand() Command {
	return Command{
		Name:    "amqp",
		Summary: "drive a broker through AMQP 0-9-1",
		Usage: `polylog bench amqp [flags]

Publishes persistent messages with confirms to durable queues of a broker, consumes and acknowledges them, and prints how many a second went all the way, how long
they took to be confirmed and delivered, and what processor time that cost. The queues are made for it and deleted at the end.
` + loadHelp,
		Run: runBenchAMQP,
	}
}

// What should be reached beside the broker that is compared with: at least so many times its rate, at most so many times its 99th percentiles.
const (
	amqpTarget        = 4
	amqpLatencyTarget = 1
)

func runBenchAMQP(ctx context.Context, env Env, args []string) int {
	l := env.loadFlags("queues", 1, "spread the messages over `N` queues; 0: as many as there are producers, or consumers if they are more", "URL", amqpTarget, amqpLatencyTarget)
	fs := l.fs
	var a bench.AMQP
	fs.StringVar(&a.URL, "url", "amqp://guest:guest@127.0.0.1:5672/", "drive the broker at `URL`, or its nodes at several with commas between")
	fs.StringVar(&a.Queue, "queue", "polylog-bench", "queues whose names begin with `NAME`")
	fs.StringVar(&a.QueueType, "queue-type", "", "declare the queues with `TYPE` as x-queue-type")
	fs.BoolVar(&a.Transient, "transient", false, "publish messages that are not persistent")
	fs.IntVar(&a.Prefetch, "prefetch", 200, "a consumer has at most `N` messages unacknowledged; 0: no bound")
	fs.BoolVar(&a.AutoAck, "auto-ack", false, "consume without acknowledgements")
	fs.IntVar(&a.Multiple, "multiple", 1, "acknowledge up to `N` messages with one frame")
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	loads, err := l.loads()
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return env.Misused("%v", err)
	}
	if *l.against == "" {
		return l.drive(ctx, loads, &a, nil)
	}
	other := a
	other.URL = *l.against
	if err := other.Check(); err != nil {
		return env.Misused("-against: %v", err)
	}
	return l.drive(ctx, loads, &a, &other)
}
