package logbench

import (
	"errors"
	"fmt"
	"time"

	"polylog/logstore"
)

// Config says how to measure.
type Config struct {
	// Dir is an existing directory on the disk to be measured. What is written there is removed again.
	Dir string
	// Only names the measurements to run, or the first parts of their names ("append" is all of append-1, append-256, ...). Empty: all.
	Only []string
	// Round is how long each side of a comparison runs at a time, Rounds how often it does.
	Round  time.Duration
	Rounds int
	Scale  Scale
	// Child is the command line of a program that calls Hold with the arguments that are added to it. A process that is to be killed, or whose memory is to be
	// measured, is such a program.
	Child []string
	// Logf is told how far the run has come. Default: nobody is.
	Logf func(format string, args ...any)
}

// Scale is how much there is of what takes room. The zero value of a field stands for the figure that the targets are about.
type Scale struct {
	SegmentBytes int64 // of the log and of the yardstick; default 128 MiB
	Shards       int   // of "shards"; default a million
	ReadBytes    int64 // of the shard of "read"; default 1 GiB
	TailBytes    int64 // of its end, which is read as a consumer that keeps up would; default 64 MiB
	Messages     int   // that wait in "waiting"; default 20 million
	Backlog      int64 // records that wait in "queue"; default 10,000
	QueueBytes   int64 // that go through it; default ten segments
	Commits      int   // over which "allocs" counts; default 200,000
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("no directory was given to measure in")
	}
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	if c.Round == 0 {
		c.Round = 2 * time.Second
	}
	if c.Rounds == 0 {
		c.Rounds = 5
	}
	if c.Round < 0 || c.Rounds < 0 {
		return c, fmt.Errorf("%d rounds of %v make no sense", c.Rounds, c.Round)
	}
	s := &c.Scale
	orDefault(&s.SegmentBytes, 128<<20)
	orDefault(&s.Shards, 1_000_000)
	orDefault(&s.ReadBytes, 1<<30)
	orDefault(&s.TailBytes, 64<<20)
	orDefault(&s.Messages, 20_000_000)
	orDefault(&s.Backlog, 10_000)
	orDefault(&s.QueueBytes, 10*s.SegmentBytes)
	orDefault(&s.Commits, 200_000)
	return c, nil
}

func orDefault[T int | int64](n *T, value T) {
	if *n == 0 {
		*n = value
	}
}

// open opens a store in a directory of this measurement.
func (c *Config) open(dir string) (*logstore.Store, error) {
	return logstore.Open(logstore.Options{
		Dir:          dir,
		SegmentBytes: c.Scale.SegmentBytes,
		Logf:         func(format string, args ...any) { c.Logf("  the log says: "+format, args...) },
	})
}
