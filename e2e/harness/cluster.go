package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ClusterOptions say how a cluster is started. The zero value is three nodes on the loopback.
type ClusterOptions struct {
	Nodes int      // how many; 0: three
	Apart bool     // each in a network namespace of its own, where that is possible
	Idle  bool     // the nodes are not started
	Args  []string // further arguments of polylog serve, for all
	Env   []string // further environment, for all
}

// Cluster is some polylog processes that are one broker.
type Cluster struct {
	Nodes []*Broker // n1, n2 and so on
	Seeds []string  // where they reach each other
	Net   *Network  // nil: they are on the loopback, and nothing can be cut
	Alone error     // why Net is nil although it was asked for

	options ClusterOptions
	temp    string
}

// ClusterSecret is what all nodes of a cluster share (cluster.secret).
const ClusterSecret = "only-for-this-test"

// logsVar, in the environment, names a folder to which all that the nodes of clusters print is copied, with what their goroutines did if the test
// failed.
const logsVar = "E2E_LOGS"

// LaunchCluster starts a cluster and waits until all nodes serve. Close ends it.
func LaunchCluster(o ClusterOptions) (_ *Cluster, err error) {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	c := &Cluster{options: o}
	if c.temp, err = os.MkdirTemp("", "polylog-e2e-"); err != nil {
		return nil, err
	}
	if o.Apart {
		c.Net, c.Alone = NewNetwork()
	}
	places := make([]place, o.Nodes)
	for i := range places {
		if places[i], err = c.place(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		_, port, err := freeAddressOf(places[i].cluster)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Seeds = append(c.Seeds, net.JoinHostPort(places[i].cluster, port))
	}
	for i, p := range places {
		b, err := c.node("n"+strconv.Itoa(i+1), p, c.Seeds[i])
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Nodes = append(c.Nodes, b)
	}
	if o.Idle {
		return c, nil
	}
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// place returns where the next node runs.
func (c *Cluster) place() (place, error) {
	if c.Net != nil {
		return c.Net.add()
	}
	return place{"", "127.0.0.1", "127.0.0.1"}, nil
}

func freeAddressOf(host string) (address, port string, err error) {
	p, err := FreePort()
	port = strconv.Itoa(p)
	return net.JoinHostPort(host, port), port, err
}

// node prepares a node that is not started yet.
func (c *Cluster) node(name string, p place, address string) (*Broker, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(c.temp, name+"-")
	if err != nil {
		return nil, err
	}
	b := &Broker{
		Name: name, Cluster: address, Dir: filepath.Join(temp, "data"), temp: temp, logFile: filepath.Join(temp, "log"),
		env: append([]string{"POLYLOG_CLUSTER_SECRET=" + ClusterSecret}, c.options.Env...),
	}
	if p.space != "" {
		b.prefix = []string{"ip", "netns", "exec", p.space}
		b.env = append(b.env, "POLYLOG_USERS=[{name: guest, password: guest, loopback_only: false}]") // the test comes from elsewhere
	}
	for _, a := range []*string{&b.AMQP, &b.Kafka, &b.HTTP} {
		if *a, _, err = freeAddressOf(p.client); err != nil {
			return nil, err
		}
	}
	b.args = append([]string{
		binary, "serve", "--node", name, "--data", b.Dir, "--cluster", address, "--seeds", strings.Join(c.Seeds, ","),
		"--amqp", b.AMQP, "--kafka", b.Kafka, "--http", b.HTTP,
	}, c.options.Args...)
	return b, nil
}

// Add prepares one more node, which is not started.
func (c *Cluster) Add(name string) (*Broker, error) {
	b, err := c.Aside(name)
	if err == nil {
		c.Nodes = append(c.Nodes, b)
	}
	return b, err
}

// Aside prepares a node that is not to be counted with the others, of any name. env is further environment. Who asks for it closes it.
func (c *Cluster) Aside(name string, env ...string) (*Broker, error) {
	p, err := c.place()
	if err != nil {
		return nil, err
	}
	address, _, err := freeAddressOf(p.cluster)
	if err != nil {
		return nil, err
	}
	b, err := c.node(name, p, address)
	if err != nil {
		return nil, err
	}
	b.env = append(b.env, env...)
	return b, nil
}

// Single makes the node the only one, without a cluster, or ends that, for its next starts.
func (b *Broker) Single(is bool) {
	at := slices.Index(b.args, "--cluster")
	switch {
	case is && at >= 0: // --cluster ADDRESS --seeds LIST
		b.apart = slices.Clone(b.args[at : at+4])
		b.args = slices.Delete(slices.Clone(b.args), at, at+4)
	case !is && at < 0:
		b.args = append(b.args, b.apart...)
	}
}

// Start starts all nodes that do not run, and waits until all serve.
func (c *Cluster) Start() error {
	for _, b := range c.Nodes {
		if b.process() == nil || b.Ended() {
			if err := b.Begin(); err != nil {
				return err
			}
		}
	}
	return c.AwaitReady()
}

// AwaitReady waits until all nodes serve.
func (c *Cluster) AwaitReady() error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, b := range c.Nodes {
		wg.Go(func() { errs[i] = b.AwaitReady() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// AwaitWhole waits until all nodes serve, and each says that all of them are live members in the same epochs: a node that was declared gone and has not heard of it yet serves
// too, but is about to begin anew.
func (c *Cluster) AwaitWhole(limit time.Duration) (epochs map[string]uint64, err error) {
	return epochs, Await(limit, "all nodes to be live members", func() error {
		epochs = map[string]uint64{}
		for _, b := range c.Nodes {
			if err := b.Ready(); err != nil {
				return fmt.Errorf("%s: %w", b.Name, err)
			}
			s, err := b.Status()
			if err != nil {
				return fmt.Errorf("%s: %w", b.Name, err)
			}
			epochs[b.Name] = s.Epoch
		}
		for _, b := range c.Nodes {
			s, err := b.Status()
			if err != nil {
				return fmt.Errorf("%s: %w", b.Name, err)
			}
			live := 0
			for _, m := range s.Members {
				if m.Live && m.Epoch == epochs[m.Name] {
					live++
				}
			}
			if live != len(c.Nodes) || s.Leader == "" {
				return fmt.Errorf("%s knows of %d live nodes, and says that '%s' leads: %+v", b.Name, live, s.Leader, s.Members)
			}
		}
		return nil
	})
}

// Close ends all nodes at once and removes what was temporary.
func (c *Cluster) Close() error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, b := range c.Nodes {
		wg.Go(func() { errs[i] = b.Close() })
	}
	wg.Wait()
	if c.Net != nil {
		errs = append(errs, c.Net.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(c.temp))...)
}

// ClusterStatus is what a node says of the cluster.
type ClusterStatus struct {
	Node        string
	Epoch       uint64
	Leader      string // the node that leads
	Unavailable string // why the node takes no writes
	Members     []struct {
		Name   string
		Epoch  uint64
		Live   bool
		Left   bool
		ID     int32
		Server string
		Lag    uint64
	}
	Order struct {
		First, Last, Bytes uint64
		Leader             string // the server that leads the order: the node's name, and more
		Behind             []string
		Error              string
	}
}

// Status asks the node for what it knows of the cluster.
func (b *Broker) Status() (s ClusterStatus, err error) { return s, b.ask("/cluster", &s) }

// StateHash is the hash of a node's state after a number of steps.
type StateHash struct {
	Seq  uint64
	Hash string
}

// StateHash asks the node for the hash of its state.
func (b *Broker) StateHash() (h StateHash, err error) { return h, b.ask("/cluster/hash", &h) }

// ask asks the node's HTTP listener for JSON.
func (b *Broker) ask(path string, into any) error {
	res, err := direct.Get("http://" + b.HTTP + path)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s of %s: %s: %s", path, b.Name, res.Status, text)
	}
	return json.Unmarshal(text, into)
}

// AwaitEqual waits until all nodes that run have come equally far and have the same state. Two that are equally far and differ are an error at once.
func (c *Cluster) AwaitEqual(limit time.Duration) error {
	var differ error
	err := Await(limit, "equal state on all nodes", func() error {
		first := map[uint64]string{} // sequence -> a node with its hash
		for _, b := range c.Nodes {
			if b.process() == nil || b.Ended() {
				continue
			}
			h, err := b.StateHash()
			if err != nil {
				return err
			}
			said := b.Name + " has " + h.Hash
			for seq, other := range first {
				if seq != h.Seq {
					return fmt.Errorf("%s is at %d, and %s at %d", b.Name, h.Seq, other, seq)
				}
				if !strings.HasSuffix(other, " "+h.Hash) {
					differ = fmt.Errorf("after %d, %s and %s", seq, other, said)
					return nil
				}
			}
			first[h.Seq] = said
		}
		return nil
	})
	return errors.Join(err, differ)
}

// StartCluster starts a cluster for a test. It is ended with the test; if the test failed, what the nodes printed is shown.
func StartCluster(t T, o ClusterOptions) *Cluster {
	t.Helper()
	c, err := LaunchCluster(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if c.Alone != nil {
		t.Logf("the nodes share the loopback, so that nothing can be cut: %v", c.Alone)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, b := range c.Nodes {
				if b.process() != nil {
					t.Logf("%s", b.Log())
				}
			}
		}
		c.keepLogs(t)
		if err := c.Close(); err != nil {
			t.Errorf("ending the cluster: %v", err)
		}
	})
	return c
}

// keepLogs copies all that the nodes printed to where the environment says, and what their goroutines were doing.
func (c *Cluster) keepLogs(t T) {
	dir := os.Getenv(logsVar)
	if dir == "" {
		return
	}
	for _, b := range c.Nodes {
		if p := b.process(); t.Failed() && p != nil && !p.ended() {
			b.Resume()                                               //nolint:errcheck // it tells what it can
			p.signal(syscall.SIGQUIT)                                //nolint:errcheck // likewise
			Await(stopLimit, "the stacks of "+b.Name, func() error { //nolint:errcheck // likewise
				if !p.ended() {
					return errors.New("it has not ended")
				}
				return nil
			})
		}
	}
	to, err := os.MkdirTemp(dir, "cluster-")
	for i, b := range c.Nodes {
		if text, readErr := os.ReadFile(b.logFile); readErr == nil {
			err = errors.Join(err, os.WriteFile(filepath.Join(to, fmt.Sprint(i+1, "-", b.Name)), text, 0o600))
		}
	}
	t.Logf("all that the nodes printed is in %s (%v)", to, err)
}
