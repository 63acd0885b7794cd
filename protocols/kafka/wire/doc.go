// Package wire has the parts of the Kafka protocol that are decoded and encoded by hand: request headers, the check of what a produce request claims before
// memory is set aside for it, and the fetch response, whose records are not copied. All other messages are package kmsg's.
//
// Nothing here panics or allocates by what a length claims; a request that is not well-formed is an *Error.
package wire
