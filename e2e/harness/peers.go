package harness

import (
	"bytes"
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

// rabbitScripts matches where distributions put RabbitMQ's own scripts. The ones in PATH change the user and the folder.
const rabbitScripts = "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"

// LaunchRabbitMQ starts a RabbitMQ with default settings (guest/guest, vhost /) on a free port, and waits until it serves. It is a node of its own: no other
// RabbitMQ on this machine is touched. config is added to its configuration file, in RabbitMQ's "new style"; a line that configures the management plugin turns it on.
func LaunchRabbitMQ(config ...string) (*Peer, error) {
	found, err := filepath.Glob(rabbitScripts)
	if err != nil || len(found) == 0 {
		return nil, &NotInstalledError{"RabbitMQ", rabbitScripts}
	}
	script := found[len(found)-1]
	epmd, err := exec.LookPath("epmd")
	if err != nil {
		return nil, &NotInstalledError{"RabbitMQ", "epmd"}
	}
	temp, err := os.MkdirTemp("", "polylog-rabbitmq-")
	if err != nil {
		return nil, err
	}
	p := &Peer{Name: "RabbitMQ", Dir: filepath.Join(temp, "data"), temp: temp}
	_, p.Version, _ = strings.Cut(filepath.Base(filepath.Dir(filepath.Dir(script))), "-")
	if err := p.startRabbitMQ(script, epmd, config); err != nil {
		for _, a := range p.aside {
			err = errors.Join(err, a.kill())
		}
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	return p, nil
}

func (p *Peer) startRabbitMQ(script, epmd string, config []string) error {
	var numbers [3]int
	for i := range numbers {
		n, err := FreePort()
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	amqp, dist, mapper := strconv.Itoa(numbers[0]), strconv.Itoa(numbers[1]), strconv.Itoa(numbers[2])
	p.Address = net.JoinHostPort("127.0.0.1", amqp)
	conf := append([]string{"listeners.tcp.default = " + p.Address, "loopback_users.guest = true", "log.file.level = warning"}, config...)
	plugins := "[].\n"
	if slices.ContainsFunc(config, func(line string) bool { return strings.HasPrefix(line, "management.") }) {
		plugins = "[rabbitmq_management].\n"
	}
	files := map[string]string{"rabbitmq.conf": strings.Join(conf, "\n") + "\n", "enabled_plugins": plugins, "env.conf": ""}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(p.temp, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	// Erlang's port mapper would be started as a daemon that stays. One of our own, as a child, is there before.
	env := []string{"ERL_EPMD_PORT=" + mapper, "ERL_EPMD_ADDRESS=127.0.0.1", "HOME=" + p.temp}
	e, err := startProcess("epmd", filepath.Join(p.temp, "epmd.log"), env, []string{epmd, "-port", mapper, "-address", "127.0.0.1"})
	if err != nil {
		return err
	}
	p.aside = append(p.aside, e)
	if err := e.awaitReady(peerReadyLimit, func() error { return dialable(net.JoinHostPort("127.0.0.1", mapper)) }); err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(p.temp, name) }
	env = append(env,
		"RABBITMQ_NODENAME=polylog-peer-"+amqp+"@localhost", "RABBITMQ_DIST_PORT="+dist,
		"RABBITMQ_MNESIA_BASE="+p.Dir, "RABBITMQ_LOG_BASE="+at("log"), "RABBITMQ_CONF_ENV_FILE="+at("env.conf"),
		"RABBITMQ_CONFIG_FILE="+at("rabbitmq"), "RABBITMQ_ENABLED_PLUGINS_FILE="+at("enabled_plugins"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}", "RABBITMQ_PID_FILE="+at("pid"),
	)
	if p.main, err = startProcess("RabbitMQ", at("out"), env, []string{script}); err != nil {
		return err
	}
	return p.main.awaitReady(peerReadyLimit, func() error { return speaksAMQP(p.Address) })
}

func dialable(address string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
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

// kafkaJars is where scripts/peers.sh puts Kafka, from the project's root.
const kafkaJars = "bin/peers/kafka"

// KafkaClasspath returns the class path of Kafka's own server and tools, as java -cp takes it.
func KafkaClasspath() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, filepath.FromSlash(kafkaJars))
	if found, err := filepath.Glob(filepath.Join(dir, "kafka-clients-*.jar")); err != nil || len(found) == 0 {
		return "", &NotInstalledError{"Kafka", dir}
	}
	return filepath.Join(dir, "*"), nil
}

// LaunchKafka starts an Apache Kafka of one node (KRaft, broker and controller in one) on a free port, and waits until it serves. config lines are added to its
// server.properties.
func LaunchKafka(config ...string) (*Peer, error) {
	classpath, err := KafkaClasspath()
	if err != nil {
		return nil, err
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, &NotInstalledError{"Kafka", "java"}
	}
	temp, err := os.MkdirTemp("", "polylog-kafka-")
	if err != nil {
		return nil, err
	}
	p := &Peer{Name: "Kafka", Dir: filepath.Join(temp, "data"), temp: temp}
	if jars, err := filepath.Glob(filepath.Join(filepath.Dir(classpath), "kafka-clients-*.jar")); err == nil && len(jars) > 0 {
		p.Version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "kafka-clients-"), ".jar")
	}
	if err := p.startKafka(java, classpath, config); err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	return p, nil
}

const kafkaLogging = `status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
`

func (p *Peer) startKafka(java, classpath string, config []string) error {
	var err error
	if p.Address, err = FreeAddress(); err != nil {
		return err
	}
	controller, err := FreeAddress()
	if err != nil {
		return err
	}
	properties := filepath.Join(p.temp, "server.properties")
	logging := filepath.Join(p.temp, "log4j2.properties")
	lines := append([]string{
		"process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@" + controller,
		"listeners=PLAINTEXT://" + p.Address + ",CONTROLLER://" + controller, "advertised.listeners=PLAINTEXT://" + p.Address,
		"controller.listener.names=CONTROLLER", "log.dirs=" + p.Dir,
		// One node cannot hold the copies that the defaults ask for.
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
		// Groups form at once: tests wait for nothing.
		"group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4",
	}, config...)
	for name, text := range map[string]string{properties: strings.Join(lines, "\n") + "\n", logging: kafkaLogging} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	const cluster = "cG9seWxvZ3BlZXIwMDAwMQ" // any 16 bytes in base64
	run := []string{java, "-Xmx1g", "-Dlog4j2.configurationFile=" + logging, "-cp", classpath}
	format := exec.Command(java, append(run[1:], "kafka.tools.StorageTool", "format", "-t", cluster, "-c", properties)...)
	if text, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("formatting Kafka's storage: %w\n%s", err, text)
	}
	if p.main, err = startProcess("Kafka", filepath.Join(p.temp, "out"), nil, append(run, "kafka.Kafka", properties)); err != nil {
		return err
	}
	return p.main.awaitReady(peerReadyLimit, func() error { return speaksKafka(p.Address) })
}

// speaksKafka asks for the versions (request 18 version 0), then for the metadata of no topic (request 3 version 1): a Kafka that is still starting answers
// the first but not that it has a broker.
func speaksKafka(address string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // what was wanted was read
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	metadata := []byte{0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 255, 255, 0, 0, 0, 0} // size, key 3, version 1, correlation 7, no client id, no topics
	if _, err := c.Write(metadata); err != nil {
		return err
	}
	var head [12]byte // size, correlation, number of brokers
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	if !bytes.Equal(head[4:8], []byte{0, 0, 0, 7}) || bytes.Equal(head[8:], []byte{0, 0, 0, 0}) {
		return fmt.Errorf("%s answers %x, which names no broker", address, head)
	}
	return nil
}
