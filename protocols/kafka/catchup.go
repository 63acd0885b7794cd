package kafka

import "context"

// catchUp returns when what was readable on any node before the call is readable here. With several nodes that costs a way through the order, a few milliseconds;
// the error is about a majority that cannot be reached, or the context's.
func (s *Server) catchUp(ctx context.Context) error {
	if !s.isClustered() {
		return nil
	}
	return s.opts.Store.CatchUp(ctx)
}

// whenCaughtUp calls f after catchUp: at once on a single node, else on another goroutine.
func (c *call) whenCaughtUp(f func(error)) {
	if !c.server.isClustered() {
		f(nil)
		return
	}
	c.conn.work.Go(func() { f(c.server.catchUp(c.conn.ctx)) })
}
