package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// drainAfterFailure is how long clients get when the log has failed: nothing can be confirmed any more, so there is only the farewell to be said.
	drainAfterFailure = time.Second
	// lingering is how long connections that were cut off may take to notice.
	lingering = 5 * time.Second
)

// drain brings clients to an end and closes everything. ctx bounds nothing; the configuration does.
func (g *Gateway) drain(ctx context.Context, failed bool) error {
	began := g.now()
	g.accepting.Store(false)
	g.forgetAddresses()
	for _, l := range g.listeners {
		l.stop()
	}
	limit := g.plan.drain
	if failed {
		limit = min(limit, drainAfterFailure)
	}
	var connections int64
	for _, l := range g.listeners {
		connections += l.own.used.Load()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the broker is stopping and shutdown.timeout is over"))
	defer cancel()
	g.views.groups.Close() // members that wait for others would hold up the end
	var wg sync.WaitGroup
	for _, f := range g.fronts {
		wg.Go(func() {
			if err := f.Drain(ctx); err != nil {
				g.log.Warn("connections were cut off", zap.String("protocol", f.protocol), zap.Duration("after", limit), zap.Error(err))
			}
		})
	}
	wg.Wait()
	err := g.Close()
	g.log.Info("stopped", zap.Int64("connections", connections), zap.Duration("took", g.now().Sub(began)), zap.Error(err))
	return err
}

// Close ends what New and Run began and closes the log. Clients are not told. It returns what the log says of its end.
func (g *Gateway) Close() error {
	g.accepting.Store(false)
	g.stopLoops()
	ctx, cancel := context.WithTimeout(context.Background(), lingering)
	defer cancel()
	cut, cutNow := context.WithCancel(ctx)
	cutNow()
	for _, f := range g.fronts {
		f.Drain(cut) //nolint:errcheck // connections that are left are cut off, which is what is wanted
	}
	orderly := true
	for _, l := range g.listeners {
		l.stop()
		if err := l.wait(ctx); err != nil {
			orderly = false
			g.log.Warn("some connections do not end; the log is closed under them", zap.Error(err))
		}
	}
	g.loops.Wait()
	if v := g.views; v != nil && v.queues != nil && orderly && g.store.Failure() == nil && g.store.Available() == nil && !g.isOver() {
		if err := v.queues.Close(ctx); err != nil {
			g.log.Warn("what waits now will be delivered as if it might have been before", zap.Error(err))
		}
	}
	var err error
	switch {
	case g.node != nil:
		if orderly {
			if err := g.node.Leave(ctx); err != nil {
				g.log.Warn("the other nodes were not told of the end and will notice it by the silence", zap.Error(err))
			}
		}
		if err = g.node.Close(); err != nil {
			err = fmt.Errorf("closing the log: %w", err)
		}
	case g.store != nil:
		if err = g.store.Close(); err != nil {
			err = fmt.Errorf("closing the log: %w", err)
		}
	}
	switch {
	case g.admin != nil: // last, so that one can see the end
		g.admin.Close(ctx)
	case g.httpLn != nil:
		g.httpLn.Close() //nolint:errcheck // nothing is lost
	}
	return err
}

// forgetAddresses takes away the file of addresses: nobody is to come any more.
func (g *Gateway) forgetAddresses() {
	if g.opts.AddressesFile == "" {
		return
	}
	if err := os.Remove(g.opts.AddressesFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		g.log.Warn("the file of addresses is left over", zap.Error(err))
	}
}
