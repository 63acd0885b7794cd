package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"polylog/logstore"
	"polylog/logstore/record"
)

// BenchmarkCommit appends batches to one shard for each node, on three nodes in one process: bytes a second that are on the disks of a majority and applied where they were committed.
func BenchmarkCommit(b *testing.B) {
	for _, bench := range []struct{ size, writers, nodes int }{{1 << 10, 1, 1}, {1 << 10, 64, 1}, {1 << 10, 64, 3}, {64 << 10, 16, 1}, {64 << 10, 16, 3}, {512 << 10, 8, 3}} {
		b.Run(fmt.Sprintf("bytes=%d/writers=%d/nodes=%d", bench.size, bench.writers, bench.nodes), func(b *testing.B) {
			c := newTrio(b)
			c.start()
			payload := make([]byte, bench.size)
			rand.Read(payload) //nolint:errcheck // crypto/rand does not fail
			build := record.NewBuilder()
			build.Append(1, nil, payload, nil)
			batch, err := build.Build()
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			var shards []logstore.Shard
			for i := range bench.nodes {
				res, err := c.nodes[i].n.store.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.CreateShard(fmt.Sprint(i))}})
				if err != nil {
					b.Fatal(err)
				}
				shards = append(shards, res.Shard(0))
			}
			b.SetBytes(int64(bench.size))
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for i := range bench.writers {
				m := c.nodes[i%bench.nodes]
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := m.n.store.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.AppendBatch(shards[m.i], batch)}}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
