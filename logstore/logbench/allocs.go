package logbench

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	allocsLimit = 2
	// copyTarget is the part of a larger payload that may show in the bytes allocated: what checkpoints and segments need, which come more often. A log that
	// copied payloads into fresh memory would be at 1.
	copyTarget = 0.01
)

// perRecord is what was allocated for each appended record, in the whole process.
type perRecord struct{ allocations, bytes float64 }

func measureAllocs(ctx context.Context, c *Config) ([]Row, error) {
	one, err := allocations(ctx, c, 1, 1<<10, c.Scale.Commits/10)
	if err != nil {
		return nil, err
	}
	many, err := allocations(ctx, c, 256, 1<<10, c.Scale.Commits)
	if err != nil {
		return nil, err
	}
	small, err := allocations(ctx, c, 64, 1<<10, c.Scale.Commits/10)
	if err != nil {
		return nil, err
	}
	large, err := allocations(ctx, c, 64, 64<<10, c.Scale.Commits/10)
	if err != nil {
		return nil, err
	}
	c.Logf("  a record of 1 KiB: %.2f allocations, %.0f bytes by one writer, %.2f, %.0f bytes by 256; by 64 writers %.0f bytes, of 64 KiB: %.0f bytes",
		one.allocations, one.bytes, many.allocations, many.bytes, small.bytes, large.bytes)
	return []Row{
		limit("allocs-1", Allocations, one.allocations, allocsLimit, "limit"),
		limit("allocs-256", Allocations, many.allocations, allocsLimit, "limit"),
		{
			Name: "allocs-payload", Measured: Figure{max(large.bytes-small.bytes, 0), Bytes}, Against: Figure{63 << 10, Bytes},
			Is: "64 KiB less 1 KiB", Target: copyTarget, AtMost: true,
		},
	}, nil
}

// allocations counts what is allocated while writers commit records of size bytes, after a tenth as many to warm up.
func allocations(ctx context.Context, c *Config, writers, size, commits int) (p perRecord, err error) {
	batches, err := payloads(writers, 1, size)
	if err != nil {
		return p, err
	}
	s, err := c.open(filepath.Join(c.Dir, strconv.Itoa(writers)+"-"+strconv.Itoa(size)))
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	sh, err := newShard(s)
	if err != nil {
		return p, err
	}
	var (
		f             = appender(s, sh, batches)
		warmed, ended sync.WaitGroup
		begin         = make(chan struct{})
		left          atomic.Int64
		failure       atomic.Pointer[error]
	)
	some := func(w int) {
		for left.Add(-1) >= 0 && ctx.Err() == nil {
			if err := f(w); err != nil {
				failure.Store(&err)
				return
			}
		}
	}
	left.Store(int64(commits/10 + writers))
	warmed.Add(writers)
	for w := range writers {
		ended.Go(func() {
			some(w)
			warmed.Done()
			<-begin
			some(w)
		})
	}
	warmed.Wait()
	left.Store(int64(commits))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	close(begin)
	ended.Wait()
	runtime.ReadMemStats(&after)
	if e := failure.Load(); e != nil {
		return p, *e
	}
	n := float64(commits)
	return perRecord{float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n}, ctx.Err()
}
