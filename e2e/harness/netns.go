package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Network is what connects the nodes of a cluster when each runs in a network namespace of its own. Every node has two links: one to this process, by which clients reach
// it and which is never touched, and one to a hub, a namespace that passes on what the nodes send each other. What is cut is dropped there without a word, as by a broken
// switch: connections stay open and silent.
//
//	this process  --- 198.18.N.4i/30 ---  node i  --- 198.19.N.4i/30 ---  hub  --- ...  the other nodes
//
// All of it goes when the network is closed. The namespaces' names have the id of this process; those of processes that are gone are removed by the next one.
type Network struct {
	id    int          // N
	held  net.Listener // stands for the number: see FreePort
	name  string       // of the namespaces, without what tells them apart
	mu    sync.Mutex
	nodes int
	cuts  map[[2]int]int // from, to: how often
}

// networkPrefix begins the names of namespaces; the id of the process, the network's number and the node's or "hub" follow.
const networkPrefix = "polylog-e2e-"

// NewNetwork makes a network without nodes. Where network namespaces cannot be made, which is most often for want of the right to, the error says so.
func NewNetwork() (_ *Network, err error) {
	removeDeadNetworks()
	n := &Network{id: -1, cuts: map[[2]int]int{}}
	for id := range 256 {
		if n.held, err = net.Listen("unix", "@polylog-e2e-network-"+strconv.Itoa(id)); err == nil {
			n.id = id
			break
		}
	}
	if n.id < 0 {
		return nil, errors.New("256 networks are in use")
	}
	n.name = fmt.Sprintf("%s%d-%d-", networkPrefix, os.Getpid(), n.id)
	hub := n.name + "hub"
	err = errors.Join(
		ip("netns", "add", hub),
		ip("-n", hub, "link", "set", "lo", "up"),
		ip("netns", "exec", hub, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making network namespaces: %w", err), n.Close())
	}
	return n, nil
}

// ip runs the command of this name.
func ip(args ...string) error {
	text, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(text)))
	}
	return nil
}

// removeDeadNetworks removes the namespaces of processes that are gone.
func removeDeadNetworks() {
	text, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, is := strings.CutPrefix(name, networkPrefix)
		pid, _, _ := strings.Cut(rest, "-")
		if p, err := strconv.Atoi(pid); is && err == nil && errors.Is(syscall.Kill(p, 0), syscall.ESRCH) {
			ip("netns", "del", name) //nolint:errcheck // another process may have been quicker
		}
	}
}

// place is where a node is in the network.
type place struct {
	space           string // its namespace
	client, cluster string // its addresses
}

func (n *Network) address(net, node, side int) string {
	return fmt.Sprintf("198.%d.%d.%d", net, n.id, 4*node+side)
}

// add makes a place for one more node.
func (n *Network) add() (place, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := n.nodes
	n.nodes++
	if i > 60 {
		return place{}, errors.New("a network has room for 60 nodes")
	}
	hub, out := n.name+"hub", fmt.Sprintf("plg%d-%d", n.id, i)
	p := place{n.name + strconv.Itoa(i), n.address(18, i, 2), n.address(19, i, 2)}
	err := ip("netns", "add", p.space)
	for _, args := range []string{
		"-n " + p.space + " link set lo up",
		// To this process.
		"link add " + out + " type veth peer name clients netns " + p.space,
		"addr add " + n.address(18, i, 1) + "/30 dev " + out,
		"link set " + out + " up",
		"-n " + p.space + " addr add " + p.client + "/30 dev clients",
		"-n " + p.space + " link set clients up",
		// To the hub.
		"-n " + hub + " link add node" + strconv.Itoa(i) + " type veth peer name nodes netns " + p.space,
		"-n " + hub + " addr add " + n.address(19, i, 1) + "/30 dev node" + strconv.Itoa(i),
		"-n " + hub + " link set node" + strconv.Itoa(i) + " up",
		"-n " + p.space + " addr add " + p.cluster + "/30 dev nodes",
		"-n " + p.space + " link set nodes up",
		"-n " + p.space + " route add 198.19." + strconv.Itoa(n.id) + ".0/24 via " + n.address(19, i, 1),
	} {
		if err == nil {
			err = ip(strings.Fields(args)...)
		}
	}
	if err != nil {
		return place{}, fmt.Errorf("connecting node %d: %w", i, err)
	}
	return p, nil
}

// rule adds or deletes what drops packets on the way from one node to another.
func (n *Network) rule(verb string, from, to int) error {
	return ip("-n", n.name+"hub", "rule", verb, "from", n.address(19, from, 2), "to", n.address(19, to, 2), "blackhole")
}

// Cut drops all that a node sends to another, by their indexes, and nothing that comes back. heal ends it. Ways that are cut twice are open when both are healed.
func (n *Network) Cut(from, to int) (heal func() error, err error) {
	return n.cut([][2]int{{from, to}})
}

// Sever drops all between two nodes.
func (n *Network) Sever(one, other int) (heal func() error, err error) {
	return n.cut([][2]int{{one, other}, {other, one}})
}

// Isolate drops all between a node and the others.
func (n *Network) Isolate(node int) (heal func() error, err error) {
	return n.cut(append(n.ways(node, false), n.ways(node, true)...))
}

// Deafen drops all that the others send to a node, which they go on hearing; Mute the reverse.
func (n *Network) Deafen(node int) (heal func() error, err error) { return n.cut(n.ways(node, true)) }

// Mute drops all that a node sends to the others.
func (n *Network) Mute(node int) (heal func() error, err error) { return n.cut(n.ways(node, false)) }

// ways are those from a node to all others, or to it.
func (n *Network) ways(node int, to bool) (ws [][2]int) {
	for other := range n.nodes {
		switch {
		case other == node:
		case to:
			ws = append(ws, [2]int{other, node})
		default:
			ws = append(ws, [2]int{node, other})
		}
	}
	return ws
}

func (n *Network) cut(ways [][2]int) (heal func() error, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var done [][2]int
	for _, w := range ways {
		if n.cuts[w] == 0 {
			if err = n.rule("add", w[0], w[1]); err != nil {
				break
			}
		}
		n.cuts[w]++
		done = append(done, w)
	}
	heal = sync.OnceValue(func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		var err error
		for _, w := range done {
			if n.cuts[w]--; n.cuts[w] == 0 {
				err = errors.Join(err, n.rule("del", w[0], w[1]))
			}
		}
		return err
	})
	if err != nil {
		n.mu.Unlock()
		err = errors.Join(err, heal())
		n.mu.Lock()
	}
	return heal, err
}

// Close removes the namespaces and with them all links. The processes in them must have ended.
func (n *Network) Close() error {
	var err error
	text, listErr := exec.Command("ip", "netns", "list").Output()
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name, n.name) {
			err = errors.Join(err, ip("netns", "del", name))
		}
	}
	// The links go with the namespaces, a moment later. Only then may the number be given to another network.
	for i := range n.nodes {
		ip("link", "del", fmt.Sprintf("plg%d-%d", n.id, i)) //nolint:errcheck // it may be gone already
	}
	return errors.Join(listErr, err, n.held.Close())
}
