package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

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
	c, err := launchKafkas(1, "-Xmx1g", config)
	if err != nil {
		return nil, err
	}
	p := c.Nodes[0]
	p.temp = c.temp
	return p, nil
}

// LaunchKafkaCluster starts some Kafkas that are one broker, each a controller too, and waits until all serve and know each other. What is made has a copy on each, up
// to three, of which one may be missing when something is written.
func LaunchKafkaCluster(nodes int, config ...string) (*PeerCluster, error) {
	return launchKafkas(nodes, "-Xmx512m", config)
}

func launchKafkas(nodes int, heap string, config []string) (*PeerCluster, error) {
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
	c := &PeerCluster{Name: "Kafka", temp: temp}
	if jars, err := filepath.Glob(filepath.Join(filepath.Dir(classpath), "kafka-clients-*.jar")); err == nil && len(jars) > 0 {
		c.Version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "kafka-clients-"), ".jar")
	}
	voters := make([]string, nodes)
	for i := range voters {
		if voters[i], err = FreeAddress(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	started := make([]*Peer, nodes)
	errs := make([]error, nodes)
	var wg sync.WaitGroup
	for i := range nodes { // at once: none serves before most are there
		wg.Go(func() {
			at := filepath.Join(temp, strconv.Itoa(i+1))
			started[i] = &Peer{Name: c.Name, Version: c.Version, Dir: filepath.Join(at, "data"), temp: at}
			errs[i] = started[i].startKafka([]string{java, heap}, classpath, i, voters, config)
		})
	}
	wg.Wait()
	for _, p := range started {
		if p.main != nil {
			c.Nodes = append(c.Nodes, p)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

const kafkaLogging = `status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
`

// startKafka starts the node of that index among the voters, which are the addresses of the controllers.
func (p *Peer) startKafka(java []string, classpath string, index int, voters, config []string) error {
	var err error
	if p.Address, err = FreeAddress(); err != nil {
		return err
	}
	if err := os.Mkdir(p.temp, 0o700); err != nil {
		return err
	}
	properties := filepath.Join(p.temp, "server.properties")
	logging := filepath.Join(p.temp, "log4j2.properties")
	quorum := make([]string, len(voters))
	for i, v := range voters {
		quorum[i] = fmt.Sprintf("%d@%s", i+1, v)
	}
	// A single node cannot hold the copies that the defaults ask for; in a cluster they are what is recommended: one may be missing.
	copies := min(len(voters), 3)
	inSync := max(copies-1, 1)
	lines := []string{
		"process.roles=broker,controller", fmt.Sprintf("node.id=%d", index+1), "controller.quorum.voters=" + strings.Join(quorum, ","),
		"listeners=PLAINTEXT://" + p.Address + ",CONTROLLER://" + voters[index], "advertised.listeners=PLAINTEXT://" + p.Address,
		"controller.listener.names=CONTROLLER", "log.dirs=" + p.Dir,
		fmt.Sprintf("default.replication.factor=%d", copies), fmt.Sprintf("min.insync.replicas=%d", inSync),
		// Groups form at once: tests wait for nothing.
		"group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4",
		fmt.Sprintf("offsets.topic.replication.factor=%d", copies),
	}
	for _, state := range []string{"transaction.state.log", "share.coordinator.state.topic"} {
		lines = append(lines, fmt.Sprintf("%s.replication.factor=%d", state, copies), fmt.Sprintf("%s.min.isr=%d", state, inSync))
	}
	for name, text := range map[string]string{properties: strings.Join(append(lines, config...), "\n") + "\n", logging: kafkaLogging} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	const cluster = "cG9seWxvZ3BlZXIwMDAwMQ" // any 16 bytes in base64
	run := append(append([]string{}, java...), "-Dlog4j2.configurationFile="+logging, "-cp", classpath)
	format := exec.Command(run[0], append(run[1:len(run):len(run)], "kafka.tools.StorageTool", "format", "-t", cluster, "-c", properties)...)
	if text, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("formatting Kafka's storage: %w\n%s", err, text)
	}
	if p.main, err = startProcess("Kafka", filepath.Join(p.temp, "out"), nil, append(run, "kafka.Kafka", properties)); err != nil {
		return err
	}
	return p.main.awaitReady(peerReadyLimit, func() error { return speaksKafka(p.Address, len(voters)) })
}

// speaksKafka asks for the metadata of no topic (request 3 version 1): a Kafka that is still starting answers a request for the versions, but not that it has a
// broker, and one of a cluster names only those that it knows.
func speaksKafka(address string, brokers int) error {
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
	if correlation, n := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:]); correlation != 7 || n != uint32(brokers) {
		return fmt.Errorf("%s answers %x, which names %d brokers; there should be %d", address, head, n, brokers)
	}
	return nil
}
