package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"polylog/logstore/seed"
)

// Random histories of one queue on three nodes that are killed now and then and come again: after every step all nodes have what the model has.
func TestRandomHistoriesOfSeveralNodesMatchTheModel(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			runClusterHistory(t, seed.Rand(t), 150)
		})
	}
}

func runClusterHistory(t *testing.T, r *rand.Rand, steps int) {
	c := newCrowd(t, "n1", "n2", "n3")
	names := []string{"n1", "n2", "n3"}
	ctx := context.Background()
	c.nodes["n1"].declare("q", "x-queue-type", "quorum", "x-delivery-limit", 4)
	m := &model{messages: map[int64]*modelMessage{}, limit: 4}
	type member struct {
		s *stand
		h *Holder
	}
	holders := make([]member, 6)
	join := func(i int) {
		s := c.nodes[names[i%len(names)]]
		holders[i] = member{s, s.holder(fmt.Sprint("holder ", i))}
	}
	for _, s := range c.nodes {
		c.passed(s)
	}
	for i := range holders {
		join(i)
	}
	for step := range steps {
		i := r.IntN(len(holders))
		by := holders[i]
		what := ""
		switch k := r.IntN(100); {
		case k < 30:
			what = "publish"
			for range 1 + r.IntN(5) {
				body := fmt.Sprint("message ", m.next)
				m.messages[m.next] = &modelMessage{body: body, holder: -1}
				m.next++
				by.s.publish("q", body)
			}
		case k < 60:
			n := 1 + r.IntN(8)
			what = fmt.Sprint("take ", n, " on ", by.s.v.node)
			for _, g := range by.s.takeSome("q", by.h, n) {
				x := m.messages[g.offset]
				if x == nil || x.holder >= 0 || g.body != x.body || g.acquired != x.acquired || g.failed != x.failed || g.redelivered != (x.acquired > 0) {
					t.Fatalf("step %d, %s: got %+v, want %+v", step, what, g, x)
				}
				x.holder, x.lease = i, g.lease
			}
		case k < 88:
			held := m.heldBy(i)
			r.Shuffle(len(held), func(a, b int) { held[a], held[b] = held[b], held[a] })
			held = held[:r.IntN(len(held)+1)]
			var ls []Lease
			for _, o := range held {
				ls = append(ls, m.messages[o].lease)
			}
			if k < 74 {
				what = fmt.Sprint("settle ", held)
				by.s.check(by.h.Settle(ctx, ls))
				for _, o := range held {
					delete(m.messages, o)
				}
				break
			}
			why := []Why{Nacked, Rejected, Undelivered}[r.IntN(3)]
			what = fmt.Sprint("requeue ", why, held)
			by.s.check(by.h.Requeue(ctx, ls, why))
			for _, o := range held {
				m.comeBack(o, why)
			}
		case k < 92:
			what = "close"
			by.s.check(by.h.Close(ctx, ChannelClosed))
			for _, o := range m.heldBy(i) {
				m.comeBack(o, ChannelClosed)
			}
			join(i)
		case k < 95:
			what = "purge on " + by.s.v.node
			n, err := by.s.v.Purge(ctx, "/", "q", "")
			by.s.check(err)
			wait := m.waiting()
			if n != int64(len(wait)) {
				t.Fatalf("step %d, %s: purged %d, want %d", step, what, n, len(wait))
			}
			for _, o := range wait {
				delete(m.messages, o)
			}
		case k < 97:
			what = "sweep on " + by.s.v.node
			_, err := by.s.v.Sweep(ctx)
			by.s.check(err)
		default:
			node := by.s.v.node
			what = "kill " + node
			dead := c.dead(c.kill(node))
			var wg sync.WaitGroup
			for _, s := range c.nodes {
				if r.IntN(2) == 0 {
					what += ", reaped by " + s.v.node
					wg.Go(func() { s.check(s.v.Reap(ctx, dead)) })
				}
			}
			wg.Go(func() { c.start(node) })
			wg.Wait()
			for j := range holders {
				if names[j%len(names)] != node {
					continue
				}
				for _, o := range m.heldBy(j) {
					m.comeBack(o, NodeLost)
				}
				join(j)
			}
		}
		for name, s := range c.nodes {
			c.passed(s)
			until(t, fmt.Sprintf("after step %d (%s), on %s %d messages are ready", step, what, name, len(m.waiting())), func() bool {
				return s.ready("q") == int64(len(m.waiting()))
			})
		}
		compareWithModel(t, c.nodes[names[r.IntN(len(names))]], m, fmt.Sprintf("after step %d (%s)", step, what))
	}
	// Everything can be taken, anywhere.
	s := c.nodes["n2"]
	h := s.holder("last")
	want := m.waiting()
	var offsets []int64
	for range want {
		offsets = append(offsets, s.get("q", h).offset)
	}
	slices.Sort(offsets)
	if !slices.Equal(offsets, want) {
		t.Fatalf("the last node got %v, want %v", offsets, want)
	}
}
