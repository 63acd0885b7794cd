package exchange

import (
	"context"
	"errors"
	"fmt"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/message"
	"polylog/viewlayer/topic"
)

// Gathering is messages that were published and wait to be put into the log together: one batch for each shard, one transaction for all. It belongs to one goroutine.
// What it is given is copied.
type Gathering struct {
	store     *logstore.Store
	converter message.Converter
	batches   []*gathered // in the order of first use; the first n are in use
	n         int
	byShard   map[logstore.Shard]*gathered
	last      *gathered // that the message before went to, most often the next one's too
	messages  int
	bytes     int
	turn      uint32
	to        []*record.Builder // where the message goes that is being added
	ops       []logstore.Op
}

// gathered is the batch for one shard.
type gathered struct {
	shard logstore.Shard
	b     *record.Builder
}

// batchesKept bounds the batches that an empty gathering keeps the memory of.
const batchesKept = 64

// NewGathering returns an empty gathering.
func (r *Router) NewGathering() *Gathering {
	return &Gathering{store: r.topics.Store(), byShard: map[logstore.Shard]*gathered{}}
}

// FullError means that a gathering has no room for one more message of this size; commit it first.
type FullError struct{ Bytes int }

func (e *FullError) Error() string {
	return fmt.Sprintf("the messages that wait to be stored together leave no room for one of %d bytes", e.Bytes)
}

// framingMax bounds what a record takes beside its body and twice its properties.
const framingMax = 4 << 10

// Add adds a message for the topics that it was routed to; the time is its arrival. The error is a *FullError, or that of message.Converter.AppendAMQP, and the message is
// not added then.
func (g *Gathering) Add(to []*topic.Topic, m *message.Published, nowMillis int64) error {
	g.to = g.to[:0]
	for _, t := range to {
		sh, err := g.partition(t, m)
		if err != nil {
			return err
		}
		b := g.batch(sh)
		if size := len(m.Body) + 2*len(m.Properties) + framingMax; b.Len() > 0 && b.Size()+size > record.MaxBatchSize {
			return &FullError{len(m.Body)}
		}
		g.to = append(g.to, b)
	}
	for i, b := range g.to {
		before := b.Size()
		if err := g.converter.AppendAMQP(b, nowMillis, m); err != nil {
			if i > 0 {
				panic("a message could be stored for one topic and not for the next: " + err.Error()) // the conversion depends on no topic, and there is room
			}
			return err
		}
		g.bytes += b.Size() - before
	}
	g.messages++
	return nil
}

// partition chooses the partition of a topic with several: messages with a key go where Kafka's own producers would send them, others take turns.
func (g *Gathering) partition(t *topic.Topic, m *message.Published) (logstore.Shard, error) {
	if len(t.Shards) == 1 {
		return t.Shards[0], nil
	}
	key, err := g.converter.Key(m)
	if err != nil {
		return 0, err
	}
	if key != nil {
		return t.Shards[topic.PartitionOf(key, len(t.Shards))], nil
	}
	g.turn++
	return t.Shards[g.turn%uint32(len(t.Shards))], nil
}

// batch returns the batch for a shard.
func (g *Gathering) batch(sh logstore.Shard) *record.Builder {
	if g.last != nil && g.last.shard == sh {
		return g.last.b
	}
	e := g.byShard[sh]
	if e == nil {
		if g.n == len(g.batches) {
			g.batches = append(g.batches, &gathered{b: record.NewBuilder()})
		}
		e = g.batches[g.n]
		g.n++
		e.shard = sh
		e.b.Reset()
		g.byShard[sh] = e
	}
	g.last = e
	return e.b
}

// Len returns the number of messages.
func (g *Gathering) Len() int { return g.messages }

// Bytes returns their size in the log.
func (g *Gathering) Bytes() int { return g.bytes }

// Reset takes everything out.
func (g *Gathering) Reset() {
	if len(g.batches) > batchesKept {
		clear(g.batches[batchesKept:])
		g.batches = g.batches[:batchesKept]
	}
	clear(g.byShard)
	g.n, g.last, g.messages, g.bytes = 0, nil, 0, 0
}

// Commit appends all messages in one transaction and leaves them in the gathering. Topics that were deleted since the messages were routed count as reached: their
// messages went with them. On an error nothing was appended, unless it is a *logstore.UnknownOutcomeError or *logstore.FailedError.
func (g *Gathering) Commit(ctx context.Context, wait logstore.Durability) error {
	gone := map[logstore.Shard]bool(nil)
	for {
		clear(g.ops)
		g.ops = g.ops[:0]
		for _, e := range g.batches[:g.n] {
			if e.b.Len() == 0 || gone[e.shard] {
				continue
			}
			batch, err := e.b.Build()
			if err != nil {
				return fmt.Errorf("storing what was published: %w", err)
			}
			g.ops = append(g.ops, logstore.AppendBatch(e.shard, batch))
		}
		_, err := g.store.Commit(ctx, logstore.Txn{Do: g.ops, Wait: wait})
		var unknown *logstore.UnknownShardError
		if errors.As(err, &unknown) && !gone[unknown.Shard] {
			if gone == nil {
				gone = map[logstore.Shard]bool{}
			}
			gone[unknown.Shard] = true
			continue
		}
		return err
	}
}
