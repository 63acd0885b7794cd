package logbench

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// measurement makes some rows. It may use c.Dir as it likes.
type measurement struct {
	name string
	what string
	run  func(ctx context.Context, c *Config) ([]Row, error)
}

// measurements are all there are, in the order in which they run.
func measurements() []measurement {
	list := []measurement{}
	for _, a := range appends {
		list = append(list, measurement{a.name, a.what(), a.run})
	}
	return append(list,
		measurement{"shards", "appends to a million shards against one shard", measureShards},
		measurement{"read", "reading a shard from memory and from the disk", readOf("read", 1)},
		measurement{"readbatch", "the same with 64 records a batch", readOf("readbatch", 64)},
		measurement{"waiting", "memory for messages that wait, and the start after kill -9", measureWaiting},
		measurement{"queue", "appending and deleting in order, and the disk it takes", measureQueue},
		measurement{"allocs", "allocations of an append", measureAllocs},
	)
}

// Names lists the measurements, each with what it is.
func Names() (names, whats []string) {
	for _, m := range measurements() {
		names, whats = append(names, m.name), append(whats, m.what)
	}
	return names, whats
}

// choose returns the measurements that only asks for, in their own order.
func choose(only []string) ([]measurement, error) {
	all := measurements()
	if len(only) == 0 {
		return all, nil
	}
	wanted := make([]bool, len(all))
	for _, name := range only {
		found := false
		for i, m := range all {
			if m.name == name || strings.HasPrefix(m.name, name+"-") {
				wanted[i], found = true, true
			}
		}
		if !found {
			names, _ := Names()
			return nil, fmt.Errorf("no measurement is named %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	var chosen []measurement
	for i, m := range all {
		if wanted[i] {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// Check reports what is wrong with the names of measurements.
func Check(only []string) error {
	_, err := choose(only)
	return err
}

// Run measures, and returns the rows that were complete when it ended.
func Run(ctx context.Context, c Config) ([]Row, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	chosen, err := choose(c.Only)
	if err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	if unix.Statfs(c.Dir, &st) == nil && st.Type == unix.TMPFS_MAGIC {
		c.Logf("%s is in memory (tmpfs): what is measured there says nothing about a disk", c.Dir)
	}
	var rows []Row
	for _, m := range chosen {
		began := time.Now()
		c.Logf("%s: %s", m.name, m.what)
		some, err := c.in(ctx, m)
		rows = append(rows, some...)
		if err != nil {
			return rows, fmt.Errorf("measuring %s: %w", m.name, err)
		}
		for _, r := range some {
			c.Logf("  %s", strings.Join(r.cells(), "  "))
		}
		c.Logf("  took %.0f s", time.Since(began).Seconds())
	}
	return rows, nil
}

// in runs a measurement in a directory of its own, which is gone afterwards, and its blocks are back with the disk.
func (c Config) in(ctx context.Context, m measurement) (rows []Row, err error) {
	if c.Dir, err = os.MkdirTemp(c.Dir, m.name+"-"); err != nil {
		return nil, err
	}
	defer func() {
		if e := os.RemoveAll(c.Dir); err == nil {
			err = e
		}
		unix.Sync()
		debug.FreeOSMemory()
	}()
	return m.run(ctx, &c)
}
