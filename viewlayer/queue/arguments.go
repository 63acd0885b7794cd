package queue

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"polylog/viewlayer/message"
	"polylog/viewlayer/topic"
)

// Arguments that a declaration may have and that have an effect.
const (
	argType          = "x-queue-type"       // classic (default) or quorum
	argRequeue       = "x-requeue"          // original (default) or tail: where messages go that come back
	argTimeout       = "x-consumer-timeout" // ms that a message may be held
	argDeliveryLimit = "x-delivery-limit"   // how often a message may fail before it is dropped; -1: no limit
	argQueueMode     = "x-queue-mode"       // default or lazy; the same here, as all messages are on disk
	argQueueVersion  = "x-queue-version"    // 1 or 2; the same here
)

// notServed are arguments that change what a queue does and that this version does not know. A queue that would not do what its declaration says is refused.
var notServed = map[string]bool{
	"x-message-ttl": true, "x-expires": true, "x-max-length": true, "x-max-length-bytes": true, "x-overflow": true, "x-dead-letter-exchange": true,
	"x-dead-letter-routing-key": true, "x-dead-letter-strategy": true, "x-max-priority": true, "x-single-active-consumer": true,
	"x-message-deduplication": true, "x-delayed-retry-type": true, "x-delayed-retry-min": true, "x-delayed-retry-max": true, "x-max-age": true,
	"x-stream-max-segment-size-bytes": true,
}

// meaningful tells whether an argument means something here.
func meaningful(name string) bool {
	switch name {
	case argType, argRequeue, argTimeout, argDeliveryLimit, argQueueMode, argQueueVersion:
		return true
	}
	return notServed[name]
}

// Limits of quorum queues, as RabbitMQ has them.
const (
	quorumTimeout       = 30 * time.Minute
	quorumDeliveryLimit = 20
	timeoutMax          = 1<<31 - 1 // ms, 24 days
)

// rulesOf reads what a topic's declaration says.
func rulesOf(t *topic.Topic, standard Placement) (rules, error) {
	if t.Arguments == nil {
		return parseRules(t.Name, message.Table{}, standard)
	}
	args, _, err := message.ParseTable(t.Arguments)
	if err != nil {
		return rules{}, fmt.Errorf("the arguments of queue '%s': %w", t.Name, err)
	}
	return parseRules(t.Name, args, standard)
}

// parseRules checks the arguments of a declaration and says what they mean. Those that it does not know are allowed and mean nothing, as in RabbitMQ.
func parseRules(queue string, args message.Table, standard Placement) (rules, error) {
	r := rules{placement: standard, limit: -1}
	a := arguments{queue: queue, table: args}
	if a.word(argType, "classic", "quorum") == "quorum" {
		r.counted, r.limit, r.timeout = true, quorumDeliveryLimit, quorumTimeout
	}
	switch a.word(argRequeue, "original", "tail") {
	case "original":
		r.placement = Original
	case "tail":
		r.placement = Tail
	}
	if ms, ok := a.number(argTimeout, 0, timeoutMax); ok {
		r.timeout = time.Duration(ms) * time.Millisecond
	}
	if n, ok := a.number(argDeliveryLimit, -1, 1<<31-1); ok {
		r.limit = n
	}
	a.word(argQueueMode, "default", "lazy")
	a.number(argQueueVersion, 1, 2)
	for it := args.Fields(); it.Next() && a.err == nil; {
		if name := string(it.Field().Name); notServed[name] {
			a.refuse(name, "this version does not serve it; declare the queue without it")
		}
	}
	return r, a.err
}

// consistent refuses combinations that RabbitMQ refuses.
func (d *Declaration) consistent() error {
	a := arguments{queue: d.Name, table: d.Arguments}
	if a.word(argType, "classic", "quorum") == "quorum" {
		switch {
		case !d.Durable:
			a.refuse("durable", "a quorum queue is durable")
		case d.Exclusive:
			a.refuse("exclusive", "a quorum queue is not exclusive")
		case d.AutoDelete:
			a.refuse("auto_delete", "a quorum queue is not deleted with its last consumer")
		}
	}
	return a.err
}

// checkConsumerArguments holds the arguments of a subscription to what is served.
func checkConsumerArguments(queue string, args message.Table) error {
	a := arguments{queue: queue, table: args}
	if _, ok := args.Get("x-priority"); ok {
		a.refuse("x-priority", "this version does not serve consumer priorities")
	}
	if _, ok := args.Get("x-stream-offset"); ok {
		a.refuse("x-stream-offset", "this version does not serve streams to AMQP; read the topic with Kafka")
	}
	return a.err
}

// arguments reads a table and remembers the first thing that is wrong with it.
type arguments struct {
	queue string
	table message.Table
	err   error
}

func (a *arguments) refuse(name, reason string) {
	if a.err == nil {
		a.err = &ArgumentError{a.queue, name, reason}
	}
}

// word returns a text that must be one of some; "" if it is not there.
func (a *arguments) word(name string, some ...string) string {
	v, ok := a.table.Get(name)
	if !ok || v.IsVoid() {
		return ""
	}
	text, ok := v.Text()
	if !ok {
		a.refuse(name, "it must be a text, and is '"+valueText(v)+"'")
		return ""
	}
	for _, s := range some {
		if string(text) == s {
			return s
		}
	}
	a.refuse(name, fmt.Sprintf("it must be %s, and is '%s'", strings.Join(some, " or "), text))
	return ""
}

// number returns a whole number that must lie between two; ok is false if it is not there.
func (a *arguments) number(name string, from, to int64) (n int64, ok bool) {
	v, ok := a.table.Get(name)
	if !ok || v.IsVoid() {
		return 0, false
	}
	n, isNumber := v.Int()
	if !isNumber {
		a.refuse(name, "it must be a whole number, and is '"+valueText(v)+"'")
		return 0, false
	}
	if n < from || n > to {
		a.refuse(name, fmt.Sprintf("it must be from %d to %d, and is %d", from, to, n))
		return 0, false
	}
	return n, true
}

// valueText shows a value in an error.
func valueText(v message.Value) string {
	if v.IsZero() || v.IsVoid() {
		return "none"
	}
	if s, ok := v.Text(); ok {
		return string(s)
	}
	if n, ok := v.Int(); ok {
		return strconv.FormatInt(n, 10)
	}
	if b, ok := v.Bool(); ok {
		return strconv.FormatBool(b)
	}
	if f, ok := v.Float(); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return fmt.Sprintf("a value of type '%c'", v.Type())
}
