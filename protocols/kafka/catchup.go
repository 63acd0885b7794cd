package kafka

import (
	"context"
	"errors"

	"polylog/logstore"
)

// nobodysKey has no value, ever.
const nobodysKey = "kafka/-"

// catchUp returns when what was readable on any node before the call is readable here. With several nodes that costs a way through the order, a few milliseconds;
// the error is about a majority that cannot be reached, or the context's.
func (s *Server) catchUp(ctx context.Context) error {
	if !s.isClustered() {
		return nil
	}
	// A transaction with a condition goes through the order, and is answered here when its turn comes, and, being durable, what came before it can be read.
	_, err := s.opts.Store.Commit(ctx, logstore.Txn{If: []logstore.Condition{logstore.KeyAbsent(nobodysKey)}, Wait: logstore.Durable})
	if errors.Is(err, logstore.ErrConflict) {
		return nil
	}
	return err
}

// whenCaughtUp calls f after catchUp: at once on a single node, else on another goroutine.
func (c *call) whenCaughtUp(f func(error)) {
	if !c.server.isClustered() {
		f(nil)
		return
	}
	c.conn.work.Go(func() { f(c.server.catchUp(c.conn.ctx)) })
}
