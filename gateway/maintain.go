package gateway

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	failureStep = 100 * time.Millisecond // between two looks whether the log has failed
	sweepMin    = 10 * time.Millisecond  // between two rounds of a loop
	sweepMax    = time.Minute
	sweepRetry  = 5 * time.Second // after a round that failed
)

// maintain starts the loops that do what falls due, each on its own goroutine, so that a long round of one delays no other. They end with ctx. The channel gets the error of
// a log that failed.
func (g *Gateway) maintain(ctx context.Context) (failed <-chan error) {
	c := make(chan error, 1)
	g.loop(ctx, "watching the log", func(context.Context) (time.Duration, error) {
		if err := g.store.Failure(); err != nil {
			select {
			case c <- err:
			default:
			}
		}
		return failureStep, nil
	})
	g.loop(ctx, "retention", g.ifLeading(func(ctx context.Context) (time.Duration, error) {
		return g.plan.retention, g.views.topics.SweepRetention(ctx, g.plan.topics)
	}))
	g.loop(ctx, "consumer timeouts", func(ctx context.Context) (time.Duration, error) {
		next, err := g.views.queues.Sweep(ctx)
		return min(next, sweepMax), err
	})
	g.loop(ctx, "forgetting offsets of groups", g.ifLeading(func(context.Context) (time.Duration, error) { return g.views.groups.Sweep() }))
	g.loop(ctx, "forgetting producers", g.ifLeading(func(context.Context) (time.Duration, error) { return g.views.producers.Sweep() }))
	if g.node != nil {
		g.loops.Go(func() { g.mindMembers(ctx) })
		g.loop(ctx, "following what other nodes do with queues", func(ctx context.Context) (time.Duration, error) {
			return 0, g.views.queues.Follow(ctx)
		})
	}
	g.loops.Go(func() { g.tickGroups(ctx) })
	return c
}

// tickGroups calls the groups' timers when they are due, until ctx ends.
func (g *Gateway) tickGroups(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-g.views.wake:
		}
		next := g.views.groups.Tick(g.now())
		if next.IsZero() {
			t.Stop()
			continue
		}
		t.Reset(max(next.Sub(g.now()), 0))
	}
}

// loop calls round until ctx ends, each time after as long as the round before said.
func (g *Gateway) loop(ctx context.Context, name string, round func(ctx context.Context) (next time.Duration, err error)) {
	g.loops.Go(func() {
		t := time.NewTimer(sweepMin)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			next, err := round(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				g.log.Warn(name+" failed and is tried again", zap.Error(err), zap.Duration("in", sweepRetry))
				next = sweepRetry
			}
			t.Reset(max(next, sweepMin))
		}
	})
}
