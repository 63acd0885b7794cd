package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"polylog/gateway/bench"
)

func benchLagCommand() Command {
	return Command{
		Name:    "lag",
		Summary: "measure how long after an acknowledgement another node has the record",
		Usage: `polylog bench lag -broker HOST:PORT -reader HOST:PORT,... [flags]

Produces records through one node of a cluster with the Kafka protocol, while they are fetched from another one, and prints how long after its acknowledgement had come
back a record had arrived. First it is found out how many records a second go through; the lag is measured at a share of that (-share), in turns of -rounds rounds with each
of the readers. The broker itself can be one of them, to see what of it is due to the reading.

"early" is the share of the records that arrived before their acknowledgement; their lag counts as 0. The topic is made for it and deleted at the end.

The exit status is 0 if every acknowledged record arrived, and with -limit if no reader's 99th percentile is longer, else 1.`,
		Run: runBenchLag,
	}
}

// lagFlags are the flags of polylog bench lag.
type lagFlags struct {
	l                  bench.Lag
	readers            string
	seconds            float64
	limit              time.Duration
	asJSON, asMarkdown bool
	fs                 *flag.FlagSet
}

func (env Env) lagFlags() *lagFlags {
	fs := env.Flags()
	f := &lagFlags{fs: fs}
	l := &f.l
	kafkaFlags(fs, &l.Kafka)
	fs.StringVar(&f.readers, "reader", "", "read from the nodes at `HOST:PORT`, several with commas between, in turn")
	fs.IntVar(&l.Load.Producers, "producers", 1, "`N` producers, each with a connection of its own")
	fs.IntVar(&l.Load.Queues, "partitions", 0, "spread the records over `N` partitions; 0: as many as there are producers")
	fs.IntVar(&l.Load.Size, "size", 1024, "messages of so many `BYTES`")
	fs.IntVar(&l.Load.Window, "confirm-window", 10_000, "a producer waits when its oldest unconfirmed message is `N` messages behind")
	fs.Float64Var(&f.seconds, "seconds", 5, "each round sends for `N` seconds")
	fs.Float64Var(&l.Load.Rate, "rate", 0, "send `N` messages a second in all instead of a share of what goes")
	fs.Float64Var(&l.Share, "share", 0.5, "measure at this `SHARE` of the rate that goes")
	fs.DurationVar(&l.Load.Patience, "patience", 15*time.Second, "give up what does not come when nothing has moved for so `LONG`")
	fs.IntVar(&l.Rounds, "rounds", 5, "`N` rounds with each reader")
	fs.IntVar(&l.Warmup, "warmup", 1, "`N` rounds first that do not count")
	fs.DurationVar(&f.limit, "limit", 0, "the 99th percentile should be at most so `LONG`; 0: any will do")
	fs.BoolVar(&f.asJSON, "json", false, "print the results as JSON")
	fs.BoolVar(&f.asMarkdown, "markdown", false, "print the results as a table in Markdown")
	return f
}

// check completes what was asked for, or returns what is wrong with it.
func (f *lagFlags) check() error {
	l := &f.l
	switch {
	case f.fs.NArg() > 0:
		return fmt.Errorf("takes no arguments, got %q", f.fs.Arg(0))
	case f.asJSON && f.asMarkdown:
		return errors.New("-json and -markdown exclude each other")
	case l.Rounds < 1 || l.Warmup < 0:
		return errors.New("-rounds must be 1 or more, -warmup 0 or more")
	case f.seconds <= 0 || f.seconds > 1e6:
		return errors.New("-seconds must be more than 0 and not over a million")
	case l.Load.Producers < 1:
		return errors.New("without -producers there is nothing to measure")
	}
	if f.readers != "" {
		l.Readers = strings.Split(f.readers, ",")
	}
	if l.Load.Queues == 0 {
		l.Load.Queues = l.Load.Producers
	}
	l.Load.Time = time.Duration(f.seconds * float64(time.Second))
	return l.Check()
}

func runBenchLag(ctx context.Context, env Env, args []string) int {
	f := env.lagFlags()
	if code, ok := env.Parse(f.fs, args); !ok {
		return code
	}
	keepIdempotence(f.fs, &f.l.Kafka)
	if err := f.check(); err != nil {
		return env.Misused("%v", err)
	}
	results, err := f.l.Run(ctx, func(format string, args ...any) { fmt.Fprintf(env.Stderr, format+"\n", args...) })
	write := bench.WriteLagTable
	switch {
	case f.asJSON:
		write = bench.WriteLagJSON
	case f.asMarkdown:
		write = bench.WriteLagMarkdown
	}
	if len(results) > 0 {
		err = errors.Join(err, write(env.Stdout, results))
	}
	if err = errors.Join(err, tooLong(results, f.limit)); err != nil {
		return env.Failed(err)
	}
	return ExitOK
}

// tooLong says at which readers the 99th percentile is longer than the limit. 0 is none.
func tooLong(results []bench.LagResult, limit time.Duration) (err error) {
	for _, r := range results {
		if limit > 0 && r.Lag.P99 > limit.Seconds() {
			p99 := time.Duration(r.Lag.P99 * float64(time.Second))
			err = errors.Join(err, fmt.Errorf("the 99th percentile at %s is %v, longer than %v", r.Reader, p99, limit))
		}
	}
	return err
}
