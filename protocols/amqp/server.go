package amqp

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"polylog/protocols/amqp/wire"
	"polylog/protocols/stream"
)

// Server serves AMQP connections. Its methods may be called from any goroutine.
type Server struct {
	o      Options
	limits Limits
	counts counters
	serial atomic.Uint64 // of connections, which makes their names unique
	roster *stream.Roster[*connection]
}

// New returns a server. The error says which option cannot be used.
func New(o Options) (*Server, error) {
	limits, err := o.Limits.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("amqp: %w", err)
	}
	if o.Store == nil || o.Router == nil || o.Queues == nil || o.Auth == nil {
		return nil, fmt.Errorf("amqp: a store, a router, queues and an authenticator are needed")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return &Server{o: o, limits: limits, roster: stream.NewRoster[*connection]()}, nil
}

// Handle serves one connection until it ends, and closes it.
func (s *Server) Handle(sock net.Conn) {
	c := newConnection(s, sock)
	if !s.roster.Enter(c) {
		sock.Close()
		return
	}
	defer s.roster.Leave(c)
	s.counts.accepted.Add(1)
	s.counts.connections.Add(1)
	defer s.counts.connections.Add(-1)
	c.run()
}

// Drain ends all connections: each confirms what it has taken, sends connection.close with 320 CONNECTION_FORCED and waits for the answer. When ctx ends, the sockets are closed
// without it. New connections are refused. It returns when all are gone; the error is the context's, if some had to be cut off.
func (s *Server) Drain(ctx context.Context) error {
	farewell := func() error { return &exception{code: wire.ConnectionForced, text: "the broker shuts down"} }
	return s.roster.Drain(ctx, func(c *connection) { c.post(farewell) }, (*connection).cut)
}
