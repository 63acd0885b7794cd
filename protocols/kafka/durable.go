package kafka

import (
	"context"
	"sync"

	"polylog/logstore"
)

// durability answers produce requests when what they appended is durable. It waits for all of a server's requests together: each time the log has made a group
// durable, all that were in it are answered, at the cost of one empty transaction instead of one for each.
type durability struct {
	store   *logstore.Store
	mu      sync.Mutex
	pending []appended
	waiting int // goroutines that wait for the log
}

// appended is a request whose records have their place in the order.
type appended struct {
	seq    uint64
	answer func(error)
}

// mostWaiting is how many goroutines wait for the log at a time: one for the group that is being written and one for the group that is being gathered. So when a group
// has become durable, one of them wakes.
const mostWaiting = 2

// await calls answer when the transaction with number seq, and so all before it, is durable, or with the error that is in the way of that.
func (d *durability) await(seq uint64, answer func(error)) {
	d.mu.Lock()
	d.pending = append(d.pending, appended{seq, answer})
	start := d.waiting < mostWaiting
	if start {
		d.waiting++
	}
	d.mu.Unlock()
	if start {
		go d.run()
	}
}

func (d *durability) run() {
	var ready []appended
	for {
		d.mu.Lock()
		if len(d.pending) == 0 {
			d.waiting--
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		res, err := d.store.Commit(context.Background(), logstore.Txn{Wait: logstore.Durable})
		upTo := max(res.Seq, d.store.Stats().DurableSeq)
		ready = d.take(upTo, err != nil, ready[:0])
		for i := range ready {
			if err != nil && ready[i].seq <= upTo {
				ready[i].answer(nil)
			} else {
				ready[i].answer(err)
			}
			ready[i].answer = nil
		}
	}
}

// take takes out of pending what is durable, or everything.
func (d *durability) take(upTo uint64, everything bool, dst []appended) []appended {
	d.mu.Lock()
	defer d.mu.Unlock()
	rest := d.pending[:0]
	for _, a := range d.pending {
		if everything || a.seq <= upTo {
			dst = append(dst, a)
		} else {
			rest = append(rest, a)
		}
	}
	clear(d.pending[len(rest):])
	d.pending = rest
	return dst
}
