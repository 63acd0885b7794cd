package amqp

import (
	"errors"
	"fmt"

	"polylog/logstore"
	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/message"
	"polylog/viewlayer/queue"
	"polylog/viewlayer/topic"
)

// exception is an error that the client is told, with connection.close or channel.close as its code demands.
type exception struct {
	code   wire.Code
	text   string        // behind the code's name
	method wire.MethodID // that it is about; 0: none
	// desynced: what follows in the stream of bytes cannot be understood.
	desynced bool
}

func (e *exception) Error() string { return fmt.Sprintf("%d %s - %s", uint16(e.code), e.code, e.text) }

// replyText is what goes into the close method.
func (e *exception) replyText() []byte { return []byte(e.code.String() + " - " + e.text) }

func raise(code wire.Code, format string, args ...any) error {
	return &exception{code: code, text: fmt.Sprintf(format, args...)}
}

// is reports whether an error of type E is in the chain.
func is[E error](err error) bool {
	if err == nil {
		return false // the usual case, without what As allocates
	}
	var e E
	return errors.As(err, &e)
}

// isOutOfTouch reports whether an error says that the cluster is not there to decide: nothing was done, or nobody knows what was.
func isOutOfTouch(err error) bool {
	return is[*logstore.UnavailableError](err) || is[*logstore.UnknownOutcomeError](err) && !errors.Is(err, logstore.ErrClosed)
}

// explain is the one table from errors of the views and the codec to reply codes. What is not in it is the broker's own failure.
func explain(err error) *exception {
	var known *exception
	if errors.As(err, &known) {
		return known
	}
	text := err.Error()
	var unknown *topic.UnknownError
	switch {
	case errors.As(err, &unknown):
		return &exception{code: wire.NotFound, text: fmt.Sprintf("no queue '%s' in vhost '%s'", unknown.Name, unknown.Namespace)}
	case is[*queue.GoneError](err), is[*exchange.UnknownError](err):
		return &exception{code: wire.NotFound, text: text}
	case is[*queue.LockedError](err):
		return &exception{code: wire.ResourceLocked, text: text}
	case is[*queue.InequivalentError](err), is[*queue.ArgumentError](err), is[*queue.InUseError](err), is[*queue.NotEmptyError](err), is[*topic.ConfigError](err):
		return &exception{code: wire.PreconditionFailed, text: text}
	case is[*topic.NameError](err), is[*queue.ExclusiveError](err), is[*queue.InternalError](err), is[*exchange.InternalTopicError](err):
		return &exception{code: wire.AccessRefused, text: text}
	case is[*message.TooLargeError](err), is[*exchange.FullError](err):
		return &exception{code: wire.PreconditionFailed, text: text}
	case is[*wire.SyntaxError](err), is[*message.PropertiesError](err), is[*message.TableError](err):
		return &exception{code: wire.SyntaxErrorCode, text: text}
	case is[*wire.FrameError](err):
		return &exception{code: wire.FrameErrorCode, text: text, desynced: true}
	case isOutOfTouch(err):
		return &exception{code: wire.ConnectionForced, text: "this node is not in touch with a majority of the cluster; try again, or connect to another node"}
	case is[*logstore.DiskFullError](err):
		return &exception{code: wire.ResourceError, text: text}
	}
	return &exception{code: wire.InternalError, text: text}
}
