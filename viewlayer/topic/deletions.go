package topic

import (
	"context"
	"errors"

	"polylog/logstore"
)

// FollowDeletions calls deleted for each topic that is deleted from now on, on whichever node, until ctx ends or the store is closed, which the error says. It
// calls missed once it has begun, and again whenever it was too slow to see every deletion: look then what is gone.
func (c *Catalog) FollowDeletions(ctx context.Context, deleted func(ID), missed func()) error {
	for {
		w := c.store.Watch(idPrefix)
		missed()
		err := followRemoved(ctx, w, deleted)
		w.Stop()
		if !errors.Is(err, logstore.ErrWatchLagged) {
			return err
		}
	}
}

func followRemoved(ctx context.Context, w *logstore.Watcher, deleted func(ID)) error {
	for {
		e, err := w.Next(ctx)
		if err != nil {
			return err
		}
		var id ID
		if e.Removed && len(e.Key) == len(idPrefix)+len(id) {
			copy(id[:], e.Key[len(idPrefix):])
			deleted(id)
		}
	}
}
