package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"

	"polylog/gateway/config"
)

// elsewhere are the keys that do not act through the plan, with the test that shows that they act.
var elsewhere = map[string]string{
	"log.level": "TestLogIsWrittenAsConfigured", "log.format": "TestLogIsWrittenAsConfigured", "mqtt.listen": "of package config: only empty is allowed",
}

// others are values that are not the defaults.
var others = settings{
	"data": "/elsewhere", "node": "other", "sync.policy": "os", "sync.interval": "1s", "storage.segment_bytes": "1MiB", "storage.checkpoint_bytes": "2MiB",
	"storage.clean_rate": "0", "storage.open_files": "17",
	"amqp.listen": ":1", "amqp.connections": "11", "amqp.frame_max": "8KiB", "amqp.channel_max": "12", "amqp.heartbeat": "0s", "amqp.message_max": "3MiB",
	"amqp.publish_buffer": "65KiB", "amqp.delivery_buffer": "66KiB", "amqp.unacked_max": "13", "amqp.handshake_timeout": "2s", "amqp.write_timeout": "3s", "amqp.close_timeout": "4s",
	"kafka.listen": ":2", "kafka.advertise": "there:3", "kafka.node_id": "14", "kafka.connections": "15", "kafka.auto_create_topics": "false", "kafka.partitions": "16",
	"kafka.request_max": "17MiB", "kafka.other_request_max": "18MiB", "kafka.response_max": "19MiB", "kafka.message_max": "20KiB", "kafka.in_flight": "21",
	"kafka.connection_memory": "22MiB", "kafka.decoding_memory": "23MiB", "kafka.fetch_sessions": "24", "kafka.idle_timeout": "0s", "kafka.stall_timeout": "25s", "kafka.producer_retention": "2m",
	"kafka.producer_batches": "35",
	"http.listen":            ":4", "http.pprof": "true", "limits.connections": "26", "queue.requeue": "tail",
	"group.session_timeout_min": "27ms", "group.session_timeout_max": "28m", "group.initial_delay": "0s", "group.groups_max": "36", "group.members_max": "29", "group.metadata_max": "30B",
	"group.offsets_retention": "0s", "retention.time": "0s", "retention.bytes": "31KiB", "retention.tombstones": "32s", "retention.interval": "33s", "shutdown.timeout": "34s",
	"cluster.listen": "127.0.0.1:5", "cluster.advertise": "there:6", "cluster.seeds": "there:7,there:8", "cluster.name": "other", "cluster.secret": "other", "cluster.nats": "nats://there:9",
	"cluster.replicas": "5", "cluster.stream_bytes": "65MiB", "cluster.backlog_bytes": "2MiB", "cluster.gone_after": "35s",
	"vhosts": "[/, other]", "users": "[{name: other, password: x}]",
}

// A key that nobody hands on would be a promise that nothing keeps.
func TestEveryKeyReachesTheCode(t *testing.T) {
	t.Parallel()
	usual := fmt.Sprintf("%+v", *newPlan(config.Default()))
	for _, row := range config.Table() {
		if elsewhere[row.Key] != "" {
			continue
		}
		value, has := others[row.Key]
		if !has {
			t.Errorf("this test has no value for %s", row.Key)
			continue
		}
		overrides := []config.Override{{Key: row.Key, Value: value, From: "test"}}
		if row.Key == "cluster.listen" || row.Key == "cluster.nats" { // which make others necessary
			for key, v := range map[string]string{"node": "polylog", "cluster.seeds": "a:1,b:1", "cluster.secret": "s"} {
				overrides = append(overrides, config.Override{Key: key, Value: v, From: "test"})
			}
		}
		c, err := config.Load("", nil, overrides)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", *newPlan(c)) == usual {
			t.Errorf("%s is %s and nothing is different", row.Key, value)
		}
	}
}

// Neither may a bound exist that no key reaches.
func TestEveryBoundOfTheCodeHasAKey(t *testing.T) {
	t.Parallel()
	p := newPlan(config.Default())
	for name, options := range map[string]any{
		"logstore": p.store, "topic": p.topics, "group": p.groups, "producers": p.producers, "kafka": p.kafka.Limits, "amqp": p.amqp.Limits, "cluster": p.cluster,
	} {
		v := reflect.ValueOf(options)
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if k := f.Type.Kind(); f.IsExported() && (k == reflect.Int || k == reflect.Int64) && v.Field(i).IsZero() {
				t.Errorf("%s: nothing sets %s", name, f.Name)
			}
		}
	}
}

func TestLogIsWrittenAsConfigured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		log           config.Log
		isJSON, debug bool
	}{
		{config.Log{Level: "info", Format: "auto"}, true, false}, // a buffer is no terminal
		{config.Log{Level: "debug", Format: "json"}, true, true},
		{config.Log{Level: "info", Format: "console"}, false, false},
	} {
		var b bytes.Buffer
		log, err := NewLogger(c.log, &b)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("detail")
		log.Named("part").Warn("look")
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if got := strings.Contains(b.String(), "detail"); got != c.debug {
			t.Errorf("%v: a line of level debug is there: %t", c.log, got)
		}
		last := lines[len(lines)-1]
		var fields map[string]any
		isJSON := json.Unmarshal([]byte(last), &fields) == nil
		if isJSON != c.isJSON || isJSON && (fields["level"] != "warn" || fields["msg"] != "look" || fields["logger"] != "part") || !isJSON && !strings.Contains(last, "WARN\tpart\tlook") {
			t.Errorf("%v: a line is %q", c.log, last)
		}
	}
}

// here is a connection of which only the local address matters.
type here struct {
	net.Conn
	addr net.TCPAddr
}

func (h *here) LocalAddr() net.Addr { return &h.addr }

func TestKafkaClientsAreToldAnAddressThatTheyReach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		configured string
		local      net.TCPAddr
		want       string
	}{
		{"", net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 9092}, "10.0.0.1 9092"},
		{"", net.TCPAddr{IP: net.IPv6loopback, Port: 1234}, "::1 1234"},
		{"broker.example.org:19092", net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 9092}, "broker.example.org 19092"},
		{"[2001:db8::1]:9092", net.TCPAddr{}, "2001:db8::1 9092"},
	} {
		host, port := advertise(c.configured)(&here{addr: c.local})
		if got := fmt.Sprint(host, " ", port); got != c.want {
			t.Errorf("configured %q, reached at %v: %q, want %q", c.configured, &c.local, got, c.want)
		}
	}
}
