package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Ports are drawn from below the range that the kernel gives to outgoing connections. A port from that range could be taken by any client while its broker
// is down for a restart, by a client that dials the dead broker among others: it would then be connected to itself.
const portFirst = 10_000

var ports struct {
	sync.Mutex
	held []net.Listener // abstract sockets, one for each port: see FreePort
}

// FreePort returns a loopback TCP port that nobody listens on and that no other process using this package will be given while this one lives.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	last := outgoingFirst() - 1
	for range 1000 {
		port := portFirst + rand.IntN(last-portFirst+1)
		// A socket in the abstract name space stands for the port. It costs no file and goes with the process.
		mark, err := net.Listen("unix", "@polylog-e2e-port-"+strconv.Itoa(port))
		if err != nil {
			continue // another process, or this one, has it
		}
		if err := tryListen(port); err != nil {
			mark.Close() //nolint:errcheck // nobody connects to it
			continue
		}
		ports.held = append(ports.held, mark)
		return port, nil
	}
	return 0, errors.New("no free port was found in 1000 tries; are very many brokers running?")
}

// tryListen listens on the port and stops at once. No child is started meanwhile: until it has executed its program it would hold a copy of the listener, and
// with it the port.
func tryListen(port int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// FreeAddress returns a free port as an address: 127.0.0.1:PORT.
func FreeAddress() (string, error) {
	port, err := FreePort()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
}

// outgoingFirst returns the lowest port that the kernel gives to outgoing connections.
func outgoingFirst() int {
	const usual = 32_768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	var first, last int
	if n, err := fmt.Sscan(string(text), &first, &last); n != 2 || err != nil || first < portFirst+1000 {
		return usual
	}
	return first
}
