package kafka

import (
	"sync"
	"testing"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/logstore/vfs"
)

// Nobody is answered before what he waits for is durable, and everybody is answered.
func TestAnswersWaitForTheDisk(t *testing.T) {
	t.Parallel()
	store, err := logstore.Open(logstore.Options{Dir: "log", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	res, err := store.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.CreateShard("shard")}})
	if err != nil {
		t.Fatal(err)
	}
	sh := res.Shard(0)
	batch, _, err := record.Parse(batchOf(t, nil, "v"))
	if err != nil {
		t.Fatal(err)
	}
	d := &durability{store: store}
	var asking, answers sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for i := range 300 {
				res, err := store.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.AppendBatch(sh, batch)}, Wait: logstore.Relaxed})
				if err != nil {
					t.Error(err)
					return
				}
				answers.Add(1)
				check := func(err error) {
					if durable := store.DurableSeq(); err != nil || durable < res.Seq {
						t.Errorf("transaction %d is answered (%v) when %d is durable", res.Seq, err, durable)
					}
					answers.Done()
				}
				if i%3 == 0 {
					d.awaitAll(check)
				} else {
					d.await(res.Seq, check)
				}
			}
		})
	}
	asking.Wait()
	answers.Wait()
	eventually(t, "nobody waits for the log any more", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.waiting == 0 && len(d.pending) == 0
	})
}

// When the log fails, those who wait are told.
func TestAnswersTellOfAFailure(t *testing.T) {
	t.Parallel()
	store, err := logstore.Open(logstore.Options{Dir: "log", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	d := &durability{store: store}
	told := make(chan error, 2)
	d.await(1<<60, func(err error) { told <- err })
	d.awaitAll(func(err error) { told <- err })
	for range 2 {
		if err := <-told; code(err) == codeNone {
			t.Error("no error")
		}
	}
}
