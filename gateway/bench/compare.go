package bench

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"polylog/logstore/logbench"
)

// Comparison has two brokers take turns under the same load.
type Comparison struct {
	Ours, Theirs Broker
	TheirName    string // in the rows; default: Theirs.Name()
	Load         Load
	Rounds       int // of each broker
	Warmup       int // rounds of each broker before those, which do not count: caches fill, and what compiles while it runs has compiled
	// Target is the least that the ratio of the rates should be, LatencyTarget the most that of the 99th percentiles. 0: nothing is asked for.
	Target, LatencyTarget float64
	// Steady is the share of the slower broker's rate, up to 1, at which the latencies are compared in as many rounds again, with as many messages a second for both. 0: they are not.
	Steady float64
}

// tally is what the rounds of one broker have shown.
type tally struct {
	broker                                   Broker
	rates, cpu                               []float64
	confirm50, confirm99, arrive50, arrive99 []float64
	unsound                                  []string // what did not add up
}

func (t *tally) add(r *Result) {
	t.rates = append(t.rates, r.Rate())
	t.cpu = append(t.cpu, r.perMessage(r.ServerCPUSeconds))
	t.confirm50, t.confirm99 = append(t.confirm50, r.ConfirmLatency.P50), append(t.confirm99, r.ConfirmLatency.P99)
	t.arrive50, t.arrive99 = append(t.arrive50, r.DeliverLatency.P50), append(t.arrive99, r.DeliverLatency.P99)
	if !r.Sound() {
		t.unsound = append(t.unsound, fmt.Sprintf("%s: %s", r.Broker, r.sum()))
	}
}

// Run measures and returns a row for each figure, its name behind that of the load: "2+2 rate". An error that is an *UnsoundError comes with rows.
func (c *Comparison) Run(ctx context.Context, logf Logf) ([]logbench.Row, error) {
	load, err := c.Load.withDefaults()
	if err != nil {
		return nil, err
	}
	ours, theirs := &tally{broker: c.Ours}, &tally{broker: c.Theirs}
	name := fmt.Sprintf("%d+%d ", load.Producers, load.Consumers)
	logf("%d producers, %d consumers, %s", load.Producers, load.Consumers, speed(load))
	if err := c.inTurn(ctx, load, c.Warmup, logf, ours, theirs); err != nil {
		return nil, err
	}
	is := c.TheirName
	if is == "" {
		is = c.Theirs.Name()
	}
	rows := c.rowsOf(name, is, ours, theirs)
	if load.Rate == 0 {
		rows[0].Target = c.Target
	}
	unsound := append(ours.unsound, theirs.unsound...)
	if c.Steady > 0 {
		load.Rate = c.Steady * min(logbench.Median(ours.rates), logbench.Median(theirs.rates))
		logf("%d producers, %d consumers, %s", load.Producers, load.Consumers, speed(load))
		ours, theirs = &tally{broker: c.Ours}, &tally{broker: c.Theirs}
		if err := c.inTurn(ctx, load, min(c.Warmup, 1), logf, ours, theirs); err != nil {
			return rows, err
		}
		rows = append(rows, c.rowsOf(name+"steady ", is, ours, theirs)...)
		unsound = append(append(unsound, ours.unsound...), theirs.unsound...)
	}
	if len(unsound) > 0 {
		return rows, &UnsoundError{unsound}
	}
	return rows, nil
}

func speed(l Load) string {
	if l.Rate == 0 {
		return "as fast as it goes"
	}
	return perSecond(l.Rate)
}

// UnsoundError means that messages were lost, refused or left over in some round, so that its rate says little.
type UnsoundError struct{ Rounds []string }

func (e *UnsoundError) Error() string {
	return fmt.Sprintf("in %d rounds the numbers do not add up, the first: %s", len(e.Rounds), e.Rounds[0])
}

// inTurn has the two work one after the other, round after round.
func (c *Comparison) inTurn(ctx context.Context, load Load, warmup int, logf Logf, both ...*tally) error {
	for round := 1 - warmup; round <= c.Rounds; round++ {
		for _, t := range both {
			unix.Sync() // what the one left for the system to write must not slow down the other
			r, err := Run(ctx, t.broker, load, func(string, ...any) {})
			if err != nil {
				return err
			}
			which := "warms up"
			if round > 0 {
				t.add(r)
				which = fmt.Sprintf("round %d of %d", round, c.Rounds)
			}
			logf("  %s, %s: %s, p99 of confirms %s, of deliveries %s, processor time of the broker %s a message, of the driver %s; %s", which, r.Broker, perSecond(r.Rate()),
				seconds(r.ConfirmLatency.P99), seconds(r.DeliverLatency.P99), seconds(r.perMessage(r.ServerCPUSeconds)), seconds(r.perMessage(r.DriverCPUSeconds)), r.sum())
		}
	}
	return nil
}

// rowsOf makes rows of the medians, the rate first. What one of the two has no figure for is left out.
func (c *Comparison) rowsOf(name, is string, ours, theirs *tally) []logbench.Row {
	row := func(what string, unit logbench.Unit, a, b []float64) logbench.Row {
		return logbench.Row{
			Name: name + what, Is: is,
			Measured: logbench.Figure{Value: logbench.Median(a), Unit: unit}, Against: logbench.Figure{Value: logbench.Median(b), Unit: unit},
		}
	}
	rows := []logbench.Row{row("rate", logbench.MessagesPerSecond, ours.rates, theirs.rates)}
	times := func(what string, a, b []float64, target float64) {
		if r := row(what, logbench.Seconds, a, b); r.Measured.Value > 0 && r.Against.Value > 0 {
			r.Target, r.AtMost = target, true
			rows = append(rows, r)
		}
	}
	times("confirm p50", ours.confirm50, theirs.confirm50, 0)
	times("confirm p99", ours.confirm99, theirs.confirm99, c.LatencyTarget)
	times("deliver p50", ours.arrive50, theirs.arrive50, 0)
	times("deliver p99", ours.arrive99, theirs.arrive99, c.LatencyTarget)
	times("cpu", ours.cpu, theirs.cpu, 0)
	return rows
}
