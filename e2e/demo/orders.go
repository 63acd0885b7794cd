package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// body is the body of message i; number is the way back, -1 for another body.
func body(i int64) string { return fmt.Sprintf("order %d", i) }

func number(body []byte) int64 {
	text, is := strings.CutPrefix(string(body), "order ")
	i, err := strconv.ParseInt(text, 10, 64)
	if !is || err != nil {
		return -1
	}
	return i
}

// publishAll publishes count messages and waits for all confirms.
func publishAll(ctx context.Context, conn *amqp.Connection, queue string, count int) (acked, nacked int64, err error) {
	ch, err := conn.Channel()
	if err != nil {
		return 0, 0, err
	}
	defer ch.Close() //nolint:errcheck // all was confirmed
	if err := ch.Confirm(false); err != nil {
		return 0, 0, fmt.Errorf("asking for confirms: %w", err)
	}
	waiting := make([]*amqp.DeferredConfirmation, count)
	for i := range waiting {
		m := amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "text/plain", Body: []byte(body(int64(i)))}
		if waiting[i], err = ch.PublishWithDeferredConfirm("", queue, false, false, m); err != nil {
			return acked, nacked, fmt.Errorf("publishing message %d: %w", i, err)
		}
	}
	for i, w := range waiting {
		ok, err := w.WaitContext(ctx)
		if err != nil {
			return acked, nacked, fmt.Errorf("waiting for the confirm of message %d: %w", i, err)
		}
		if ok {
			acked++
		} else {
			nacked++
		}
	}
	return acked, nacked, nil
}

// drained is what was taken in the end.
type drained struct {
	got    int64
	wrong  int64 // messages that were settled before, or came twice
	marked int64 // marked redelivered
	stray  int64 // marked and not delivered before, or the other way
}

// drainQueue consumes and settles until count messages came or the context ends.
func drainQueue(ctx context.Context, conn *amqp.Connection, queue string, count int64, t *taking) (d drained, err error) {
	ch, err := conn.Channel()
	if err != nil {
		return d, err
	}
	defer ch.Close() //nolint:errcheck // what counts was answered
	if err := ch.Qos(200, 0, false); err != nil {
		return d, err
	}
	deliveries, err := ch.Consume(queue, "drain", false, false, false, false, nil)
	if err != nil {
		return d, err
	}
	seen := map[int64]bool{}
	for d.got < count {
		select {
		case m, open := <-deliveries:
			if !open {
				return d, errors.New("the channel closed while the queue was drained")
			}
			i := number(m.Body)
			d.got++
			if t.isAcked(i) || seen[i] {
				d.wrong++
			}
			seen[i] = true
			if m.Redelivered {
				d.marked++
			}
			if m.Redelivered != t.delivered(i) {
				d.stray++
			}
			if d.got%100 == 0 || d.got == count {
				if err := m.Ack(true); err != nil {
					return d, err
				}
			}
		case <-ctx.Done():
			return d, context.Cause(ctx)
		}
	}
	// The answer to this says that the acks have been taken.
	return d, ch.Cancel("drain", false)
}
