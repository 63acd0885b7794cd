package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"polylog/logstore/logbench"
)

// liar is a broker in memory that does with a message what it is told to, so that a test sees whether the driver notices.
type liar struct {
	name  string
	fate  func(s stamp) fate
	left  int64 // messages that it says are left
	queue chan []byte
}

type fate struct {
	refuse  bool // the producer is told no
	deliver int  // how often it arrives
	forge   bool // what arrives carries a stamp of another round
}

func honest(stamp) fate { return fate{deliver: 1} }

func (b *liar) Name() string        { return b.name }
func (b *liar) Addresses() []string { return []string{"192.0.2.1:1"} } // of no machine, so that no process is found

func (b *liar) setup(_ context.Context, r *round) error {
	b.queue = make(chan []byte, 3*int(r.load.Messages))
	return nil
}

func (b *liar) remove(context.Context, *round) (int64, error) { return b.left, nil }

func (b *liar) producer(_ context.Context, r *round, index int) (client, error) {
	return &liarsProducer{b, r, index}, nil
}

func (b *liar) consumer(_ context.Context, r *round, _ int) (client, error) {
	return &liarsConsumer{b, r, make(chan struct{})}, nil
}

type liarsProducer struct {
	b     *liar
	r     *round
	index int
}

func (p *liarsProducer) run(context.Context) error {
	pace := p.r.pace(p.index)
	var latency Histogram
	for {
		n, at := pace.next(10)
		if n == 0 {
			p.r.measured(&p.r.confirm, &latency)
			return nil
		}
		for range n {
			s := pace.stamp(at)
			p.r.sent(p.index, pace.sent)
			f := p.b.fate(s)
			if f.refuse {
				p.r.settled(&p.r.refused, 1, p.r.now())
			} else {
				p.r.accounts[p.index].confirmed.add(s.number)
				p.r.settled(&p.r.confirmed, 1, p.r.now())
				latency.Add(p.r.now() - s.at)
			}
			if f.forge {
				s.round++
			}
			for range f.deliver {
				body := make([]byte, p.r.load.Size)
				s.put(body)
				p.b.queue <- body
			}
		}
	}
}

func (p *liarsProducer) ready(context.Context) error  { return nil }
func (p *liarsProducer) finish(context.Context) error { return nil }
func (p *liarsProducer) close()                       {}

type liarsConsumer struct {
	b     *liar
	r     *round
	ended chan struct{}
}

func (c *liarsConsumer) run(ctx context.Context) error {
	var latency Histogram
	defer func() { c.r.measured(&c.r.arrive, &latency) }()
	for {
		select {
		case body := <-c.b.queue:
			c.r.arrived(body, false, c.r.now(), &latency)
			c.r.received(1, c.r.now())
		case <-c.ended:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *liarsConsumer) ready(context.Context) error { return nil }
func (c *liarsConsumer) finish(context.Context) error {
	close(c.ended)
	return nil
}
func (c *liarsConsumer) close() {}

var quiet = func(string, ...any) {}

func TestRoundTellsWhatABrokerDidToMessages(t *testing.T) {
	t.Parallel()
	every := func(n uint64, f fate) func(stamp) fate {
		return func(s stamp) fate {
			if s.number%n == 0 {
				return f
			}
			return fate{deliver: 1}
		}
	}
	for _, c := range []struct {
		name  string
		fate  func(stamp) fate
		left  int64
		check func(r *Result) bool
		sound bool
		sum   string
	}{
		{"honest", honest, 0, func(r *Result) bool { return r.Confirmed == 1200 && r.Delivered == 1200 }, true, "confirmed 1200, arrived 1200, missing 0, duplicates 0"},
		{"loses", every(10, fate{}), 0, func(r *Result) bool { return r.Missing == 120 && r.Delivered == 1080 }, false, "confirmed 1200, arrived 1080, missing 120, duplicates 0"},
		{"repeats", every(10, fate{deliver: 2}), 0, func(r *Result) bool { return r.Duplicates == 120 }, true, "confirmed 1200, arrived 1200, missing 0, duplicates 120"},
		{"refuses", every(100, fate{refuse: true}), 0, func(r *Result) bool { return r.Refused == 12 && r.Confirmed == 1188 }, false, "missing 0, duplicates 0, 12 refused"},
		{"forges", every(200, fate{deliver: 1, forge: true}), 0, func(r *Result) bool { return r.Missing == 6 && r.Unexplained == 6 }, false, "6 of other origin"},
		{"keeps some", honest, 3, func(r *Result) bool { return r.Left == 3 && r.Missing == 0 }, false, "3 left in the queues"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), &liar{name: c.name, fate: c.fate, left: c.left}, Load{Producers: 3, Consumers: 2, Messages: 1200, Patience: 50 * time.Millisecond}, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(r) || r.Sound() != c.sound || !strings.Contains(r.sum(), c.sum) || r.Published != 1200 || r.Seconds <= 0 || r.ServerCPUSeconds != 0 {
				t.Errorf("%+v: %s", r, r.sum())
			}
			var text, js bytes.Buffer
			var back Result
			if err := errors.Join(r.WriteTable(&text), r.WriteJSON(&js), json.Unmarshal(js.Bytes(), &back)); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), "delivered") || !strings.Contains(text.String(), r.sum()) || back.Missing != r.Missing || back.DeliverLatency != r.DeliverLatency {
				t.Errorf("printed as\n%s%s", text.String(), js.String())
			}
		})
	}
}

func TestLostMessagesAreNotMadeUpForByOthers(t *testing.T) {
	t.Parallel()
	// As many messages arrive as were confirmed, but not the same.
	b := &liar{name: "swaps", fate: func(s stamp) fate {
		switch s.number {
		case 5:
			return fate{refuse: true, deliver: 1}
		case 6:
			return fate{}
		}
		return fate{deliver: 1}
	}}
	r, err := Run(t.Context(), b, Load{Consumers: 1, Messages: 100, Patience: 50 * time.Millisecond}, quiet)
	if err != nil || r.Missing != 1 || r.Confirmed != 99 || r.Delivered != 99 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPublishingAloneIsMeasured(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), &liar{name: "sink", fate: honest, left: 500}, Load{Messages: 500}, quiet)
	if err != nil || r.Confirmed != 500 || r.Rate() <= 0 || !r.Sound() || r.sum() != "published 500, confirmed 500, refused 0" {
		t.Errorf("%+v, %v: %s", r, err, r.sum())
	}
}

func TestComparisonTakesTurnsAndSaysTheRatio(t *testing.T) {
	t.Parallel()
	var turns []string
	who := func(name string) func(stamp) fate {
		return func(s stamp) fate {
			if s.number == 0 {
				turns = append(turns, name)
			}
			return fate{deliver: 1}
		}
	}
	c := Comparison{
		Ours: &liar{name: "ours", fate: who("ours")}, Theirs: &liar{name: "theirs", fate: who("theirs")}, TheirName: "theirs",
		Load: Load{Consumers: 1, Messages: 200}, Rounds: 2, Warmup: 1, Target: 4, LatencyTarget: 0.5, Steady: 1,
	}
	rows, err := c.Run(t.Context(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("ours theirs ", 6); strings.Join(turns, " ")+" " != want {
		t.Errorf("turns: %v", turns)
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
		if r.Is != "theirs" || r.Measured.Value <= 0 || r.Against.Value <= 0 {
			t.Errorf("row %+v", r)
		}
	}
	if got := strings.Join(names, ","); !strings.HasPrefix(got, "1+1 rate,1+1 confirm p50,1+1 confirm p99,1+1 deliver p50,1+1 deliver p99,1+1 steady rate,") {
		t.Errorf("rows %s", got)
	}
	if rows[0].Target != 4 || rows[0].Measured.Unit != logbench.MessagesPerSecond || rows[5].Target != 0 || rows[2].Target != 0.5 || !rows[2].AtMost || rows[1].Target != 0 {
		t.Errorf("rows %+v and %+v", rows[0], rows[5])
	}
}

func TestComparisonSaysThatARateIsNotWorthMuch(t *testing.T) {
	t.Parallel()
	c := Comparison{
		Ours: &liar{name: "ours", fate: func(s stamp) fate { return fate{deliver: int(min(s.number, 1))} }}, Theirs: &liar{name: "theirs", fate: honest},
		Load: Load{Consumers: 1, Messages: 100, Patience: 20 * time.Millisecond}, Rounds: 1,
	}
	rows, err := c.Run(t.Context(), quiet)
	var unsound *UnsoundError
	if len(rows) == 0 || !errors.As(err, &unsound) || len(unsound.Rounds) != 1 || !strings.Contains(err.Error(), "ours: confirmed 100, arrived 99, missing 1") {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestInterruptedRoundEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := &liar{name: "slow", fate: func(s stamp) fate {
		if s.number == 10 {
			cancel()
		}
		return fate{deliver: 1}
	}}
	if r, err := Run(ctx, b, Load{Consumers: 1, Messages: 1000, Rate: 1000}, quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
}
