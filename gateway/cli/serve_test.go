package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long tests wait for what must come.
const patience = 30 * time.Second

var buildOnce struct {
	sync.Once
	binary string
	err    error
}

// TestMain removes the binary that tests built.
func TestMain(m *testing.M) {
	code := m.Run()
	if buildOnce.binary != "" {
		os.RemoveAll(filepath.Dir(buildOnce.binary)) //nolint:errcheck // it may be left over
	}
	os.Exit(code)
}

// build returns the path of the polylog command.
func build(t *testing.T) string {
	t.Helper()
	buildOnce.Do(func() {
		dir, err := os.MkdirTemp("", "polylog-cli-")
		if err != nil {
			buildOnce.err = err
			return
		}
		buildOnce.binary = filepath.Join(dir, "polylog")
		out, err := exec.Command("go", "build", "-o", buildOnce.binary, "polylog").CombinedOutput()
		if err != nil {
			buildOnce.err = errors.New(err.Error() + "\n" + string(out))
		}
	})
	if buildOnce.err != nil {
		t.Fatal(buildOnce.err)
	}
	return buildOnce.binary
}

// process is a running polylog serve.
type process struct {
	t         *testing.T
	cmd       *exec.Cmd
	stderr    bytes.Buffer // to be read after wait; empty if it goes elsewhere
	addresses map[string]string
	ended     chan struct{}
}

// serveProcess starts the real binary on free ports and waits until it serves.
func serveProcess(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "addresses")
	args = append([]string{"serve", "--data", dir, "--amqp", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--addresses", file}, args...)
	p := &process{t: t, cmd: exec.Command(build(t), args...), ended: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	return p.start(file)
}

// start starts the process, which writes its addresses to the file, and waits until it serves.
func (p *process) start(file string) *process {
	p.t.Helper()
	t := p.t
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait() //nolint:errcheck // ProcessState says it too
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill() //nolint:errcheck // it has ended, mostly
		<-p.ended
		if t.Failed() {
			t.Logf("the process wrote:\n%s", p.stderr.String())
		}
	})
	deadline := time.Now().Add(patience)
	for {
		text, err := os.ReadFile(file)
		if err == nil {
			if err := json.Unmarshal(text, &p.addresses); err != nil {
				t.Fatal(err)
			}
			return p
		}
		select {
		case <-p.ended:
			t.Fatal("the process has ended")
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the process does not serve")
		}
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// wait returns the exit status.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("the process does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) status(path string) int {
	p.t.Helper()
	r, err := http.Get("http://" + p.addresses["http"] + path)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

func TestSignalsEndTheBrokerInOrder(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		dir := filepath.Join(t.TempDir(), "data")
		p := serveProcess(t, dir)
		if code := p.status("/readyz"); code != 200 {
			t.Errorf("/readyz: %d", code)
		}
		p.signal(sig)
		p.signal(sig) // as a terminal and a wrapper both pass it on: it is one
		if code := p.wait(); code != ExitOK {
			t.Errorf("%v: exit status %d", sig, code)
		}
		for _, want := range []string{`"msg":"ready"`, `"msg":"stopping"`, `"msg":"stopped"`} {
			if !strings.Contains(p.stderr.String(), want) {
				t.Errorf("%v: the log has no %s", sig, want)
			}
		}
		if code, stdout, _ := check(t, dir); code != ExitOK || !strings.Contains(stdout, "unsealed") && !strings.Contains(stdout, "segments") {
			t.Errorf("%v: check of the log: exit status %d, %s", sig, code, stdout)
		}
	}
}

func TestClientsAreToldOfTheEnd(t *testing.T) {
	t.Parallel()
	p := serveProcess(t, filepath.Join(t.TempDir(), "data"))
	amqp := openAMQP(t, p.addresses["amqp"])
	kafka, err := net.Dial("tcp", p.addresses["kafka"])
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	// A connection that the broker has not accepted yet has no clean end: ask it something first (ApiVersions v0, no client id).
	if err := kafka.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := kafka.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(kafka, size); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(kafka, make([]byte, binary.BigEndian.Uint32(size))); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	if args := amqp.expect(10, 50); binary.BigEndian.Uint16(args) != 320 { // connection.close
		t.Errorf("the connection is closed with the code %d, want 320", binary.BigEndian.Uint16(args))
	}
	amqp.method(10, 51)
	if code := p.wait(); code != ExitOK {
		t.Errorf("exit status %d", code)
	}
	for _, conn := range []net.Conn{amqp.conn, kafka} {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the end of a connection is %v, want a clean one", err)
		}
	}
}

// A log that nobody reads is no reason to end.
func TestBrokerGoesOnWithoutAReaderOfItsLog(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	file := filepath.Join(t.TempDir(), "addresses")
	p := &process{t: t, ended: make(chan struct{})}
	p.cmd = exec.Command(build(t), "serve", "--data", filepath.Join(t.TempDir(), "data"), "--amqp", "", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--addresses", file)
	p.cmd.Stderr = w
	r.Close()
	p.start(file)
	if code := p.status("/readyz"); code != 200 {
		t.Errorf("/readyz: %d", code)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != ExitOK {
		t.Errorf("exit status %d", code)
	}
}

// A client that does not go holds up the orderly end for the configured time; who does not want to wait sends another signal.
func TestSecondSignalEndsTheBrokerAtOnce(t *testing.T) {
	t.Parallel()
	p := serveProcess(t, filepath.Join(t.TempDir(), "data"), "--set", "shutdown.timeout=1h", "--set", "amqp.handshake_timeout=10m", "--set", "amqp.close_timeout=1h")
	openAMQP(t, p.addresses["amqp"])
	deadline := time.After(patience)
	for over := false; !over; {
		p.signal(syscall.SIGTERM)
		select {
		case <-p.ended:
			over = true
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatal("the process does not end")
		}
	}
	if code := p.wait(); code != ExitFailed {
		t.Errorf("exit status %d, want %d", code, ExitFailed)
	}
	if !strings.Contains(p.stderr.String(), "as a second signal asked") {
		t.Error("the log does not say why")
	}
}

func TestSecondProcessOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := serveProcess(t, dir)
	code, stdout, stderr := output(func(env Env) int {
		return Run(t.Context(), env, []string{"serve", "--data", dir, "--amqp", "", "--kafka", "", "--http", ""})
	})
	if code != ExitFailed || stdout != "" || !strings.Contains(stderr, "the data directory "+dir+" is in use by") {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if code := p.status("/readyz"); code != 200 {
		t.Errorf("after that the first is not ready: %d", code)
	}
}

func TestKilledBrokerStartsAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := serveProcess(t, dir)
	p.signal(syscall.SIGKILL)
	p.wait()
	if code := serveProcess(t, dir).status("/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
}

func TestServeRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	file := filepath.Join(t.TempDir(), "polylog.yaml")
	if err := os.WriteFile(file, []byte("amqp:\n  lisen: :5672\nkafka:\n  partitions: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"serve", "config"} {
		for _, c := range []struct {
			args   []string
			stderr []string
		}{
			{[]string{"now"}, []string{`takes no arguments, got "now"`}},
			{[]string{"--mqtt", ":1883"}, []string{"--mqtt: mqtt.listen is \":1883\": MQTT is not served yet"}},
			{[]string{"--amqp", "5672"}, []string{`--amqp: amqp.listen is "5672": not HOST:PORT`}},
			{[]string{"--set", "amqp.listen"}, []string{"write it as KEY=VALUE"}},
			{[]string{"--set", "sync.policy=never"}, []string{`--set: sync.policy is "never"`}},
			{[]string{"--config", missing}, []string{missing, "no such file"}},
			{[]string{"--config", file}, []string{file + `:2: unknown key "amqp.lisen", did you mean "amqp.listen"?`, file + `:4: kafka.partitions is "0": out of range; allowed: 1 to 10000`}},
		} {
			code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, append([]string{command}, c.args...)) })
			for _, want := range c.stderr {
				if code != ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
					t.Errorf("polylog %s %v: exit status %d, stdout %q, stderr %q; want %q", command, c.args, code, stdout, stderr, want)
				}
			}
		}
	}
}

func TestConfigPrintsWhatServeWouldUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "polylog.yaml")
	if err := os.WriteFile(file, []byte("node: fromfile\nkafka: {partitions: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("POLYLOG_KAFKA_PARTITIONS", "4")
	t.Setenv("POLYLOG_LOG_LEVEL", "debug")
	code, stdout, stderr := output(func(env Env) int {
		return Run(t.Context(), env, []string{"config", "--config", file, "--data", "/there", "--kafka", "", "--set", "log.level=warn"})
	})
	if code != ExitOK || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	for _, want := range []string{"data: /there\n", "node: fromfile\n", "  partitions: 4\n", "  level: warn\n", "  listen: \"\"\n", "    password_hash: \"$2a$"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "password: guest") {
		t.Error("a password is printed")
	}
}

func TestConfigWarnsOfWhatWasProbablyNotMeant(t *testing.T) {
	t.Setenv("POLYLOG_PORT_5672_TCP_ADDR", "10.0.0.1")
	code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, []string{"config", "--amqp", "", "--kafka", ""}) })
	if code != ExitOK || stdout == "" || !strings.Contains(stderr, "POLYLOG_PORT_5672_TCP_ADDR") || !strings.Contains(stderr, "no client can connect") {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
}

func TestConfigExampleIsTheShippedFile(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile("../config/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, []string{"config", "-example"}) }); code != ExitOK || stderr != "" || stdout != string(shipped) {
		t.Errorf("exit status %d, stderr %q; the text is another than the shipped file's", code, stderr)
	}
	if code, _, stderr := output(func(env Env) int { return Run(t.Context(), env, []string{"config", "-example", "--data", "x"}) }); code != ExitUsage || stderr == "" {
		t.Errorf("with another flag: exit status %d, stderr %q", code, stderr)
	}
}

// The shipped example is no ornament: a broker starts with it.
func TestShippedExampleStartsABroker(t *testing.T) {
	t.Parallel()
	p := serveProcess(t, filepath.Join(t.TempDir(), "data"), "--config", "../config/example.yaml")
	if code := p.status("/readyz"); code != 200 {
		t.Errorf("/readyz: %d", code)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != ExitOK {
		t.Errorf("exit status %d", code)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "addresses")
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		deadline := time.Now().Add(patience)
		for time.Now().Before(deadline) {
			if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	code, stdout, stderr := output(func(env Env) int {
		return Run(ctx, env, []string{"serve", "--data", filepath.Join(t.TempDir(), "data"), "--amqp", "", "--kafka", "127.0.0.1:0", "--http", "", "--addresses", file})
	})
	if code != ExitOK || stdout != "" || !strings.Contains(stderr, `"msg":"ready"`) {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of addresses is left over: %v", err)
	}
}
