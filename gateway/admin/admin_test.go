package admin

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestHealthAndReadinessSayWhyNot(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var failed, draining atomic.Bool
	s := Start(ln, Options{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "polylog_up 1\n") }), //nolint:errcheck // a test
		Health: func() error {
			if failed.Load() {
				return errors.New("the disk is gone")
			}
			return nil
		},
		Ready: func() error {
			if draining.Load() {
				return errors.New("draining")
			}
			return nil
		},
		Logf: t.Logf,
	})
	get := func(path string, code int, text string) {
		t.Helper()
		r, err := http.Get("http://" + ln.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != code || !strings.Contains(string(b), text) {
			t.Errorf("%s: %d %q, %v; want %d %q", path, r.StatusCode, b, err, code, text)
		}
	}
	get("/metrics", 200, "polylog_up 1")
	get("/healthz", 200, "ok\n")
	get("/readyz", 200, "ok\n")
	get("/", 404, "")
	get("/debug/pprof/", 404, "")
	draining.Store(true)
	get("/readyz", 503, "draining")
	get("/healthz", 200, "ok\n")
	failed.Store(true)
	get("/healthz", 503, "the disk is gone")
	s.Close(t.Context())
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Error("after Close it still listens")
	}
}

func TestProfilesAreServedWhenAsked(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ok := func() error { return nil }
	s := Start(ln, Options{Metrics: http.NotFoundHandler(), Health: ok, Ready: ok, Pprof: true, Logf: t.Logf})
	defer s.Close(t.Context())
	r, err := http.Get("http://" + ln.Addr().String() + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || r.StatusCode != 200 || !strings.Contains(string(b), "goroutine profile") {
		t.Errorf("%d %q, %v", r.StatusCode, b, err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ok := func() error { return nil }
	s := Start(ln, Options{Metrics: http.NotFoundHandler(), Health: ok, Ready: ok, Logf: t.Logf})
	defer s.Close(t.Context())
	const ask = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	answered := func(conn net.Conn) bool {
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, ask); err != nil {
			return false
		}
		n, err := conn.Read(make([]byte, 1000))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("neither an answer nor an end")
		}
		return n > 0
	}
	conns := make([]net.Conn, ConnectionsMax+1)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", ln.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		if got := answered(conns[i]); got != (i < ConnectionsMax) {
			t.Fatalf("connection %d is answered: %t", i+1, got)
		}
	}
	conns[0].Close()
	deadline := time.Now().Add(20 * time.Second)
	for {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		done := answered(conn)
		conn.Close()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a place is free and nobody gets it")
		}
	}
}
