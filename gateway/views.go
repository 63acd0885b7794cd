package gateway

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/group"
	"polylog/viewlayer/queue"
	"polylog/viewlayer/topic"
)

// views are what the log's content means to clients.
type views struct {
	topics *topic.Catalog
	queues *queue.View
	router *exchange.Router
	groups *group.Coordinator
	// producers are those of Kafka that may send a batch twice.
	producers *group.Producers
	wake      chan struct{} // has a value when the groups' timers are due earlier than they said
	cluster   string        // the name of the data, for as long as there is any
}

// openViews opens the views. The views are pure: clock, randomness and goroutines are given to them here.
func (g *Gateway) openViews(ctx context.Context) (err error) {
	v := &views{wake: make(chan struct{}, 1)}
	g.views = v
	if v.cluster, err = clusterID(ctx, g.store); err != nil {
		return err
	}
	v.topics = topic.Open(topic.Options{Store: g.store, Now: g.now, NewID: func() (id topic.ID) {
		rand.Read(id[:]) //nolint:errcheck // crypto/rand does not fail
		return id
	}})
	v.router = exchange.New(v.topics)
	q := g.plan.queues
	q.Store, q.Topics, q.Now, q.After, q.Go, q.Logf = g.store, v.topics, g.now, time.After, func(f func()) { go f() }, printer(g.log, "queues")
	if g.node != nil {
		q.Epoch, q.Shared = g.node.Epoch(), true
	}
	if v.queues, err = queue.Open(ctx, q); err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	o := g.plan.groups
	o.Store, o.Now, o.NewID, o.After, o.Logf = g.store, g.now, randomText, time.After, printer(g.log, "groups")
	o.TopicExists = func(id topic.ID) bool {
		_, err := v.topics.FindID(id)
		return !errors.As(err, new(*topic.UnknownIDError)) // of another error one learns nothing
	}
	o.Wake = func() {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
	if g.node != nil {
		o.Mine = func(namespace, name string) bool {
			return group.CoordinatorOf(g.brokerIDs(), namespace, name) == g.brokerID()
		}
	}
	if v.groups, err = group.Open(o); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	p := g.plan.producers
	p.Store, p.Now, p.Shared = g.store, g.now, g.node != nil
	if v.producers, err = group.NewProducers(p); err != nil {
		return fmt.Errorf("producers: %w", err)
	}
	return nil
}

// randomText is 22 letters, digits, - and _ that nobody can guess: 16 random bytes.
func randomText() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // crypto/rand does not fail
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// clusterKey has the name of the data as its value. Clients of Kafka compare it to notice that they talk to another cluster than before.
const clusterKey = "gateway/cluster"

// clusterID returns the name of the data. The first start draws it.
func clusterID(ctx context.Context, s *logstore.Store) (string, error) {
	for {
		if id, ok := s.Get(clusterKey); ok {
			return string(id), nil
		}
		_, err := s.Commit(ctx, logstore.Txn{
			If: []logstore.Condition{logstore.KeyAbsent(clusterKey)}, Do: []logstore.Op{logstore.Put(clusterKey, []byte(randomText()))},
		})
		if err != nil && !errors.Is(err, logstore.ErrConflict) {
			return "", fmt.Errorf("naming the data: %w", err)
		}
	}
}
