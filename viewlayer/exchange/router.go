// Package exchange says which topics a published message goes to, and puts what was published into the log.
//
// It promises: a message that goes to several topics is appended to all of them in one transaction; what was published one after another to a topic lies in it in
// that order.
//
// It serves the default exchange, which leads to the queue that the routing key names. It does not convert messages (package message) and does not know who
// consumes them.
//
// Start with router.go; gathering.go makes transactions of messages.
package exchange

import (
	"fmt"

	"polylog/viewlayer/topic"
)

// UnknownError means that there is no exchange of this name.
type UnknownError struct{ Namespace, Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no exchange '%s' in vhost '%s'", e.Name, e.Namespace)
}

// InternalTopicError means that somebody published to a topic of the broker's own.
type InternalTopicError struct{ Name string }

func (e *InternalTopicError) Error() string {
	return fmt.Sprintf("'%s' is an internal topic of the broker, to which nobody can publish", e.Name)
}

// Router finds the topics that a message goes to. Its methods may be called from any goroutine.
type Router struct{ topics *topic.Catalog }

// New returns a router for the topics of a catalog.
func New(topics *topic.Catalog) *Router { return &Router{topics} }

// Route adds to dst the topics that a message published to an exchange with a routing key goes to; none means that it cannot be routed. The default exchange has the empty
// name. It returns an *UnknownError for an exchange that is not there, an *InternalTopicError, or why a topic could not be read. The bytes are not kept.
func (r *Router) Route(namespace string, exchange, key []byte, dst []*topic.Topic) ([]*topic.Topic, error) {
	if len(exchange) > 0 {
		return dst, &UnknownError{namespace, string(exchange)}
	}
	t, err := r.topics.FindBytes(namespace, key)
	if err != nil {
		if _, ok := err.(*topic.UnknownError); ok {
			return dst, nil
		}
		return dst, err
	}
	if t.Internal {
		return dst, &InternalTopicError{t.Name}
	}
	return append(dst, t), nil
}
