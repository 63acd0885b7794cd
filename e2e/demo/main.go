// The command demo shows what Polylog is for, with clients that are not ours, and checks every number that it shows: `make demo`.
//
// It publishes messages with AMQP confirms, reads them with a Kafka consumer group, takes half of them with AMQP's Get and Consume at once, sends some back, and
// looks at it from both sides: bounds, lag, who holds what. At the end everything is settled and the log is empty. It starts a broker of its own on free ports with
// a temporary data directory, unless the addresses of a running one are given. The exit status is 0 only if every number was right.
//
// The story is scene.go; orders.go, taking.go, kafka.go and claims.go have what its actors do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"polylog/e2e/harness"
)

func main() {
	var o options
	flag.StringVar(&o.amqp, "amqp", "", "the `ADDRESS` at which a running broker serves AMQP; \"\" starts one")
	flag.StringVar(&o.kafka, "kafka", "", "the `ADDRESS` at which the same broker serves Kafka")
	flag.IntVar(&o.messages, "messages", 10_000, "how many messages are published: a multiple of 100")
	flag.Parse()
	if err := o.valid(); err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "demo:", errors.Join(err, fmt.Errorf("see -h")))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	amqp, kafka string
	messages    int
}

func (o options) valid() error {
	if (o.amqp == "") != (o.kafka == "") {
		return errors.New("-amqp and -kafka must be given together: they are two views of one broker")
	}
	if o.messages < 100 || o.messages%100 != 0 || o.messages > 1_000_000 {
		return fmt.Errorf("-messages is %d, it must be a multiple of 100 up to a million", o.messages)
	}
	return nil
}

// limit bounds the whole: it takes seconds.
const limit = 5 * time.Minute

// run plays the scene and reports whether every number was right.
func run(ctx context.Context, out io.Writer, o options) (ok bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	say := &story{out: out}
	if o.amqp != "" {
		say.headline("A broker that runs already")
		say.fact("AMQP 0-9-1", o.amqp)
		say.fact("Kafka", o.kafka)
		err := newScene(say, o).play(ctx)
		return say.end() && err == nil, err
	}
	b, err := harness.Launch(harness.Options{})
	if err != nil {
		return false, err
	}
	o.amqp, o.kafka = b.AMQP, b.Kafka
	say.headline("One broker, one log, two protocols")
	say.fact("AMQP 0-9-1", o.amqp)
	say.fact("Kafka", o.kafka)
	say.fact("data", b.Dir)
	if err := newScene(say, o).play(ctx); err != nil {
		return false, errors.Join(err, errors.New(b.Log()), b.Close())
	}
	say.headline("The broker ends")
	say.check("it ends in order when it is told to", b.Stop() == nil)
	binary, err := harness.Binary()
	if err != nil {
		return false, errors.Join(err, b.Close())
	}
	text, err := exec.CommandContext(ctx, binary, "check", b.Dir).CombinedOutput()
	say.check("polylog check finds nothing wrong in its log", err == nil)
	if err != nil {
		fmt.Fprintf(out, "%s\n", text)
	}
	return say.end(), b.Close()
}
