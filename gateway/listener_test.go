package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// echo is a front-end that gives back what it gets, until the client or Drain ends the connection.
type echo struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (e *echo) Handle(conn net.Conn) {
	e.mu.Lock()
	e.conns[conn] = true
	e.mu.Unlock()
	io.Copy(conn, conn) //nolint:errcheck // the client is gone
	conn.Close()
	e.mu.Lock()
	delete(e.conns, conn)
	e.mu.Unlock()
}

func (e *echo) Drain(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.conns {
		c.Close()
	}
	return nil
}

// accepting starts a listener of a front-end that echoes.
func accepting(t *testing.T, own int64, all *room) (*listener, *observer.ObservedLogs) {
	t.Helper()
	ln, err := listen("test.listen", "127.0.0.1:0", "test")
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	l := &listener{name: "test", ln: ln, serve: &echo{conns: map[net.Conn]bool{}}, log: zap.New(core), now: time.Now, own: room{max: own}, all: all}
	l.start()
	t.Cleanup(func() {
		l.stop()
		l.serve.Drain(t.Context()) //nolint:errcheck // it gives none
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.wait(ctx); err != nil {
			t.Error(err)
		}
	})
	return l, logs
}

// dial connects and reports whether it is served.
func dial(t *testing.T, l *listener) (conn net.Conn, served bool) {
	t.Helper()
	conn, err := net.Dial("tcp", l.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		return conn, false
	}
	_, err = conn.Read(make([]byte, 1))
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("a connection is neither served nor closed")
	}
	return conn, err == nil
}

func TestConnectionsOverTheLimitAreClosedAndCounted(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]struct{ own, all int64 }{"of the front-end": {2, 10}, "of all": {10, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, logs := accepting(t, limits.own, &room{max: limits.all})
			first, served := dial(t, l)
			_, served2 := dial(t, l)
			if !served || !served2 {
				t.Fatalf("the first two are served: %t, %t", served, served2)
			}
			for range 3 {
				if _, served := dial(t, l); served {
					t.Fatal("a third one is served")
				}
			}
			if l.accepted.Load() != 2 || l.refused.Load() != 3 || l.own.used.Load() != 2 || l.all.used.Load() != 2 {
				t.Errorf("accepted %d, refused %d, used %d of %d", l.accepted.Load(), l.refused.Load(), l.own.used.Load(), l.all.used.Load())
			}
			if n := logs.FilterMessageSnippet("connections were refused").Len(); n != 1 {
				t.Errorf("%d lines of the log say so, want 1", n)
			}
			first.Close()
			await(t, "a place is free", func() bool { return l.own.used.Load() == 1 })
			if _, served := dial(t, l); !served {
				t.Error("a place is free and nobody gets it")
			}
		})
	}
}

func TestListenersShareThePlacesOfTheProcess(t *testing.T) {
	t.Parallel()
	all := &room{max: 1}
	a, _ := accepting(t, 10, all)
	b, _ := accepting(t, 10, all)
	if _, served := dial(t, a); !served {
		t.Fatal("the first is not served")
	}
	if _, served := dial(t, b); served {
		t.Error("the second is served, though there is one place")
	}
}

// flaky is a listener that fails to accept now and then.
type flaky struct {
	net.Listener
	mu   sync.Mutex
	errs []error // to be given first
}

func (f *flaky) Accept() (net.Conn, error) {
	f.mu.Lock()
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		f.mu.Unlock()
		return nil, err
	}
	f.mu.Unlock()
	return f.Listener.Accept()
}

func TestAcceptingGoesOnAfterErrors(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	tooMany := errors.New("too many open files")
	l := &listener{
		name: "test", ln: &flaky{Listener: ln, errs: []error{tooMany, tooMany}}, serve: &echo{conns: map[net.Conn]bool{}}, log: zap.New(core), now: time.Now,
		own: room{max: 1}, all: &room{max: 1},
	}
	l.start()
	conn, served := dial(t, l)
	if !served || l.failed.Load() != 2 || logs.FilterMessageSnippet("cannot be accepted").Len() != 1 {
		t.Errorf("served: %t, failed: %d, log: %v", served, l.failed.Load(), logs.All())
	}
	l.stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.wait(ctx); err == nil {
		t.Error("a connection is there and wait does not say so")
	}
	conn.Close()
	if err := l.wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLinesOfOnePartAreBounded(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.DebugLevel)
	now := time.Unix(1000, 0)
	p := &throttle{log: zap.New(core), now: func() time.Time { return now }}
	for range 3 * linesMax {
		p.print("a client sent %s", "garbage")
	}
	if n := logs.Len(); n != linesMax {
		t.Errorf("in a second %d lines are printed, want %d", n, linesMax)
	}
	now = now.Add(time.Second)
	p.print("and then")
	all := logs.All()
	if len(all) != linesMax+2 || all[linesMax].ContextMap()["lines"] != int64(2*linesMax) || all[linesMax+1].Message != "and then" {
		t.Errorf("after that there is %v", all[linesMax:])
	}
}
