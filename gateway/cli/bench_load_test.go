package cli

import (
	"net"
	"strings"
	"testing"
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
	for _, args := range []string{"amqp -url amqp://" + nobody, "kafka -patience 2s -broker " + nobody} {
		code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, append([]string{"bench"}, strings.Fields(args)...)) })
		if code != ExitFailed || stdout != "" || !strings.Contains(stderr, nobody) || !strings.Contains(stderr, "connection refused") {
			t.Errorf("polylog bench %s: exit status %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
