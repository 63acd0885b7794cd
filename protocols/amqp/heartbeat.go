package amqp

import (
	"sync"
	"time"

	"polylog/protocols/amqp/wire"
)

// pulse is what a connection does now and then. It lets go of memory that is not used, notices that the client is gone while the reader does not read, and sends
// heartbeats: whenever nothing was written for half of the interval, so that the client hears something in every interval (4.2.7).
type pulse struct {
	c       *connection
	every   time.Duration
	mu      sync.Mutex
	timer   *time.Timer
	written int64 // by the writer when last looked at
	stopped bool
}

func newPulse(c *connection, interval time.Duration) *pulse {
	p := &pulse{c: c, every: interval / 2}
	p.mu.Lock()
	p.timer = time.AfterFunc(p.every, p.beat)
	p.mu.Unlock()
	return p
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	if p.c.out.Err() != nil {
		p.c.cut() // the reader may be waiting for something else than the client
		return
	}
	if w := p.c.out.Written(); w != p.written {
		p.written = w
	} else if p.c.out.Waiting() == 0 { // else the client takes nothing, and need not be told that there is more
		p.c.out.Write(wire.HeartbeatFrame)
	}
	p.c.publisher.rest()
	p.timer.Reset(p.every)
}

// stop ends it. No heartbeat is written when it has returned.
func (p *pulse) stop() {
	p.mu.Lock()
	p.stopped = true
	p.timer.Stop()
	p.mu.Unlock()
}
