package logbench

import (
	"context"
	"fmt"
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

// rate is how fast something was done.
type rate struct {
	perSecond float64
	// cpu is the seconds of processor time that the whole process spent for each; 0: it was not measured. It says what the disk, being slower or faster
	// than another, does not.
	cpu float64
}

func (r rate) in(unit Unit) string {
	s := Figure{r.perSecond, unit}.String()
	if unit == RecordsPerSecond && r.cpu > 0 {
		s += fmt.Sprintf(" (%.1f µs of processor time each)", r.cpu*1e6)
	}
	return s
}

// slot counts one writer's answered calls. It has cache lines of its own, so that counting costs nothing.
type slot struct {
	n atomic.Int64
	_ [120]byte
}

// run has every writer w call f(w) again and again, and returns how many calls were answered. An error ends it.
func (l load) run(ctx context.Context, f func(w int) error) (r rate, err error) {
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
	before, began, spent := sum(), time.Now(), processorTime()
	for pause(l.time) && sum()-before < int64(l.writers) {
	}
	calls, took := float64(sum()-before), time.Since(began)
	spent = processorTime() - spent
	stop.Store(true)
	all.Wait()
	if err == nil {
		err = ctx.Err()
	}
	if calls == 0 {
		return r, err // it did not come to measuring
	}
	return rate{calls / took.Seconds(), spent.Seconds() / calls}, err
}
