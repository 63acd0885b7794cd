package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/e2e/harness"
)

// How long writing may stand still. The busy machine is why the limits that the tests hold are a little above the promises; what was measured is in the test's log.
const (
	failoverOther = 1 * time.Second  // another node than those that lead has died, or one that leads was stopped in order
	failoverLead  = 10 * time.Second // one that leads has died
	refusalLimit  = 4 * time.Second  // until a minority says no
	failoverSlack = 2 * time.Second
)

// roles are the indexes of the nodes that lead: the cluster, and the order. other leads neither, if there is such a node.
type roles struct{ leader, order, other int }

func rolesOf(t testing.TB, c *harness.Cluster) (r roles) {
	t.Helper()
	await(t, "the roles of all nodes", func() error {
		s, err := c.Nodes[0].Status()
		if err != nil {
			return err
		}
		r = roles{-1, -1, -1}
		for i, b := range c.Nodes {
			if b.Name == s.Leader {
				r.leader = i
			}
			if strings.HasPrefix(s.Order.Leader, b.Name+"-") {
				r.order = i
			}
		}
		if r.leader < 0 || r.order < 0 {
			return fmt.Errorf("the leader is '%s', that of the order '%s'", s.Leader, s.Order.Leader)
		}
		for i := range c.Nodes {
			if i != r.leader && i != r.order {
				r.other = i
			}
		}
		return nil
	})
	return r
}

// confirming publishes one message after another to a node. It returns when one is confirmed that was sent after it was called, and how long that took; since is the time from which
// is counted. Connections that break are made anew.
func confirming(b *harness.Broker, queue string, since time.Time, limit time.Duration) (time.Duration, error) {
	return time.Since(since), harness.Await(limit, "a confirm from "+b.Name, func() error {
		conn, err := connectAMQP(b.AMQP)
		if err != nil {
			return err
		}
		defer conn.CloseDeadline(time.Now().Add(time.Second)) //nolint:errcheck // what was wanted has come
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		for {
			ok, err := publishOnce(ch, queue, limit-time.Since(since))
			if err != nil || ok {
				return err
			}
			if time.Since(since) > limit {
				return errors.New("all were refused")
			}
		}
	})
}

// publishOnce publishes a message and returns whether it was confirmed; an error if there was no answer.
func publishOnce(ch *amqp.Channel, queue string, limit time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), max(limit, 100*time.Millisecond))
	defer cancel()
	d, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")})
	if err != nil {
		return false, err
	}
	return d.WaitContext(ctx)
}

// TestWritingGoesOnWhenANodeEnds has nodes die and stop, and measures on each of the others how long a publisher with an open connection is without a confirm.
func TestWritingGoesOnWhenANodeEnds(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterOptions{})
	must(t, awaitSettled(c))
	declare(t, openChannel(t, dialAMQP(t, c.Nodes[0])), "orders", nil)
	must(t, c.AwaitEqual(patience))
	for _, step := range []struct {
		what  string
		whom  func(roles) int
		end   func(*harness.Broker) error
		limit time.Duration
	}{
		{"another node is killed", func(r roles) int { return r.other }, (*harness.Broker).Kill, failoverOther},
		{"the leader is stopped", func(r roles) int { return r.leader }, (*harness.Broker).Stop, failoverOther},
		{"the order's leader is stopped", func(r roles) int { return r.order }, (*harness.Broker).Stop, failoverOther},
		{"the leader is killed", func(r roles) int { return r.leader }, (*harness.Broker).Kill, failoverLead},
		{"the order's leader is killed", func(r roles) int { return r.order }, (*harness.Broker).Kill, failoverLead},
	} {
		r := rolesOf(t, c)
		ends := step.whom(r)
		if ends < 0 {
			ends = (max(r.leader, r.order) + 1) % len(c.Nodes)
		}
		if ends == r.order && step.limit == failoverOther && strings.Contains(step.what, "killed") {
			t.Fatalf("roles %+v leave no other node", r)
		}
		var survivors []*harness.Broker
		for i, b := range c.Nodes {
			if i != ends {
				survivors = append(survivors, b)
			}
		}
		gaps := make(chan gap, len(survivors))
		stop := make(chan struct{})
		begun := make(chan error, len(survivors))
		for _, b := range survivors {
			go func() { gaps <- longestGap(b, "orders", begun, stop) }()
		}
		for range survivors {
			must(t, <-begun)
		}
		must(t, step.end(c.Nodes[ends]))
		for _, b := range survivors { // and a new client is served
			if _, err := confirming(b, "orders", time.Now(), step.limit+failoverSlack); err != nil {
				t.Errorf("%s: %v", step.what, err)
			}
		}
		close(stop)
		for range survivors {
			g := <-gaps
			t.Logf("%s (%s; leader %s, order %s): %s was without a confirm for %v", step.what, c.Nodes[ends].Name, c.Nodes[r.leader].Name, c.Nodes[r.order].Name, g.node,
				g.longest.Round(time.Millisecond))
			if g.err != nil || g.longest > step.limit+failoverSlack {
				t.Errorf("%s: %s: %v without a confirm; at most %v is promised (%v)", step.what, g.node, g.longest, step.limit, g.err)
			}
		}
		must(t, c.Nodes[ends].Start())
		must(t, awaitSettled(c))
	}
	must(t, c.AwaitEqual(patience))
}

// gap is for how long a publisher was without a confirm at the most.
type gap struct {
	node    string
	longest time.Duration
	err     error
}

// longestGap publishes over one connection until stop is closed and a confirm has come after it.
func longestGap(b *harness.Broker, queue string, begun chan<- error, stop <-chan struct{}) (g gap) {
	g.node = b.Name
	conn, err := connectAMQP(b.AMQP)
	if err != nil {
		begun <- err
		return g
	}
	defer conn.CloseDeadline(time.Now().Add(time.Second)) //nolint:errcheck // it may be broken
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	last := time.Now()
	for first := true; err == nil; {
		var ok bool
		if ok, err = publishOnce(ch, queue, patience); ok {
			g.longest = max(g.longest, time.Since(last))
			last = time.Now()
			if first {
				first, g.longest = false, 0
				begun <- nil
			}
			select {
			case <-stop:
				return g
			case <-time.After(5 * time.Millisecond):
			}
		}
		if err == nil && conn.IsClosed() {
			err = errors.New("the connection was closed")
		}
	}
	g.err, g.longest = err, max(g.longest, time.Since(last))
	select {
	case begun <- err:
	default:
	}
	return g
}

// TestAMinorityRefusesAndCatchesUp cuts one node off, and then lets it alone by killing both others: it refuses what is published and produced, soon and truly, still reads, and
// catches up by itself afterwards.
func TestAMinorityRefusesAndCatchesUp(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterOptions{Apart: true})
	must(t, awaitSettled(c))
	alone := c.Nodes[2]
	createTopic(t, c.Nodes[0], "events", 1)
	produce(t, kafkaClient(t, c.Nodes[0]), oneRecord("events", 0, "old"))
	declare(t, openChannel(t, dialAMQP(t, c.Nodes[0])), "orders", nil)
	publishConfirmed(t, dialAMQP(t, c.Nodes[0]), "orders", "old")
	must(t, c.AwaitEqual(patience))

	refuses := func(t *testing.T, cut func(), heal func()) {
		conn := dialAMQP(t, alone)
		ch := openChannel(t, conn)
		must(t, ch.Confirm(false))
		producer := kafkaClient(t, alone, kgo.RecordRetries(0), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()))
		produce(t, producer, oneRecord("events", 0, "before"))
		cut()
		began := time.Now()
		ok, err := publishOnce(ch, "orders", patience)
		took := time.Since(began)
		t.Logf("the first publish was answered after %v: confirmed %v (%v)", took.Round(time.Millisecond), ok, err)
		if ok || err != nil || took > refusalLimit+failoverSlack || conn.IsClosed() {
			t.Errorf("a publish in a minority was answered after %v: confirmed %v, %v, connection closed %v; it should be refused within %v", took, ok, err, conn.IsClosed(), refusalLimit)
		}
		began = time.Now()
		ok, err = publishOnce(ch, "orders", patience)
		if took := time.Since(began); ok || err != nil || took > time.Second {
			t.Errorf("the next publish was answered after %v: confirmed %v, %v; it should be refused at once", took, ok, err)
		}
		err = producer.ProduceSync(t.Context(), oneRecord("events", 0, "never")).FirstErr()
		var code *kerr.Error
		if !errors.As(err, &code) || !code.Retriable {
			t.Errorf("producing in a minority gave %v; it should be an error that is tried again after", err)
		}
		t.Logf("producing gives %v", err)
		// Where the end is, a minority does not say, but what is there it gives.
		reader := kafkaClient(t, alone, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"events": {0: kgo.NewOffset().At(0)}}))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if rs := reader.PollRecords(ctx, 1).Records(); len(rs) != 1 || string(rs[0].Value) != "old" {
			t.Errorf("reading in a minority gave %v (%v)", rs, ctx.Err())
		}
		if alone.Ready() == nil {
			t.Error("the node says that it is ready")
		}
		began = time.Now()
		heal()
		must(t, awaitSettled(c))
		t.Logf("all was well again after %v", time.Since(began).Round(time.Millisecond))
		must(t, c.AwaitEqual(patience))
		if _, err := confirming(alone, "orders", time.Now(), patience); err != nil {
			t.Error(err)
		}
	}
	if c.Net != nil {
		t.Run("CutOff", func(t *testing.T) {
			var mend func() error
			refuses(t, func() {
				var err error
				mend, err = c.Net.Isolate(2)
				must(t, err)
			}, func() {
				if _, err := confirming(c.Nodes[0], "orders", time.Now(), failoverLead+failoverSlack); err != nil {
					t.Errorf("the majority does not go on: %v", err)
				}
				must(t, mend())
			})
		})
	}
	t.Run("LeftAlone", func(t *testing.T) {
		refuses(t, func() {
			must(t, errors.Join(c.Nodes[0].Kill(), c.Nodes[1].Kill()))
		}, func() {
			must(t, c.Start())
		})
	})
}

func oneRecord(topic string, partition int32, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
}
