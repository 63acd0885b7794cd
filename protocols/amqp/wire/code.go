package wire

import "fmt"

// Code is a reply code, of connection.close, channel.close or basic.return.
type Code uint16

// The reply codes of the specification (1.3) and RabbitMQ.
const (
	Success            Code = 200
	ContentTooLarge    Code = 311
	NoRoute            Code = 312
	NoConsumers        Code = 313
	ConnectionForced   Code = 320
	InvalidPath        Code = 402
	AccessRefused      Code = 403
	NotFound           Code = 404
	ResourceLocked     Code = 405
	PreconditionFailed Code = 406
	FrameErrorCode     Code = 501
	SyntaxErrorCode    Code = 502
	CommandInvalid     Code = 503
	ChannelError       Code = 504
	UnexpectedFrame    Code = 505
	ResourceError      Code = 506
	NotAllowed         Code = 530
	NotImplemented     Code = 540
	InternalError      Code = 541
)

var codeNames = map[Code]string{
	Success: "SUCCESS", ContentTooLarge: "CONTENT_TOO_LARGE", NoRoute: "NO_ROUTE", NoConsumers: "NO_CONSUMERS", ConnectionForced: "CONNECTION_FORCED",
	InvalidPath: "INVALID_PATH", AccessRefused: "ACCESS_REFUSED", NotFound: "NOT_FOUND", ResourceLocked: "RESOURCE_LOCKED", PreconditionFailed: "PRECONDITION_FAILED",
	FrameErrorCode: "FRAME_ERROR", SyntaxErrorCode: "SYNTAX_ERROR", CommandInvalid: "COMMAND_INVALID", ChannelError: "CHANNEL_ERROR",
	UnexpectedFrame: "UNEXPECTED_FRAME", ResourceError: "RESOURCE_ERROR", NotAllowed: "NOT_ALLOWED", NotImplemented: "NOT_IMPLEMENTED", InternalError: "INTERNAL_ERROR",
}

// String gives the name as reply texts begin with it.
func (c Code) String() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprintf("CODE_%d", uint16(c))
}

// ClosesConnection reports whether an error of this code ends the connection and not only the channel (the specification's hard errors).
func (c Code) ClosesConnection() bool {
	switch c {
	case Success, ContentTooLarge, NoRoute, NoConsumers, AccessRefused, NotFound, ResourceLocked, PreconditionFailed:
		return false
	}
	return true
}
