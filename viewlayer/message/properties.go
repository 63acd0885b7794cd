package message

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The flags of a property list of class basic (AMQP 0-9-1, 2.3.5.2 and 1.8.1), the first property in the highest bit. Bit 0 says that another word of flags
// follows, which class basic has no property for; bit 1 has no meaning.
const (
	FlagContentType uint16 = 1 << (15 - iota)
	FlagContentEncoding
	FlagHeaders
	FlagDeliveryMode
	FlagPriority
	FlagCorrelationID
	FlagReplyTo
	FlagExpiration
	FlagMessageID
	FlagTimestamp
	FlagType
	FlagUserID
	FlagAppID
	FlagClusterID
	flagUnused
	flagContinued
)

// shortStringMax is the longest short string in bytes (4.2.5.3).
const shortStringMax = 255

// PropertiesError says what is wrong with a published message's properties, or what of a message does not fit into them.
type PropertiesError struct {
	At     int    // byte of the properties, flags included; -1 if none is to blame
	Reason string // what was found, what is allowed
	Cause  error  // a *TableError if the headers are to blame, else nil
}

func (e *PropertiesError) Error() string {
	if e.At < 0 {
		return "message properties: " + e.Reason
	}
	return fmt.Sprintf("message properties: at byte %d: %s", e.At, e.Reason)
}

func (e *PropertiesError) Unwrap() error { return e.Cause }

// Properties is a decoded property list. A property is there if its flag is set; a value without its flag means nothing. Byte slices share what was parsed.
type Properties struct {
	Flags           uint16
	ContentType     []byte
	ContentEncoding []byte
	Headers         Table
	DeliveryMode    uint8 // 1 transient, 2 persistent; nobody checks it
	Priority        uint8
	CorrelationID   []byte
	ReplyTo         []byte
	Expiration      []byte // milliseconds in digits, if the publisher keeps to the rules
	MessageID       []byte
	Timestamp       uint64 // seconds since 1970
	Type            []byte
	UserID          []byte
	AppID           []byte
	ClusterID       []byte
}

// Has tells whether all properties of the given flags are there.
func (p *Properties) Has(flags uint16) bool { return p.Flags&flags == flags }

// shortString returns where the short string of a flag is kept, nil for a property of another type.
func (p *Properties) shortString(flag uint16) *[]byte {
	switch flag {
	case FlagContentType:
		return &p.ContentType
	case FlagContentEncoding:
		return &p.ContentEncoding
	case FlagCorrelationID:
		return &p.CorrelationID
	case FlagReplyTo:
		return &p.ReplyTo
	case FlagExpiration:
		return &p.Expiration
	case FlagMessageID:
		return &p.MessageID
	case FlagType:
		return &p.Type
	case FlagUserID:
		return &p.UserID
	case FlagAppID:
		return &p.AppID
	case FlagClusterID:
		return &p.ClusterID
	}
	return nil
}

// Parse decodes flags and property list as they lie on the wire; no bytes at all are a list without properties. It allocates nothing. The error is a
// *PropertiesError, and p is undefined then.
//
// The meaningless bit 1 is kept in Flags, as RabbitMQ keeps it. Bit 0 is refused: what would follow cannot be known.
func (p *Properties) Parse(b []byte) error {
	p.Flags = 0
	if len(b) == 0 {
		return nil
	}
	if len(b) < 2 {
		return &PropertiesError{At: 0, Reason: "1 byte, the flags need 2"}
	}
	p.Flags = binary.BigEndian.Uint16(b)
	if p.Has(flagContinued) {
		return &PropertiesError{At: 0, Reason: fmt.Sprintf("the flags %#04x announce a second word of flags, class basic has only one", p.Flags)}
	}
	pos := 2
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		if p.Flags&flag == 0 {
			continue
		}
		size := 1
		switch flag {
		case FlagHeaders:
			t, rest, err := ParseTable(b[pos:])
			if err != nil {
				return &PropertiesError{At: pos, Reason: err.Error(), Cause: err}
			}
			p.Headers, pos = t, len(b)-len(rest)
			continue
		case FlagTimestamp:
			size = 8
		case FlagDeliveryMode, FlagPriority:
		default:
			if pos < len(b) {
				size += int(b[pos])
			}
		}
		if size > len(b)-pos {
			return &PropertiesError{At: pos, Reason: fmt.Sprintf("property %s needs %d bytes, %d are left", propertyName(flag), size, len(b)-pos)}
		}
		switch flag {
		case FlagTimestamp:
			p.Timestamp = binary.BigEndian.Uint64(b[pos:])
		case FlagDeliveryMode:
			p.DeliveryMode = b[pos]
		case FlagPriority:
			p.Priority = b[pos]
		default:
			*p.shortString(flag) = b[pos+1 : pos+size : pos+size]
		}
		pos += size
	}
	if pos != len(b) {
		return &PropertiesError{At: pos, Reason: fmt.Sprintf("%d bytes behind the last property that the flags %#04x announce", len(b)-pos, p.Flags)}
	}
	return nil
}

// AppendTo appends flags and property list as they lie on the wire. Short strings over 255 bytes and bit 0 of Flags are a *PropertiesError; dst is returned
// as it was then.
func (p *Properties) AppendTo(dst []byte) ([]byte, error) {
	if p.Has(flagContinued) {
		return dst, &PropertiesError{At: -1, Reason: fmt.Sprintf("the flags %#04x announce a second word of flags, class basic has only one", p.Flags)}
	}
	out := binary.BigEndian.AppendUint16(dst, p.Flags)
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		if p.Flags&flag == 0 {
			continue
		}
		switch flag {
		case FlagHeaders:
			out = p.Headers.AppendTo(out)
		case FlagTimestamp:
			out = binary.BigEndian.AppendUint64(out, p.Timestamp)
		case FlagDeliveryMode:
			out = append(out, p.DeliveryMode)
		case FlagPriority:
			out = append(out, p.Priority)
		default:
			s := *p.shortString(flag)
			if len(s) > shortStringMax {
				return dst, &PropertiesError{At: -1,
					Reason: fmt.Sprintf("property %s has %d bytes, at most %d are allowed", propertyName(flag), len(s), shortStringMax)}
			}
			out = appendShort(out, s)
		}
	}
	return out, nil
}

// appendShort appends a short string, whose length the caller knows to fit.
func appendShort(dst, s []byte) []byte { return append(append(dst, byte(len(s))), s...) }

// propertyNames are the properties in the order of their flags.
var propertyNames = [...]string{
	"content-type", "content-encoding", "headers", "delivery-mode", "priority", "correlation-id", "reply-to", "expiration", "message-id", "timestamp",
	"type", "user-id", "app-id", "cluster-id",
}

// propertyName returns the specification's name of a property.
func propertyName(flag uint16) string { return propertyNames[bits.LeadingZeros16(flag)] }

// propertyKeys are the names as keys of plain headers.
var propertyKeys = func() (keys [len(propertyNames)][]byte) {
	for i, name := range propertyNames {
		keys[i] = []byte(name)
	}
	return keys
}()

// readable are the properties that a Kafka client finds as plain headers of the same names.
const readable = FlagContentType | FlagContentEncoding | FlagCorrelationID | FlagReplyTo | FlagMessageID | FlagType | FlagAppID

// readableProperty returns the flag of the property that a header of a record stands for, 0 if it stands for none.
func readableProperty(header []byte) uint16 {
	switch string(header) {
	case "content-type":
		return FlagContentType
	case "content-encoding":
		return FlagContentEncoding
	case "correlation-id":
		return FlagCorrelationID
	case "reply-to":
		return FlagReplyTo
	case "message-id":
		return FlagMessageID
	case "type":
		return FlagType
	case "app-id":
		return FlagAppID
	}
	return 0
}
