package harness

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAwaitReturnsWhenTheConditionHolds(t *testing.T) {
	t.Parallel()
	looks := 0
	err := Await(time.Minute, "the third look", func() error {
		if looks++; looks < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || looks != 3 {
		t.Errorf("after %d looks: %v", looks, err)
	}
}

func TestAwaitSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	missing := errors.New("3 of 5 messages")
	err := Await(5*time.Millisecond, "five messages", func() error { return missing })
	var late *LateError
	if !errors.As(err, &late) || !errors.Is(err, missing) || !strings.Contains(err.Error(), "five messages: 3 of 5") {
		t.Errorf("error is %v", err)
	}
}

func TestFreePortsAreGivenOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	given := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				a, err := FreeAddress()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if given[a] {
					t.Errorf("%s was given twice", a)
				}
				given[a] = true
				mu.Unlock()
				l, err := net.Listen("tcp", a)
				if err != nil {
					t.Errorf("%s is not free: %v", a, err)
					continue
				}
				l.Close() //nolint:errcheck // nobody connected
			}
		})
	}
	wg.Wait()
}

func TestProcessThatFailsToStartShowsItsOutput(t *testing.T) {
	t.Parallel()
	p, err := startProcess("loser", t.TempDir()+"/log", []string{"WORD=broken"}, []string{"sh", "-c", "echo it is $WORD; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	err = p.awaitReady(time.Minute, func() error { return errors.New("not ready") })
	if err == nil || !strings.Contains(err.Error(), "it is broken") || !strings.Contains(err.Error(), "status 3") {
		t.Errorf("error is %v", err)
	}
}

func TestKillEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	// The shell's child is the one that listens.
	p, err := startProcess("parent", t.TempDir()+"/log", nil, []string{"sh", "-c", "perl -MIO::Socket -e '$s = IO::Socket::INET->new(" +
		"LocalAddr => \"127.0.0.1\", LocalPort => " + port + ", Listen => 5) or die; 1 while $s->accept' & wait"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.awaitReady(time.Minute, func() error { return dialable(address) }); err != nil {
		t.Fatal(err)
	}
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	err = Await(time.Minute, "the port to be free", func() error {
		if dialable(address) == nil {
			return errors.New("the child still listens")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
