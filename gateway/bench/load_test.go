package bench

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestLoadRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		l    Load
		want string
	}{
		{Load{}, "neither the number of messages nor the time is bounded"},
		{Load{Time: time.Second, Producers: -1}, "producers must be from 1 to"},
		{Load{Time: time.Second, Consumers: clientsMax + 1}, "consumers must be from 0 to"},
		{Load{Time: time.Second, Size: stampBytes - 1}, "the size must be from 32 to"},
		{Load{Time: time.Second, Window: windowMax + 1}, "the window must be from 1 to"},
		{Load{Time: time.Second, Queues: -2}, "queues or partitions must be from 1 to"},
		{Load{Time: time.Second, Rate: math.NaN()}, "a rate of NaN"},
		{Load{Messages: -1}, "the number of messages must be from 1 to"},
		{Load{Time: -time.Second}, "sending for -1s"},
	} {
		if err := c.l.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.l, err, c.want)
		}
	}
	l, err := Load{Messages: 1}.withDefaults()
	if err != nil || l.Producers != 1 || l.Consumers != 0 || l.Queues != 1 || l.Size != 1024 || l.Window != 1000 || l.Patience == 0 {
		t.Errorf("defaults: %+v, %v", l, err)
	}
}

func TestMessagesAreDealtOutWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n     int64
		count int
	}{{0, 3}, {1, 3}, {7, 3}, {9, 3}, {1000, 7}} {
		sum, least, most := int64(0), c.n, int64(0)
		for i := range c.count {
			s := share(c.n, i, c.count)
			sum, least, most = sum+s, min(least, s), max(most, s)
		}
		if sum != c.n || most-least > 1 {
			t.Errorf("of %d messages %d producers send %d, from %d to %d each", c.n, c.count, sum, least, most)
		}
	}
}

// paced runs a producer that is paced and returns the stamps it made.
func paced(r *round, index, burst int) (stamps []stamp) {
	p := r.pace(index)
	for {
		n, at := p.next(burst)
		if n == 0 {
			return stamps
		}
		for range n {
			stamps = append(stamps, p.stamp(at))
		}
	}
}

func TestPaceKeepsTheRateAndStampsTheTimeThatWasDue(t *testing.T) {
	t.Parallel()
	r := newRound(Load{Producers: 2, Rate: 10_000, Time: 50 * time.Millisecond, Patience: time.Minute})
	stamps := paced(r, 1, 7)
	if took := r.now(); took < 49*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	if n := len(stamps); n < 249 || n > 250 {
		t.Errorf("half of 10,000 a second in 50 ms are %d messages", n)
	}
	for i, s := range stamps {
		if want := time.Duration(2*i+1) * 100 * time.Microsecond; s.number != uint64(i) || s.producer != 1 || (s.at-want).Abs() > time.Microsecond {
			t.Fatalf("message %d is %+v, want it due at %v", i, s, want)
		}
	}
}

func TestPaceEndsWithTheMessagesOrTheRound(t *testing.T) {
	t.Parallel()
	r := newRound(Load{Producers: 3, Messages: 100})
	if n := len(paced(r, 0, 9)); n != 34 {
		t.Errorf("the first of three producers sent %d of 100 messages", n)
	}
	r.halt()
	if n := len(paced(r, 1, 9)); n != 0 {
		t.Errorf("%d messages were sent after the end", n)
	}
	r = newRound(Load{Producers: 1, Rate: 0.001, Time: time.Hour})
	time.AfterFunc(time.Millisecond, r.halt)
	if n := len(paced(r, 0, 9)); n != 1 { // the first is due at once, the second in 17 minutes
		t.Errorf("%d messages were sent", n)
	}
}
