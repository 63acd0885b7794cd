package queue

import "fmt"

// LockedError means that the queue is exclusive to another connection.
type LockedError struct{ Namespace, Name string }

func (e *LockedError) Error() string {
	return fmt.Sprintf("cannot obtain exclusive access to locked queue '%s' in vhost '%s': it belongs to another connection", e.Name, e.Namespace)
}

// InequivalentError means that a queue was declared that exists with other properties.
type InequivalentError struct {
	Namespace, Name, Property string
	Has, Wanted               string
}

func (e *InequivalentError) Error() string {
	return fmt.Sprintf("inequivalent arg '%s' for queue '%s' in vhost '%s': received '%s' but current is '%s'", e.Property, e.Name, e.Namespace, e.Wanted, e.Has)
}

// ArgumentError means that a declaration or subscription has an argument that it cannot have.
type ArgumentError struct{ Queue, Argument, Reason string }

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("invalid arg '%s' for queue '%s': %s", e.Argument, e.Queue, e.Reason)
}

// InternalError means that a client wanted to change a topic of the broker's own.
type InternalError struct{ Name string }

func (e *InternalError) Error() string {
	return fmt.Sprintf("'%s' is an internal topic of the broker: it can be read with Kafka, and not be consumed, changed or deleted", e.Name)
}

// InUseError means that a queue should be deleted if nobody consumes from it, and somebody does.
type InUseError struct{ Namespace, Name string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("queue '%s' in vhost '%s' in use", e.Name, e.Namespace)
}

// NotEmptyError means that a queue should be deleted if it is empty, and is not.
type NotEmptyError struct{ Namespace, Name string }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("queue '%s' in vhost '%s' not empty", e.Name, e.Namespace)
}

// ExclusiveError means that a consumer was refused because there is an exclusive one, or because it wanted to be exclusive and was not alone.
type ExclusiveError struct{ Namespace, Name string }

func (e *ExclusiveError) Error() string {
	return fmt.Sprintf("queue '%s' in vhost '%s' in exclusive use", e.Name, e.Namespace)
}

// GoneError means that the queue was deleted while it was in use.
type GoneError struct{ Namespace, Name string }

func (e *GoneError) Error() string {
	return fmt.Sprintf("queue '%s' in vhost '%s' was deleted", e.Name, e.Namespace)
}
