package logstore

import (
	"sync"
	"sync/atomic"
)

// growth tells those who wait that a shard has records they have not seen. One may wait for many shards with one channel.
type growth struct {
	waiting atomic.Int64 // a group with no one waiting costs one load
	mu      sync.Mutex
	shards  map[Shard][]*growthWait
}

type growthWait struct {
	shard Shard
	ready chan<- struct{}
}

// NotifyGrowth sends to ready, without waiting, each time the shard has new readable records (and may do so when it has not), until cancel is called. Give
// ready room for one value, ask Bounds after registering, and nothing is missed.
func (s *Store) NotifyGrowth(sh Shard, ready chan<- struct{}) (cancel func()) {
	g, w := &s.growth, &growthWait{sh, ready}
	g.mu.Lock()
	if g.shards == nil {
		g.shards = map[Shard][]*growthWait{}
	}
	g.shards[sh] = append(g.shards[sh], w)
	g.waiting.Add(1)
	g.mu.Unlock()
	return func() { g.cancel(w) }
}

func (g *growth) cancel(w *growthWait) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ws := g.shards[w.shard]
	for i := range ws {
		if ws[i] == w {
			ws[i] = ws[len(ws)-1]
			ws[len(ws)-1] = nil
			if ws = ws[:len(ws)-1]; len(ws) == 0 {
				delete(g.shards, w.shard)
			} else {
				g.shards[w.shard] = ws
			}
			g.waiting.Add(-1)
			return
		}
	}
}

// tell is called when what the shards have grown by may be read.
func (g *growth) tell(shards []Shard) {
	if len(shards) == 0 || g.waiting.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	last := Shard(0)
	for _, sh := range shards {
		if sh == last {
			continue
		}
		last = sh
		for _, w := range g.shards[sh] {
			select {
			case w.ready <- struct{}{}:
			default:
			}
		}
	}
}
