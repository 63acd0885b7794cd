package amqp

import (
	"context"
	"errors"
	"sync"
	"time"

	"polylog/logstore"
	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/message"
)

// publisher commits what a connection published. The reader fills one gathering while the publisher's goroutine commits the other in one transaction, and then confirms it: the more
// comes in while the disk works, the larger the next transaction. A gathering in which nobody waits for a confirm is committed without waiting for the disk.
type publisher struct {
	c *connection

	mu       sync.Mutex
	work     sync.Cond // the goroutine waits here
	idle     sync.Cond // the reader waits here: for room, or for all to be committed
	filling  *gathering
	spare    *gathering // nil while it is being committed
	running  bool
	stopping bool
	relaxed  bool  // something was committed without waiting for the disk, since the last flush
	used     bool  // since the last rest
	stuck    error // why what is being committed waits for a majority of the cluster
	err      error
	done     chan struct{}
}

const (
	// recordFraming bounds what a record takes beside its body and twice its properties: names, and its place in the batch.
	recordFraming = 4 << 10
	// transactionMax bounds what is stored together, all copies of all messages. The rest of a transaction's room is for what surrounds them.
	transactionMax = logstore.MaxTxn - 512<<10
)

// gathering is what is committed together.
type gathering struct {
	messages *exchange.Gathering
	runs     []*channel // that have confirms due, in the order of their first
	number   uint64     // of this filling
	count    int        // messages, those without a queue too
}

// run is the confirms of one channel in one gathering: sequence numbers up to last.
type run struct {
	number      uint64 // of the gathering's filling
	first, last uint64
}

// due is a run that is to be confirmed.
type due struct {
	ch          *channel
	first, last uint64
}

func (p *publisher) init(c *connection) {
	p.c = c
	p.work.L, p.idle.L = &p.mu, &p.mu
	p.done = make(chan struct{})
}

// add gives a message to the queues in c.routes, and counts it for the confirms of its channel. It waits while too much has gathered.
func (p *publisher) add(ch *channel, m *message.Published) error {
	l := &p.c.s.limits
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling == nil {
		p.filling = p.newGathering()
	}
	size := len(p.c.routes) * (len(m.Body) + 2*len(m.Properties) + recordFraming)
	if size > transactionMax {
		return raise(wire.PreconditionFailed, "a message of %d bytes for %d queues at once: it takes %d bytes, at most %d are stored together",
			len(m.Body), len(p.c.routes), size, transactionMax)
	}
	for p.err == nil && p.filling.count > 0 && (p.filling.count >= publishCountMax || p.filling.messages.Bytes()+size > min(l.PublishBytes, transactionMax)) {
		p.idle.Wait()
	}
	if p.err != nil {
		return p.err
	}
	g := p.filling
	if len(p.c.routes) > 0 {
		if err := g.messages.Add(p.c.routes, m, p.c.s.o.Now().UnixMilli()); err != nil {
			return err
		}
	}
	if ch.confirming {
		ch.sequence++
		if ch.run.number != g.number {
			ch.run = run{number: g.number, first: ch.sequence}
			g.runs = append(g.runs, ch)
		}
		ch.run.last = ch.sequence
	} else if len(p.c.routes) == 0 {
		return nil
	}
	g.count++
	if g.count == 1 {
		if !p.running {
			p.running = true
			p.spare = p.newGathering()
			go p.run()
		}
		p.work.Signal()
	}
	return nil
}

func (p *publisher) newGathering() *gathering {
	return &gathering{messages: p.c.s.o.Router.NewGathering(), number: 1}
}

// rest lets go of memory that was not used since the last call.
func (p *publisher) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.used && p.spare != nil && p.filling.count == 0 {
		p.filling.messages, p.spare.messages = p.c.s.o.Router.NewGathering(), p.c.s.o.Router.NewGathering()
	}
	p.used = false
}

// run is the goroutine.
func (p *publisher) run() {
	defer close(p.done)
	var dues []due
	number := uint64(1)
	p.mu.Lock()
	for {
		if p.filling.count == 0 || p.err != nil {
			p.idle.Broadcast()
			if p.stopping || p.err != nil {
				break
			}
			p.work.Wait()
			continue
		}
		g := p.filling
		number++
		p.filling, p.spare = p.spare, nil
		p.filling.number = number
		p.used = true
		dues = dues[:0]
		for _, ch := range g.runs {
			dues = append(dues, due{ch, ch.run.first, ch.run.last})
		}
		p.idle.Broadcast() // there is room
		p.mu.Unlock()

		wait := logstore.Relaxed
		if len(dues) > 0 {
			wait = logstore.Durable
		}
		err := p.commit(g, wait)
		p.c.confirm(dues, err == nil)
		if isOutOfTouch(err) && !p.c.isGone() {
			// Who has confirms knows, and may try again here or elsewhere. To others nothing was promised.
			if len(dues) == 0 {
				p.c.s.o.Logf("connection %s: %d messages that were published without confirms may be lost: %v", p.c.name, g.count, err)
			}
			err = nil
		}

		clear(g.runs)
		g.runs, g.count = g.runs[:0], 0
		g.messages.Reset()
		p.mu.Lock()
		p.spare = g
		if wait == logstore.Relaxed {
			p.relaxed = true
		}
		if err != nil {
			p.err = err
		}
	}
	p.mu.Unlock()
	if p.err != nil {
		p.c.post(func() error { return explain(p.err) })
	}
}

// commit puts a gathering into the log. While the disk is full it waits and tells the client, for what was published shall not be lost for that, and the client not think that it was
// stored. Without a majority of the cluster it does so for clients that would not hear of it otherwise.
func (p *publisher) commit(g *gathering, wait logstore.Durability) error {
	if g.messages.Len() == 0 {
		return nil
	}
	blocked := false
	for {
		err := g.messages.Commit(context.Background(), wait)
		var reason string
		switch {
		case is[*logstore.DiskFullError](err):
			reason = "low on disk"
		case wait == logstore.Relaxed && is[*logstore.UnavailableError](err):
			reason = "no majority of the cluster"
		}
		if blocked || reason != "" {
			p.wait(reason, err)
		}
		if reason == "" {
			if blocked && p.c.can.blocked {
				p.c.write(&wire.ConnectionUnblocked{})
			}
			p.c.s.counts.publishCommits.Add(1)
			return err
		}
		if !blocked {
			blocked = true
			p.c.s.counts.publishersBlocked.Add(1)
			p.c.s.o.Logf("connection %s: publishing waits: %v", p.c.name, err)
			if p.c.can.blocked {
				p.c.write(&wire.ConnectionBlocked{Reason: []byte(reason)})
			}
		}
		if !p.c.pause(retryEvery) {
			return err
		}
	}
}

// wait notes whether what is being committed waits for a majority, and tells those who wait for it to be committed.
func (p *publisher) wait(reason string, err error) {
	if reason == "" || !is[*logstore.UnavailableError](err) {
		err = nil
	}
	p.mu.Lock()
	if p.stuck = err; err != nil {
		p.idle.Broadcast()
	}
	p.mu.Unlock()
}

// retryEvery is how often what the disk has no room for, or no majority takes, is tried again.
const retryEvery = 100 * time.Millisecond

// pause waits, and reports false if the connection ends meanwhile.
func (c *connection) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.gone:
		return false
	}
}

// isGone reports whether nothing is worth waiting for any more.
func (c *connection) isGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// confirm tells publishers that their messages are safe, or that they are not. All lower sequence numbers of a channel are answered already, so one answer with
// `multiple` does for each channel.
func (c *connection) confirm(dues []due, safe bool) {
	for _, d := range dues {
		n := int64(d.last - d.first + 1)
		d.ch.out.Lock()
		if !d.ch.silent {
			b := c.out.Begin()
			if safe {
				b = (&wire.BasicAck{DeliveryTag: d.last, Multiple: n > 1}).AppendFrame(b, d.ch.id)
				c.s.counts.confirmed.Add(n)
			} else {
				b = (&wire.BasicNack{DeliveryTag: d.last, Multiple: n > 1}).AppendFrame(b, d.ch.id)
				c.s.counts.refused.Add(n)
			}
			c.out.End(b)
		}
		d.ch.out.Unlock()
	}
}

// flush waits until everything that was published is committed, confirmed if it is to be, and readable. It does not wait for a majority of the cluster, though
// what was published does.
func (p *publisher) flush() error {
	p.mu.Lock()
	for p.running && p.err == nil && (p.filling.count > 0 || p.spare == nil) {
		if p.stuck != nil {
			defer p.mu.Unlock()
			return p.stuck
		}
		p.idle.Wait()
	}
	err, relaxed := p.err, p.relaxed
	p.relaxed = false
	p.mu.Unlock()
	if err == nil && relaxed {
		err = p.c.makeDurable()
	}
	return err
}

// finish commits what has gathered and ends the goroutine. If the connection is cut off, it does not wait for room on the disk.
func (p *publisher) finish() error {
	p.mu.Lock()
	if !p.running {
		p.mu.Unlock()
		return nil
	}
	p.stopping = true
	p.mu.Unlock()
	p.work.Signal()
	<-p.done
	if errors.Is(p.err, logstore.ErrClosed) {
		return nil
	}
	return p.err
}
