package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// frontEnd serves the connections of one protocol.
type frontEnd interface {
	// Handle serves a connection until it ends, and closes it.
	Handle(conn net.Conn)
	// Drain takes no more connections and lets those it has come to a good end, but no longer than ctx lasts. It returns when all are closed.
	Drain(ctx context.Context) error
}

// room is what is left of a number of connections that several listeners share.
type room struct {
	max  int64
	used atomic.Int64
}

// enter takes a place if there is one.
func (r *room) enter() bool {
	if r.used.Add(1) > r.max {
		r.used.Add(-1)
		return false
	}
	return true
}

func (r *room) leave() { r.used.Add(-1) }

// listener accepts the connections of one front-end. Its loop waits for nobody but the operating system: what takes a client's time happens on the client's own
// goroutine.
type listener struct {
	name  string // of the protocol, as the configuration has it
	ln    net.Listener
	serve frontEnd
	log   *zap.Logger
	now   func() time.Time
	own   room  // of this listener
	all   *room // of the process

	closed atomic.Bool
	wg     sync.WaitGroup // the loop, and each connection

	accepted, refused, failed atomic.Int64
	lastRefusal               refusals  // of the loop
	lastFailure               time.Time // that was told; of the loop
}

// refusals says now and then how many connections were refused: a client that tries again and again must not fill the log.
type refusals struct {
	told  time.Time
	since int64
}

const (
	tellAgain = 10 * time.Second // between two lines about the same trouble
	acceptMin = 5 * time.Millisecond
	acceptMax = time.Second
)

// listen opens a socket. source is where the address was configured.
func listen(key, addr, source string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s is %q (%s): %w", key, addr, source, err)
	}
	return ln, nil
}

// start accepts until stop.
func (l *listener) start() {
	l.wg.Add(1)
	go l.run()
}

func (l *listener) run() {
	defer l.wg.Done()
	pause := acceptMin
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			if l.closed.Load() || errors.Is(err, net.ErrClosed) {
				return
			}
			// Mostly too many open files, which passes when clients leave. Trying at once would only burn a processor.
			l.failed.Add(1)
			if now := l.now(); now.Sub(l.lastFailure) >= tellAgain {
				l.lastFailure = now
				l.log.Warn("connections cannot be accepted", zap.Error(err), zap.Int64("failed", l.failed.Load()))
			}
			time.Sleep(pause)
			pause = min(2*pause, acceptMax)
			continue
		}
		pause = acceptMin
		l.admit(conn)
	}
}

// admit serves the connection, or closes it if there is no room. It is the loop's.
func (l *listener) admit(conn net.Conn) {
	if !l.own.enter() {
		l.refuse(conn, l.name+".connections", l.own.max)
		return
	}
	if !l.all.enter() {
		l.own.leave()
		l.refuse(conn, "limits.connections", l.all.max)
		return
	}
	l.accepted.Add(1)
	l.wg.Go(func() {
		defer l.own.leave()
		defer l.all.leave()
		l.serve.Handle(conn)
	})
}

// refuse closes a connection for which there is no room. A client in an older protocol would have to be read before it could be told why, which is what there is no room
// for.
func (l *listener) refuse(conn net.Conn, key string, limit int64) {
	l.refused.Add(1)
	conn.Close() //nolint:errcheck // it is gone either way
	l.lastRefusal.since++
	if now := l.now(); now.Sub(l.lastRefusal.told) >= tellAgain {
		l.log.Warn("connections were refused: there are as many as may be", zap.String("limit", key), zap.Int64("max", limit),
			zap.Int64("refused", l.lastRefusal.since), zap.Stringer("last_from", conn.RemoteAddr()))
		l.lastRefusal = refusals{told: now}
	}
}

// stop accepts no more. Connections there are go on.
func (l *listener) stop() {
	l.closed.Store(true)
	l.ln.Close() //nolint:errcheck // nothing to be done, and nothing is lost
}

// wait returns when the loop and all connections have ended, or when ctx ends.
func (l *listener) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %d connections did not end", l.name, l.own.used.Load())
	}
}
