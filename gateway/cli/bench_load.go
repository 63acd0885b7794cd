package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"polylog/gateway/bench"
	"polylog/logstore/logbench"
)

// loadHelp ends the usage of the commands that drive a broker.
const loadHelp = `
Every message carries its number and the time, so the result says also what was lost, what arrived twice, and how long it took. If the broker runs on this machine, its
processor time and memory are shown (as far as this user may see them). Progress goes to stderr.

With -against the same load is put on a second broker, in turns of -rounds rounds each after -warmup rounds, and the medians are compared; then again at
a rate that both can do (-steady), for the latencies. -producers and -consumers can be lists then, as 1,2,4. docs/benchmarks.md says what the rows mean.

A broker of several nodes is given by all their addresses, with commas between: connections are spread over them in turn, those of consumers shifted by one, and the processor
time and memory are those of all. (Clients of Kafka find the nodes, and the one to talk to, by themselves.)

The exit status is 0 if every confirmed message arrived and nothing was left over, and with -strict if the targets were reached, else 1.`

// loadFlags are the flags that all drivers of brokers have.
type loadFlags struct {
	env Env
	fs  *flag.FlagSet

	producers, consumers          counts
	queues, size, window          *int
	messages                      *int64
	seconds, rate                 *float64
	patience                      *time.Duration
	against, againstName          *string
	rounds, warmup                *int
	steady, target, latencyTarget *float64
	asJSON, asMarkdown, strict    *bool
	profile                       *string
}

// counts is a list of numbers as a flag.
type counts []int

func (c *counts) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*c)), " ", ","), "[]")
}

// Set is part of flag.Value.
func (c *counts) Set(s string) error {
	*c = nil
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a number", part)
		}
		*c = append(*c, n)
	}
	return nil
}

// loadFlags adds the flags. queues is what messages are spread over, as the flag's name, against the name of a broker's address, the targets are the ratios that are asked for.
func (env Env) loadFlags(queues string, queuesDefault int, queuesHelp, address string, target, latencyTarget float64) *loadFlags {
	fs := env.Flags()
	l := &loadFlags{env: env, fs: fs, producers: counts{1}, consumers: counts{1}}
	fs.Var(&l.producers, "producers", "`N` producers, each with a connection of its own")
	fs.Var(&l.consumers, "consumers", "`N` consumers, each with a connection of its own; 0 measures publishing alone")
	l.queues = fs.Int(queues, queuesDefault, queuesHelp)
	l.size = fs.Int("size", 1024, "messages of so many `BYTES`")
	l.window = fs.Int("confirm-window", 1000, "a producer waits when its oldest unconfirmed message is `N` messages behind")
	l.messages = fs.Int64("messages", 0, "send `N` messages in all")
	l.seconds = fs.Float64("seconds", 0, "send for `N` seconds; 5 if -messages is not given either")
	l.rate = fs.Float64("rate", 0, "send `N` messages a second in all, each at its time, from which latencies then count; 0: as many as the broker takes")
	l.patience = fs.Duration("patience", 15*time.Second, "give up what does not come when nothing has moved for so `LONG`")
	l.against = fs.String("against", "", "compare with the broker at `"+address+"`")
	l.againstName = fs.String("against-name", "", "call that broker `NAME` in the result")
	l.rounds = fs.Int("rounds", 5, "with -against: `N` rounds of each broker")
	l.warmup = fs.Int("warmup", 1, "with -against: `N` rounds of each broker first that do not count")
	l.steady = fs.Float64("steady", 0.5, "with -against: compare latencies at this `SHARE` of the slower one's rate; 0: do not")
	l.target = fs.Float64("target", target, "with -against: the `RATIO` of the rates to be reached")
	l.latencyTarget = fs.Float64("latency-target", latencyTarget, "with -against: the `RATIO` of the latencies not to be exceeded; 0: any will do")
	l.strict = fs.Bool("strict", false, "with -against: fail if a target is missed")
	l.asJSON = fs.Bool("json", false, "print the results as JSON")
	l.asMarkdown = fs.Bool("markdown", false, "with -against: print the results as a table in Markdown")
	l.profile = fs.String("cpuprofile", "", "write a CPU profile of the driver to `FILE`")
	return l
}

// given reports whether a flag was on the command line.
func given(fs *flag.FlagSet, name string) (is bool) {
	fs.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// loads returns the loads that were asked for.
func (l *loadFlags) loads() ([]bench.Load, error) {
	switch {
	case l.fs.NArg() > 0:
		return nil, fmt.Errorf("takes no arguments, got %q", l.fs.Arg(0))
	case *l.asJSON && *l.asMarkdown:
		return nil, errors.New("-json and -markdown exclude each other")
	case len(l.producers) != len(l.consumers):
		return nil, fmt.Errorf("-producers has %d numbers and -consumers %d", len(l.producers), len(l.consumers))
	case *l.against == "" && len(l.producers) > 1:
		return nil, errors.New("a list of -producers goes with -against")
	case *l.against == "" && *l.asMarkdown:
		return nil, errors.New("-markdown goes with -against")
	case *l.against == "" && *l.strict:
		return nil, errors.New("-strict goes with -against")
	case *l.rounds < 1 || *l.warmup < 0:
		return nil, errors.New("-rounds must be 1 or more, -warmup 0 or more")
	case *l.steady < 0 || *l.steady > 1:
		return nil, errors.New("-steady must be from 0 to 1")
	case *l.messages < 0 || *l.seconds < 0 || *l.seconds > 1e6:
		return nil, errors.New("-messages and -seconds must not be negative, -seconds not over a million")
	}
	if *l.messages == 0 && *l.seconds == 0 {
		*l.seconds = 5
	}
	var loads []bench.Load
	for i, producers := range l.producers {
		if producers == 0 {
			return nil, errors.New("without -producers there is nothing to measure")
		}
		load := bench.Load{
			Producers: producers, Consumers: l.consumers[i], Queues: *l.queues, Size: *l.size, Window: *l.window, Rate: *l.rate,
			Messages: *l.messages, Time: time.Duration(*l.seconds * float64(time.Second)), Patience: *l.patience,
		}
		if load.Queues == 0 {
			load.Queues = max(load.Producers, load.Consumers)
		}
		if err := load.Check(); err != nil {
			return nil, err
		}
		loads = append(loads, load)
	}
	return loads, nil
}

// drive runs the loads on the one broker, or on both in turn, and prints the result.
func (l *loadFlags) drive(ctx context.Context, loads []bench.Load, ours, theirs bench.Broker) int {
	logf := func(format string, args ...any) { fmt.Fprintf(l.env.Stderr, format+"\n", args...) }
	if *l.profile != "" {
		f, err := os.Create(*l.profile)
		if err != nil {
			return l.env.Failed(err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return l.env.Failed(err)
		}
		defer pprof.StopCPUProfile()
	}
	if theirs == nil {
		return l.driveOne(ctx, loads[0], ours, logf)
	}
	var rows []logbench.Row
	var failed error
	for _, load := range loads {
		c := bench.Comparison{Ours: ours, Theirs: theirs, TheirName: *l.againstName, Load: load, Rounds: *l.rounds, Warmup: *l.warmup, Target: *l.target, LatencyTarget: *l.latencyTarget, Steady: *l.steady}
		some, err := c.Run(ctx, logf)
		rows = append(rows, some...)
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	write := logbench.WriteTable
	switch {
	case *l.asJSON:
		write = logbench.WriteJSON
	case *l.asMarkdown:
		write = logbench.WriteMarkdown
	}
	if len(rows) > 0 {
		failed = errors.Join(failed, write(l.env.Stdout, rows))
	}
	if *l.strict {
		failed = errors.Join(failed, missed(rows))
	}
	if failed != nil {
		return l.env.Failed(failed)
	}
	return ExitOK
}

// missed says which rows have missed their target, if any have.
func missed(rows []logbench.Row) error {
	var names []string
	for _, r := range rows {
		if !r.OK() {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("missed the target: %s", strings.Join(names, ", "))
}

func (l *loadFlags) driveOne(ctx context.Context, load bench.Load, b bench.Broker, logf bench.Logf) int {
	result, err := bench.Run(ctx, b, load, logf)
	if err != nil {
		return l.env.Failed(err)
	}
	write := result.WriteTable
	if *l.asJSON {
		write = result.WriteJSON
	}
	if err := write(l.env.Stdout); err != nil {
		return l.env.Failed(err)
	}
	if !result.Sound() {
		return ExitFailed // the result says why
	}
	return ExitOK
}
