package harness

import (
	"errors"
	"strings"
	"testing"
)

// absent reports whether a peer could not be started because it is not installed. The error must then say what to run.
func absent(t *testing.T, err error) bool {
	t.Helper()
	var missing *NotInstalledError
	if !errors.As(err, &missing) {
		return false
	}
	if !strings.Contains(err.Error(), "scripts/peers.sh") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	return true
}

// TestPeersStartOrSayHow starts the brokers to compare with where they are installed. Where they are not, the error says what to run.
func TestPeersStartOrSayHow(t *testing.T) {
	for _, c := range []struct {
		name   string
		launch func(...string) (*Peer, error)
		speaks func(string) error
	}{
		{"RabbitMQ", LaunchRabbitMQ, speaksAMQP},
		{"Kafka", LaunchKafka, func(a string) error { return speaksKafka(a, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := c.launch()
			if absent(t, err) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Version == "" || c.speaks(p.Address) != nil {
				t.Errorf("version %q, speaks: %v", p.Version, c.speaks(p.Address))
			}
			if err := p.Close(); err != nil {
				t.Errorf("ending it: %v", err)
			}
			if dialable(p.Address) == nil {
				t.Errorf("%s still listens", p.Name)
			}
		})
	}
}

// TestPeersOfSeveralNodesAreOneBroker starts clusters of the brokers to compare with where they are installed.
func TestPeersOfSeveralNodesAreOneBroker(t *testing.T) {
	for _, c := range []struct {
		name   string
		launch func(int, ...string) (*PeerCluster, error)
		speaks func(string) error
	}{
		{"RabbitMQ", LaunchRabbitMQCluster, speaksAMQP}, // that the nodes know each other is part of the launch
		{"Kafka", LaunchKafkaCluster, func(a string) error { return speaksKafka(a, 3) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := c.launch(3)
			if absent(t, err) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Addresses()) != 3 || p.Version == "" {
				t.Errorf("version %q, nodes at %v", p.Version, p.Addresses())
			}
			for _, a := range p.Addresses() {
				if err := c.speaks(a); err != nil {
					t.Error(err)
				}
			}
			if err := p.Close(); err != nil {
				t.Errorf("ending it: %v", err)
			}
			for _, a := range p.Addresses() {
				if dialable(a) == nil {
					t.Errorf("%s still listens at %s", p.Name, a)
				}
			}
		})
	}
}
