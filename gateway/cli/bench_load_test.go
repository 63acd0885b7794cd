package cli

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"polylog/gateway/bench"
	"polylog/logstore/logbench"
)

func TestBenchOfBrokersRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, stderr string }{
		{"amqp now", `takes no arguments, got "now"`},
		{"amqp -producers x", `"x" is not a number`},
		{"amqp -producers 1,2", "-producers has 2 numbers and -consumers 1"},
		{"amqp -producers 1,2 -consumers 1,2", "a list of -producers goes with -against"},
		{"amqp -producers 1,20000 -consumers 1,1 -against amqp://localhost", "producers must be from 1 to 10000, not 20000"},
		{"amqp -producers 0", "without -producers there is nothing to measure"},
		{"amqp -json -markdown", "-json and -markdown exclude each other"},
		{"amqp -markdown", "-markdown goes with -against"},
		{"amqp -size 8", "the size must be from 32 to"},
		{"amqp -seconds -1", "must not be negative"},
		{"amqp -rounds 0", "-rounds must be 1 or more"},
		{"amqp -steady 2", "-steady must be from 0 to 1"},
		{"amqp -url localhost:5672", `"localhost:5672" is not of the form amqp://`},
		{"amqp -against http://localhost", `-against: "http://localhost" is not of the form amqp://`},
		{"amqp -prefetch 65536", "the prefetch must be from 0 to 65535, not 65536"},
		{"amqp -prefetch 10 -multiple 11", "11 messages cannot be acknowledged at once if only 10 are out"},
		{"amqp -multiple 0", "at least 1 message is acknowledged with a frame, not 0"},
		{"kafka -acks 2", `acks is one of all, 1 and 0, not "2"`},
		{"kafka -acks 1 -idempotent", "an idempotent producer needs acks=all, not 1"},
		{"kafka -compression br", "the compression is one of [none gzip snappy lz4 zstd]"},
		{"kafka -batch-bytes 3", "a batch of 3 bytes holds no record"},
		{"amqp -strict", "-strict goes with -against"},
		{"amqp -url amqp://localhost,localhost:5673", `"localhost:5673" is not of the form amqp://`},
		{"kafka -broker localhost", "a broker is given as host:port"},
		{"kafka -against localhost", "-against: a broker is given as host:port"},
		{"kafka -replicas 0", "or with -1 as many as the broker likes, not 0"},
		{"lag now", `takes no arguments, got "now"`},
		{"lag", "without a node to read from"},
		{"lag -reader a", "a broker is given as host:port"},
		{"lag -reader a:1 -broker b:1,c:1", "the node that acknowledges is one, not 2"},
		{"lag -reader a:1 -json -markdown", "-json and -markdown exclude each other"},
		{"lag -reader a:1 -rounds 0", "-rounds must be 1 or more"},
		{"lag -reader a:1 -seconds 0", "-seconds must be more than 0"},
		{"lag -reader a:1 -producers 0", "without -producers there is nothing to measure"},
		{"lag -reader a:1 -share 2", "the share must be above 0 and up to 1, not 2"},
		{"lag -reader a:1 -acks 1 -idempotent", "an idempotent producer needs acks=all, not 1"},
		{"mqtt", `unknown command "mqtt"`},
	} {
		code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, append([]string{"bench"}, strings.Fields(c.args)...)) })
		if code != ExitUsage || stdout != "" || !strings.Contains(stderr, c.stderr) {
			t.Errorf("polylog bench %s: exit status %d, stdout %q, stderr %q; want %q", c.args, code, stdout, stderr, c.stderr)
		}
	}
}

func TestBenchSaysWhichBrokerCannotBeReached(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"amqp -url amqp://" + nobody, "kafka -patience 2s -broker " + nobody, "lag -patience 2s -reader a:1 -broker " + nobody} {
		code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, append([]string{"bench"}, strings.Fields(args)...)) })
		if code != ExitFailed || stdout != "" || !strings.Contains(stderr, nobody) || !strings.Contains(stderr, "connection refused") {
			t.Errorf("polylog bench %s: exit status %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestBenchFailsForMissedTargetsIfItShould(t *testing.T) {
	t.Parallel()
	row := func(name string, measured, target float64, atMost bool) logbench.Row {
		return logbench.Row{Name: name, Measured: logbench.Figure{Value: measured}, Against: logbench.Figure{Value: 1}, Target: target, AtMost: atMost}
	}
	if err := missed([]logbench.Row{row("a", 2, 2, false), row("b", 9, 0, true), row("c", 1, 1, true)}); err != nil {
		t.Error(err)
	}
	err := missed([]logbench.Row{row("slow", 1.9, 2, false), row("fine", 3, 2, false), row("late", 1.1, 1, true)})
	if err == nil || err.Error() != "missed the target: slow, late" {
		t.Errorf("error is %v", err)
	}
}

func TestBenchLagSaysWhereTheLimitIsExceeded(t *testing.T) {
	t.Parallel()
	results := []bench.LagResult{{Reader: "a:1", Lag: bench.Latency{P99: 0.003}}, {Reader: "b:1", Lag: bench.Latency{P99: 0.004}}}
	if err := tooLong(results, 0); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	if err := tooLong(results, 4*time.Millisecond); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if err := tooLong(results, 3*time.Millisecond); err == nil || err.Error() != "the 99th percentile at b:1 is 4ms, longer than 3ms" {
		t.Errorf("error is %v", err)
	}
}

func TestBenchLagPrintsResultsInEachForm(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	at := c.ListenAddrs()[0]
	for _, form := range []struct{ flags, begins string }{
		{"", "acknowledged at "},
		{"-markdown", "| acknowledged at "},
		{"-json", "["},
		{"-acks 1 -limit 1h", "acknowledged at "},
	} {
		args := strings.Fields("bench lag -seconds 0.05 -rounds 1 -warmup 0 -broker " + at + " -reader " + at + " " + form.flags)
		code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, args) })
		if code != ExitOK || !strings.HasPrefix(stdout, form.begins) || !strings.Contains(stderr, "round 1 of 1") {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", form.flags, code, stdout, stderr)
		}
	}
}
