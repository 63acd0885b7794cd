package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestNodesOfAMQPAreReadWithTheirDefaults(t *testing.T) {
	t.Parallel()
	a := AMQP{URL: "amqp://one, amqp://me:secret@two:5673/%2Fapp,amqp://[::1]/", Multiple: 1}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	want := []amqpNode{
		{"one:5672", "guest", "guest", "/"},
		{"two:5673", "me", "secret", "/app"},
		{"[::1]:5672", "guest", "guest", "/"},
	}
	if !slices.Equal(a.nodes, want) {
		t.Errorf("nodes %+v, want %+v", a.nodes, want)
	}
	if got := strings.Join(a.Addresses(), " "); got != "one:5672 two:5673 [::1]:5672" || a.Name() != "one:5672, two:5673, [::1]:5672" {
		t.Errorf("addresses %q, name %q", got, a.Name())
	}
	if err := a.Check(); err != nil || len(a.nodes) != 3 {
		t.Errorf("checked again, it has %d nodes (%v)", len(a.nodes), err)
	}
	a.URL = "amqp://one,two:5672"
	if err := a.Check(); err == nil || !strings.Contains(err.Error(), `"two:5672" is not of the form`) {
		t.Errorf("%q was taken: %v", a.URL, err)
	}
}

func TestMessagesCrossNodesAndEachNodeHasItsShareOfClients(t *testing.T) {
	t.Parallel()
	const nodes, clients = 3, 12
	var producers, consumers [nodes]int
	for i := range clients {
		p, c := producersNode(i, nodes), consumersNode(i, nodes)
		if p == c {
			t.Errorf("producer and consumer %d are both on node %d", i, p)
		}
		producers[p]++
		consumers[c]++
	}
	if want := [nodes]int{4, 4, 4}; producers != want || consumers != want {
		t.Errorf("producers %v and consumers %v on the nodes", producers, consumers)
	}
	if producersNode(5, 1) != 0 || consumersNode(5, 1) != 0 {
		t.Error("a single node does not have all clients")
	}
}

func TestKafkaTakesSeveralNodesAndRefusesOthers(t *testing.T) {
	t.Parallel()
	k := Kafka{Broker: "one:9092,two:9093", Replicas: -1, Acks: "all", Compression: "none", BatchBytes: 1000}
	if err := k.Check(); err != nil || len(k.Addresses()) != 2 || k.Name() != "one:9092, two:9093" {
		t.Errorf("%v, %q", err, k.Name())
	}
	for _, c := range []struct {
		change func(*Kafka)
		want   string
	}{
		{func(k *Kafka) { k.Broker = "one:9092,two" }, "host:port"},
		{func(k *Kafka) { k.Replicas = 0 }, "not 0"},
		{func(k *Kafka) { k.Replicas = 40_000 }, "not 40000"},
	} {
		bad := k
		c.change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", bad, err, c.want)
		}
	}
}
