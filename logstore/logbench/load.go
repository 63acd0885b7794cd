package logbench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// load is a number of writers, each with one call under way at a time: the next begins when the last was answered.
type load struct {
	writers int
	// time is what is measured, after a tenth of it to get going. It is measured again as long as there were fewer calls than writers.
	time time.Duration
}

// slot counts one writer's answered calls. It has cache lines of its own, so that counting costs nothing.
type slot struct {
	n atomic.Int64
	_ [120]byte
}

// run has every writer w call f(w) again and again, and returns how many calls a second were answered. An error ends it.
func (l load) run(ctx context.Context, f func(w int) error) (perSecond float64, err error) {
	var (
		stop   atomic.Bool
		once   sync.Once
		failed = make(chan struct{})
		all    sync.WaitGroup
		slots  = make([]slot, l.writers)
	)
	for w := range l.writers {
		all.Go(func() {
			for !stop.Load() {
				if e := f(w); e != nil {
					once.Do(func() {
						err = e
						close(failed)
					})
					return
				}
				slots[w].n.Add(1)
			}
		})
	}
	pause := func(d time.Duration) (whole bool) {
		select {
		case <-time.After(d):
			return true
		case <-failed:
		case <-ctx.Done():
		}
		return false
	}
	sum := func() (n int64) {
		for w := range slots {
			n += slots[w].n.Load()
		}
		return n
	}
	pause(l.time / 10)
	before, began := sum(), time.Now()
	for pause(l.time) && sum()-before < int64(l.writers) {
	}
	after, took := sum(), time.Since(began)
	stop.Store(true)
	all.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return float64(after-before) / took.Seconds(), err
}
