// Command peerbench starts Polylog and the brokers it is compared with on this machine, puts the same loads on both in turn, and prints the tables of
// docs/benchmarks.md. scripts/bench-peers.sh installs what it needs and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"polylog/e2e/harness"
)

// comparison is the broker to compare with, and what `polylog bench` is told about the two.
type comparison struct {
	name     string
	protocol string
	launch   func() (*harness.Peer, error)
	between  func(ours *harness.Broker, theirs *harness.Peer) []string
	loads    []string
}

var comparisons = []comparison{
	{
		"amqp", "amqp", func() (*harness.Peer, error) { return harness.LaunchRabbitMQ() },
		func(b *harness.Broker, p *harness.Peer) []string {
			return []string{"-url", "amqp://" + b.AMQP + "/", "-against", "amqp://" + p.Address + "/"}
		},
		[]string{"-producers", "1,2,4", "-consumers", "1,2,4"},
	},
	{"kafka", "kafka", func() (*harness.Peer, error) { return harness.LaunchKafka() }, betweenKafkas, kafkaLoads},
	{
		// Kafka with the promise that Polylog makes: nothing is acknowledged that is not on the disk.
		"kafka-synced", "kafka", func() (*harness.Peer, error) {
			p, err := harness.LaunchKafka("log.flush.interval.messages=1")
			if err == nil {
				p.Name = "Kafka, synced"
			}
			return p, err
		}, betweenKafkas, kafkaLoads,
	},
}

func betweenKafkas(b *harness.Broker, p *harness.Peer) []string {
	return []string{"-broker", b.Kafka, "-against", p.Address}
}

// A virtual machine for Java is fast when it has compiled what it runs, which takes it some ten seconds of load.
var kafkaLoads = []string{"-producers", "1,2,4", "-consumers", "1,2,4", "-confirm-window", "10000", "-warmup", "3"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "peerbench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("peerbench", flag.ContinueOnError)
	only := fs.String("only", "", "make only the comparison `NAME`: amqp, kafka or kafka-synced")
	serve := fs.String("serve", "", "more `FLAGS` for polylog serve, separated by blanks")
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), "usage: peerbench [flags] [flags of polylog bench amqp and kafka]\n\nBehind -- the flags of polylog bench.\n\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	var failed error
	ran := false
	for _, c := range comparisons {
		if *only != "" && *only != c.name || ctx.Err() != nil {
			continue
		}
		ran = true
		if err := c.run(ctx, strings.Fields(*serve), fs.Args()); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	if !ran && ctx.Err() == nil {
		return fmt.Errorf("-only is amqp, kafka or kafka-synced, not %q", *only)
	}
	return errors.Join(failed, ctx.Err())
}

// run starts both brokers, has `polylog bench` compare them, and ends them.
func (c comparison) run(ctx context.Context, serve, more []string) (err error) {
	binary, err := harness.Binary()
	if err != nil {
		return err
	}
	ours, err := harness.Launch(harness.Options{Args: serve})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	theirs, err := c.launch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, theirs.Close()) }()
	args := append([]string{"bench", c.protocol}, c.between(ours, theirs)...)
	args = append(append(append(args, "-against-name", theirs.Name, "-markdown"), c.loads...), more...)
	fmt.Printf("    polylog %s\n\n", shown(args))
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// It deletes its queues and topics when it is interrupted.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 30*time.Second
	err = cmd.Run()
	fmt.Println()
	return err
}

// shown writes arguments as a shell takes them.
func shown(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		if quoted[i] = a; strings.ContainsAny(a, " ") {
			quoted[i] = "'" + a + "'"
		}
	}
	return strings.Join(quoted, " ")
}
