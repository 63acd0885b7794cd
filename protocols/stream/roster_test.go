package stream

import (
	"context"
	"errors"
	"testing"
)

func TestDrainWaitsForAllAndCutsOffWhoStays(t *testing.T) {
	t.Parallel()
	polite, deaf := 1, 2
	r := NewRoster[int]()
	if !r.Enter(polite) || !r.Enter(deaf) {
		t.Fatal("an open roster took nobody in")
	}
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan int, 2)
	cut := make(chan int, 2)
	ended := make(chan error)
	go func() { ended <- r.Drain(ctx, func(c int) { told <- c }, func(c int) { cut <- c }) }()
	<-told
	<-told
	if r.Enter(3) {
		t.Error("a draining roster took somebody in")
	}
	r.Leave(polite)
	cancel()
	if c := <-cut; c != deaf {
		t.Errorf("%d was cut off", c)
	}
	select {
	case err := <-ended:
		t.Fatalf("it did not wait for the last one: %v", err)
	default:
	}
	r.Leave(deaf)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Drain returned %v", err)
	}
	if err := r.Drain(context.Background(), nil, nil); err != nil {
		t.Errorf("draining an empty roster again: %v", err)
	}
}

func TestDrainOfAnEmptyRosterReturnsAtOnce(t *testing.T) {
	t.Parallel()
	if err := NewRoster[int]().Drain(context.Background(), nil, nil); err != nil {
		t.Error(err)
	}
}
