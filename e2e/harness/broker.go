package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// readyLimit is how long a start may take: a recovery of a log that a crash left on a machine that is busy with other tests.
const readyLimit = 60 * time.Second

// Options say how a broker is started. The zero value is a broker that keeps its data in a folder that goes when it is closed.
type Options struct {
	Alone bool     // one node, also where tests have several (spread.go)
	Dir   string   // data directory; "": a temporary one
	Args  []string // further arguments of polylog serve
	Env   []string // further environment, NAME=value
}

// Broker is a polylog process with its addresses and its data. One goroutine at a time may start, stop, kill or restart it; the addresses never change.
type Broker struct {
	AMQP, Kafka, HTTP string // addresses, host:port
	Dir               string // data directory

	Name    string // in a cluster, the node's
	Cluster string // in a cluster, where the other nodes reach it

	prefix  []string // what runs the binary; empty: nothing
	args    []string // the binary first
	apart   []string // what Single took out of args
	env     []string
	logFile string
	temp    string // folder to remove in the end

	cluster *Cluster // this is the first of its nodes and stands for all; nil: it stands for itself
	spreads []*spread

	mu      sync.Mutex
	running *process // the last started one
}

// Launch starts a broker and waits until it serves. Close ends it.
func Launch(o Options) (*Broker, error) {
	if n, err := nodesWanted(); err != nil || n > 1 && !o.Alone {
		if err != nil {
			return nil, err
		}
		return launchSpread(o, n)
	}
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "polylog-e2e-")
	if err != nil {
		return nil, err
	}
	b := &Broker{Name: "polylog", Dir: o.Dir, env: o.Env, temp: temp, logFile: filepath.Join(temp, "log")}
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
	if b.cluster != nil {
		return b.cluster.Start()
	}
	if err := b.Begin(); err != nil {
		return err
	}
	return b.AwaitReady()
}

// Begin does as Start and does not wait: a node of a cluster serves only when others are there.
func (b *Broker) Begin() error {
	p, err := startProcess(b.Name, b.logFile, b.env, append(slices.Clip(b.prefix), b.args...))
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.running = p
	b.mu.Unlock()
	return nil
}

// AwaitReady waits until the broker that was begun serves. One that does not is ended.
func (b *Broker) AwaitReady() error { return b.process().awaitReady(readyLimit, b.Ready) }

// direct asks brokers without a proxy, whatever the environment says: those in network namespaces are not on the loopback.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}

// Ready asks the broker whether it serves; nil is yes.
func (b *Broker) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.HTTP+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := direct.Do(req)
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
func (b *Broker) Stop() error { return b.each((*process).stop) }

// Kill ends the broker as a crash does (SIGKILL). What its process wrote to files stays, as it does when a process dies and the machine does not.
func (b *Broker) Kill() error { return b.each((*process).kill) }

// each does something to the process, or to those of all nodes at once.
func (b *Broker) each(do func(*process) error) error {
	if b.cluster == nil {
		return do(b.process())
	}
	errs := make([]error, len(b.cluster.Nodes))
	var all sync.WaitGroup
	for i, n := range b.cluster.Nodes {
		all.Go(func() { errs[i] = do(n.process()) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Pause stops the broker's process where it is (SIGSTOP), as a machine does that hangs. Resume lets it go on.
func (b *Broker) Pause() error { return b.process().send(syscall.SIGSTOP) }

// Resume lets a paused broker go on (SIGCONT).
func (b *Broker) Resume() error { return b.process().send(syscall.SIGCONT) }

// Restart stops and starts the broker.
func (b *Broker) Restart() error {
	if err := b.Stop(); err != nil {
		return err
	}
	return b.Start()
}

// All returns the processes that the broker is: itself, or its nodes.
func (b *Broker) All() []*Broker {
	if b.cluster == nil {
		return []*Broker{b}
	}
	return b.cluster.Nodes
}

// Settle waits until all nodes of the broker have come equally far: what one of them says then, the others say too.
func (b *Broker) Settle() error {
	if b.cluster == nil {
		return nil
	}
	return b.cluster.AwaitEqual(readyLimit)
}

// Ended reports whether the broker's process is gone.
func (b *Broker) Ended() bool { return b.process().ended() }

// Log returns the last lines that the broker printed, over all its starts.
func (b *Broker) Log() string {
	if b.cluster == nil {
		return b.process().tail()
	}
	var text strings.Builder
	for _, n := range b.cluster.Nodes {
		text.WriteString(n.process().tail())
	}
	return text.String()
}

// Close stops the broker if it still runs and removes what was temporary. Ending it is part of the promise, so how it ended is told: a broker that had
// crashed by itself is an error here.
func (b *Broker) Close() error {
	if c := b.cluster; c != nil {
		b.cluster = nil
		for _, s := range b.spreads {
			s.close()
		}
		return c.Close()
	}
	p := b.process()
	if p == nil { // it was never started
		return os.RemoveAll(b.temp)
	}
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	var err error
	if !p.ended() || !asked {
		err = errors.Join(p.send(syscall.SIGCONT), p.stop())
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
