// The command clients runs client programs in several languages against a broker and tells what passed: `make conformance`.
//
// Each program is a folder's file beside this one (python/pika_client.py, node/kafkajs_client.js, tools/kcat.sh ...). It gets addresses in its environment
// (AMQP_ADDRESS, KAFKA_ADDRESS, NAME_PREFIX), checks what its client library can do, and prints one line per check, `ok NAME` or `FAIL NAME: why`. The programs know
// nothing of Polylog: with -peers they run against RabbitMQ and Apache Kafka, which is how one sees that a check asks for the right thing. Only those called
// crossing, which use both protocols on one log, need a Polylog.
//
// scripts/clients.sh installs what the programs need. This command starts the broker itself, unless addresses are given, and holds it to more: it must still run in the end,
// stop in order, and leave a log in which `polylog check` finds nothing wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"polylog/e2e/harness"
)

func main() {
	var o options
	flag.StringVar(&o.amqp, "amqp", "", "serve AMQP checks from the broker at this `ADDRESS` instead of starting one")
	flag.StringVar(&o.kafka, "kafka", "", "serve Kafka checks from the broker at this `ADDRESS` instead of starting one")
	flag.BoolVar(&o.crossing, "crossing", false, "with -amqp and -kafka: they are one Polylog, so run the checks that cross as well")
	flag.BoolVar(&o.peers, "peers", false, "run against RabbitMQ and Apache Kafka, which are started, to see that the checks are right")
	flag.StringVar(&o.only, "only", "", "run only the programs whose name contains this `WORD`")
	flag.IntVar(&o.jobs, "jobs", 3, "how many programs run at once")
	flag.Parse()
	o.checks = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	amqp, kafka     string
	crossing, peers bool
	only            string
	jobs            int
	checks          []string // words: only checks whose name contains one
}

// program is a client program.
type program struct {
	name  string
	needs need
	argv  []string // argv[0] from the root of the project
}

// need is what a program must have an address for.
type need int

const (
	needAMQP need = 1 << iota
	needKafka
	needOneLog // the two addresses are views of one log
)

const (
	python = "bin/clients/python/bin/python"
	node   = "node"
	bash   = "bash"
)

// programs are in the order in which they are started: those that take longest first, so that all end together.
var programs = []program{
	{"kafka's tools", needKafka, []string{bash, "e2e/clients/java/kafka_tools.sh"}},
	{"kafkajs", needKafka, []string{node, "e2e/clients/node/kafkajs_client.js"}},
	{"confluent-kafka", needKafka, []string{python, "e2e/clients/python/confluent_client.py"}},
	{"pika", needAMQP, []string{python, "e2e/clients/python/pika_client.py"}},
	{"kcat", needKafka, []string{bash, "e2e/clients/tools/kcat.sh"}},
	{"kafka-python", needKafka, []string{python, "e2e/clients/python/kafka_python_client.py"}},
	{"amqplib", needAMQP, []string{node, "e2e/clients/node/amqplib_client.js"}},
	{"aio-pika", needAMQP, []string{python, "e2e/clients/python/aio_pika_client.py"}},
	{"amqp-tools", needAMQP, []string{bash, "e2e/clients/tools/amqp_tools.sh"}},
	{"crossing: pika, confluent-kafka", needAMQP | needKafka | needOneLog, []string{python, "e2e/clients/python/crossing.py"}},
	{"crossing: amqplib, kafkajs", needAMQP | needKafka | needOneLog, []string{node, "e2e/clients/node/crossing.js"}},
	{"crossing: amqp-tools, kcat", needAMQP | needKafka | needOneLog, []string{bash, "e2e/clients/tools/crossing.sh"}},
}

// overRestart runs before the broker is restarted and after, with PHASE in its environment.
var overRestart = program{"restart: pika, confluent-kafka", needAMQP | needKafka | needOneLog, []string{python, "e2e/clients/python/restart.py"}}

// programLimit is how long a program may take. The longest needs a minute on two busy cores.
const programLimit = 4 * time.Minute

// run runs the programs that the options name and reports whether all checks passed.
func run(ctx context.Context, o options) (ok bool, err error) {
	root, err := harness.Root()
	if err != nil {
		return false, err
	}
	s := &suite{root: root, options: o, report: newReport(os.Stdout), prefix: fmt.Sprintf("check%d", os.Getpid())}
	end, err := s.start()
	if err != nil {
		return false, err
	}
	s.runAll(ctx)
	if s.broker != nil && strings.Contains(overRestart.name, o.only) {
		s.restart(ctx)
	}
	end()
	return s.report.close(), ctx.Err()
}

// suite is one run.
type suite struct {
	root    string
	options options
	report  *report
	prefix  string // begins all names that the programs make

	amqp, kafka string
	has         need
	broker      *harness.Broker // if it was started here
}

// start has the brokers run. The function it returns ends them, and reports how that went.
func (s *suite) start() (end func(), err error) {
	o := s.options
	switch {
	case o.peers:
		return s.startPeers()
	case o.amqp != "" || o.kafka != "":
		s.amqp, s.kafka = o.amqp, o.kafka
		if o.amqp != "" {
			s.has |= needAMQP
		}
		if o.kafka != "" {
			s.has |= needKafka
		}
		if o.crossing {
			s.has |= needOneLog
		}
		return func() {}, nil
	}
	b, err := harness.Launch(harness.Options{})
	if err != nil {
		return nil, err
	}
	s.amqp, s.kafka, s.has = b.AMQP, b.Kafka, needAMQP|needKafka|needOneLog
	s.broker = b
	return func() { s.endBroker(b) }, nil
}

func (s *suite) startPeers() (end func(), err error) {
	rabbit, err := harness.LaunchRabbitMQ()
	if err != nil {
		return nil, err
	}
	kafka, err := harness.LaunchKafka()
	if err != nil {
		return nil, errors.Join(err, rabbit.Close())
	}
	fmt.Printf("against RabbitMQ %s and Apache Kafka %s\n", rabbit.Version, kafka.Version)
	s.amqp, s.kafka, s.has = rabbit.Address, kafka.Address, needAMQP|needKafka
	return func() {
		s.report.check("RabbitMQ", "it ends", rabbit.Close(), 0)
		s.report.check("Kafka", "it ends", kafka.Close(), 0)
	}, nil
}

// endBroker holds the broker to what it owes after all programs have run.
func (s *suite) endBroker(b *harness.Broker) {
	began := time.Now()
	var err error
	if b.Ended() {
		err = errors.New("it ended by itself")
	}
	s.report.check("polylog", "it still runs after all of this", err, 0)
	err = b.Stop()
	s.report.check("polylog", "it ends in order when it is told to", err, time.Since(began))
	began = time.Now()
	binary, err := harness.Binary()
	if err == nil {
		var text []byte
		if text, err = exec.Command(binary, "check", b.Dir).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, text)
		}
	}
	s.report.check("polylog", "polylog check finds nothing wrong in its log", err, time.Since(began))
	if s.report.failed > 0 {
		fmt.Print(b.Log())
	}
	if err := b.Close(); err != nil {
		fmt.Println(err)
	}
}

// runAll runs the programs, a few at a time.
func (s *suite) runAll(ctx context.Context) {
	slots := make(chan struct{}, max(1, s.options.jobs))
	var wg sync.WaitGroup
	for _, p := range programs {
		if !strings.Contains(p.name, s.options.only) || p.needs&^s.has != 0 {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s.runProgram(ctx, p)
		})
	}
	wg.Wait()
}

// restart stops the broker in order, then kills it, and sees what is left each time.
func (s *suite) restart(ctx context.Context) {
	for _, how := range []struct {
		name string
		end  func() error
	}{{"stopped", s.broker.Stop}, {"killed", s.broker.Kill}} {
		p := overRestart
		p.name += ", " + how.name
		prefix := "NAME_PREFIX=" + s.prefix + "." + how.name
		s.runProgram(ctx, p, "PHASE=before", prefix)
		began := time.Now()
		err := how.end()
		if err == nil {
			err = s.broker.Start()
		}
		s.report.check("polylog", "it starts again after it was "+how.name, err, time.Since(began))
		if err != nil {
			return
		}
		s.runProgram(ctx, p, "PHASE=after", prefix)
	}
}

// runProgram runs one and reports its checks. env is added to its environment.
func (s *suite) runProgram(ctx context.Context, p program, env ...string) {
	ctx, cancel := context.WithTimeoutCause(ctx, programLimit, fmt.Errorf("not done within %v", programLimit))
	defer cancel()
	argv := append(p.argv[:len(p.argv):len(p.argv)], s.options.checks...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "AMQP_ADDRESS="+s.amqp, "KAFKA_ADDRESS="+s.kafka, "NAME_PREFIX="+s.prefix,
		"NODE_PATH="+filepath.Join(s.root, "bin/clients/node/node_modules"), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Env = append(cmd.Env, env...)
	// A group of its own, since programs have children that must go with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	lines := s.report.lines(p.name)
	var aside tail
	cmd.Stdout, cmd.Stderr = lines, &aside
	err := cmd.Run()
	seen, failed := lines.end()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	switch {
	case err != nil && failed == 0:
		s.report.check(p.name, "the program ends well", fmt.Errorf("%w: %s", err, aside.text()), 0)
	case err == nil && seen == 0 && len(s.options.checks) == 0:
		s.report.check(p.name, "the program checks something", fmt.Errorf("it printed no check: %s", aside.text()), 0)
	}
}
