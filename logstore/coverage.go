package logstore

import (
	"container/heap"
	"io"

	"polylog/logstore/segment"
)

// indexWalk is a place in the index of one sealed segment.
type indexWalk struct {
	segment.Cursor
	at  segment.Loc
	pos int // of the segment in the log
}

func (w *indexWalk) advance() (bool, error) {
	var err error
	w.at, err = w.Next()
	if err == io.EOF {
		return false, nil
	}
	return err == nil, err
}

// walks orders places by shard, then as the log does: so all batches of a shard come in the order of their offsets.
type walks []*indexWalk

func (h walks) Len() int      { return len(h) }
func (h walks) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h walks) Less(i, j int) bool {
	if h[i].at.Shard != h[j].at.Shard {
		return h[i].at.Shard < h[j].at.Shard
	}
	return h[i].pos < h[j].pos
}
func (h *walks) Push(x any) { *h = append(*h, x.(*indexWalk)) }
func (h *walks) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// cachedReader reads a file through the cache, so that many can be walked with few open.
type cachedReader struct {
	files *fileCache
	name  string
}

func (c cachedReader) ReadAt(p []byte, pos int64) (int, error) {
	f, err := c.files.acquire(c.name)
	if err != nil {
		return 0, err
	}
	defer c.files.release(f)
	return f.ReadAt(p, pos)
}

// walkCoverage compares the state with what the segments hold: lost is called for each run of live offsets that no segment holds, twice for each that more than one batch
// holds. Both may be nil. Its memory grows with the number of segments only.
func walkCoverage(files *fileCache, sealed []*sealedSegment, st *state, lost, twice func(LostRange)) error {
	var h walks
	for i, g := range sealed {
		w := &indexWalk{pos: i}
		if err := g.index.Seek(&w.Cursor, cachedReader{files, g.name}, 0, 0); err != nil {
			return g.corrupt(err)
		}
		more, err := w.advance()
		if err != nil {
			return g.corrupt(err)
		}
		if more {
			h = append(h, w)
		}
	}
	heap.Init(&h)
	var failed error
	report := func(f func(LostRange), id Shard, sh *shard, from, to int64) {
		if from = max(from, sh.first); f != nil && from < min(to, sh.next) {
			sh.deleted.absent(from, min(to, sh.next), func(r Range) { f(LostRange{id, r}) })
		}
	}
	st.shards.all(func(id Shard, sh *shard) bool {
		covered := int64(0)
		for len(h) > 0 && h[0].at.Shard <= uint64(id) {
			w := h[0]
			if w.at.Shard == uint64(id) {
				report(lost, id, sh, covered, w.at.Base)
				report(twice, id, sh, w.at.Base, min(covered, w.at.End()))
				covered = max(covered, w.at.End())
			}
			more, err := w.advance()
			if err != nil {
				failed = sealed[w.pos].corrupt(err)
				return false
			}
			if more {
				heap.Fix(&h, 0)
			} else {
				heap.Pop(&h)
			}
		}
		report(lost, id, sh, covered, sh.next)
		return true
	})
	return failed
}
