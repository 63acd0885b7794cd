package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"polylog/logstore/seed"
)

// model is what a queue should be: its messages by offset, nothing clever.
type model struct {
	next     int64
	messages map[int64]*modelMessage
	limit    int64
	doubt    int64 // what lies below may have been out when a process crashed
}

type modelMessage struct {
	body             string
	acquired, failed uint32
	holder           int // -1: it waits
	lease            Lease
	since            int64
}

// waiting returns the offsets that wait, ascending.
func (m *model) waiting() []int64 {
	var os []int64
	for o, x := range m.messages {
		if x.holder < 0 {
			os = append(os, o)
		}
	}
	slices.Sort(os)
	return os
}

// heldBy returns the offsets that a holder has, ascending.
func (m *model) heldBy(h int) []int64 {
	var os []int64
	for o, x := range m.messages {
		if x.holder == h {
			os = append(os, o)
		}
	}
	slices.Sort(os)
	return os
}

func (m *model) comeBack(o int64, why Why) {
	x := m.messages[o]
	x.acquired, x.failed = why.counters(x.acquired, x.failed)
	x.holder = -1
	if m.limit >= 0 && int64(x.failed) > m.limit && why != NodeLost {
		delete(m.messages, o)
	}
}

// Random histories of one queue, with restarts of the node: after every step it has exactly what the model has, no offset is in two index records, and no offset below
// the cursor is forgotten.
func TestRandomHistoriesMatchTheModel(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			runHistory(t, seed.Rand(t), 400)
		})
	}
}

const modelTimeout = 5000

func runHistory(t *testing.T, r *rand.Rand, steps int) {
	s := newStand(t)
	s.declare("q", "x-queue-type", "quorum", "x-delivery-limit", 4, "x-consumer-timeout", modelTimeout)
	m := &model{messages: map[int64]*modelMessage{}, limit: 4}
	ctx := context.Background()
	holders := make([]*Holder, 4)
	for i := range holders {
		holders[i] = s.holder(fmt.Sprint("holder ", i))
	}
	for step := range steps {
		h := r.IntN(len(holders))
		what := ""
		switch k := r.IntN(100); {
		case k < 30:
			n := 1 + r.IntN(6)
			what = fmt.Sprint("publish ", n)
			var bodies []string
			for range n {
				b := fmt.Sprint("message ", m.next)
				m.messages[m.next] = &modelMessage{body: b, holder: -1}
				bodies = append(bodies, b)
				m.next++
			}
			s.publish("q", bodies...)
		case k < 60:
			n := 1 + r.IntN(8)
			what = fmt.Sprint("take ", h, n)
			var gs []got
			if n == 1 {
				if g, ok := s.tryGet("q", holders[h]); ok {
					gs = append(gs, g)
				}
			} else {
				gs = s.takeSome("q", holders[h], n)
			}
			wait := m.waiting()
			if len(gs) > n || len(gs) == 0 && len(wait) > 0 {
				t.Fatalf("step %d, %s: got %d messages, %d wait", step, what, len(gs), len(wait))
			}
			for i, g := range gs {
				x := m.messages[wait[i]]
				if g.offset != wait[i] || g.body != x.body || g.acquired != x.acquired || g.failed != x.failed || g.redelivered != (x.acquired > 0 || g.offset < m.doubt) {
					t.Fatalf("step %d, %s: got %+v, want offset %d and %+v", step, what, g, wait[i], x)
				}
				x.holder, x.lease, x.since = h, g.lease, s.clock.Load()
			}
		case k < 90:
			held := m.heldBy(h)
			r.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
			held = held[:r.IntN(len(held)+1)]
			var ls []Lease
			for _, o := range held {
				ls = append(ls, m.messages[o].lease)
			}
			if r.IntN(4) == 0 {
				ls = append(ls, ls...) // naming one twice changes nothing
			}
			if k < 75 {
				what = fmt.Sprint("settle ", held)
				s.check(holders[h].Settle(ctx, ls))
				for _, o := range held {
					delete(m.messages, o)
				}
				break
			}
			why := []Why{Nacked, Rejected, Recovered, Undelivered}[r.IntN(4)]
			what = fmt.Sprint("requeue ", why, held)
			s.check(holders[h].Requeue(ctx, ls, why))
			for _, o := range held {
				m.comeBack(o, why)
			}
		case k < 93:
			why := []Why{ChannelClosed, ConnectionLost}[r.IntN(2)]
			what = fmt.Sprint("close ", h, why)
			s.check(holders[h].Close(ctx, why))
			for _, o := range m.heldBy(h) {
				m.comeBack(o, why)
			}
			holders[h] = s.holder(what)
		case k < 95:
			what = "sweep"
			s.clock.Add(int64(r.IntN(modelTimeout)))
			_, err := s.v.Sweep(ctx)
			s.check(err)
			for o, x := range m.messages {
				if x.holder >= 0 && s.clock.Load()-x.since >= modelTimeout {
					m.comeBack(o, TimedOut)
				}
			}
		case k < 97:
			what = "purge"
			n, err := s.v.Purge(ctx, "/", "q", "")
			s.check(err)
			wait := m.waiting()
			if n != int64(len(wait)) {
				t.Fatalf("step %d: purged %d, %d waited", step, n, len(wait))
			}
			for _, o := range wait {
				delete(m.messages, o)
			}
		case k < 98:
			what = "restart"
			old, orderly := s.v, r.IntN(2) == 0
			if orderly {
				s.check(old.Close(ctx))
			}
			c := newCursor(s.find("q").t.ID, 0)
			s.check(c.read(s.store))
			switch {
			case !orderly && c.raw != nil && c.at < m.next:
				m.doubt = m.next
			case c.at >= m.doubt:
				m.doubt = 0
			}
			s.topics, s.v = s.open("n1")
			for o, x := range m.messages {
				if x.holder >= 0 {
					m.comeBack(o, NodeLost)
				}
			}
			for i := range holders {
				// What the dead process still does has no effect.
				s.check(holders[i].Close(ctx, ConnectionLost))
				holders[i] = s.holder(fmt.Sprint("holder ", i))
			}
			if f := old.Figures(); f.Out != 0 {
				t.Logf("the old process still counts %d messages out", f.Out)
			}
		default:
			s.clock.Add(int64(r.IntN(2000)))
		}
		compareWithModel(t, s, m, fmt.Sprintf("after step %d (%s)", step, what))
	}
}

func compareWithModel(t *testing.T, s *stand, m *model, when string) {
	t.Helper()
	if n, want := s.ready("q"), len(m.waiting()); n != int64(want) {
		t.Fatalf("%s: %d messages are ready, want %d", when, n, want)
	}
	q := s.find("q")
	live, err := s.store.Live(q.parts[0].shard)
	s.check(err)
	if live != int64(len(m.messages)) {
		t.Fatalf("%s: %d records are live, want %d", when, live, len(m.messages))
	}
	c := newCursor(q.t.ID, 0)
	s.check(c.read(s.store))
	covered := map[int64]string{}
	s.eachIndexRecord(func(rec int64, e entry) {
		some := false
		for _, r := range e.Ranges {
			for o := r[0]; o < r[0]+r[1]; o++ {
				if m.messages[o] == nil {
					continue // deleted: it does not count
				}
				some = true
				if covered[o] != "" {
					t.Fatalf("%s: offset %d is %s and %s", when, o, covered[o], e.Kind)
				}
				covered[o] = e.Kind
			}
		}
		if !some && e.Kind == kindClaim {
			t.Fatalf("%s: the claim at %d holds nothing: %+v", when, rec, e)
		}
	})
	for o, x := range m.messages {
		want := ""
		switch {
		case x.holder >= 0:
			want = kindClaim
		case o < c.at:
			want = kindReturned
		}
		if covered[o] != want {
			t.Fatalf("%s: offset %d, cursor %d: the index says %q, want %q", when, o, c.at, covered[o], want)
		}
	}
}
