package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"polylog/logstore/logbench"
)

// Lag measures how long after one node has acknowledged a record another one gives it to a reader.
//
// All producers are connected to the one node, the reader to the other, both in this process and so with one clock. A record's lag is the time of its arrival at the reader
// less the time when its acknowledgement had arrived at the producer; if it arrived first, its lag is 0.
type Lag struct {
	Kafka   Kafka    // Broker is the node that acknowledges
	Readers []string // the nodes to read from, as host:port, in turn; one may be Kafka.Broker itself
	Load    Load     // always with one consumer. Rate 0: Share of what goes
	Rounds  int      // with each reader
	Warmup  int      // rounds before those, which do not count
	Share   float64  // of the rate that was measured at full speed, at which the lag is measured
}

// LagResult is what the rounds with one reader have shown: medians, and the longest of all for the maxima. Times are in seconds.
type LagResult struct {
	Broker string `json:"broker"`
	Reader string `json:"reader"`
	Rounds int    `json:"rounds"`
	// FullRate is how many records a second went all the way at full speed, 0 if that was not measured; Rate how many while the lag was.
	FullRate float64 `json:"full_rate"`
	Rate     float64 `json:"rate"`

	ConfirmLatency Latency `json:"confirm_latency"` // from sending to the acknowledgement
	Lag            Latency `json:"lag"`             // from the acknowledgement to the arrival at the reader
	Early          float64 `json:"early"`           // the share of records that arrived before their acknowledgement did
}

// Check returns what is wrong with what was asked for.
func (l *Lag) Check() error {
	if n := len(l.Kafka.Addresses()); n != 1 {
		return fmt.Errorf("the node that acknowledges is one, not %d", n)
	}
	if len(l.Readers) == 0 {
		return fmt.Errorf("without a node to read from there is nothing to measure")
	}
	for _, reader := range l.Readers {
		if err := (&Kafka{Broker: reader, Replicas: -1, Acks: "all", Compression: "none", BatchBytes: stampBytes}).Check(); err != nil {
			return err
		}
	}
	if l.Load.Rate == 0 && (l.Share <= 0 || l.Share > 1) {
		return fmt.Errorf("the share must be above 0 and up to 1, not %v", l.Share)
	}
	if err := l.Load.Check(); err != nil {
		return err
	}
	return l.Kafka.Check()
}

// Run measures and returns a result for each reader. An error that is an *UnsoundError comes with results.
func (l *Lag) Run(ctx context.Context, logf Logf) ([]LagResult, error) {
	load, err := l.Load.withDefaults()
	if err != nil {
		return nil, err
	}
	load.Consumers = 1
	var unsound []string
	once := func(load Load, reader, which string) (*Result, *lagMeter, error) {
		unix.Sync() // what was left for the system to write must not slow down this round
		b := &lagging{Kafka: l.Kafka, reader: reader, meter: newLagMeter(load.Producers)}
		r, err := Run(ctx, b, load, func(string, ...any) {})
		if err != nil {
			return nil, nil, err
		}
		if !r.Sound() {
			unsound = append(unsound, fmt.Sprintf("%s: %s", b.Name(), r.sum()))
		}
		lag := b.meter.lag.Latency()
		logf("  %s, read at %s: %s, p99 of confirms %s, lag p50 %s, p99 %s; %s", which, reader, perSecond(r.Rate()), seconds(r.ConfirmLatency.P99), seconds(lag.P50), seconds(lag.P99), r.sum())
		return r, b.meter, nil
	}
	logf("%d producers, %s", load.Producers, speed(load))
	var full []float64
	for round := 1 - l.Warmup; round <= l.Rounds; round++ {
		if round > 0 && load.Rate > 0 {
			break // there is no speed to be found out
		}
		which := "warms up"
		if round > 0 {
			which = fmt.Sprintf("round %d of %d", round, l.Rounds)
		}
		r, _, err := once(load, l.Readers[(round+l.Warmup)%len(l.Readers)], which)
		if err != nil {
			return nil, err
		}
		if round > 0 {
			full = append(full, r.Rate())
		}
	}
	if load.Rate == 0 {
		load.Rate = l.Share * logbench.Median(full)
	}
	logf("%d producers, %s", load.Producers, speed(load))
	tallies := make([]lagTally, len(l.Readers))
	for round := 1; round <= l.Rounds; round++ {
		for i, reader := range l.Readers {
			r, m, err := once(load, reader, fmt.Sprintf("round %d of %d", round, l.Rounds))
			if err != nil {
				return nil, err
			}
			tallies[i].add(r, m)
		}
	}
	var results []LagResult
	for i := range tallies {
		result := tallies[i].result()
		result.Broker, result.Reader = l.Kafka.Broker, l.Readers[i]
		if len(full) > 0 {
			result.FullRate = logbench.Median(full)
		}
		results = append(results, result)
	}
	if len(unsound) > 0 {
		return results, &UnsoundError{unsound}
	}
	return results, nil
}

// lagTally is what the rounds with one reader have shown.
type lagTally struct {
	rates, early  []float64
	confirms, lag []Latency
}

func (t *lagTally) add(r *Result, m *lagMeter) {
	t.rates, t.early = append(t.rates, r.Rate()), append(t.early, m.earlyShare())
	t.confirms, t.lag = append(t.confirms, r.ConfirmLatency), append(t.lag, m.lag.Latency())
}

func (t *lagTally) result() LagResult {
	return LagResult{
		Rounds: len(t.rates), Rate: logbench.Median(t.rates), Early: logbench.Median(t.early), ConfirmLatency: medianLatency(t.confirms), Lag: medianLatency(t.lag),
	}
}

// medianLatency returns the medians of some latencies, and the longest maximum.
func medianLatency(all []Latency) (l Latency) {
	median := func(of func(Latency) float64) float64 {
		var v []float64
		for _, x := range all {
			v = append(v, of(x))
		}
		return logbench.Median(v)
	}
	l.P50, l.P99 = median(func(x Latency) float64 { return x.P50 }), median(func(x Latency) float64 { return x.P99 })
	l.P999 = median(func(x Latency) float64 { return x.P999 })
	l.Max = slices.MaxFunc(all, func(a, b Latency) int {
		if a.Max < b.Max {
			return -1
		}
		return 1
	}).Max
	return l
}

// lagMeter brings together when each message was acknowledged and when it arrived, whichever is first. It is for all goroutines.
type lagMeter struct {
	firsts []instants // by producer

	mu    sync.Mutex
	lag   Histogram
	early uint64
}

func newLagMeter(producers int) *lagMeter { return &lagMeter{firsts: make([]instants, producers)} }

// confirmed notes that message n of a producer was acknowledged, arrived that it has arrived: each once for each message.
func (m *lagMeter) confirmed(producer int, n uint64, now time.Duration) {
	if before, ok := m.firsts[producer].note(n, now); ok {
		m.measured(before - now)
	}
}

func (m *lagMeter) arrived(producer int, n uint64, now time.Duration) {
	if before, ok := m.firsts[producer].note(n, now); ok {
		m.measured(now - before)
	}
}

func (m *lagMeter) measured(lag time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lag.Add(lag) // a negative one counts as 0
	if lag < 0 {
		m.early++
	}
}

// earlyShare is the share of messages that arrived before they were acknowledged.
func (m *lagMeter) earlyShare() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(m.early) / float64(max(m.lag.count, 1))
}

// instants keeps, for each message of a producer, when the first of two things happened.
type instants struct {
	pages [numbersMax / pageNumbers]atomic.Pointer[[pageNumbers]atomic.Int64]
}

// note notes that something happened to message n, and returns when the other thing did, if it did.
func (t *instants) note(n uint64, now time.Duration) (before time.Duration, ok bool) {
	at := &t.pages[n/pageNumbers]
	p := at.Load()
	if p == nil {
		at.CompareAndSwap(nil, new([pageNumbers]atomic.Int64))
		p = at.Load()
	}
	v := p[n%pageNumbers].Swap(int64(now) + 1) // 0 is for nothing
	return time.Duration(v - 1), v != 0
}
