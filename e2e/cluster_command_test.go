package e2e

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"polylog/e2e/harness"
)

// polylogCluster runs `polylog cluster` with arguments, and returns what it printed and its exit status.
func polylogCluster(t testing.TB, args ...string) (out string, status int) {
	t.Helper()
	binary, err := harness.Binary()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"cluster"}, args...)...)
	cmd.Env = append(cmd.Environ(), "POLYLOG_CLUSTER_SECRET="+harness.ClusterSecret)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return b.String(), cmd.ProcessState.ExitCode()
}

// TestOperatorSeesAndChangesTheCluster goes through what `polylog cluster` does: status, the removal of a node that lives (refused) and of one that was stopped, and how one is added.
func TestOperatorSeesAndChangesTheCluster(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterOptions{})
	_, err := c.AwaitWhole(patience)
	must(t, err)
	first, last := c.Nodes[0], c.Nodes[2]
	says := func(want int, words []string, args ...string) {
		t.Helper()
		out, status := polylogCluster(t, args...)
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("polylog cluster %s does not say %q:\n%s", strings.Join(args, " "), w, out)
			}
		}
		if status != want {
			t.Errorf("polylog cluster %s ends with %d, expected %d:\n%s", strings.Join(args, " "), status, want, out)
		}
	}
	says(0, []string{"n1", "n2", "n3", "leads", "live", "3 copies", first.AMQP, last.Kafka}, "status", "--http", first.HTTP)
	says(0, []string{`"members"`, `"order"`}, "status", "--http", first.HTTP, "--json")
	for _, name := range []string{"live_nodes", "leader", "available", "last_entry", "lag_entries", "lag_proposals", "waiting_bytes", "needed_entry", "order_bytes", "resent_total", "refused_total"} {
		if _, err := figureOf(first, "polylog_cluster_"+name); err != nil {
			t.Error(err)
		}
	}
	if n, err := figureOf(last, "polylog_cluster_live_nodes"); err != nil || n != 3 {
		t.Errorf("%v live nodes, %v", n, err)
	}
	says(1, []string{"is live"}, "remove", "--http", first.HTTP, last.Name)
	says(1, []string{"secret"}, "remove", "--http", first.HTTP, "--secret", "wrong", last.Name)
	says(1, []string{"no node 'n9'"}, "remove", "--http", first.HTTP, "n9")
	says(0, []string{"--node n4", "--cluster 127.0.0.1:7", first.Cluster}, "add", "--http", first.HTTP, "--wait", "0s", "n4", "127.0.0.1:7")
	must(t, last.Stop())
	says(0, []string{"stopped"}, "status", "--http", first.HTTP)
	says(0, []string{"n3 is no member any more"}, "remove", "--http", first.HTTP, last.Name)
	if out, _ := polylogCluster(t, "status", "--http", first.HTTP); strings.Contains(out, "n3 ") {
		t.Errorf("n3 is still there:\n%s", out)
	}
	alone := harness.Start(t, harness.Options{Alone: true})
	says(1, []string{"not one of a cluster"}, "status", "--http", alone.HTTP)
	says(1, []string{"is it running"}, "status", "--http", "127.0.0.1:1")
}
