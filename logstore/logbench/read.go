package logbench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"polylog/logstore"
)

const (
	readPiece  = 1 << 20 // bytes asked for at a time
	readMemory = 2e9     // bytes a second that reading from memory should reach
	readTarget = 0.7     // of plain reading from the disk
)

// readOf measures the reading of a shard whose batches have that many records.
func readOf(name string, records int) func(ctx context.Context, c *Config) ([]Row, error) {
	return func(ctx context.Context, c *Config) (rows []Row, err error) {
		dir := filepath.Join(c.Dir, "log")
		s, err := c.open(dir)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		sh, err := fill(ctx, c, s, records)
		if err != nil {
			return nil, err
		}
		r := &reading{s: s, sh: sh, dir: dir, plain: make([]byte, readPiece)}
		if r.tail, err = r.offsetBefore(c.Scale.TailBytes); err != nil {
			return nil, err
		}
		plainly := side{"plain reading of all files", r.plainFromMemory(c.Round)}
		tail, _, err := c.inTurn(ctx, BytesPerSecond, side{"the shard's end", r.fromMemory(r.tail, c.Round)}, plainly)
		if err != nil {
			return nil, err
		}
		all, _, err := c.inTurn(ctx, BytesPerSecond, side{"the shard", r.fromMemory(0, c.Round)}, plainly)
		if err != nil {
			return nil, err
		}
		// A closed log has no reserved space that plain reading would get for nothing.
		if err := s.Close(); err != nil {
			return nil, err
		}
		if s, err = c.open(dir); err != nil {
			return nil, err
		}
		r.s = s
		cold, plain, err := c.inTurn(ctx, BytesPerSecond, side{"the shard", r.fromDisk(r.shardOnce)}, side{"plain reading of all files", r.fromDisk(r.filesOnce)})
		if err != nil {
			return nil, err
		}
		if !r.wasCold {
			c.Logf("  the system did not drop its cache: %s-disk was read from memory", name)
		}
		return []Row{
			compare(name+"-tail", BytesPerSecond, tail, readMemory, "target", 1),
			compare(name+"-memory", BytesPerSecond, all, readMemory, "target", 1),
			compare(name+"-disk", BytesPerSecond, cold, plain, "plain reading", readTarget),
		}, nil
	}
}

// fill appends records of 1 KiB to a new shard until it has the bytes that are to be read.
func fill(ctx context.Context, c *Config, s *logstore.Store, records int) (logstore.Shard, error) {
	const writers = 64
	batches, err := payloads(writers, records, 1<<10)
	if err != nil {
		return 0, err
	}
	sh, err := newShard(s)
	if err != nil {
		return 0, err
	}
	var (
		f    = appender(s, sh, batches)
		left atomic.Int64
		done = make(chan error, writers)
	)
	left.Store(c.Scale.ReadBytes)
	for w := range writers {
		go func() {
			for left.Add(-int64(batches[w].Len())) > -int64(batches[w].Len()) && ctx.Err() == nil {
				if err := f(w); err != nil {
					done <- err
					return
				}
			}
			done <- ctx.Err()
		}()
	}
	for range writers {
		err = errors.Join(err, <-done)
	}
	c.Logf("  %v are there", Figure{float64(c.Scale.ReadBytes), Bytes})
	return sh, err
}

// reading reads a shard, and the files that it lies in. One goroutine uses it.
type reading struct {
	s       *logstore.Store
	sh      logstore.Shard
	dir     string
	tail    int64 // offset at which the shard's end begins
	buf     logstore.Buffer
	plain   []byte
	wasCold bool // what should come from the disk did
}

// from reads the shard from an offset to its end, and returns the bytes of the batches.
func (r *reading) from(offset int64) (n int64, err error) {
	for {
		c, err := r.s.Read(r.sh, offset, readPiece, &r.buf)
		if err != nil {
			return n, err
		}
		for _, b := range c.Batches {
			n += int64(b.Len())
		}
		if c.Next == offset {
			return n, nil
		}
		offset = c.Next
	}
}

func (r *reading) shardOnce() (int64, error) { return r.from(0) }
func (r *reading) filesOnce() (int64, error) { return readFiles(r.dir, r.plain) }

// offsetBefore returns the offset that is about so many bytes before the end.
func (r *reading) offsetBefore(bytes int64) (int64, error) {
	_, next, err := r.s.Bounds(r.sh)
	if err != nil {
		return 0, err
	}
	all, err := r.from(0) // brings all into memory, too
	if err != nil || all == 0 {
		return 0, fmt.Errorf("the shard has %d bytes: %w", all, err)
	}
	return next - min(bytes, all)*next/all, nil
}

func (r *reading) fromMemory(offset int64, round time.Duration) func(context.Context) (rate, error) {
	return timed(round, func() (int64, error) { return r.from(offset) })
}

func (r *reading) plainFromMemory(round time.Duration) func(context.Context) (rate, error) {
	return timed(round, r.filesOnce)
}

// timed repeats f for a round, and returns bytes a second.
func timed(round time.Duration, f func() (int64, error)) func(context.Context) (rate, error) {
	return func(ctx context.Context) (rate, error) {
		var sum int64
		began := time.Now()
		for time.Since(began) < round {
			n, err := f()
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return rate{}, err
			}
			sum += n
		}
		return rate{perSecond: float64(sum) / time.Since(began).Seconds()}, nil
	}
}

// fromDisk runs f once with nothing in memory.
func (r *reading) fromDisk(f func() (int64, error)) func(context.Context) (rate, error) {
	return func(ctx context.Context) (rate, error) {
		if err := forget(r.dir); err != nil {
			return rate{}, err
		}
		before := readFromDisk()
		began := time.Now()
		n, err := f()
		took := time.Since(began)
		if err == nil {
			err = ctx.Err()
		}
		r.wasCold = readFromDisk()-before > n/2
		return rate{perSecond: float64(n) / took.Seconds()}, err
	}
}
