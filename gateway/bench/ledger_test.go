package bench

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/logstore/seed"
)

func TestNumbersAreNewOnce(t *testing.T) {
	t.Parallel()
	var set numbers
	var fresh atomic.Int64
	var all sync.WaitGroup
	const n = 3*pageNumbers + 17
	for range 4 {
		all.Go(func() {
			for i := range uint64(n) {
				if set.add(i) {
					fresh.Add(1)
				}
			}
		})
	}
	all.Wait()
	if fresh.Load() != n {
		t.Errorf("%d numbers were new %d times", n, fresh.Load())
	}
	if !set.add(numbersMax-1) || set.add(numbersMax-1) {
		t.Error("the last number is not new once")
	}
}

func TestWhatIsMissingIsCounted(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	var a, b numbers
	inA, inB := map[uint64]bool{}, map[uint64]bool{}
	for range 20_000 {
		n := r.Uint64N(5 * pageNumbers)
		if r.IntN(2) == 0 {
			a.add(n)
			inA[n] = true
		} else {
			b.add(n)
			inB[n] = true
		}
	}
	want := int64(0)
	for n := range inA {
		if !inB[n] {
			want++
		}
	}
	if got := a.without(&b); got != want {
		t.Errorf("%d numbers are in the one and not in the other, want %d", got, want)
	}
	if got := a.without(&numbers{}); got != int64(len(inA)) {
		t.Errorf("%d numbers are in the one, want %d", got, len(inA))
	}
}

func TestStampSurvivesTheWay(t *testing.T) {
	t.Parallel()
	want := stamp{round: 0xfeed_0000_0000_0001, producer: 7, number: 1 << 33, at: 90 * time.Minute}
	body := make([]byte, 100)
	want.put(body)
	if got, ok := stampOf(body); !ok || got != want {
		t.Errorf("stamp %+v came back as %+v, %v", want, got, ok)
	}
	if _, ok := stampOf(body[:stampBytes-1]); ok {
		t.Error("a body that is too short has a stamp")
	}
}
