package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"polylog/logstore/logbench"
)

func benchCommand() Command {
	return Command{
		Name:    "bench",
		Summary: "measure the log, or how fast a broker is",
		Usage: `polylog bench PART

Measures the log on this machine, or drives a broker that is running and says how fast it is.`,
		Run: func(ctx context.Context, env Env, args []string) int {
			return Dispatch(ctx, env, []Command{benchLogCommand(), benchAMQPCommand(), benchKafkaCommand(), benchLagCommand()}, args)
		},
	}
}

func benchLogCommand() Command {
	var list strings.Builder
	names, whats := logbench.Names()
	for i := range names {
		fmt.Fprintf(&list, "\n  %-12s  %s", names[i], whats[i])
	}
	return Command{
		Name:    "log",
		Summary: "measure the log, mostly against a bare program on the same disk",
		Usage: `polylog bench log [flags]

Measures the log and prints one line for each result: the figure, what it is held against, their ratio, and what the ratio should be.
Progress goes to stderr. Rates are medians of rounds in which the two sides take turns. docs/benchmarks.md explains each line.

A full run takes about eight minutes, writes what the disk takes in that time, needs up to 20 GiB of disk and 4 GiB of memory, and must
have a real disk and the machine to itself. It works in a new directory under the current one (or DIR), which is removed at the end.

measurements:` + list.String(),
		Run: runBenchLog,
	}
}

// holdWord makes the command a process that holds a log, for a run of the command that started it.
const holdWord = "hold"

func runBenchLog(ctx context.Context, env Env, args []string) int {
	if len(args) > 0 && args[0] == holdWord {
		if err := logbench.Hold(ctx, args[1:], os.Stdin, env.Stdout); err != nil {
			return env.Failed(err)
		}
		return ExitOK
	}
	fs := env.Flags()
	dir := fs.String("dir", ".", "measure in a new directory under `DIR`, which must be on a real disk, not a tmpfs")
	seconds := fs.Float64("seconds", 2, "a round of each side of a comparison takes `N` seconds; there are five")
	only := fs.String("only", "", "run only the measurements `NAME,...`; append stands for all that begin with append-")
	messages := fs.Int("messages", 20_000_000, "how many `MESSAGES` wait in waiting")
	asJSON := fs.Bool("json", false, "print the results as JSON")
	asMarkdown := fs.Bool("markdown", false, "print the results as a table in Markdown")
	profile := fs.String("cpuprofile", "", "write a CPU profile of the run to `FILE`")
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	c := logbench.Config{
		Dir: *dir, Round: time.Duration(*seconds * float64(time.Second)), Scale: logbench.Scale{Messages: *messages},
		Logf: func(format string, args ...any) { fmt.Fprintf(env.Stderr, format+"\n", args...) },
	}
	if *only != "" {
		c.Only = strings.Split(*only, ",")
	}
	if code := env.checkBenchLog(fs, c, *asJSON && *asMarkdown); code != ExitOK {
		return code
	}
	rows, err := benchLog(ctx, c, *profile)
	write := logbench.WriteTable
	switch {
	case *asJSON:
		write = logbench.WriteJSON
	case *asMarkdown:
		write = logbench.WriteMarkdown
	}
	if err == nil || len(rows) > 0 {
		err = errors.Join(err, write(env.Stdout, rows))
	}
	if err != nil {
		return env.Failed(err)
	}
	return ExitOK
}

func (env Env) checkBenchLog(fs *flag.FlagSet, c logbench.Config, twoForms bool) int {
	switch {
	case fs.NArg() > 0:
		return env.Misused("takes no arguments, got %q", fs.Arg(0))
	case c.Round <= 0:
		return env.Misused("-seconds must be more than 0")
	case c.Scale.Messages <= 0:
		return env.Misused("-messages must be more than 0")
	case twoForms:
		return env.Misused("-json and -markdown exclude each other")
	}
	if err := logbench.Check(c.Only); err != nil {
		return env.Misused("%v", err)
	}
	return ExitOK
}

// benchLog runs the measurements in a directory that is gone afterwards.
func benchLog(ctx context.Context, c logbench.Config, profile string) (rows []logbench.Row, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c.Child = []string{self, "bench", "log", holdWord}
	if c.Dir, err = os.MkdirTemp(c.Dir, "polylog-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	return logbench.Run(ctx, c)
}
