package queue

import (
	"container/heap"
	"slices"
)

// returnedRecord is an index record of messages that have come back, in memory.
type returnedRecord struct {
	rec   int64 // its offset in the index topic
	spans []span
	begun bool // only while a pick is under way: the spans are what it has not picked of a record
}

// returnedSet is what has come back to a partition, the lowest offset first. Queue.mu guards it.
type returnedSet struct {
	heap returnedHeap
	n    int64              // offsets in all spans
	recs map[int64]struct{} // the records of the heap, so that none is in it twice
	seen int                // place in the heap behind what some returned last
}

func (s *returnedSet) size() int64   { return s.n }
func (s *returnedSet) isEmpty() bool { return len(s.heap) == 0 }

func (s *returnedSet) add(r *returnedRecord) {
	if _, there := s.recs[r.rec]; there || len(r.spans) == 0 {
		return
	}
	if s.recs == nil {
		s.recs = map[int64]struct{}{}
	}
	s.recs[r.rec] = struct{}{}
	heap.Push(&s.heap, r)
	s.n += size(r.spans)
}

// pick returns the spans of the n lowest offsets, in order, and takes the records that they are of out of the set. They go back by add, whole or what stays of them.
func (s *returnedSet) pick(n int64) (spans []span, from []*returnedRecord) {
	begun := 0 // records in the heap that stand for what is left of one in from
	for n > 0 && len(s.heap) > 0 && (len(from) < pickedMax || s.heap[0].begun) {
		r := heap.Pop(&s.heap).(*returnedRecord)
		if r.begun {
			begun--
		} else {
			from = append(from, r)
		}
		sp := r.spans[0]
		end := min(sp.end, sp.first+n) // no other record has an offset within this span
		spans = append(spans, span{sp.first, end, sp.acquired, sp.failed})
		n -= end - sp.first
		if rest := spansFrom(r.spans, end); len(rest) > 0 {
			heap.Push(&s.heap, &returnedRecord{rec: r.rec, spans: rest, begun: true})
			begun++
		}
	}
	if begun > 0 {
		s.heap = slices.DeleteFunc(s.heap, func(r *returnedRecord) bool { return r.begun })
		heap.Init(&s.heap)
	}
	for _, r := range from {
		s.n -= size(r.spans)
		delete(s.recs, r.rec)
	}
	if len(s.heap) == 0 {
		s.recs = nil
	}
	return spans, from
}

// some returns up to n of the records, by turns.
func (s *returnedSet) some(n int) (recs []int64) {
	for range min(n, len(s.heap)) {
		if s.seen >= len(s.heap) {
			s.seen = 0
		}
		recs = append(recs, s.heap[s.seen].rec)
		s.seen++
	}
	return recs
}

// forget takes records out.
func (s *returnedSet) forget(recs []int64) {
	for _, rec := range recs {
		delete(s.recs, rec)
	}
	s.n = 0
	s.heap = slices.DeleteFunc(s.heap, func(r *returnedRecord) bool {
		_, stays := s.recs[r.rec]
		if stays {
			s.n += size(r.spans)
		}
		return !stays
	})
	heap.Init(&s.heap)
}

// pickedMax bounds the records of one pick: each is a condition of a transaction.
const pickedMax = 256

// spansFrom returns the part of spans that begins at offset cut.
func spansFrom(spans []span, cut int64) []span {
	for i, sp := range spans {
		if sp.end <= cut {
			continue
		}
		if sp.first >= cut {
			return spans[i:]
		}
		return append([]span{{cut, sp.end, sp.acquired, sp.failed}}, spans[i+1:]...)
	}
	return nil
}

func size(spans []span) (n int64) {
	for _, sp := range spans {
		n += sp.end - sp.first
	}
	return n
}

// drop forgets everything.
func (s *returnedSet) drop() []*returnedRecord {
	rs := s.heap
	*s = returnedSet{}
	return rs
}

// returnedHeap is a heap by the lowest offset.
type returnedHeap []*returnedRecord

func (h returnedHeap) Len() int           { return len(h) }
func (h returnedHeap) Less(i, j int) bool { return h[i].spans[0].first < h[j].spans[0].first }
func (h returnedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *returnedHeap) Push(x any)        { *h = append(*h, x.(*returnedRecord)) }
func (h *returnedHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return r
}
