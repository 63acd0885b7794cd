package bench

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// nodesIn returns the nodes of a broker out of a list with commas.
func nodesIn(list string) (all []string) {
	for n := range strings.SplitSeq(list, ",") {
		all = append(all, strings.TrimSpace(n))
	}
	return all
}

// producersNode and consumersNode say which of n nodes a client connects to: they are dealt out in turn, the consumers shifted by one, so that with several nodes messages
// cross from one to another.
func producersNode(index, n int) int { return index % n }
func consumersNode(index, n int) int { return (index + 1) % n }

// amqpNode is where and how to log in.
type amqpNode struct{ address, user, password, vhost string }

// parseAMQPNode reads the URL of a node, with the defaults for what is missing.
func parseAMQPNode(text string) (n amqpNode, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return n, err
	}
	if u.Scheme != "amqp" || u.Hostname() == "" {
		return n, fmt.Errorf("%q is not of the form amqp://user:password@host:port/vhost", text)
	}
	port := u.Port()
	if port == "" {
		port = "5672"
	}
	n = amqpNode{address: net.JoinHostPort(u.Hostname(), port), user: "guest", password: "guest", vhost: "/"}
	if u.User != nil {
		n.user = u.User.Username()
		n.password, _ = u.User.Password()
	}
	if path := strings.TrimPrefix(u.EscapedPath(), "/"); path != "" {
		if n.vhost, err = url.PathUnescape(path); err != nil {
			return n, err
		}
	}
	return n, nil
}
