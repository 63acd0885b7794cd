package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

// suite is a module's tests.
type suite struct {
	name, module, version string
	folder                string   // of the package in the module
	args                  []string // of go test
	speaksKafka           bool
	serveArgs             []string // of polylog serve
	peerConfig            []string // lines of RabbitMQ's or Kafka's configuration
	limit                 time.Duration

	// excluded are tests that would end the test process and so are not run.
	// A peer is given them.
	excluded    []string
	whyExcluded string

	// known are the tests that fail, with the reason; knownOfPeer those that fail against RabbitMQ or Kafka.
	known, knownOfPeer map[string]string

	// prepare gets the module's folder and the broker's address. It returns the folder to run the suite in and its environment; end undoes it.
	prepare func(ctx context.Context, module, address string) (run string, env []string, end func() error, err error)
}

func nothing() error { return nil }

// groupsAtOnce lets a consumer group begin with its first member, as the Kafka that the suites are compared with does: else each of many groups waits for 3 s.
const groupsAtOnce = "group.initial_delay=0s"

var suites = []suite{
	{
		name: "amqp091-go", module: "github.com/rabbitmq/amqp091-go", version: "v1.16.0", folder: ".", args: []string{"-tags", "integration"}, limit: 8 * time.Minute,
		// The suite's tests of reconnection close connections through the management API, at this port.
		peerConfig: []string{"management.tcp.ip = 127.0.0.1", "management.tcp.port = 15672"},
		excluded:   amqp091Excluded, whyExcluded: amqp091WhyExcluded, known: amqp091Known,
		prepare: func(_ context.Context, module, address string) (run string, env []string, end func() error, err error) {
			return module, []string{"AMQP_URL=amqp://guest:guest@" + address + "/"}, nothing, nil
		},
	},
	{
		name: "kgo", module: "github.com/twmb/franz-go", version: "v1.22.3", folder: "pkg/kgo", speaksKafka: true, limit: 9 * time.Minute,
		serveArgs: []string{"--set", groupsAtOnce},
		excluded:  kgoExcluded, whyExcluded: kgoWhyExcluded, known: kgoKnown,
		prepare: func(_ context.Context, module, address string) (run string, env []string, end func() error, err error) {
			// The default of 500,000 records is for a cluster on several machines.
			return module, []string{"KGO_SEEDS=" + address, "KGO_TEST_RF=1", "KGO_TEST_RECORDS=20000", "KGO_LOG_LEVEL=none"}, nothing, nil
		},
	},
	{
		name: "sarama", module: "github.com/IBM/sarama", version: "v1.61.1", folder: ".", args: []string{"-tags", "functional"}, speaksKafka: true, limit: 9 * time.Minute,
		// As its own cluster is set up: clients are led through the proxy, and no topic is made by asking for it.
		serveArgs:  []string{"--set", "kafka.advertise=" + saramaProxied, "--set", "kafka.auto_create_topics=false", "--set", groupsAtOnce},
		peerConfig: []string{"advertised.listeners=PLAINTEXT://" + saramaProxied, "auto.create.topics.enable=false"},
		known:      saramaKnown, knownOfPeer: saramaKnownOfPeer, prepare: prepareSarama,
	},
}

// moduleFolder returns where the module cache has the suite's module, after fetching it if need be.
func (s suite) moduleFolder(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", s.module+"@"+s.version)
	cmd.Dir = os.TempDir() // not in a module, whose go.sum would be asked
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("fetching %s %s: %w: %s", s.module, s.version, err, text)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(text, &m); err != nil {
		return "", fmt.Errorf("fetching %s: %w", s.module, err)
	}
	return m.Dir, nil
}

// run runs the suite.
func (s suite) run(ctx context.Context, address, only string, excluded []string) (*result, error) {
	module, err := s.moduleFolder(ctx)
	if err != nil {
		return nil, err
	}
	module, env, end, err := s.prepare(ctx, module, address)
	if err != nil {
		return nil, err
	}
	args := append([]string{"test", "-json", "-count=1", "-timeout", s.limit.String()}, s.args...)
	if len(excluded) > 0 {
		args = append(args, "-skip", "^("+strings.Join(excluded, "|")+")$")
	}
	if only != "" {
		args = append(args, "-run", only)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = filepath.Join(module, filepath.FromSlash(s.folder))
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var aside bytes.Buffer
	cmd.Stderr = &aside
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, end())
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, end())
	}
	r := &result{byName: map[string]*test{}}
	readErr := r.read(out)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || readErr != nil || len(r.tests) == 0 {
		return nil, errors.Join(err, readErr, end(), errors.New(aside.String()), errors.New(r.broken))
	}
	r.close()
	return r, end()
}

type state int

const (
	running state = iota
	passed
	failed
	skipped
)

// test is one test or subtest.
type test struct {
	name  string
	state state
	lines []string // the end of what it printed
}

const linesKept = 15

func (t *test) output() string {
	var b strings.Builder
	for _, l := range t.lines {
		fmt.Fprintf(&b, "          %.300s\n", strings.TrimRight(l, "\n"))
	}
	return b.String()
}

// result is what a suite's run said.
type result struct {
	tests  []*test
	byName map[string]*test
	stray  []string // what was printed outside of tests
	broken string   // why it did not come to its end; "" if it did
}

// read takes the events of go test -json.
func (r *result) read(in io.Reader) error {
	d := json.NewDecoder(in)
	for {
		var e struct{ Action, Test, Output string }
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading what go test prints: %w", err)
		}
		if e.Test == "" {
			if e.Action == "output" || e.Action == "build-output" {
				r.stray = append(r.stray, e.Output)
			}
			continue
		}
		t := r.byName[e.Test]
		if t == nil {
			t = &test{name: e.Test}
			r.byName[e.Test] = t
			r.tests = append(r.tests, t)
		}
		switch e.Action {
		case "output":
			if !strings.HasPrefix(e.Output, "=== ") {
				t.lines = append(t.lines, e.Output)
				t.lines = t.lines[max(0, len(t.lines)-linesKept):]
			}
		case "pass":
			t.state = passed
		case "fail":
			t.state = failed
		case "skip":
			t.state = skipped
		}
	}
}

// close sees what did not end: the process died under it.
func (r *result) close() {
	var b strings.Builder
	for _, t := range r.tests {
		if t.state == running {
			t.state = failed
			fmt.Fprintf(&b, "          %s did not end\n%s", t.name, t.output())
		}
	}
	if b.Len() > 0 {
		for _, l := range r.stray[max(0, len(r.stray)-linesKept):] {
			fmt.Fprintf(&b, "          %.300s", l)
		}
	}
	r.broken = b.String()
}

// missing returns the known failures that did not run, in order.
func (r *result) missing(known map[string]string) []string {
	var names []string
	for k := range known {
		if r.byName[k] == nil {
			names = append(names, k)
		}
	}
	sort.Strings(names)
	return names
}
