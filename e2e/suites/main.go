// The command suites runs the test suites of public Go clients against a broker: those of github.com/rabbitmq/amqp091-go, of franz-go's kgo and of IBM/sarama.
//
// The suites come from the module cache and are run as they are published; nothing of them is kept here. Some ask for what Polylog does not do yet, or for a cluster:
// known.go names each test that fails, with the reason. A test that fails and is not named, or is named and passes, makes the exit status 1, so that the
// list stays true. docs/conformance.md is the list for people.
//
// Without arguments all suites run against a Polylog that is started for each; -peers takes RabbitMQ and Apache Kafka instead, which is how one learns what the suites
// ask for. The suites use fixed names for queues and topics, so each is given a fresh broker.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"polylog/e2e/harness"
)

func main() {
	peers := flag.Bool("peers", false, "run against RabbitMQ and Apache Kafka")
	verbose := flag.Bool("v", false, "print the output of tests that fail as known, too")
	only := flag.String("run", "", "run only tests that match this `REGEXP`; lists of known failures are then not held to be complete")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: suites [flags] [amqp091-go] [kgo] [sarama]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	r := &runner{peers: *peers, verbose: *verbose, only: *only}
	err := r.runAll(ctx, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
	}
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if err != nil || r.failed > 0 {
		os.Exit(1)
	}
}

// runner runs suites and counts tests. Tests that fail and are known to are counted as skipped: they are about something else.
type runner struct {
	peers, verbose          bool
	only                    string
	passed, failed, skipped int
}

func (r *runner) runAll(ctx context.Context, names []string) error {
	for _, n := range names {
		if !slices.ContainsFunc(suites, func(s suite) bool { return s.name == n }) {
			return fmt.Errorf("unknown suite %q; there are amqp091-go, kgo and sarama", n)
		}
	}
	for _, s := range suites {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		if err := r.runSuite(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return ctx.Err()
}

// runSuite starts a broker, runs one suite, and holds its result against what is known.
func (r *runner) runSuite(ctx context.Context, s suite) error {
	address, name, end, err := r.broker(s)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s %s against %s at %s\n", s.name, s.version, name, address)
	known, excluded := s.known, s.excluded
	if r.peers {
		known, excluded = s.knownOfPeer, nil
	}
	result, err := s.run(ctx, address, r.only, excluded)
	if err := errors.Join(err, end()); err != nil {
		return err
	}
	for _, t := range result.tests {
		reason, isKnown := known[t.name]
		switch {
		case t.state == passed && isKnown:
			r.failed++
			fmt.Printf("FAIL  %s passes; take it from the list of known failures (%s)\n", t.name, reason)
		case t.state == passed:
			r.passed++
		case t.state == skipped:
			r.skipped++
		case isKnown || parentKnown(t.name, known):
			r.skipped++
			fmt.Printf("known %s: %s\n", t.name, reason)
			if r.verbose {
				fmt.Print(t.output())
			}
		default:
			r.failed++
			fmt.Printf("FAIL  %s\n%s", t.name, t.output())
		}
	}
	if r.only == "" {
		for _, name := range result.missing(known) {
			r.failed++
			fmt.Printf("FAIL  %s is a known failure and did not run\n", name)
		}
		for _, name := range excluded {
			r.skipped++
			fmt.Printf("known %s: not run: %s\n", name, s.whyExcluded)
		}
	}
	if result.broken != "" {
		r.failed++
		fmt.Printf("FAIL  the suite did not come to its end:\n%s", result.broken)
	}
	if len(result.tests) == 0 {
		return errors.New("no test ran")
	}
	return nil
}

// parentKnown reports whether a subtest belongs to a test that is known to fail, or has a subtest that is: its failure is theirs.
func parentKnown(name string, known map[string]string) bool {
	for k := range known {
		if strings.HasPrefix(name, k+"/") || strings.HasPrefix(k, name+"/") {
			return true
		}
	}
	return false
}

// broker starts what the suite is run against.
func (r *runner) broker(s suite) (address, name string, end func() error, err error) {
	if !r.peers {
		b, err := harness.Launch(harness.Options{Args: s.serveArgs})
		if err != nil {
			return "", "", nil, err
		}
		address = b.AMQP
		if s.speaksKafka {
			address = b.Kafka
		}
		return address, "Polylog", func() error {
			if b.Ended() {
				fmt.Print(b.Log())
			}
			return b.Close()
		}, nil
	}
	var p *harness.Peer
	if s.speaksKafka {
		p, err = harness.LaunchKafka(s.peerConfig...)
	} else {
		p, err = harness.LaunchRabbitMQ(s.peerConfig...)
	}
	if err != nil {
		return "", "", nil, err
	}
	return p.Address, p.Name + " " + p.Version, p.Close, nil
}
