package e2e

import (
	"fmt"
	"maps"
	"time"

	"polylog/e2e/harness"
)

// awaitSettled waits until a cluster has got over what had happened to it: all nodes are live members, each can put something into the order, and are so afterwards still. What was on
// its way when the nodes found each other again, such as that one of them is gone, is in the order then.
func awaitSettled(c *harness.Cluster) error {
	deadline := time.Now().Add(2 * patience)
	return harness.Await(2*patience, "the cluster to settle", func() error {
		before, err := c.AwaitWhole(time.Until(deadline))
		if err != nil {
			return err
		}
		for _, b := range c.Nodes {
			if err := writes(b); err != nil {
				return fmt.Errorf("%s does not write: %w", b.Name, err)
			}
		}
		after, err := c.AwaitWhole(time.Until(deadline))
		if err == nil && !maps.Equal(before, after) {
			err = fmt.Errorf("epochs %v became %v", before, after)
		}
		return err
	})
}

// writes makes a node put something into the order.
func writes(b *harness.Broker) error {
	conn, err := connectAMQP(b.AMQP)
	if err != nil {
		return err
	}
	defer conn.CloseDeadline(time.Now().Add(time.Second)) //nolint:errcheck // it may be broken
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	name := "written-by-" + b.Name
	if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
		return err
	}
	_, err = ch.QueueDelete(name, false, false, false)
	return err
}
