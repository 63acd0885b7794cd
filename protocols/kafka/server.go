package kafka

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// Server serves Kafka connections that somebody else accepts.
type Server struct {
	opts      Options
	table     *apiTable
	figures   figures
	decode    *allowance
	sessions  *fetchSessions
	durable   durability
	searching chan struct{} // holds who looks for a time

	complained atomic.Int64 // when something was last complained of, Unix seconds

	draining chan struct{} // closed when Drain begins
	mu       sync.Mutex
	conns    map[*connection]struct{}
	drained  bool
	empty    chan struct{} // closed when draining and the last connection is gone
}

// mostSearching bounds the requests that look for times in the log at once; each walks indexes, on a processor of its own.
const mostSearching = 4

// New returns a Server.
func New(opts Options) *Server {
	opts.setDefaults()
	return &Server{
		opts:      opts,
		table:     newAPITable(apis()),
		decode:    newAllowance(int64(opts.Limits.DecodingBytes)),
		sessions:  newFetchSessions(opts.Limits.FetchSessions, opts.Now),
		durable:   durability{store: opts.Store},
		searching: make(chan struct{}, mostSearching),
		draining:  make(chan struct{}),
		conns:     map[*connection]struct{}{},
		empty:     make(chan struct{}),
	}
}

// Handle serves one connection until it ends, and closes it.
func (s *Server) Handle(nc net.Conn) {
	c := newConnection(s, nc)
	s.mu.Lock()
	if s.drained {
		s.mu.Unlock()
		nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.figures.connections.Add(1)
	s.figures.connectionsTotal.Add(1)
	c.serve()
	s.figures.connections.Add(-1)
	s.mu.Lock()
	delete(s.conns, c)
	if s.drained && len(s.conns) == 0 {
		close(s.empty)
	}
	s.mu.Unlock()
}

// Drain takes no more requests, answers those that it has, and closes all connections. Kafka has no farewell: clients see the end of the connection and go where
// the metadata then leads them. When ctx ends first, it closes what is left and returns the context's error.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	if !s.drained {
		s.drained = true
		close(s.draining)
		if len(s.conns) == 0 {
			close(s.empty)
		}
	}
	for c := range s.conns {
		c.drain()
	}
	s.mu.Unlock()
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		c.fail(context.Cause(ctx))
	}
	s.mu.Unlock()
	<-s.empty
	return ctx.Err()
}

// complain tells the operator of what comes again as often as clients try again: once in a second.
func (s *Server) complain(format string, args ...any) {
	now := s.opts.Now().Unix()
	if last := s.complained.Load(); last != now && s.complained.CompareAndSwap(last, now) {
		s.opts.Logf(format, args...)
	}
}
