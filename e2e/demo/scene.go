package main

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/e2e/harness"
)

// settleLimit is how long something that has been asked for may take to show.
const settleLimit = 30 * time.Second

// scene is the story's state. Message i is the text "order i"; it is published i-th, so it lies at offset i of the topic.
type scene struct {
	*story
	options
	queue string // the AMQP queue, which is the Kafka topic
	group string // the Kafka consumer group

	conn *amqp.Connection
	ch   *amqp.Channel // asks for counts
	kcl  *kgo.Client
	kadm *kadm.Client
}

func newScene(s *story, o options) *scene {
	id := time.Now().UnixNano()
	return &scene{story: s, options: o, queue: fmt.Sprintf("orders-%d", id), group: fmt.Sprintf("auditors-%d", id)}
}

// play plays it. An error means that it could not go on; numbers that are wrong are not errors.
func (s *scene) play(ctx context.Context) error {
	var err error
	if s.conn, err = amqp.Dial("amqp://guest:guest@" + s.amqp + "/"); err != nil {
		return fmt.Errorf("connecting with AMQP: %w", err)
	}
	defer s.conn.Close() //nolint:errcheck // all was asked and answered
	if s.ch, err = s.conn.Channel(); err != nil {
		return err
	}
	if s.kcl, err = kgo.NewClient(kgo.SeedBrokers(s.kafka)); err != nil {
		return err
	}
	defer s.kcl.Close()
	s.kadm = kadm.NewClient(s.kcl)
	taken := newTaking(int64(s.messages))
	for _, step := range []func(context.Context) error{
		s.publish,
		s.readWithGroup,
		func(ctx context.Context) error { return s.takeHalf(ctx, taken) },
		func(ctx context.Context) error { return s.lookFromKafka(ctx, taken) },
		func(ctx context.Context) error { return s.drain(ctx, taken) },
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	_, err = s.ch.QueueDelete(s.queue, false, false, false)
	return err
}

func (s *scene) all() int64  { return int64(s.messages) }
func (s *scene) half() int64 { return s.all() / 2 }

// bookmark is where the group commits: not at the end, so that it lags.
func (s *scene) bookmark() int64 { return s.all() * 6 / 10 }

// publish publishes all messages and waits for their confirms.
func (s *scene) publish(ctx context.Context) error {
	s.headline(fmt.Sprintf("AMQP: publish %d persistent messages to a durable queue, with confirms", s.all()))
	if _, err := s.ch.QueueDeclare(s.queue, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declaring the queue: %w", err)
	}
	began := time.Now()
	acked, nacked, err := publishAll(ctx, s.conn, s.queue, s.messages)
	if err != nil {
		return err
	}
	took := time.Since(began)
	s.fact("time", fmt.Sprintf("%.2f s, %.0f messages per second, each on disk when it is confirmed", took.Seconds(), float64(s.all())/took.Seconds()))
	s.number("confirmed (basic.ack)", acked, s.all())
	s.number("refused (basic.nack)", nacked, 0)
	return s.showReady("AMQP: messages ready in the queue", s.all())
}

// showReady shows how many messages the queue has ready.
func (s *scene) showReady(name string, want int64) error {
	q, err := s.ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
	if err != nil {
		return err
	}
	s.number(name, int64(q.Messages), want)
	return nil
}

// showBounds shows the topic's first offset and the one behind its last. first < 0: it is shown and not checked.
func (s *scene) showBounds(ctx context.Context, first, next int64) error {
	from, to, err := s.bounds(ctx, s.queue)
	if err != nil {
		return err
	}
	if first < 0 {
		s.fact("Kafka: first offset of the topic", from)
	} else {
		s.number("Kafka: first offset of the topic", from, first)
	}
	s.number("Kafka: next offset of the topic", to, next)
	return nil
}

// showBookmark shows where the group stands and how far it is behind.
func (s *scene) showBookmark(ctx context.Context) error {
	lags, err := s.kadm.Lag(ctx, s.group)
	if err != nil {
		return fmt.Errorf("asking for the group's lag: %w", err)
	}
	lag, known := lags[s.group].Lag.Lookup(s.queue, 0)
	if !known {
		s.check("Kafka: the group has a bookmark for the topic", false)
		return nil
	}
	s.number("Kafka: the group's bookmark", lag.Commit.At, s.bookmark())
	s.number("Kafka: the group's lag", lag.Lag, s.all()-s.bookmark())
	return nil
}

// readWithGroup reads everything with a consumer group, and commits a part of it.
func (s *scene) readWithGroup(ctx context.Context) error {
	s.headline("Kafka: read the same messages with a consumer group, commit 60 % of them")
	if err := s.showBounds(ctx, 0, s.all()); err != nil {
		return err
	}
	began := time.Now()
	read, err := s.readGroup(ctx)
	if err != nil {
		return err
	}
	s.fact("time", fmt.Sprintf("%.2f s; a new group first waits a while for more members", time.Since(began).Seconds()))
	s.number("records read", int64(len(read)), s.all())
	inPlace := int64(0)
	for i, r := range read {
		if r.Offset == int64(i) && string(r.Value) == body(int64(i)) {
			inPlace++
		}
	}
	s.number("of them in order, at their offset, with their body", inPlace, s.all())
	if err := s.showBookmark(ctx); err != nil {
		return err
	}
	return s.showReady("AMQP: messages ready, as a commit deletes nothing", s.all())
}

// takeHalf takes half of the messages with Get and Consume at once, and shows the moment at which more are out.
func (s *scene) takeHalf(ctx context.Context, t *taking) error {
	s.headline("AMQP: take half with Get and Consume at once; send every tenth back the first time it comes")
	crew, err := startCrew(ctx, "amqp://guest:guest@"+s.amqp+"/", s.queue, t)
	if err != nil {
		return err
	}
	defer crew.disconnect()
	if err := crew.awaitHalf(ctx); err != nil {
		return err
	}
	// Now consumers are given what their prefetch allows, and settle nothing. When no message is on its way any more, all are accounted for.
	err = harness.Await(settleLimit, "the consumers to hold what their prefetch allows", func() error {
		q, err := s.ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
		if err != nil {
			return err
		}
		if sum := int64(q.Messages) + t.heldCount() + s.half(); sum != s.all() {
			return fmt.Errorf("%d ready, %d held, %d settled make %d", q.Messages, t.heldCount(), s.half(), sum)
		}
		return nil
	})
	if err != nil {
		s.check(err.Error(), false)
	}
	sum := t.sum()
	s.number("settled (basic.ack)", sum.acked, s.half())
	s.fact("of them by Get, by Consume", fmt.Sprintf("%d, %d", sum.byGet, sum.acked-sum.byGet))
	s.check("both had a part, from one cursor", sum.byGet > 0 && sum.byGet < sum.acked)
	s.number("settled twice", sum.twice, 0)
	s.fact("sent back (basic.nack with requeue)", sum.nacked)
	s.fact("of them come again by now, marked redelivered", sum.again)
	s.number("come again without the mark", sum.unmarked, 0)
	s.number("marked without having been sent back", sum.stray, 0)
	s.fact("held by consumers now, delivered and not settled", sum.held)
	s.check("consumers hold messages", sum.held > 0)
	if err := s.showReady("AMQP: messages ready", s.all()-s.half()-sum.held); err != nil {
		return err
	}
	// A claim waits for no fsync, and a record can be read once it is on disk: so the index follows a moment later.
	var claims claims
	var live, foreign int64
	err = harness.Await(settleLimit, "the index topic to say so", func() error {
		if claims, err = s.readIndex(ctx); err != nil {
			return err
		}
		if live, foreign = claims.covered(t); live != sum.held {
			return fmt.Errorf("it says that %d are out", live)
		}
		return nil
	})
	if err != nil {
		s.fact("", err)
	}
	s.fact("Kafka: records of __claims about this queue", len(claims))
	for _, c := range claims.examples(2) {
		s.fact("  for example", c)
	}
	s.number("messages that it says are out", live, sum.held)
	s.number("of them not held by one of ours", foreign, 0)
	if err := crew.close(); err != nil {
		return err
	}
	err = harness.Await(settleLimit, "what was held to come back", func() error {
		q, err := s.ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
		if err == nil && int64(q.Messages) != s.all()-s.half() {
			err = fmt.Errorf("%d messages are ready", q.Messages)
		}
		return err
	})
	if err != nil {
		s.check(err.Error(), false)
	}
	return s.showReady("AMQP: messages ready once the consumers are gone", s.all()-s.half())
}

// lookFromKafka shows that acks took messages away and moved no bookmark.
func (s *scene) lookFromKafka(ctx context.Context, t *taking) error {
	s.headline("Kafka: look at what is left; acks took messages away and moved no bookmark")
	if err := s.showBounds(ctx, -1, s.all()); err != nil {
		return err
	}
	if err := s.showBookmark(ctx); err != nil {
		return err
	}
	left, err := s.readAll(ctx, s.queue)
	if err != nil {
		return err
	}
	s.number("records that a new reader gets", int64(len(left)), s.all()-s.half())
	ours := int64(0)
	for _, r := range left {
		if string(r.Value) == body(r.Offset) && !t.isAcked(r.Offset) {
			ours++
		}
	}
	s.number("of them not settled, at the offset where they always were", ours, s.all()-s.half())
	return nil
}

// drain takes the rest.
func (s *scene) drain(ctx context.Context, t *taking) error {
	s.headline("AMQP: take the other half; nothing is left behind")
	d, err := drainQueue(ctx, s.conn, s.queue, s.all()-s.half(), t)
	if err != nil {
		return err
	}
	s.number("messages taken and settled", d.got, s.all()-s.half())
	s.number("of them settled before, or twice", d.wrong, 0)
	s.fact("marked redelivered: those held or sent back before", d.marked)
	s.number("marked, or not, where it should be the other way", d.stray, 0)
	if err := s.showReady("AMQP: messages ready", 0); err != nil {
		return err
	}
	if err := s.showBounds(ctx, s.all(), s.all()); err != nil {
		return err
	}
	// The bookmark now points at records that are gone, and still says how far the group came.
	if err := s.showBookmark(ctx); err != nil {
		return err
	}
	var claims claims
	err = harness.Await(settleLimit, "the index topic to forget the queue", func() error {
		var err error
		if claims, err = s.readIndex(ctx); err == nil && len(claims) > 0 {
			err = fmt.Errorf("it has %d records", len(claims))
		}
		return err
	})
	if err != nil {
		s.fact("", err)
	}
	s.number("Kafka: records of __claims about this queue", int64(len(claims)), 0)
	return nil
}
