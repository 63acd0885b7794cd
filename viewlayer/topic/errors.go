package topic

import "fmt"

// UnknownError means that there is no topic of this name.
type UnknownError struct{ Namespace, Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no topic or queue '%s' in vhost '%s'", e.Name, e.Namespace)
}

// UnknownIDError means that no topic has this identity.
type UnknownIDError struct{ ID ID }

func (e *UnknownIDError) Error() string { return fmt.Sprintf("no topic has the id %x", e.ID[:]) }

// ExistsError means that a topic of this name is there already.
type ExistsError struct{ Topic *Topic }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("topic '%s' exists already in vhost '%s'", e.Topic.Name, e.Topic.Namespace)
}

// PartitionsError means that a topic cannot have so many partitions.
type PartitionsError struct{ Got int }

func (e *PartitionsError) Error() string {
	return fmt.Sprintf("a topic has 1 to %d partitions, not %d", PartitionsMax, e.Got)
}

// ConfigError means that a topic's configuration has a key that does not exist, or a value that the key cannot have.
type ConfigError struct{ Key, Value, Reason string }

func (e *ConfigError) Error() string {
	return fmt.Sprintf("topic configuration %s=%s: %s", e.Key, e.Value, e.Reason)
}
