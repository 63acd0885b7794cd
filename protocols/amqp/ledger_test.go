package amqp

import (
	"slices"
	"testing"

	"polylog/logstore/seed"
	"polylog/viewlayer/queue"
)

// TestLedgerAgreesWithAListOfTags does random things to a ledger and to a plain list.
func TestLedgerAgreesWithAListOfTags(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	var l ledger
	l.init(1000)
	counted := &consumer{ready: true, limit: 100}
	free := &consumer{ready: true, noAck: true}
	var open []uint64
	next := uint64(1)
	tagsOf := func(es []entry) (tags []uint64) {
		for _, e := range es {
			tags = append(tags, e.tag)
		}
		return tags
	}
	for step := range 50_000 {
		switch rng.IntN(6) {
		case 0, 1: // a delivery, of which not all that was reserved is used
			n := 1 + rng.IntN(20)
			got := l.reserve(counted, n)
			if want := min(n, 100-counted.used+got); got != max(want, 0) {
				t.Fatalf("step %d: %d of %d were reserved with %d used", step, got, n, counted.used-got)
			}
			if got == 0 {
				continue
			}
			use := rng.IntN(got + 1)
			l.release(counted, got-use)
			if use == 0 {
				continue
			}
			first, ok := l.enter(counted, make([]queue.Delivery, use))
			if !ok || first != next {
				t.Fatalf("step %d: tag %d, expected %d", step, first, next)
			}
			for range use {
				open = append(open, next)
				next++
			}
		case 2: // without acknowledgement
			n := l.reserve(free, 1+rng.IntN(100))
			if n == 0 {
				t.Fatalf("step %d: nothing was reserved without acknowledgement", step)
			}
			l.enter(free, make([]queue.Delivery, n))
			next += uint64(n)
		case 3: // get
			noAck := rng.IntN(2) == 0
			if tag := l.enterGot(queue.Lease{}, noAck); tag != next {
				t.Fatalf("step %d: tag %d, expected %d", step, tag, next)
			}
			if !noAck {
				open = append(open, next)
			}
			next++
		case 4: // one
			tag := next - uint64(rng.IntN(150))
			if len(open) > 0 && rng.IntN(2) == 0 {
				tag = open[rng.IntN(len(open))]
			}
			es, ok := l.take(tag, false, nil)
			i := slices.Index(open, tag)
			if ok != (i >= 0) || ok && !slices.Equal(tagsOf(es), []uint64{tag}) {
				t.Fatalf("step %d: tag %d gave %v, %v; open is %v", step, tag, tagsOf(es), ok, open)
			}
			if ok {
				open = slices.Delete(open, i, i+1)
				l.free(es, nil)
			}
		case 5: // many
			if len(open) == 0 || rng.IntN(3) > 0 {
				continue
			}
			i := rng.IntN(len(open))
			tag, end := open[i], i+1
			if rng.IntN(10) == 0 {
				tag, end = 0, len(open)
			}
			es, ok := l.take(tag, true, nil)
			if !ok || !slices.Equal(tagsOf(es), open[:end]) {
				t.Fatalf("step %d: up to %d gave %v; open is %v", step, tag, tagsOf(es), open)
			}
			open = slices.Delete(open, 0, end)
			l.free(es, nil)
		}
		if l.unsettled() != len(open) || l.reserved != 0 {
			t.Fatalf("step %d: %d are unsettled, expected %d; %d are reserved", step, l.unsettled(), len(open), l.reserved)
		}
		if len(l.run) > 2*len(open)+tidyMin+1000 {
			t.Fatalf("step %d: a run of %d for %d entries", step, len(l.run), len(open))
		}
	}
	if es := l.takeAll(nil); !slices.Equal(tagsOf(es), open) {
		t.Errorf("at the end %v, expected %v", tagsOf(es), open)
	} else {
		l.free(es, nil)
	}
	if counted.used != 0 || l.used != 0 {
		t.Errorf("%d and %d are used of nothing", counted.used, l.used)
	}
}

// An old message that is never acknowledged does not make the ledger grow with what comes and goes behind it.
func TestLedgerStaysSmallBehindAnOldEntry(t *testing.T) {
	t.Parallel()
	var l ledger
	l.init(1000)
	c := &consumer{ready: true}
	old := l.enterGot(queue.Lease{}, false)
	for range 100_000 {
		if l.reserve(c, 1) != 1 {
			t.Fatal("nothing was reserved")
		}
		tag, _ := l.enter(c, make([]queue.Delivery, 1))
		es, ok := l.take(tag, false, nil)
		if !ok {
			t.Fatal("the tag is unknown")
		}
		l.free(es, nil)
	}
	if len(l.run) > 2*tidyMin {
		t.Errorf("a run of %d for one entry", len(l.run))
	}
	if _, ok := l.take(old, false, nil); !ok || l.live != 0 {
		t.Error("the old entry is not there")
	}
}

func TestLedgerKeepsAllBounds(t *testing.T) {
	t.Parallel()
	var l ledger
	l.init(10)
	c := &consumer{ready: true}
	other := &consumer{ready: true}
	if n := l.reserve(c, 100); n != 10 {
		t.Errorf("%d were reserved where the channel may hold 10", n)
	}
	l.release(c, 4)
	l.limit = 8
	if n := l.reserve(other, 100); n != 2 {
		t.Errorf("%d were reserved where the channel's prefetch leaves 2", n)
	}
	if n := l.reserve(c, 1); n != 0 || !c.hungry {
		t.Errorf("%d were reserved where none are left", n)
	}
	if woken := l.free(nil, nil); len(woken) != 1 || woken[0] != c || c.hungry {
		t.Errorf("woken are %v", woken)
	}
	l.close()
	if n := l.reserve(c, 1); n != 0 {
		t.Error("a closed channel reserved")
	}
	if _, ok := l.enter(c, make([]queue.Delivery, 6)); ok || l.reserved != 2 {
		t.Error("a closed channel took a delivery")
	}
}

func TestSettlingInOrderAllocatesNothing(t *testing.T) {
	var l ledger
	l.init(1000)
	c := &consumer{ready: true, limit: 200}
	ds := make([]queue.Delivery, 100)
	taken := make([]entry, 0, 100)
	allocs := testing.AllocsPerRun(1000, func() {
		l.reserve(c, 100)
		first, _ := l.enter(c, ds)
		taken = taken[:0]
		for i := range ds {
			taken, _ = l.take(first+uint64(i), false, taken)
		}
		l.free(taken, nil)
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
