package gateway

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polylog/gateway/metrics"
	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/topic"
)

func aTopic(name string) topic.Spec {
	return topic.Spec{Namespace: topic.DefaultNamespace, Name: name, Partitions: 1, AckPolicy: topic.Retain, Durable: true}
}

// appendRecord appends a record of that time, durably.
func appendRecord(t *testing.T, s *logstore.Store, sh logstore.Shard, at time.Time) {
	t.Helper()
	b := record.NewBuilder()
	b.Append(at.UnixMilli(), nil, []byte("x"), nil)
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.AppendBatch(sh, batch)}}); err != nil {
		t.Fatal(err)
	}
}

// wantFigures holds what /metrics gave to the table.
func wantFigures(t *testing.T, text string) {
	t.Helper()
	for _, d := range metrics.Table() {
		if strings.HasPrefix(d.Name, "polylog_cluster_") {
			continue // this node is alone; the end-to-end tests have others
		}
		if !strings.Contains(text, "# HELP "+d.Name+" ") || !strings.Contains(text, "# TYPE "+d.Name+" "+string(d.Kind)+"\n"+d.Name) {
			t.Errorf("/metrics has no %s %s", d.Kind, d.Name)
		}
	}
}

// damagedLog is the directory of a log of which an early entry is damaged. It is a copy of a running broker's, so that a start must read all of it.
func damagedLog(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "damaged")
	c := configure(t, nil)
	b := launch(t, Options{Config: c})
	for _, name := range []string{"a", "b", "c"} {
		if _, err := b.views.topics.Create(t.Context(), aTopic(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS(c.Data)); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("the segments are %q, %v", segments, err)
	}
	text, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, []byte(clusterKey)) // in the first entry
	if at < 0 {
		t.Fatal("the segment has no key with the name of the data")
	}
	text[at] ^= 1
	if err := os.WriteFile(segments[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
