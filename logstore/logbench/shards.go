package logbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"polylog/logstore"
	"polylog/logstore/record"
)

const (
	shardWriters = 256
	shardTarget  = 0.75
	// createAtOnce is how many shards one transaction creates.
	createAtOnce = 1000
)

// measureShards opens the stores anew for every round, so that the memory of a million shards burdens only the side that has them.
func measureShards(ctx context.Context, c *Config) ([]Row, error) {
	batches, err := payloads(shardWriters, 1, 1<<10)
	if err != nil {
		return nil, err
	}
	manyDir, oneDir := filepath.Join(c.Dir, "many"), filepath.Join(c.Dir, "one")
	many, err := createShards(ctx, c, manyDir, c.Scale.Shards)
	if err != nil {
		return nil, err
	}
	one, err := createShards(ctx, c, oneDir, 1)
	if err != nil {
		return nil, err
	}
	on := func(dir string, shards []logstore.Shard) func(context.Context) (rate, error) {
		return func(ctx context.Context) (r rate, err error) {
			s, err := c.open(dir)
			if err != nil {
				return r, err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			return load{shardWriters, c.Round}.run(ctx, scatterer(s, shards, batches))
		}
	}
	rateMany, rateOne, err := c.inTurn(ctx, RecordsPerSecond, side{"many shards", on(manyDir, many)}, side{"one shard", on(oneDir, one)})
	return []Row{compare("shards", RecordsPerSecond, rateMany, rateOne, "one shard", shardTarget)}, err
}

// scatterer is appender to shards chosen at random.
func scatterer(s *logstore.Store, shards []logstore.Shard, batches []record.Batch) func(w int) error {
	ops := make([][]logstore.Op, len(batches))
	chance := make([]*rand.Rand, len(batches))
	for w := range batches {
		ops[w], chance[w] = make([]logstore.Op, 1), rand.New(rand.NewPCG(1, uint64(w)))
	}
	return func(w int) error {
		ops[w][0] = logstore.AppendBatch(shards[chance[w].IntN(len(shards))], batches[w])
		_, err := s.Commit(context.Background(), logstore.Txn{Do: ops[w]})
		return err
	}
}

// createShards makes a store with n shards, and closes it.
func createShards(ctx context.Context, c *Config, dir string, n int) (shards []logstore.Shard, err error) {
	s, err := c.open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	shards = make([]logstore.Shard, 0, n)
	var ops []logstore.Op
	for len(shards) < n {
		ops = ops[:0]
		for i := len(shards); i < n && len(ops) < createAtOnce; i++ {
			ops = append(ops, logstore.CreateShard(fmt.Sprintf("shard/%08d", i)))
		}
		r, err := s.Commit(ctx, logstore.Txn{Do: ops})
		if err != nil {
			return nil, fmt.Errorf("creating shards: %w", err)
		}
		for i := range ops {
			shards = append(shards, r.Shard(i))
		}
		if done := len(shards); n > createAtOnce && done*10/n > (done-len(ops))*10/n {
			c.Logf("  %s shards created", thousands(float64(done)))
		}
	}
	return shards, nil
}
