package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"
)

// peerReadyLimit is how long another broker may take to start. Both need about 5 s on an idle machine.
const peerReadyLimit = 120 * time.Second

// NotInstalledError says that a broker to compare with is not on this machine.
type NotInstalledError struct {
	What   string // the broker
	Missed string // what was looked for
}

func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("%s is not installed (%s not found); run scripts/peers.sh", e.What, e.Missed)
}

// Peer is a running broker that is not ours.
type Peer struct {
	Name    string // "RabbitMQ" or "Kafka"
	Address string // where it serves, host:port
	Version string // as it is installed
	Dir     string // where its data lies

	main  *process
	aside []*process // what it needs beside it
	temp  string
}

// Pid returns the id of the process that was started. RabbitMQ's is a script; its work is done by a child of it, in the same process group.
func (p *Peer) Pid() int { return p.main.cmd.Process.Pid }

// Log returns the last lines that it printed.
func (p *Peer) Log() string { return p.main.tail() }

// Close ends the peer and removes its data.
func (p *Peer) Close() error {
	err := p.main.stop()
	var ended *exec.ExitError
	if errors.As(err, &ended) { // told to end, a JVM says 143 and the script of RabbitMQ whatever the signal left it
		err = nil
	}
	p.main.signal(9) //nolint:errcheck // what is left of the group, normally nothing
	for _, a := range p.aside {
		err = errors.Join(err, a.kill())
	}
	return errors.Join(err, os.RemoveAll(p.temp))
}

// PeerCluster is several nodes that are one broker that is not ours.
type PeerCluster struct {
	Name    string // "RabbitMQ" or "Kafka"
	Version string
	Nodes   []*Peer

	aside []*process
	temp  string
}

// Addresses returns where the nodes serve.
func (c *PeerCluster) Addresses() (all []string) {
	for _, p := range c.Nodes {
		all = append(all, p.Address)
	}
	return all
}

// Close ends all nodes at once and removes their data.
func (c *PeerCluster) Close() error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, p := range c.Nodes {
		wg.Go(func() { errs[i] = p.Close() })
	}
	wg.Wait()
	for _, a := range c.aside {
		errs = append(errs, a.kill())
	}
	return errors.Join(append(errs, os.RemoveAll(c.temp))...)
}

func dialable(address string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}
