package amqp

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"polylog/protocols/amqp/wire"
)

// Server serves AMQP connections. Its methods may be called from any goroutine.
type Server struct {
	o      Options
	limits Limits
	counts counters
	serial atomic.Uint64 // of connections, which makes their names unique

	mu          sync.Mutex
	connections map[*connection]struct{}
	draining    bool
	idle        chan struct{} // closed when draining and the last connection is gone
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
	return &Server{o: o, limits: limits, connections: map[*connection]struct{}{}, idle: make(chan struct{})}, nil
}

// Handle serves one connection until it ends, and closes it.
func (s *Server) Handle(sock net.Conn) {
	c := newConnection(s, sock)
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		sock.Close()
		return
	}
	s.connections[c] = struct{}{}
	s.mu.Unlock()
	s.counts.accepted.Add(1)
	s.counts.connections.Add(1)
	c.run()
	s.counts.connections.Add(-1)
	s.mu.Lock()
	delete(s.connections, c)
	if s.draining && len(s.connections) == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
}

// Drain ends all connections: each confirms what it has taken, sends connection.close with 320 CONNECTION_FORCED and waits for the answer. When ctx ends, the sockets are closed
// without it. New connections are refused. It returns when all are gone; the error is the context's, if some had to be cut off.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		if len(s.connections) == 0 {
			close(s.idle)
		}
	}
	for c := range s.connections {
		c.post(func() error { return &exception{code: wire.ConnectionForced, text: "the broker shuts down"} })
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.connections {
		c.cut()
	}
	s.mu.Unlock()
	<-s.idle
	return ctx.Err()
}
