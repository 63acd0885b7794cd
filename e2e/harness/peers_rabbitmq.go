package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rabbitScripts matches where distributions put RabbitMQ's own scripts. The ones in PATH change the user and the folder.
const rabbitScripts = "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"

// LaunchRabbitMQ starts a RabbitMQ with default settings (guest/guest, vhost /) on a free port, and waits until it serves. It is a node of its own: no other
// RabbitMQ on this machine is touched. config is added to its configuration file, in RabbitMQ's "new style"; a line that configures the management plugin turns it on.
func LaunchRabbitMQ(config ...string) (*Peer, error) {
	h, err := newHutch()
	if err != nil {
		return nil, err
	}
	n, err := h.place()
	if err == nil {
		err = n.start(config)
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	n.peer.aside, n.peer.temp = []*process{h.mapper}, h.temp
	return n.peer, nil
}

// LaunchRabbitMQCluster starts some RabbitMQs that are one broker, as LaunchRabbitMQ starts one, and waits until all serve and know each other.
func LaunchRabbitMQCluster(nodes int, config ...string) (*PeerCluster, error) {
	h, err := newHutch()
	if err != nil {
		return nil, err
	}
	c := &PeerCluster{Name: "RabbitMQ", Version: h.version, aside: []*process{h.mapper}, temp: h.temp}
	var first *rabbit
	for i := range nodes {
		n, err := h.place()
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		lines := config
		if i == 0 {
			first = n
		} else {
			// One after the other: those that start at once may each begin a cluster. The first is there, so the others join it.
			lines = append(slices.Clone(config), "cluster_formation.peer_discovery_backend = classic_config",
				"cluster_formation.classic_config.nodes.1 = "+first.name, "cluster_formation.classic_config.nodes.2 = "+n.name,
				"cluster_formation.randomized_startup_delay_range.min = 0", "cluster_formation.randomized_startup_delay_range.max = 0")
		}
		if err := n.start(lines); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Nodes = append(c.Nodes, n.peer)
	}
	if err := first.awaitNodes(nodes); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// hutch is what some RabbitMQs share: a folder, in which they find their cookie as well, and Erlang's port mapper.
type hutch struct {
	script, version, temp string
	env                   []string
	mapper                *process
}

func newHutch() (*hutch, error) {
	found, err := filepath.Glob(rabbitScripts)
	if err != nil || len(found) == 0 {
		return nil, &NotInstalledError{"RabbitMQ", rabbitScripts}
	}
	h := &hutch{script: found[len(found)-1]}
	_, h.version, _ = strings.Cut(filepath.Base(filepath.Dir(filepath.Dir(h.script))), "-")
	epmd, err := exec.LookPath("epmd")
	if err != nil {
		return nil, &NotInstalledError{"RabbitMQ", "epmd"}
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	if h.temp, err = os.MkdirTemp("", "polylog-rabbitmq-"); err != nil {
		return nil, err
	}
	// Erlang's port mapper would be started as a daemon that stays. One of our own, as a child, is there before.
	mapper := strconv.Itoa(port)
	h.env = []string{"ERL_EPMD_PORT=" + mapper, "ERL_EPMD_ADDRESS=127.0.0.1", "HOME=" + h.temp}
	h.mapper, err = startProcess("epmd", filepath.Join(h.temp, "epmd.log"), h.env, []string{epmd, "-port", mapper, "-address", "127.0.0.1"})
	if err == nil {
		err = h.mapper.awaitReady(peerReadyLimit, func() error { return dialable(net.JoinHostPort("127.0.0.1", mapper)) })
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *hutch) close() error {
	var err error
	if h.mapper != nil {
		err = h.mapper.kill()
	}
	return errors.Join(err, os.RemoveAll(h.temp))
}

// rabbit is a RabbitMQ that has a name and ports, and runs after start.
type rabbit struct {
	h     *hutch
	peer  *Peer
	name  string // as Erlang knows it
	ports [2]string
	env   []string
}

// place returns a RabbitMQ that is not started yet.
func (h *hutch) place() (*rabbit, error) {
	n := &rabbit{h: h}
	for i := range n.ports {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		n.ports[i] = strconv.Itoa(port)
	}
	n.name = "polylog-peer-" + n.ports[0] + "@localhost"
	temp := filepath.Join(h.temp, n.ports[0])
	n.peer = &Peer{Name: "RabbitMQ", Version: h.version, Address: net.JoinHostPort("127.0.0.1", n.ports[0]), Dir: filepath.Join(temp, "data"), temp: temp}
	return n, os.Mkdir(temp, 0o700)
}

func (n *rabbit) at(name string) string { return filepath.Join(n.peer.temp, name) }

// onLoopback keeps Erlang's connections between nodes, and with its tools, from being offered to the network.
const onLoopback = "-kernel inet_dist_use_interface {127,0,0,1}"

func (n *rabbit) start(config []string) (err error) {
	p := n.peer
	conf := append([]string{"listeners.tcp.default = " + p.Address, "loopback_users.guest = true", "log.file.level = warning"}, config...)
	plugins := "[].\n"
	if slices.ContainsFunc(config, func(line string) bool { return strings.HasPrefix(line, "management.") }) {
		plugins = "[rabbitmq_management].\n"
	}
	files := map[string]string{"rabbitmq.conf": strings.Join(conf, "\n") + "\n", "enabled_plugins": plugins, "env.conf": ""}
	for name, text := range files {
		if err := os.WriteFile(n.at(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	n.env = append(slices.Clone(n.h.env),
		"RABBITMQ_NODENAME="+n.name, "RABBITMQ_DIST_PORT="+n.ports[1],
		"RABBITMQ_MNESIA_BASE="+p.Dir, "RABBITMQ_LOG_BASE="+n.at("log"), "RABBITMQ_CONF_ENV_FILE="+n.at("env.conf"),
		"RABBITMQ_CONFIG_FILE="+n.at("rabbitmq"), "RABBITMQ_ENABLED_PLUGINS_FILE="+n.at("enabled_plugins"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+onLoopback, "RABBITMQ_CTL_ERL_ARGS="+onLoopback, "RABBITMQ_PID_FILE="+n.at("pid"),
	)
	if p.main, err = startProcess("RabbitMQ", n.at("out"), n.env, []string{n.h.script}); err != nil {
		return err
	}
	return p.main.awaitReady(peerReadyLimit, func() error { return speaksAMQP(p.Address) })
}

// awaitNodes waits until a cluster has so many nodes. One that could not join the others would serve alone, and look well.
func (n *rabbit) awaitNodes(count int) error {
	seconds := strconv.Itoa(int(peerReadyLimit.Seconds()))
	argv := []string{filepath.Join(filepath.Dir(n.h.script), "rabbitmqctl"), "await_online_nodes", strconv.Itoa(count), "--timeout", seconds}
	ctl, err := startProcess("rabbitmqctl", n.at("ctl"), n.env, argv)
	if err != nil {
		return err
	}
	if err := ctl.fate(); err != nil {
		return fmt.Errorf("waiting for %d nodes: %w\n%s", count, err, ctl.tail())
	}
	return nil
}

// speaksAMQP asks for the protocol and expects the server's first method.
func speaksAMQP(address string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // what was wanted was read
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return err
	}
	var start [7]byte
	if _, err := io.ReadFull(c, start[:]); err != nil {
		return err
	}
	if start[0] != 1 {
		return fmt.Errorf("%s answers %x, which is no method frame", address, start)
	}
	return nil
}
