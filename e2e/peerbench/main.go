// Command peerbench starts Polylog and the brokers it is compared with on this machine, one node of each or three, puts the same loads on both in turn, and prints the
// tables of docs/benchmarks.md. scripts/bench-peers.sh installs what it needs and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"polylog/e2e/harness"
)

// comparison is the broker to compare with, and what `polylog bench` is told about the two.
type comparison struct {
	name   string
	part   string // of polylog bench: amqp, kafka or lag
	nodes  int    // of each of the two: with more than one they are clusters
	theirs func() (*contestant, error)
	loads  []string
}

var comparisons = []comparison{
	{"amqp", "amqp", 1, one(harness.LaunchRabbitMQ), []string{"-producers", "1,2,4", "-consumers", "1,2,4"}},
	{"kafka", "kafka", 1, one(harness.LaunchKafka), kafkaLoads("3")},
	{"kafka-synced", "kafka", 1, named("Kafka, synced", one(harness.LaunchKafka, synced)), kafkaLoads("3")},
	{
		// As many queues as there are clients, on the nodes in turn: each queue of RabbitMQ has a leader of its own, so that all nodes have work.
		"amqp-cluster", "amqp", 3, named("RabbitMQ, quorum queues", several(harness.LaunchRabbitMQCluster)),
		slices.Concat([]string{"-producers", "1,2,4", "-consumers", "1,2,4", "-queues", "0", "-queue-type", "quorum"}, clusterTargets),
	},
	{"kafka-cluster", "kafka", 3, several(harness.LaunchKafkaCluster), kafkaClusterLoads},
	{"kafka-cluster-synced", "kafka", 3, named("Kafka, synced", several(harness.LaunchKafkaCluster, synced)), kafkaClusterLoads},
	// Ours alone: acknowledged by the one node, read at each.
	{"lag", "lag", 3, nil, []string{"-producers", "2"}},
}

// synced gives Kafka the promise that Polylog makes: nothing is acknowledged that is not on the disk.
const synced = "log.flush.interval.messages=1"

// kafkaLoads are those beside Kafka. A virtual machine for Java is fast when it has compiled what it runs, which takes it some ten seconds of load.
func kafkaLoads(warmup string, more ...string) []string {
	return append([]string{"-producers", "1,2,4", "-consumers", "1,2,4", "-confirm-window", "10000", "-warmup", warmup}, more...)
}

// clusterTargets is what is asked of three nodes beside three others: the rate alone, and the exit status says it.
var clusterTargets = []string{"-target", "2", "-latency-target", "0", "-strict"}

// Three virtual machines share the processors while they compile, so they warm up for longer.
var kafkaClusterLoads = kafkaLoads("5", clusterTargets...)

// contestant is a broker that runs, of one node or several.
type contestant struct {
	name        string
	amqp, kafka []string // addresses of the nodes; of a broker that is not ours, those of its protocol
	close       func() error
}

func one(launch func(...string) (*harness.Peer, error), config ...string) func() (*contestant, error) {
	return func() (*contestant, error) {
		p, err := launch(config...)
		if err != nil {
			return nil, err
		}
		return &contestant{p.Name, []string{p.Address}, []string{p.Address}, p.Close}, nil
	}
}

func several(launch func(int, ...string) (*harness.PeerCluster, error), config ...string) func() (*contestant, error) {
	return func() (*contestant, error) {
		c, err := launch(3, config...)
		if err != nil {
			return nil, err
		}
		return &contestant{c.Name, c.Addresses(), c.Addresses(), c.Close}, nil
	}
}

// named calls a broker by another name.
func named(name string, launch func() (*contestant, error)) func() (*contestant, error) {
	return func() (*contestant, error) {
		c, err := launch()
		if err == nil {
			c.name = name
		}
		return c, err
	}
}

// polylog starts ours.
func polylog(nodes int, serve []string) (*contestant, error) {
	if nodes == 1 {
		b, err := harness.Launch(harness.Options{Args: serve})
		if err != nil {
			return nil, err
		}
		return &contestant{"Polylog", []string{b.AMQP}, []string{b.Kafka}, b.Close}, nil
	}
	c, err := harness.LaunchCluster(harness.ClusterOptions{Nodes: nodes, Args: serve})
	if err != nil {
		return nil, err
	}
	us := &contestant{name: "Polylog", close: c.Close}
	for _, b := range c.Nodes {
		us.amqp, us.kafka = append(us.amqp, b.AMQP), append(us.kafka, b.Kafka)
	}
	return us, nil
}

// between returns which brokers `polylog bench` drives. theirs may be nil.
func (c comparison) between(ours, theirs *contestant) []string {
	switch c.part {
	case "amqp":
		return []string{"-url", urls(ours.amqp), "-against", urls(theirs.amqp)}
	case "kafka":
		return []string{"-broker", strings.Join(ours.kafka, ","), "-against", strings.Join(theirs.kafka, ",")}
	}
	return []string{"-broker", ours.kafka[0], "-reader", strings.Join(ours.kafka, ",")}
}

func urls(addresses []string) string {
	var all []string
	for _, a := range addresses {
		all = append(all, "amqp://"+a+"/")
	}
	return strings.Join(all, ",")
}

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
	only := fs.String("only", "", "make only the comparisons `NAME,...` of "+names())
	serve := fs.String("serve", "", "more `FLAGS` for polylog serve, separated by blanks")
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), "usage: peerbench [flags] [flags of polylog bench amqp, kafka or lag]\n\nBehind -- the flags of polylog bench, for all comparisons that are made.\n\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	chosen := strings.Split(*only, ",")
	for _, name := range chosen {
		if *only != "" && !slices.ContainsFunc(comparisons, func(c comparison) bool { return c.name == name }) {
			return fmt.Errorf("-only names some of %s, not %q", names(), name)
		}
	}
	var failed error
	for _, c := range comparisons {
		if *only != "" && !slices.Contains(chosen, c.name) || ctx.Err() != nil {
			continue
		}
		if err := c.run(ctx, strings.Fields(*serve), fs.Args()); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(failed, ctx.Err())
}

// names lists the comparisons.
func names() string {
	var all []string
	for _, c := range comparisons {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}

// run starts both brokers, has `polylog bench` compare them, and ends them.
func (c comparison) run(ctx context.Context, serve, more []string) (err error) {
	binary, err := harness.Binary()
	if err != nil {
		return err
	}
	ours, err := polylog(c.nodes, serve)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	var theirs *contestant
	args := []string{"-markdown"}
	if c.theirs != nil {
		if theirs, err = c.theirs(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, theirs.close()) }()
		args = append(args, "-against-name", theirs.name)
	}
	args = slices.Concat([]string{"bench", c.part}, c.between(ours, theirs), args, c.loads, more)
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
