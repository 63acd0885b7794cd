package metrics

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"polylog/protocols/amqp"
	"polylog/protocols/kafka"
)

var wellNamed = regexp.MustCompile(`^polylog_[a-z]+(_[a-z]+)*$`)

func TestFiguresAreNamedByTheRules(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, d := range Table() {
		if seen[d.Name] {
			t.Errorf("two figures are named %s", d.Name)
		}
		seen[d.Name] = true
		if !wellNamed.MatchString(d.Name) {
			t.Errorf("%s is no name of a figure", d.Name)
		}
		if (d.Kind == Counter) != strings.HasSuffix(d.Name, "_total") {
			t.Errorf("%s is a %s; counters and only counters end with _total", d.Name, d.Kind)
		}
		if !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s is explained by %q", d.Name, d.Help)
		}
		for _, word := range []string{"kib", "ms", "seconds_total_"} {
			if strings.Contains(d.Name, "_"+word) {
				t.Errorf("%s: units are bytes and seconds", d.Name)
			}
		}
	}
}

func TestFiguresComeFromTheSnapshot(t *testing.T) {
	t.Parallel()
	s := &Snapshot{Version: "v1", Listeners: []Listener{{"amqp", 1, 2, 3, 4}, {"kafka", 5, 6, 7, 8}}, AMQP: &amqp.Figures{Published: 9}, Kafka: &kafka.Figures{Requests: 10}}
	s.Store.Syncs, s.Queues.Taken = 11, 12
	h := Handler(func() *Snapshot { return s })
	get := func() string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if w.Code != 200 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	text := get()
	for _, want := range []string{
		`polylog_info{version="v1"} 1`, `polylog_connections{protocol="amqp"} 1`, `polylog_connections_refused_total{protocol="kafka"} 7`, "polylog_amqp_published_total 9",
		"polylog_kafka_requests_total 10", "polylog_log_syncs_total 11", "polylog_queue_taken_total 12", "polylog_ready 0",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	s.AMQP, s.Kafka, s.Listeners, s.Ready = nil, nil, nil, true
	text = get()
	if strings.Contains(text, "polylog_amqp") || strings.Contains(text, "polylog_kafka") || strings.Contains(text, "polylog_connections") || !strings.Contains(text, "polylog_ready 1\n") {
		t.Errorf("figures of what is off:\n%s", text)
	}
}
