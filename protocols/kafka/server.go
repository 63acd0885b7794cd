package kafka

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"polylog/protocols/stream"
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
	drain    sync.Once
	roster   *stream.Roster[*connection]
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
		roster:    stream.NewRoster[*connection](),
	}
}

// Handle serves one connection until it ends, and closes it.
func (s *Server) Handle(nc net.Conn) {
	c := newConnection(s, nc)
	if !s.roster.Enter(c) {
		nc.Close()
		return
	}
	defer s.roster.Leave(c)
	s.figures.connections.Add(1)
	defer s.figures.connections.Add(-1)
	s.figures.connectionsTotal.Add(1)
	c.serve()
}

// Drain takes no more requests, answers those that it has, and closes all connections. Kafka has no farewell: clients see the end of the connection and go where
// the metadata then leads them. When ctx ends first, it closes what is left and returns the context's error.
func (s *Server) Drain(ctx context.Context) error {
	s.drain.Do(func() { close(s.draining) })
	return s.roster.Drain(ctx, (*connection).drain, func(c *connection) { c.fail(context.Cause(ctx)) })
}

// complain tells the operator of what comes again as often as clients try again: once in a second.
func (s *Server) complain(format string, args ...any) {
	now := s.opts.Now().Unix()
	if last := s.complained.Load(); last != now && s.complained.CompareAndSwap(last, now) {
		s.opts.Logf(format, args...)
	}
}
