package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"polylog/e2e/harness"
)

// polylogBench runs `polylog bench` against a broker and returns what it printed.
func polylogBench(t *testing.T, args ...string) []byte {
	t.Helper()
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"bench"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("polylog bench %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out
}

func TestBenchFindsEveryMessageOfTheBroker(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	amqp, kafka := "amqp -url amqp://"+b.AMQP+"/ -json ", "kafka -broker "+b.Kafka+" -json "
	for _, c := range []struct {
		args                              string
		confirmed, delivered, acknowledge int64
	}{
		{amqp + "-messages 3000", 3000, 3000, 3000},
		{amqp + "-messages 3000 -producers 3 -consumers 2 -queues 3 -prefetch 50 -multiple 20", 3000, 3000, 3000},
		{amqp + "-messages 1000 -producers 2 -consumers 3 -auto-ack -transient", 1000, 1000, 0},
		{amqp + "-messages 20 -size 300000 -confirm-window 3", 20, 20, 20}, // bodies of several frames
		{amqp + "-messages 100 -rate 1000 -consumers 0", 100, 0, 0},
		{kafka + "-messages 20000", 20000, 20000, 0},
		{kafka + "-messages 5000 -producers 3 -consumers 2 -partitions 4 -acks 1", 5000, 5000, 0},
		{kafka + "-messages 2000 -compression zstd -linger 1ms -acks 0", 2000, 2000, 0},
		{kafka + "-messages 2000 -consumers 2 -partitions 2 -group bench", 2000, 2000, 0},
		{kafka + "-messages 100 -rate 1000 -consumers 0", 100, 0, 0},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			var r struct {
				Broker                                                                   string
				Published, Confirmed, Delivered, Acknowledged, Duplicates, Missing, Left int64
				Seconds                                                                  float64
				CPU                                                                      float64 `json:"server_cpu_s"`
				Confirm                                                                  struct {
					P99 float64 `json:"p99_s"`
				} `json:"confirm_latency"`
				Memory int64 `json:"server_memory"`
			}
			out := polylogBench(t, strings.Fields(c.args)...)
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			wrong := r.Published != c.confirmed || r.Confirmed != c.confirmed || r.Delivered-r.Duplicates != c.delivered || r.Acknowledged != c.acknowledge ||
				r.Missing != 0 || r.Left > 0 && c.delivered > 0 || r.Seconds <= 0 || r.Confirm.P99 <= 0 || r.Memory < 1<<20
			if wrong || strings.HasPrefix(c.args, "amqp") && !strings.HasPrefix(r.Broker, "Polylog ") {
				t.Errorf("printed %s", out)
			}
		})
	}
}

func TestBenchComparesTwoBrokers(t *testing.T) {
	t.Parallel()
	a, b := harness.Start(t, harness.Options{}), harness.Start(t, harness.Options{})
	for _, args := range []string{
		"amqp -url amqp://" + a.AMQP + " -against amqp://" + b.AMQP + " -against-name other -messages 300 -rounds 1 -producers 1,2 -consumers 1,2 -target 0",
		"kafka -broker " + a.Kafka + " -against " + b.Kafka + " -against-name other -messages 300 -rounds 1 -producers 1,2 -consumers 1,2 -target 0",
	} {
		out := string(polylogBench(t, strings.Fields(args)...))
		for _, want := range []string{"\n1+1 rate ", "\n2+2 rate ", "\n2+2 steady deliver p99 ", " other "} {
			if !strings.Contains(out, want) {
				t.Errorf("polylog bench %s: no %q in\n%s", args, want, out)
			}
		}
	}
}
