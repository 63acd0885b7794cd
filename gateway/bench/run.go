package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Logf tells people how far a run has come.
type Logf func(format string, args ...any)

// round is one load on one broker, from empty queues to empty queues. Its counters are for all goroutines.
type round struct {
	load  Load
	id    uint64
	begun time.Time // when the first message could be sent

	accounts []account // by producer

	published, confirmed, refused                                 atomic.Int64 // of producers
	delivered, acknowledged, duplicates, redelivered, unexplained atomic.Int64 // of consumers
	moved                                                         atomic.Int64 // when something was last counted, as now() says it

	halted   chan struct{} // closed when nothing more may be sent
	haltOnce sync.Once

	mu              sync.Mutex
	confirm, arrive Histogram // what clients that ended have measured
}

func newRound(l Load) *round {
	r := &round{load: l, id: rand.Uint64(), accounts: make([]account, l.Producers), halted: make(chan struct{})}
	r.begun = time.Now()
	return r
}

// now is the time since the round began.
func (r *round) now() time.Duration { return time.Since(r.begun) }

// over reports whether nothing more may be sent. What has its own time may be late: it counts as late, and would be missing among the slow ones if it were left out.
func (r *round) over() bool {
	select {
	case <-r.halted:
		return true
	default:
	}
	end := r.load.Time
	if end > 0 && r.load.Rate > 0 {
		end += r.load.Patience
	}
	return end > 0 && r.now() >= end
}

func (r *round) halt() { r.haltOnce.Do(func() { close(r.halted) }) }

// sent notes that a producer has sent all its messages below the number.
func (r *round) sent(producer int, below uint64) {
	before := r.accounts[producer].sent.Swap(below)
	r.published.Add(int64(below - before))
}

// settled notes what a producer has been told of n messages, at the time now.
func (r *round) settled(counter *atomic.Int64, n int, now time.Duration) {
	counter.Add(int64(n))
	r.moved.Store(int64(now))
}

// arrived notes a message that a consumer has received at the time now, and how long it took. It returns the stamp of one of this round's that came for the first time.
func (r *round) arrived(body []byte, again bool, now time.Duration, h *Histogram) (s stamp, fresh bool) {
	s, ok := stampOf(body)
	if !ok || s.round != r.id || int(s.producer) >= len(r.accounts) || s.number >= numbersMax {
		r.unexplained.Add(1)
		return s, false
	}
	if again {
		r.redelivered.Add(1)
	}
	if !r.accounts[s.producer].arrived.add(s.number) {
		r.duplicates.Add(1)
		return s, false
	}
	h.Add(now - s.at)
	return s, true
}

// received notes that a consumer has received n messages at the time now.
func (r *round) received(n int, now time.Duration) {
	r.delivered.Add(int64(n))
	r.moved.Store(int64(now))
}

// measured takes over what a client has measured, when it ends.
func (r *round) measured(into, h *Histogram) {
	r.mu.Lock()
	defer r.mu.Unlock()
	into.Merge(h)
}

// distinct is how many different messages have arrived.
func (r *round) distinct() int64 {
	return r.delivered.Load() - r.duplicates.Load() - r.unexplained.Load()
}

// missing counts the messages that were confirmed and have not arrived.
func (r *round) missing() (n int64) {
	for i := range r.accounts {
		n += r.accounts[i].confirmed.without(&r.accounts[i].arrived)
	}
	return n
}

// Run puts the load on the broker once and returns what was measured. Progress goes to logf once a second.
func Run(ctx context.Context, b Broker, l Load, logf Logf) (*Result, error) {
	l, err := l.withDefaults()
	if err != nil {
		return nil, err
	}
	r := newRound(l)
	defer r.halt()
	if err := b.setup(ctx, r); err != nil {
		return nil, fmt.Errorf("preparing %s: %w", b.Name(), err)
	}
	result, err := r.drive(ctx, b, logf)
	// Also what was interrupted is cleaned up.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Patience)
	defer cancel()
	left, removeErr := b.remove(cleanup, r)
	if removeErr != nil {
		removeErr = fmt.Errorf("cleaning up %s: %w", b.Name(), removeErr)
	}
	if err = errors.Join(err, removeErr); err != nil {
		return nil, fmt.Errorf("driving %s: %w", b.Name(), err)
	}
	result.Left = left
	return result, nil
}

// crew is the clients of a round while they run.
type crew struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	clients []client
	running sync.WaitGroup
}

func (c *crew) add(cl client, err error) error {
	if err == nil {
		c.clients = append(c.clients, cl)
	}
	return err
}

// start has a client run; the first error of any ends all.
func (c *crew) start(cl client, who string, done *sync.WaitGroup) {
	c.running.Add(1)
	done.Add(1)
	go func() {
		defer c.running.Done()
		defer done.Done()
		stop := context.AfterFunc(c.ctx, cl.close)
		defer stop()
		if err := cl.run(c.ctx); err != nil {
			c.cancel(fmt.Errorf("%s: %w", who, err))
		}
	}()
}

// dismiss ends what still runs, and returns the error that ended the round, if one did.
func (c *crew) dismiss() error {
	err := context.Cause(c.ctx)
	c.cancel(nil)
	for _, cl := range c.clients {
		cl.close()
	}
	c.running.Wait()
	return err
}

// who names a client: the consumers come first.
func (r *round) who(i int) string {
	if i < r.load.Consumers {
		return fmt.Sprintf("consumer %d", i)
	}
	return fmt.Sprintf("producer %d", i-r.load.Consumers)
}

// drive runs the clients.
func (r *round) drive(ctx context.Context, b Broker, logf Logf) (result *Result, err error) {
	c := &crew{}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer func() {
		r.halt()
		if cause := c.dismiss(); cause != nil {
			err = cause // what came of it is told less well by whoever noticed it
		}
		if err == nil {
			result.ConfirmLatency, result.DeliverLatency = r.confirm.Latency(), r.arrive.Latency()
			result.confirm, result.deliver = &r.confirm, &r.arrive
		}
	}()
	for i := range r.load.Consumers {
		if err := c.add(b.consumer(c.ctx, r, i)); err != nil {
			return nil, fmt.Errorf("%s: %w", r.who(i), err)
		}
	}
	for i := range r.load.Producers {
		if err := c.add(b.producer(c.ctx, r, i)); err != nil {
			return nil, fmt.Errorf("%s: %w", r.who(r.load.Consumers+i), err)
		}
	}
	for i, cl := range c.clients {
		if err := cl.ready(c.ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", r.who(i), err)
		}
	}
	server := watchServer(b.Addresses()...)
	serverCPU, driverCPU := server.processorTime(), ownProcessorTime()
	r.begun = time.Now() // after what takes milliseconds: messages are due from now on
	var producing, consuming sync.WaitGroup
	for i, cl := range c.clients {
		if i < r.load.Consumers {
			c.start(cl, r.who(i), &consuming)
		} else {
			c.start(cl, r.who(i), &producing)
		}
	}
	told := make(chan struct{})
	progress, endProgress := context.WithCancel(c.ctx)
	go func() {
		defer close(told)
		r.tell(progress, logf)
	}()
	defer func() {
		endProgress()
		<-told
	}()
	producing.Wait()
	sending := time.Duration(r.moved.Load())
	if err := r.awaitArrival(c.ctx); err != nil {
		return nil, err
	}
	complete := r.load.Consumers == 0 || r.distinct() >= r.confirmed.Load()
	for _, cl := range c.clients[:r.load.Consumers] {
		if err := cl.finish(c.ctx); err != nil {
			return nil, fmt.Errorf("ending a consumer: %w", err)
		}
	}
	elapsed := r.now()
	if !complete || r.load.Consumers == 0 {
		elapsed = time.Duration(r.moved.Load()) // not the time that was spent waiting for what did not come
	}
	return &Result{
		Broker: b.Name(), Seconds: elapsed.Seconds(), SendingSeconds: sending.Seconds(),
		Published: r.published.Load(), Confirmed: r.confirmed.Load(), Refused: r.refused.Load(),
		Delivered: r.delivered.Load(), Acknowledged: r.acknowledged.Load(),
		Duplicates: r.duplicates.Load(), Redelivered: r.redelivered.Load(), Unexplained: r.unexplained.Load(),
		Missing: r.missingIfConsumed(), Consumers: r.load.Consumers, Producers: r.load.Producers,
		ServerCPUSeconds: server.spentSince(serverCPU), DriverCPUSeconds: (ownProcessorTime() - driverCPU).Seconds(),
		ServerMemory: server.memory(),
	}, nil
}

func (r *round) missingIfConsumed() int64 {
	if r.load.Consumers == 0 {
		return 0
	}
	return r.missing()
}

// awaitArrival waits until every confirmed message has arrived, or nothing has moved for as long as the load's patience.
func (r *round) awaitArrival(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil || r.load.Consumers == 0 {
		return err
	}
	// Looking is enough: what counts is when messages arrived, not when that was seen. The steps are short against a round.
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for r.distinct() < r.confirmed.Load() || r.missing() > 0 {
		if r.now()-time.Duration(r.moved.Load()) > r.load.Patience {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// tell says once a second how fast it goes.
func (r *round) tell(ctx context.Context, logf Logf) {
	step := time.NewTicker(time.Second)
	defer step.Stop()
	var before [4]int64
	last := r.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-step.C:
		}
		counts := [4]int64{r.published.Load(), r.confirmed.Load(), r.delivered.Load(), r.acknowledged.Load()}
		now := r.now()
		var rates [4]float64
		for i := range counts {
			rates[i] = float64(counts[i]-before[i]) / (now - last).Seconds()
		}
		line := fmt.Sprintf("  %3.0f s: published %s, confirmed %s", now.Seconds(), perSecond(rates[0]), perSecond(rates[1]))
		if r.load.Consumers > 0 {
			line += fmt.Sprintf(", delivered %s", perSecond(rates[2]))
			if counts[3] > 0 {
				line += fmt.Sprintf(", acknowledged %s", perSecond(rates[3]))
			}
			line += fmt.Sprintf(", on the way %d", max(counts[0]-r.distinct(), 0))
		}
		logf("%s", line)
		before, last = counts, now
	}
}
