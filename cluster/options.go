package cluster

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Options say how a node takes part in a cluster. The zero value of every field but Name, Node, Dir and Listen or External stands for its default.
type Options struct {
	Name string // of the cluster: the same on all nodes; letters, digits, - and _
	Node string // this node's own, likewise
	Dir  string // the data directory: the log's, with what the embedded server keeps in the folder order

	Listen    string   // HOST:PORT where the other nodes' servers connect to this one's
	Advertise string   // what they are told instead of Listen; default: Listen
	Seeds     []string // HOST:PORT of the nodes, this one may be among them
	Secret    string   // that all nodes share
	External  []string // URLs of a NATS cluster that is operated elsewhere, instead of the embedded one

	Replicas     int           // copies of the order; default 3
	StreamBytes  int64         // how large the order may grow; default 8 GiB
	BacklogBytes int64         // how much of it is kept for nodes that are away; default an eighth of StreamBytes
	GoneAfter    time.Duration // after how much silence a node is declared gone; default 10 s
	// Logf is told what an operator may want to know. Default: nobody is.
	Logf func(format string, args ...any)
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// CheckName returns why a cluster or node cannot have this name.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%q: a name in a cluster has 1 to 64 letters, digits, - or _", name)
	}
	return nil
}

func (o Options) withDefaults() (Options, error) {
	for what, name := range map[string]string{"cluster.name": o.Name, "node": o.Node} {
		if err := CheckName(name); err != nil {
			return o, fmt.Errorf("%s: %w", what, err)
		}
	}
	if (o.Listen == "") == (len(o.External) == 0) {
		return o, fmt.Errorf("a node needs exactly one of an address for the embedded NATS server (cluster.listen) and the URLs of another (cluster.nats)")
	}
	if o.Replicas == 0 {
		o.Replicas = 3
	}
	if o.StreamBytes == 0 {
		o.StreamBytes = 8 << 30
	}
	if o.BacklogBytes == 0 {
		o.BacklogBytes = o.StreamBytes / 8
	}
	if o.GoneAfter == 0 {
		o.GoneAfter = 10 * time.Second
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o, nil
}

func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // crypto/rand does not fail
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

func randomNumber() uint64 {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // crypto/rand does not fail
	return binary.LittleEndian.Uint64(b[:])
}
