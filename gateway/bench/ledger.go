package bench

import (
	"math/bits"
	"sync/atomic"
)

// numbers is a set of the numbers 0 to numbersMax-1 that many goroutines may add to.
type numbers struct {
	pages [numbersMax / pageNumbers]atomic.Pointer[page]
}

const (
	pageNumbers = 1 << 16
	// numbersMax bounds what one producer sends in a round: hours at a million a second.
	numbersMax = 1 << 32
)

type page [pageNumbers / 64]atomic.Uint64

// add puts n into the set and reports whether it was new. n must be below numbersMax.
func (s *numbers) add(n uint64) bool {
	at := &s.pages[n/pageNumbers]
	p := at.Load()
	if p == nil {
		at.CompareAndSwap(nil, new(page))
		p = at.Load()
	}
	bit := uint64(1) << (n % 64)
	return p[n%pageNumbers/64].Or(bit)&bit == 0
}

// without counts the numbers that are in s and not in other.
func (s *numbers) without(other *numbers) (n int64) {
	for i := range s.pages {
		p, q := s.pages[i].Load(), other.pages[i].Load()
		if p == nil {
			continue
		}
		for j := range p {
			w := p[j].Load()
			if q != nil {
				w &^= q[j].Load()
			}
			n += int64(bits.OnesCount64(w))
		}
	}
	return n
}

// account is what is known of one producer's messages: each has a number, in the order in which they were sent.
type account struct {
	sent      atomic.Uint64 // how many: the numbers below it
	confirmed numbers
	arrived   numbers
}
