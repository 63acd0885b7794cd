package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"polylog/gateway/admin"
	"polylog/gateway/config"
	"polylog/logstore/vfs"
)

// patience is how long tests wait for what must come.
const patience = 20 * time.Second

// broker is a running Gateway.
type broker struct {
	*Gateway
	t    *testing.T
	logs *observer.ObservedLogs
	stop context.CancelFunc
	done chan struct{}
	err  error // of Run, once done is closed
}

// settings are keys with their values.
type settings map[string]string

// configure makes a configuration of free ports and a directory of the test's own, with some keys set.
func configure(t *testing.T, s settings) *config.Config {
	t.Helper()
	keys := settings{"data": filepath.Join(t.TempDir(), "data"), "amqp.listen": "127.0.0.1:0", "kafka.listen": "127.0.0.1:0", "http.listen": "127.0.0.1:0"}
	for k, v := range s {
		keys[k] = v
	}
	var flags []config.Override
	for k, v := range keys {
		flags = append(flags, config.Override{Key: k, Value: v, From: "test"})
	}
	c, err := config.Load("", nil, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// launch starts a broker and waits until it serves. It is stopped at the end of the test.
func launch(t *testing.T, o Options) *broker {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	o.Log, o.Version = zap.New(core), "test"
	g, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &broker{Gateway: g, t: t, logs: logs, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.err = g.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		b.wait()
	})
	await(t, "the broker is ready", func() bool { return g.ready() == nil && len(logs.FilterMessage("ready").All()) == 1 })
	return b
}

// wait waits for the end of the broker.
func (b *broker) wait() {
	b.t.Helper()
	select {
	case <-b.done:
	case <-time.After(patience):
		b.t.Fatal("the broker does not end")
	}
}

// end stops the broker in order.
func (b *broker) end() error {
	b.t.Helper()
	b.stop()
	b.wait()
	return b.err
}

// await polls until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// get asks the broker's HTTP side.
func (b *broker) get(path string) (code int, text string) {
	b.t.Helper()
	r, err := http.Get("http://" + b.Addresses()["http"] + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestBrokerSaysWhereItServesAndEndsInOrder(t *testing.T) {
	t.Parallel()
	c := configure(t, nil)
	file := filepath.Join(t.TempDir(), "addresses")
	if err := os.WriteFile(file, []byte("left over"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := launch(t, Options{Config: c, AddressesFile: file})
	var text []byte
	await(t, "the addresses are written", func() (ok bool) {
		var err error
		text, err = os.ReadFile(file)
		return err == nil && string(text) != "left over"
	})
	var said map[string]string
	if err := json.Unmarshal(text, &said); err != nil || said["pid"] == "" {
		t.Fatalf("the file of addresses is %q: %v", text, err)
	}
	for _, protocol := range []string{"amqp", "kafka", "http"} {
		addr := said[protocol]
		if addr != b.Addresses()[protocol] || strings.HasSuffix(addr, ":0") {
			t.Errorf("%s is said to be at %q, and is at %q", protocol, addr, b.Addresses()[protocol])
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if n := b.logs.FilterMessage("listening").FilterField(zap.String("address", addr)).Len(); n != 1 {
			t.Errorf("%d lines of the log name %s, want 1", n, addr)
		}
	}
	if code, text := b.get("/readyz"); code != 200 || text != "ok\n" {
		t.Errorf("/readyz: %d %q", code, text)
	}
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end the file of addresses is there: %v", err)
	}
	for protocol, addr := range b.Addresses() {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Errorf("after the end %s is served", protocol)
		}
	}
	again := launch(t, Options{Config: c}) // the same data
	if n := again.logs.FilterMessage("the log is open").FilterField(zap.Int64("replayed_entries", 0)).Len(); n != 1 {
		t.Error("after an orderly end there is something to recover")
	}
	if again.views.cluster != b.views.cluster || b.views.cluster == "" {
		t.Errorf("the data was named %q and is named %q after a restart", b.views.cluster, again.views.cluster)
	}
}

func TestSecondBrokerOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	c := configure(t, nil)
	b := launch(t, Options{Config: c})
	_, err := New(t.Context(), Options{Config: c, Log: zap.NewNop()})
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("the error is %v", err)
	}
	if locked.Dir != c.Data || locked.PID != os.Getpid() && locked.PID != 0 {
		t.Errorf("the directory %s of process %d is locked, says the error; it is %s of %d", locked.Dir, locked.PID, c.Data, os.Getpid())
	}
	if text := err.Error(); !strings.Contains(text, c.Data) || !strings.Contains(text, "stop that one, or name another directory with --data") {
		t.Errorf("the error is %q", text)
	}
	if code, _ := b.get("/readyz"); code != 200 {
		t.Errorf("after that the first is not ready: %d", code)
	}
}

func TestStartSaysWhatStandsInItsWay(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := damagedLog(t)
	for _, c := range []struct {
		set  settings
		want []string
	}{
		{settings{"kafka.listen": taken.Addr().String()}, []string{"kafka.listen is", taken.Addr().String(), "(test)", "address already in use"}},
		{settings{"http.listen": taken.Addr().String()}, []string{"http.listen is", "address already in use"}},
		{settings{"data": file}, []string{"opening the log in " + file}},
		{settings{"data": damaged}, []string{"opening the log in " + damaged, "'polylog check " + damaged + "' says what is wrong"}},
	} {
		cfg := configure(t, c.set)
		_, err := New(t.Context(), Options{Config: cfg, Log: zap.NewNop()})
		if err == nil {
			t.Errorf("%v: it starts", c.set)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: the error is %q, want %q in it", c.set, err, want)
			}
		}
		delete(c.set, "data")
		if len(c.set) > 0 { // the directory is free again
			launch(t, Options{Config: configure(t, settings{"data": cfg.Data})})
		}
	}
}

// A sync that fails is never believed: the process ends with an error, and says so before.
func TestFailedLogEndsTheBroker(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	disk := vfs.NewFault(vfs.OS, func(op vfs.Op) error {
		if broken.Load() && op.Kind == vfs.OpSync {
			return errors.New("the disk is gone")
		}
		return nil
	})
	b := launch(t, Options{Config: configure(t, nil), fs: disk})
	broken.Store(true)
	if _, err := b.views.topics.Create(t.Context(), aTopic("orders")); err == nil {
		t.Error("with a broken disk a topic is made")
	}
	b.wait()
	if b.err == nil || !strings.Contains(b.err.Error(), "the log takes no more writes") || !strings.Contains(b.err.Error(), "the disk is gone") {
		t.Errorf("it ended with %v", b.err)
	}
	if err := b.health(); err == nil {
		t.Error("it says that it is healthy")
	}
	if n := b.logs.FilterLevelExact(zapcore.ErrorLevel).Len(); n == 0 {
		t.Error("no line of the log says that something went wrong")
	}
}

func TestRetentionOfTheConfigurationTakesRecordsAway(t *testing.T) {
	t.Parallel()
	b := launch(t, Options{Config: configure(t, settings{"retention.interval": "100ms", "retention.time": "1s"})})
	top, err := b.views.topics.Create(t.Context(), aTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	appendRecord(t, b.store, top.Shards[0], time.Now().Add(-time.Hour))
	appendRecord(t, b.store, top.Shards[0], time.Now().Add(time.Hour))
	await(t, "the old record is gone", func() bool {
		first, next, err := b.store.Bounds(top.Shards[0])
		return err == nil && first == 1 && next == 2
	})
}

func TestEveryFigureIsServed(t *testing.T) {
	t.Parallel()
	b := launch(t, Options{Config: configure(t, nil)})
	code, text := b.get("/metrics")
	if code != 200 {
		t.Fatalf("/metrics: %d", code)
	}
	wantFigures(t, text)
	for _, want := range []string{
		`polylog_info{version="test"} 1`, "polylog_ready 1", "polylog_log_failed 0", `polylog_connections{protocol="kafka"} 0`, "go_goroutines ", "process_cpu_seconds_total ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %q", want)
		}
	}
}

// Accepting waits for no client: whoever connects and says nothing holds up nobody else.
func TestSilentClientsHoldUpNobody(t *testing.T) {
	t.Parallel()
	b := launch(t, Options{Config: configure(t, nil)})
	connect := func(protocol string) net.Conn {
		conn, err := net.Dial("tcp", b.Addresses()[protocol])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for i := range 100 {
		connect("amqp")
		connect("kafka")
		if i < admin.ConnectionsMax/2 {
			connect("http")
		}
	}
	for _, c := range []struct{ protocol, ask, answer string }{
		{"amqp", "AMQP\x01\x01\x00\x0a", "AMQP\x00\x00\x09\x01"}, // an older version: which one is spoken here
		// ApiVersions v0, correlation id 7, no client id.
		{"kafka", "\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff", "\x00\x00\x00\x07"},
		{"http", "GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK"},
	} {
		conn := connect(c.protocol)
		if _, err := io.WriteString(conn, c.ask); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 64)
		n, err := io.ReadAtLeast(conn, got, len(c.answer))
		if !strings.Contains(string(got[:n]), c.answer) {
			t.Errorf("%s answers %q, %v; want %q", c.protocol, got[:n], err, c.answer)
		}
	}
	if n := b.listeners[0].own.used.Load(); n < 100 {
		t.Errorf("%d connections are open, want at least 100", n)
	}
}

func TestFrontEndsThatAreOffAreNotThere(t *testing.T) {
	t.Parallel()
	b := launch(t, Options{Config: configure(t, settings{"amqp.listen": "", "kafka.listen": ""})})
	a := b.Addresses()
	if len(a) != 1 || a["http"] == "" {
		t.Errorf("addresses are %v", a)
	}
	if code, _ := b.get("/readyz"); code != 200 {
		t.Errorf("/readyz: %d", code)
	}
	if _, text := b.get("/metrics"); strings.Contains(text, "polylog_kafka_requests_total") {
		t.Error("there are figures of a front-end that is off")
	}
	none := launch(t, Options{Config: configure(t, settings{"http.listen": ""})})
	if none.Addresses()["http"] != "" {
		t.Error("HTTP is served and is off")
	}
}

func TestKafkaInTheOpenIsWarnedOf(t *testing.T) {
	t.Parallel()
	b := launch(t, Options{Config: configure(t, settings{"kafka.listen": "0.0.0.0:0"})})
	if b.logs.FilterLevelExact(zapcore.WarnLevel).FilterMessageSnippet("Kafka clients do not log in").Len() != 1 {
		t.Error("no line of the log warns of it")
	}
	closed := launch(t, Options{Config: configure(t, nil)})
	if closed.logs.FilterMessageSnippet("Kafka clients do not log in").Len() != 0 {
		t.Error("it is warned of on the loopback address")
	}
}

// Two who want to end it at once do not get into each other's way.
func TestCloseMayBeCalledTwice(t *testing.T) {
	t.Parallel()
	b := launch(t, Options{Config: configure(t, nil)})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if err := b.Close(); err != nil {
		t.Errorf("Close after the end: %v", err)
	}
}
