package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// readyLimit is how long a start may take: a recovery of a log that a crash left on a machine that is busy with other tests.
const readyLimit = 60 * time.Second

// Options say how a broker is started. The zero value is a broker that keeps its data in a folder that goes when it is closed.
type Options struct {
	Dir  string   // data directory; "": a temporary one
	Args []string // further arguments of polylog serve
	Env  []string // further environment, NAME=value
}

// Broker is a polylog process with its addresses and its data. One goroutine at a time may start, stop, kill or restart it; the addresses never change.
type Broker struct {
	AMQP, Kafka, HTTP string // addresses, host:port
	Dir               string // data directory

	binary  string
	args    []string
	env     []string
	logFile string
	temp    string // folder to remove in the end

	mu      sync.Mutex
	running *process // the last started one
}

// Launch starts a broker and waits until it serves. Close ends it.
func Launch(o Options) (*Broker, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "polylog-e2e-")
	if err != nil {
		return nil, err
	}
	b := &Broker{Dir: o.Dir, binary: binary, env: o.Env, temp: temp, logFile: filepath.Join(temp, "log")}
	if b.Dir == "" {
		b.Dir = filepath.Join(temp, "data")
	}
	for _, a := range []*string{&b.AMQP, &b.Kafka, &b.HTTP} {
		if *a, err = FreeAddress(); err != nil {
			return nil, errors.Join(err, os.RemoveAll(temp))
		}
	}
	b.args = append([]string{binary, "serve", "--data", b.Dir, "--amqp", b.AMQP, "--kafka", b.Kafka, "--http", b.HTTP}, o.Args...)
	if err := b.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	return b, nil
}

// Start starts the broker after Stop or Kill, on the same data and the same addresses, and waits until it serves.
func (b *Broker) Start() error {
	p, err := startProcess("polylog", b.logFile, b.env, b.args)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.running = p
	b.mu.Unlock()
	return p.awaitReady(readyLimit, b.Ready)
}

// Ready asks the broker whether it serves; nil is yes.
func (b *Broker) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.HTTP+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // nothing of it is read
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz says %s", res.Status)
	}
	return nil
}

func (b *Broker) process() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running
}

// Pid returns the process id of the running broker.
func (b *Broker) Pid() int { return b.process().cmd.Process.Pid }

// Stop tells the broker to end (SIGTERM) and waits until it has. An exit status other than 0 is an error, and so is one that takes longer than 30 s.
func (b *Broker) Stop() error { return b.process().stop() }

// Kill ends the broker as a crash does (SIGKILL). What its process wrote to files stays, as it does when a process dies and the machine does not.
func (b *Broker) Kill() error { return b.process().kill() }

// Restart stops and starts the broker.
func (b *Broker) Restart() error {
	if err := b.Stop(); err != nil {
		return err
	}
	return b.Start()
}

// Ended reports whether the broker's process is gone.
func (b *Broker) Ended() bool { return b.process().ended() }

// Log returns the last lines that the broker printed, over all its starts.
func (b *Broker) Log() string { return b.process().tail() }

// Close stops the broker if it still runs and removes what was temporary. Ending it is part of the promise, so how it ended is told: a broker that had
// crashed by itself is an error here.
func (b *Broker) Close() error {
	p := b.process()
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	var err error
	if !p.ended() || !asked {
		err = p.stop()
	}
	return errors.Join(err, os.RemoveAll(b.temp))
}

// T is what a test gives. *testing.T, *testing.B and *testing.F have it.
type T interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Start starts a broker for a test. It is ended with the test; if the test failed, what the broker printed is shown.
func Start(t T, o Options) *Broker {
	t.Helper()
	b, err := Launch(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		ended := b.Ended()
		if t.Failed() {
			t.Logf("%s", b.Log())
		}
		if err := b.Close(); err != nil {
			t.Errorf("ending the broker (it had ended by itself: %v): %v", ended, err)
		}
	})
	return b
}
