package kafka

import (
	"context"
	"sync"

	"polylog/logstore"
)

// durability answers requests when what they did, or saw, is durable. It waits for all of a server's requests together: each time the log has made a group durable,
// all that were in it are answered, at the cost of one empty transaction instead of one for each.
type durability struct {
	store   *logstore.Store
	mu      sync.Mutex
	pending []waiter
	waiting int    // goroutines that wait for the log
	round   uint64 // of the empty transaction that was made last
}

// waiter is a request that waits.
type waiter struct {
	seq    uint64 // of the transaction that it waits for; 0: all that had been ordered
	round  uint64 // when it came; what an empty transaction of a later round covers includes what it waits for
	answer func(error)
}

// mostWaiting is how many goroutines wait for the log at a time: one for the group that is being written and one for the group that is being gathered. So when a group
// has become durable, one of them wakes.
const mostWaiting = 2

// await calls answer, on another goroutine, when the transaction with number seq and all before it are durable, or with the error that is in the way of that. It must
// not block.
func (d *durability) await(seq uint64, answer func(error)) {
	d.mu.Lock()
	d.pending = append(d.pending, waiter{seq, d.round, answer})
	start := d.waiting < mostWaiting
	if start {
		d.waiting++
	}
	d.mu.Unlock()
	if start {
		go d.run()
	}
}

// awaitAll is await for everything that is ordered by now, whoever ordered it.
func (d *durability) awaitAll(answer func(error)) { d.await(0, answer) }

func (d *durability) run() {
	var ready []waiter
	for {
		d.mu.Lock()
		if len(d.pending) == 0 {
			d.waiting--
			d.mu.Unlock()
			return
		}
		d.round++
		round := d.round
		d.mu.Unlock()
		_, err := d.store.Commit(context.Background(), logstore.Txn{Wait: logstore.Durable})
		// Others of the same group came after that transaction had its place. They need not wait for another.
		durable := d.store.DurableSeq()
		ready = d.take(round, durable, ready[:0])
		for i, w := range ready {
			if w.seq != 0 && w.seq <= durable {
				w.answer(nil)
			} else {
				w.answer(err)
			}
			ready[i].answer = nil
		}
	}
}

// take takes out of pending what the transaction of the round covers, and what is known to be durable by its number.
func (d *durability) take(round, durable uint64, dst []waiter) []waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	rest := d.pending[:0]
	for _, w := range d.pending {
		if w.round < round || w.seq != 0 && w.seq <= durable {
			dst = append(dst, w)
		} else {
			rest = append(rest, w)
		}
	}
	clear(d.pending[len(rest):])
	d.pending = rest
	return dst
}
