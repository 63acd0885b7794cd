package amqp

import (
	"context"
	"sync"

	"polylog/logstore"
	"polylog/viewlayer/queue"
)

// settlement is what a client can do with a message.
type settlement uint8

const (
	acknowledged settlement = iota
	rejected                // for good
	nacked                  // back to the queue, by basic.nack
	refused                 // back to the queue, by basic.reject
	recovered               // back to the queue, by basic.recover
)

// settler hands to the queues what clients acknowledged, rejected and gave back. What comes together while it is at work is one transaction for each channel and each run of the same
// kind, in the order in which it came. The credit of an acknowledged message is free when the settler takes it up, so that
// many acknowledgements make the queue look once.
type settler struct {
	c *connection

	mu       sync.Mutex
	work     sync.Cond // the goroutine waits here
	idle     sync.Cond // the reader waits here
	waiting  []batch   // in the order in which they came
	pending  int       // messages of waiting and of what is at work
	running  bool
	stopping bool
	err      error
	done     chan struct{}
}

// batch is messages of one channel that end in the same way.
type batch struct {
	ch      *channel
	holder  *queue.Holder
	how     settlement
	entries []entry
}

// goesBack reports whether the messages are available again.
func (s settlement) goesBack() bool { return s >= nacked }

// free gives the credit of the messages back. The slice is scratch.
func (b *batch) free(woken []*consumer) []*consumer {
	woken = b.ch.ledger.free(b.entries, woken[:0])
	wake(woken)
	return woken
}

// settlePendingMax bounds the messages that wait to be settled on a connection; beyond it the reader waits.
const settlePendingMax = 64 << 10

// entriesKept bounds the memory for one batch that is kept for the next.
const entriesKept = 4096

func (s *settler) init(c *connection) {
	s.c = c
	s.work.L, s.idle.L = &s.mu, &s.mu
	s.done = make(chan struct{})
}

// add takes entries of a channel's ledger, and copies them.
func (s *settler) add(ch *channel, how settlement, es []entry) {
	if len(es) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && s.pending >= settlePendingMax {
		s.idle.Wait()
	}
	n := len(s.waiting)
	if n == 0 || s.waiting[n-1].ch != ch || s.waiting[n-1].how != how {
		var spare []entry // of an earlier batch in this place
		if n < cap(s.waiting) {
			spare = s.waiting[:n+1][n].entries
		}
		s.waiting = append(s.waiting, batch{ch: ch, holder: ch.holder, how: how, entries: spare})
		n++
	}
	s.waiting[n-1].entries = append(s.waiting[n-1].entries, es...)
	s.pending += len(es)
	if !s.running {
		s.running = true
		go s.run()
	}
	s.work.Signal()
}

// run is the goroutine.
func (s *settler) run() {
	defer close(s.done)
	var (
		taken  []batch
		leases []queue.Lease
		woken  []*consumer
	)
	s.mu.Lock()
	for {
		if len(s.waiting) == 0 || s.err != nil {
			if s.err != nil {
				s.pending = 0
			}
			s.idle.Broadcast()
			if s.stopping || s.err != nil {
				break
			}
			s.work.Wait()
			continue
		}
		taken, s.waiting = s.waiting, taken[:0]
		s.mu.Unlock()
		n := 0
		var err error
		for i := range taken {
			b := &taken[i]
			n += len(b.entries)
			if !b.how.goesBack() {
				woken = b.free(woken)
			}
			if err == nil {
				leases = leases[:0]
				for _, e := range b.entries {
					leases = append(leases, e.lease)
				}
				err = s.settle(b, leases)
			}
			if b.how.goesBack() { // not before they are back, or what waits behind them would be delivered first
				woken = b.free(woken)
			}
			clear(b.entries)
			*b = batch{entries: b.entries[:0]}
			if cap(b.entries) > entriesKept {
				b.entries = nil
			}
		}
		clear(woken)
		clear(leases)
		s.mu.Lock()
		s.pending -= n
		if err != nil && s.err == nil {
			s.err = err
		}
		s.idle.Broadcast()
	}
	s.mu.Unlock()
	if s.err != nil {
		s.c.post(func() error { return explain(s.err) })
	}
}

// settle ends the leases of one batch. On a full disk it tries again: what ends leases makes room sooner or later. So it does without a majority of the cluster.
func (s *settler) settle(b *batch, leases []queue.Lease) error {
	ctx, counts := context.Background(), &s.c.s.counts
	for {
		var err error
		switch b.how {
		case acknowledged:
			err = b.holder.Settle(ctx, leases)
		case rejected:
			err = b.holder.Discard(ctx, leases)
		case nacked:
			err = b.holder.Requeue(ctx, leases, queue.Nacked)
		case refused:
			err = b.holder.Requeue(ctx, leases, queue.Rejected)
		case recovered:
			err = b.holder.Requeue(ctx, leases, queue.Recovered)
		}
		if err == nil {
			n := int64(len(leases))
			counts.settleCommits.Add(1)
			switch b.how {
			case acknowledged:
				counts.acknowledged.Add(n)
			case rejected:
				counts.rejected.Add(n)
			default:
				counts.requeued.Add(n)
			}
			return nil
		}
		if !is[*logstore.DiskFullError](err) && !is[*logstore.UnavailableError](err) || !s.c.pause(retryEvery) {
			return err
		}
	}
}

// flush waits until everything that was handed in has its place in the order. Without a majority of the cluster it does not wait; what was handed in is settled
// later.
func (s *settler) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && s.pending > 0 {
		if err := s.c.s.o.Store.Available(); err != nil {
			return err
		}
		waitFor(&s.idle, retryEvery)
	}
	return s.err
}

// finish settles what waits and ends the goroutine. If the connection is cut off, it does not wait for room on the disk or for a majority of the cluster: what is
// not settled goes back to its queue.
func (s *settler) finish() {
	s.mu.Lock()
	if !s.running {
		s.mu.Unlock()
		return
	}
	s.stopping = true
	s.mu.Unlock()
	s.work.Signal()
	select {
	case <-s.done:
	case <-s.c.waits.Done(): // what it is at it ends alone
	}
}
