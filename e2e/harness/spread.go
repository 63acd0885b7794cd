package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
)

// nodesVar, in the environment, says how many nodes a broker of Launch has: with 3, every test that starts a broker has three, and its connections are spread over them.
const nodesVar = "E2E_NODES"

// nodesWanted reads nodesVar; 1 is a broker without a cluster.
func nodesWanted() (int, error) {
	text := os.Getenv(nodesVar)
	if text == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 9 {
		return 0, fmt.Errorf("%s is %q; it is a number of nodes, 1 to 9", nodesVar, text)
	}
	return n, nil
}

// launchSpread starts a cluster that looks like one broker: the first node, which takes the others along, at addresses that spread connections over all.
func launchSpread(o Options, nodes int) (*Broker, error) {
	c, err := LaunchCluster(ClusterOptions{Nodes: nodes, Args: o.Args, Env: o.Env})
	if err != nil {
		return nil, err
	}
	b := c.Nodes[0]
	b.cluster = c
	for _, at := range []func(*Broker) *string{func(b *Broker) *string { return &b.AMQP }, func(b *Broker) *string { return &b.Kafka }} {
		s := &spread{}
		for _, n := range c.Nodes {
			s.to = append(s.to, *at(n))
		}
		if *at(b), err = s.listen(); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		b.spreads = append(b.spreads, s)
	}
	return b, nil
}

// spread passes connections on to nodes by turns. A node that does not answer is passed over.
type spread struct {
	to []string
	l  net.Listener

	mu    sync.Mutex
	turn  int
	conns sync.WaitGroup
}

func (s *spread) listen() (address string, err error) {
	if s.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return "", err
	}
	s.conns.Go(func() {
		for {
			in, err := s.l.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() { s.pass(in) })
		}
	})
	return s.l.Addr().String(), nil
}

func (s *spread) pass(in net.Conn) {
	defer in.Close() //nolint:errcheck // it is over
	for range s.to {
		s.mu.Lock()
		to := s.to[s.turn%len(s.to)]
		s.turn++
		s.mu.Unlock()
		out, err := net.Dial("tcp", to)
		if err != nil {
			continue
		}
		var both sync.WaitGroup
		both.Go(func() { flow(out, in) })
		both.Go(func() { flow(in, out) })
		both.Wait()
		return
	}
}

// flow passes bytes on until their end, and then the end. What breaks one way breaks the other, as it does without anything in between.
func flow(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()   //nolint:errcheck // it is over
		from.Close() //nolint:errcheck // it is over
		return
	}
	to.(*net.TCPConn).CloseWrite() //nolint:errcheck // it is over
}

// close lets the connections end with those who have them.
func (s *spread) close() { s.l.Close() } //nolint:errcheck // nothing is lost
