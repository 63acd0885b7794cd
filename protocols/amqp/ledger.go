package amqp

import (
	"sort"
	"sync"
	"time"

	"polylog/viewlayer/queue"
)

// ledger is a channel's account of what its client has not acknowledged, and of what it may be sent. Delivery tags ascend over all consumers and gets of the channel, so
// the unacknowledged lie in an ordered run and are found by their place; settled ones in the middle of it leave holes, which are closed when they are the most of it.
// Any goroutine may use it.
type ledger struct {
	mu      sync.Mutex
	nextTag uint64 // 1 at first
	run     []entry
	head    int // run[head:] is in use
	live    int // entries of it that are not settled

	most     int  // live and reserved together may be so many
	reserved int  // set aside for consumers, over all queues
	limit    int  // of all consumers together (basic.qos with global), 0: none
	used     int  // of it
	stopped  bool // by the client's channel.flow
	closed   bool // nothing is delivered any more

	hungry []*consumer // were refused since, and are woken when something changes
	calm   sync.Cond   // nothing is reserved
}

// entry is one delivered message. consumer is nil if it came from basic.get.
type entry struct {
	tag      uint64
	lease    queue.Lease
	consumer *consumer
	settled  bool
}

func (l *ledger) init(most int) {
	l.nextTag, l.most = 1, most
	l.calm.L = &l.mu
}

// stop holds deliveries back, or lets them go on. When it has returned after stopping, nothing is delivered. It waits for those that are under way, as long as
// the broker is available.
func (l *ledger) stop(on bool, available func() error) (err error) {
	l.change(func() {
		l.stopped = on
		for l.stopped && l.reserved > 0 {
			if err = available(); err != nil {
				return
			}
			waitFor(&l.calm, retryEvery)
		}
	})
	return err
}

// waitFor waits on a condition, at most for some time.
func waitFor(c *sync.Cond, d time.Duration) {
	t := time.AfterFunc(d, c.Broadcast)
	c.Wait()
	t.Stop()
}

// reserve sets aside room for up to n messages to a consumer and returns for how many.
func (l *ledger) reserve(c *consumer, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.ready || l.closed || l.stopped {
		n = 0
	}
	if !c.noAck {
		if c.limit > 0 {
			n = min(n, c.limit-c.used)
		}
		if l.limit > 0 {
			n = min(n, l.limit-l.used)
		}
		n = min(n, l.most-l.live-l.reserved)
	}
	if n <= 0 {
		l.starve(c)
		return 0
	}
	if !c.noAck {
		c.used += n
		l.used += n
	}
	l.reserved += n
	return n
}

// starve remembers that a consumer was refused. The lock is held.
func (l *ledger) starve(c *consumer) {
	if !c.hungry {
		c.hungry = true
		l.hungry = append(l.hungry, c)
	}
}

// release gives back what was reserved and not used.
func (l *ledger) release(c *consumer, n int) {
	l.mu.Lock()
	l.unreserve(c, n)
	l.mu.Unlock()
}

func (l *ledger) unreserve(c *consumer, n int) {
	l.reserved -= n
	l.calm.Signal()
	if !c.noAck {
		c.used -= n
		l.used -= n
	}
}

// enter gives tags to messages for which room was reserved and returns the first. It is false if the channel takes no more.
func (l *ledger) enter(c *consumer, ds []queue.Delivery) (first uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.unreserve(c, len(ds))
		return 0, false
	}
	first = l.nextTag
	l.nextTag += uint64(len(ds))
	l.reserved -= len(ds)
	l.calm.Signal()
	if !c.noAck {
		for i := range ds {
			l.run = append(l.run, entry{tag: first + uint64(i), lease: ds[i].Lease, consumer: c})
		}
		l.live += len(ds)
	}
	return first, true
}

// enterGot gives a tag to a message that was taken with basic.get, which no prefetch counts.
func (l *ledger) enterGot(lease queue.Lease, noAck bool) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	tag := l.nextTag
	l.nextTag++
	if !noAck {
		l.run = append(l.run, entry{tag: tag, lease: lease})
		l.live++
	}
	return tag
}

// place returns the index of the entry with this tag, or where it would be.
func (l *ledger) place(tag uint64) int {
	in := l.run[l.head:]
	if len(in) == 0 || tag < in[0].tag {
		return l.head
	}
	// Tags ascend by at least one, so the entry lies no further than the distance of the tags; without holes it lies exactly there.
	guess := len(in)
	if d := tag - in[0].tag; d < uint64(len(in)) {
		if in[d].tag == tag {
			return l.head + int(d)
		}
		guess = int(d)
	}
	return l.head + sort.Search(guess, func(i int) bool { return in[i].tag >= tag })
}

// take removes the entry of a tag, or with multiple all up to it (tag 0: all there are), and appends them to dst in order. It is false if there is no such entry: the tag
// is unknown, or settled already. Their credit stays used until free.
func (l *ledger) take(tag uint64, multiple bool, dst []entry) ([]entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tag == 0 && multiple {
		return l.takeUpTo(len(l.run), dst), true
	}
	i := l.place(tag)
	if i >= len(l.run) || l.run[i].tag != tag || l.run[i].settled {
		return dst, false
	}
	if multiple {
		return l.takeUpTo(i+1, dst), true
	}
	dst = append(dst, l.run[i])
	l.run[i] = entry{tag: tag, settled: true}
	l.live--
	l.tidy()
	return dst, true
}

// takeAll removes everything.
func (l *ledger) takeAll(dst []entry) []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takeUpTo(len(l.run), dst)
}

func (l *ledger) takeUpTo(end int, dst []entry) []entry {
	for i := l.head; i < end; i++ {
		if !l.run[i].settled {
			dst = append(dst, l.run[i])
			l.live--
		}
		l.run[i] = entry{}
	}
	l.head = end
	l.tidy()
	return dst
}

// tidyMin is the length of a run below which its holes do not matter.
const tidyMin = 64

// tidy moves the head over settled entries and closes holes, if there are more of them than entries.
func (l *ledger) tidy() {
	for l.head < len(l.run) && l.run[l.head].settled {
		l.head++
	}
	if l.live == 0 && cap(l.run) <= 4*tidyMin {
		l.run, l.head = l.run[:0], 0
		return
	}
	if len(l.run) < tidyMin || len(l.run) < 2*l.live {
		return
	}
	kept := l.run[:0]
	if cap(l.run) > 8*(l.live+tidyMin) {
		kept = make([]entry, 0, 2*l.live+tidyMin)
	}
	for _, e := range l.run[l.head:] {
		if !e.settled {
			kept = append(kept, e)
		}
	}
	if cap(kept) == cap(l.run) {
		clear(l.run[len(kept):])
	}
	l.run, l.head = kept, 0
}

// free gives back the credit of entries that were taken, and returns the consumers that wait for some, appended to dst.
func (l *ledger) free(es []entry, dst []*consumer) []*consumer {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range es {
		if c := es[i].consumer; c != nil {
			c.used--
			l.used--
		}
	}
	return l.feed(dst)
}

// feed returns those who were refused, who are to be woken. The lock is held.
func (l *ledger) feed(dst []*consumer) []*consumer {
	for i, c := range l.hungry {
		c.hungry = false
		dst = append(dst, c)
		l.hungry[i] = nil
	}
	l.hungry = l.hungry[:0]
	return dst
}

// change makes a change under the lock and wakes those who were refused.
func (l *ledger) change(f func()) {
	l.mu.Lock()
	f()
	woken := l.feed(nil)
	l.mu.Unlock()
	wake(woken)
}

func wake(cs []*consumer) {
	for _, c := range cs {
		c.wake()
	}
}

// close makes the ledger take nothing more.
func (l *ledger) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}

// unsettled returns how many messages the client has not settled.
func (l *ledger) unsettled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live
}
