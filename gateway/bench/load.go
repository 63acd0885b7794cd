package bench

import (
	"fmt"
	"math"
	"time"
)

// Load says what is sent in a round, and how. The zero value of a field marked "default" stands for that.
type Load struct {
	Producers int // default 1, at most clientsMax
	Consumers int // at most clientsMax; 0: nobody takes the messages away
	Queues    int // queues, or partitions of the topic, among which both are spread in turn; default 1
	Size      int // of a body in bytes, from 32; default 1024
	Window    int // how far a producer goes beyond its oldest unconfirmed message, in messages; default 1000
	// Rate is how many messages a second all producers together send, each at its time, from which its latencies then count. 0: as many as the broker takes.
	Rate float64
	// Messages is how many are sent by all producers together, Time for how long they send. What ends first ends the sending; 0: it does not.
	Messages int64
	Time     time.Duration
	// Patience is how long nothing may move before the round gives up on what it waits for; default 15 s.
	Patience time.Duration
}

const (
	clientsMax = 10_000
	windowMax  = 1 << 20
	sizeMax    = 128 << 20
)

// withDefaults returns the load with its defaults, or what is wrong with it.
func (l Load) withDefaults() (Load, error) {
	for _, f := range []struct {
		name            string
		n               *int
		value, min, max int
	}{
		{"producers", &l.Producers, 1, 1, clientsMax},
		{"consumers", &l.Consumers, 0, 0, clientsMax},
		{"queues or partitions", &l.Queues, 1, 1, clientsMax},
		{"the size", &l.Size, 1024, stampBytes, sizeMax},
		{"the window", &l.Window, 1000, 1, windowMax},
	} {
		if *f.n == 0 {
			*f.n = f.value
		}
		if *f.n < f.min || *f.n > f.max {
			return l, fmt.Errorf("%s must be from %d to %d, not %d", f.name, f.min, f.max, *f.n)
		}
	}
	switch {
	case l.Rate < 0 || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0):
		return l, fmt.Errorf("a rate of %v messages a second makes no sense", l.Rate)
	case l.Messages < 0 || l.Messages > numbersMax:
		return l, fmt.Errorf("the number of messages must be from 1 to %d, not %d", int64(numbersMax), l.Messages)
	case l.Time < 0:
		return l, fmt.Errorf("sending for %v makes no sense", l.Time)
	case l.Messages == 0 && l.Time == 0:
		return l, fmt.Errorf("neither the number of messages nor the time is bounded")
	}
	if l.Patience <= 0 {
		l.Patience = 15 * time.Second
	}
	return l, nil
}

// share returns how many of n things the one with index i of count has, when they are dealt in turn.
func share(n int64, i, count int) int64 {
	each := n / int64(count)
	if int64(i) < n%int64(count) {
		each++
	}
	return each
}

// pace says when a producer may send what. It belongs to the producer's goroutine.
type pace struct {
	r     *round
	index int    // of the producer
	sent  uint64 // the number of the next message
	most  uint64 // it ends before this number
	timer *time.Timer
}

func (r *round) pace(index int) *pace {
	p := &pace{r: r, index: index, most: numbersMax}
	if r.load.Messages > 0 {
		p.most = uint64(share(r.load.Messages, index, r.load.Producers))
	}
	return p
}

// due returns when message n should be sent.
func (p *pace) due(n uint64) time.Duration {
	return time.Duration((float64(n)*float64(p.r.load.Producers) + float64(p.index)) / p.r.load.Rate * 1e9)
}

// next waits until the producer may send something and returns how many messages, from 1 to most, and the time that the first of them carries. 0: there are no more.
func (p *pace) next(most int) (n int, at time.Duration) {
	left := p.most - p.sent
	if left == 0 || p.r.over() {
		return 0, 0
	}
	n = int(min(left, uint64(most)))
	if p.r.load.Rate <= 0 {
		return n, p.r.now()
	}
	at = p.due(p.sent)
	if p.r.load.Time > 0 && at >= p.r.load.Time {
		return 0, 0
	}
	if wait := at - p.r.now(); wait > 0 {
		if p.timer == nil {
			p.timer = time.NewTimer(wait)
		} else {
			p.timer.Reset(wait)
		}
		select {
		case <-p.timer.C:
		case <-p.r.halted:
			return 0, 0
		}
	}
	until, due := p.r.now(), 1
	if p.r.load.Time > 0 {
		until = min(until, p.r.load.Time-1)
	}
	for due < n && p.due(p.sent+uint64(due)) <= until {
		due++
	}
	return due, at
}

// stamp returns the stamp of the next message, which is sent at that time, or is due at its own, and counts it as sent.
func (p *pace) stamp(at time.Duration) stamp {
	s := stamp{round: p.r.id, producer: uint32(p.index), number: p.sent, at: at}
	if p.r.load.Rate > 0 {
		s.at = p.due(p.sent)
	}
	p.sent++
	return s
}

// Check returns what is wrong with what was asked for.
func (l Load) Check() error {
	_, err := l.withDefaults()
	return err
}
