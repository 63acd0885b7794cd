package kafka

import (
	"context"
	"sync"

	"polylog/logstore"
)

// barrier answers requests once all that was ordered before them is durable, whoever ordered it. Those that come while the log makes a group durable are answered
// together after the next one.
type barrier struct {
	store   *logstore.Store
	mu      sync.Mutex
	pending []func(error)
	waiting int // goroutines that wait for the log, at most mostWaiting
}

// await calls answer, on another goroutine, when everything that is ordered by now is durable, or with the error that is in the way of that.
func (b *barrier) await(answer func(error)) {
	b.mu.Lock()
	b.pending = append(b.pending, answer)
	start := b.waiting < mostWaiting
	if start {
		b.waiting++
	}
	b.mu.Unlock()
	if start {
		go b.run()
	}
}

func (b *barrier) run() {
	for {
		b.mu.Lock()
		answers := b.pending
		b.pending = nil
		if len(answers) == 0 {
			b.waiting--
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		_, err := b.store.Commit(context.Background(), logstore.Txn{Wait: logstore.Durable})
		for _, answer := range answers {
			answer(err)
		}
	}
}
