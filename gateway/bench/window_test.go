package bench

import (
	"context"
	"testing"
	"time"

	"polylog/logstore/seed"
)

func TestWindowBoundsWhatIsUnsettled(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	const total, length = 20_000, 64
	w := newWindow(length)
	sent := make(chan uint64, length)
	go func() {
		defer close(sent)
		for n := uint64(0); n < total; {
			room := w.room(t.Context())
			for range min(room, 1+int(n%7), int(total-n)) {
				w.send(time.Duration(n))
				sent <- n // blocks the test if more than length are unsettled
				n++
			}
		}
	}()
	var open []uint64
	for n := range sent {
		open = append(open, n)
		if n-open[0] >= length {
			t.Fatalf("message %d was sent while %d is unsettled", n, open[0])
		}
		for len(open) > 0 && (len(sent) == 0 || r.IntN(2) == 0) { // in any order
			i := r.IntN(len(open))
			if at, ok := w.settle(open[i]); !ok || at != time.Duration(open[i]) {
				t.Fatalf("message %d was sent at %d, %v", open[i], at, ok)
			}
			if _, ok := w.settle(open[i]); ok {
				t.Fatalf("message %d was settled twice", open[i])
			}
			open = append(open[:i], open[i+1:]...)
			w.advance()
		}
	}
	if !w.drain(t.Context(), time.Minute) {
		t.Error("what is settled is not drained")
	}
	if _, ok := w.settle(total); ok {
		t.Error("a message was settled that was not sent")
	}
}

func TestWindowGivesUpWhatIsNotSettled(t *testing.T) {
	t.Parallel()
	w := newWindow(1)
	w.send(0)
	if w.drain(t.Context(), time.Millisecond) {
		t.Error("an unsettled message is drained")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n := w.room(ctx); n != 0 {
		t.Errorf("a full window has room for %d", n)
	}
	if w.drain(ctx, time.Hour) {
		t.Error("an unsettled message is drained")
	}
}
