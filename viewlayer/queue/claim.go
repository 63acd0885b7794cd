package queue

import (
	"slices"
	"sync"

	"polylog/logstore"
)

// claim is what one holder took in one transaction from one partition, and has not settled whole. The holder's acting lock guards it, but for the immutable
// fields.
type claim struct {
	q    *Queue
	part int
	h    *Holder
	c    *Consumer // that it was delivered to; nil for Get
	at   int64     // Unix ms

	rec  int64  // the offset of its record in the index topic
	held []held // ascending offsets
	left int    // of held, those not done
	gone bool   // taken away by somebody else: the sweep, or with the queue

	touched []int32 // of held, what the current settlement is about
	later   []int32 // what of it its current transaction has no room for
}

// held is one message of a claim.
type held struct {
	offset           int64
	acquired, failed uint32 // when it was taken
	done             bool
}

// Lease is one message that a holder has and has not settled. It is a small value; the zero Lease is none.
type Lease struct {
	c *claim
	i int32
}

// Offset returns the message's offset in its partition.
func (l Lease) Offset() int64 { return l.c.held[l.i].offset }

// Queue returns the queue that the message was taken from.
func (l Lease) Queue() *Queue { return l.c.q }

// Holder is who takes messages and settles them: a channel. Messages that are out belong to exactly one holder. Settle, Discard, Requeue and Close may be called
// from any goroutine and act one after another.
type Holder struct {
	v      *View
	name   string
	suffix []byte // of its claims' records
	// expired is told which queue's consumer timeout one of its messages outlived, after that message went back; nil: nobody is told.
	expired func(q *Queue, c *Consumer)

	acting turn // one settlement at a time
	w      entryWriter
	mover  mover

	mu     sync.Mutex // after acting
	claims map[*claim]struct{}
	closed bool
}

// NewHolder returns a holder with nothing. The name stands in its claims, for people to read. expired is called, without any lock, when a message was held longer than its
// queue's consumer timeout and has gone back to the queue; c is the consumer that had it, nil if it came from Get.
func (v *View) NewHolder(name string, expired func(q *Queue, c *Consumer)) *Holder {
	h := &Holder{v: v, name: name, suffix: suffix(name, v.stamp), expired: expired, acting: newTurn(), claims: map[*claim]struct{}{}}
	v.mu.Lock()
	v.holders[h] = struct{}{}
	v.mu.Unlock()
	return h
}

// add makes the claim the holder's, unless the holder is closed.
func (h *Holder) add(c *claim) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.claims[c] = struct{}{}
	return true
}

// drop forgets a claim with nothing left. The acting lock is held.
func (h *Holder) drop(c *claim) {
	h.mu.Lock()
	delete(h.claims, c)
	h.mu.Unlock()
}

// all returns every claim of the holder. The acting lock is held.
func (h *Holder) all() []*claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	cs := make([]*claim, 0, len(h.claims))
	for c := range h.claims {
		cs = append(cs, c)
	}
	// Oldest first, so that what comes back does so in order, and the same way each time.
	slices.SortFunc(cs, func(a, b *claim) int { return int(a.rec - b.rec) })
	return cs
}

// touch marks the leases that are still held and returns the claims they belong to, each once, in the order in which they are first met.
func touch(ls []Lease) []*claim {
	var cs []*claim
	for _, l := range ls {
		c := l.c
		if c == nil || c.gone || c.held[l.i].done {
			continue
		}
		if len(c.touched) == 0 {
			cs = append(cs, c)
		}
		c.touched = append(c.touched, l.i)
	}
	return cs
}

// touchAll marks everything that the claims hold.
func touchAll(cs []*claim) []*claim {
	some := cs[:0]
	for _, c := range cs {
		if c.gone || c.left == 0 {
			continue
		}
		c.touched = c.touched[:0]
		for i := range c.held {
			if !c.held[i].done {
				c.touched = append(c.touched, int32(i))
			}
		}
		some = append(some, c)
	}
	return some
}

// order sorts the touched messages by offset and takes out what was named twice.
func (c *claim) order() {
	if !slices.IsSorted(c.touched) {
		slices.Sort(c.touched)
	}
	c.touched = slices.Compact(c.touched)
}

// ranges returns the offsets of the touched messages.
func (c *claim) ranges(dst []logstore.Range) []logstore.Range {
	for _, i := range c.touched {
		o := c.held[i].offset
		if n := len(dst); n > 0 && dst[n-1].To == o {
			dst[n-1].To++
			continue
		}
		dst = append(dst, logstore.Range{From: o, To: o + 1})
	}
	return dst
}

// appendSpan adds a message to spans. Between two neighbours of a claim there are only offsets that are deleted, or that the claim once had; after is whether
// the message before it is such a neighbour.
func appendSpan(dst []span, o int64, acquired, failed uint32, after bool) []span {
	if n := len(dst); n > 0 && (after || dst[n-1].end == o) && dst[n-1].acquired == acquired && dst[n-1].failed == failed {
		dst[n-1].end = o + 1
		return dst
	}
	return append(dst, span{o, o + 1, acquired, failed})
}

// rest returns the spans of what the claim will still hold when the touched messages are done.
func (c *claim) rest(dst []span) []span {
	t := 0
	for i := range c.held {
		if t < len(c.touched) && int(c.touched[t]) == i {
			t++
			continue
		}
		if h := &c.held[i]; !h.done {
			dst = appendSpan(dst, h.offset, h.acquired, h.failed, false)
		}
	}
	return dst
}

// finish marks the touched messages done. The acting lock is held.
func (c *claim) finish() {
	for _, i := range c.touched {
		c.held[i].done = true
	}
	c.left -= len(c.touched)
	c.touched, c.later = append(c.touched[:0], c.later...), nil
	if c.left == 0 {
		c.h.drop(c)
	}
}

// lose forgets a claim that somebody else took away. The acting lock is held.
func (c *claim) lose() {
	c.gone = true
	c.untouch()
	c.h.drop(c)
}

// untouch ends the current settlement without effect.
func (c *claim) untouch() { c.touched, c.later = c.touched[:0], nil }
