package logbench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"polylog/logstore"
	"polylog/logstore/record"
)

// payload returns a batch of records with random values of size bytes. Every writer has a batch of its own, as clients have.
func payload(records, size int) (record.Batch, error) {
	b, value := record.NewBuilder(), make([]byte, size)
	for i := range records {
		for j := range value {
			value[j] = byte(rand.Uint32())
		}
		b.Append(1_700_000_000_000+int64(i), nil, value, nil)
	}
	return b.Build()
}

func payloads(writers, records, size int) ([]record.Batch, error) {
	batches := make([]record.Batch, writers)
	for i := range batches {
		var err error
		if batches[i], err = payload(records, size); err != nil {
			return nil, err
		}
	}
	return batches, nil
}

// newShard creates the shard of a measurement that has one.
func newShard(s *logstore.Store) (logstore.Shard, error) {
	r, err := s.Commit(context.Background(), logstore.Txn{Do: []logstore.Op{logstore.CreateShard("shard")}})
	if err != nil {
		return 0, fmt.Errorf("creating a shard: %w", err)
	}
	return r.Shard(0), nil
}

// appender returns the call of a load that appends to the shard, one batch in a durable transaction. The transactions are made in advance: what is measured is
// the log, not its caller.
func appender(s *logstore.Store, sh logstore.Shard, batches []record.Batch) func(w int) error {
	txns := make([]logstore.Txn, len(batches))
	for w := range txns {
		txns[w].Do = []logstore.Op{logstore.AppendBatch(sh, batches[w])}
	}
	return func(w int) error {
		_, err := s.Commit(context.Background(), txns[w])
		return err
	}
}
