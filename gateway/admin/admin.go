// Package admin is the HTTP side of a broker: /metrics for Prometheus, /healthz and /readyz for whoever keeps the process running, and profiles if they are wanted.
//
// It promises that a slow or silent client holds one connection for a bounded time, of which there is a bounded number. It asks nobody who they are: what it
// shows are figures, no messages. It changes nothing in the broker, save that nodes of a cluster are removed by who knows the cluster's secret. It listens on this machine only unless the configuration says otherwise.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what a Server shows.
type Options struct {
	Metrics http.Handler
	// Health returns why the process should be restarted, or nil.
	Health func() error
	// Ready returns why no clients should be sent here now, or nil.
	Ready func() error
	Pprof bool
	// Cluster answers what is asked of /cluster and below; nil: nothing does.
	Cluster http.Handler
	Logf    func(format string, args ...any)
}

// Server answers HTTP requests on one listener.
type Server struct {
	http http.Server
	logf func(format string, args ...any)
	done chan struct{}
}

const (
	readTimeout    = 5 * time.Second // of a request
	writeTimeout   = 30 * time.Second
	profileTimeout = 15 * time.Minute // a profile takes as long as the client wants; this is the most it may want
	idleTimeout    = time.Minute
	headerBytes    = 16 << 10
)

// ConnectionsMax is how many connections are served at a time. Further ones are closed at once.
const ConnectionsMax = 64

// bounding is a listener that closes what is too much.
type bounding struct {
	net.Listener
	used atomic.Int64
}

func (b *bounding) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.used.Add(1) <= ConnectionsMax {
			return &counted{Conn: conn, of: b}, nil
		}
		b.used.Add(-1)
		conn.Close() //nolint:errcheck // it is gone either way
	}
}

// counted is a connection that gives its place back.
type counted struct {
	net.Conn
	of   *bounding
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.of.used.Add(-1) })
	return c.Conn.Close()
}

// Start serves on the listener until Close.
func Start(ln net.Listener, o Options) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", bounded(writeTimeout, o.Metrics.ServeHTTP))
	mux.Handle("GET /healthz", bounded(writeTimeout, answer(o.Health)))
	mux.Handle("GET /readyz", bounded(writeTimeout, answer(o.Ready)))
	if o.Cluster != nil {
		mux.Handle("/cluster", bounded(writeTimeout, o.Cluster.ServeHTTP))
		mux.Handle("/cluster/", bounded(writeTimeout, o.Cluster.ServeHTTP))
	}
	if o.Pprof {
		mux.Handle("GET /debug/pprof/", bounded(profileTimeout, pprof.Index))
		mux.Handle("GET /debug/pprof/cmdline", bounded(profileTimeout, pprof.Cmdline))
		mux.Handle("GET /debug/pprof/profile", bounded(profileTimeout, pprof.Profile))
		mux.Handle("GET /debug/pprof/symbol", bounded(profileTimeout, pprof.Symbol))
		mux.Handle("GET /debug/pprof/trace", bounded(profileTimeout, pprof.Trace))
	}
	s := &Server{logf: o.Logf, done: make(chan struct{})}
	s.http = http.Server{Handler: mux, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(&bounding{Listener: ln}); !errors.Is(err, http.ErrServerClosed) {
			s.logf("HTTP is not served any more: %v", err)
		}
	}()
	return s
}

// bounded lets a request take that long, from here on.
func bounded(limit time.Duration, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		until, c := time.Now().Add(limit), http.NewResponseController(w)
		if err := errors.Join(c.SetReadDeadline(until), c.SetWriteDeadline(until)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		serve(w, r)
	}
}

// answer says ok, or 503 and why not.
func answer(why func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := why(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err) //nolint:errcheck // the client is gone
			return
		}
		fmt.Fprintln(w, "ok") //nolint:errcheck // the client is gone
	}
}

// Close lets requests under way end, but no longer than ctx lasts, and returns when nothing is served any more.
func (s *Server) Close(ctx context.Context) {
	if err := s.http.Shutdown(ctx); err != nil {
		s.http.Close() //nolint:errcheck // connections are cut off, as it should be now
	}
	<-s.done
}
