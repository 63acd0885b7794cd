package topic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// AMQPNameMax is the longest name in bytes that AMQP has: a short string. It bounds the names of all topics.
	AMQPNameMax = 255
	// KafkaNameMax is the longest name in bytes that Kafka has for a topic.
	KafkaNameMax = 249
	// EscapePrefix begins the Kafka name of every topic whose own name is none that Kafka allows, and no other.
	EscapePrefix = "amqp--"
	// digestStart begins the Kafka name of a topic whose escaped name would be too long. No escaped name does, as a hyphen is followed by two digits there.
	digestStart = EscapePrefix + "sha256--"
	// reservedPrefix begins the names that AMQP keeps for the broker (AMQP 0-9-1, 1.7.2.1).
	reservedPrefix = "amq."
)

// NameError says why a name cannot be a topic's.
type NameError struct {
	Name   string
	Reason string // what is wrong, what is allowed
}

func (e *NameError) Error() string { return fmt.Sprintf("name %q: %s", e.Name, e.Reason) }

// CheckAMQPName checks a name that an AMQP client gives to a queue: 1 to 255 bytes, not beginning with "amq.". As in RabbitMQ, any bytes will do. The error is
// a *NameError.
func CheckAMQPName(name string) error {
	switch {
	case name == "":
		return &NameError{name, "is empty"}
	case len(name) > AMQPNameMax:
		return &NameError{name, fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), AMQPNameMax)}
	case strings.HasPrefix(name, reservedPrefix):
		return &NameError{name, fmt.Sprintf("begins with %q, which is reserved for the broker", reservedPrefix)}
	}
	return nil
}

// CheckKafkaName checks a name that a Kafka client gives to a topic: 1 to 249 letters, digits, '.', '_' and '-', neither "." nor ".."; and if it begins with
// EscapePrefix, what KafkaName makes of some name. The error is a *NameError.
func CheckKafkaName(kafka string) error {
	if reason := illegal(kafka); reason != "" {
		return &NameError{kafka, reason}
	}
	if IsDigest(kafka) {
		return nil
	}
	_, err := FromKafkaName(kafka)
	return err
}

// illegal says what is wrong with a name for Kafka, "" if nothing is.
func illegal(name string) string {
	switch {
	case name == "":
		return "is empty"
	case name == "." || name == "..":
		return "is neither allowed as a name of a directory nor of a topic"
	case len(name) > KafkaNameMax:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), KafkaNameMax)
	}
	for i := range len(name) {
		if !legalByte(name[i]) {
			return fmt.Sprintf("has %q at byte %d, allowed are letters, digits, '.', '_' and '-'", name[i], i)
		}
	}
	return ""
}

func legalByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// KafkaName returns the name by which Kafka clients know the topic of a name: the name itself if Kafka allows it and it does not begin with EscapePrefix. Else it
// is EscapePrefix and the name with a hyphen and two lower-case hexadecimal digits for each byte that is not a letter, a digit, '.' or '_', so that "a b"
// is "amqp--a-20b". If that has more than 249 bytes, it is "amqp--sha256--" and the name's SHA-256 in hexadecimal digits (IsDigest), which does not say the
// name: who gave it away keeps the way back.
func KafkaName(name string) string {
	if illegal(name) == "" && !strings.HasPrefix(name, EscapePrefix) {
		return name
	}
	const digits = "0123456789abcdef"
	var b strings.Builder
	b.WriteString(EscapePrefix)
	for i := range len(name) {
		if c := name[i]; c != '-' && legalByte(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'-', digits[c>>4], digits[c&15]})
		}
	}
	if b.Len() > KafkaNameMax {
		sum := sha256.Sum256([]byte(name))
		return digestStart + hex.EncodeToString(sum[:])
	}
	return b.String()
}

// IsDigest tells whether a Kafka name is one that only the catalog can turn back into a topic's name.
func IsDigest(kafka string) bool {
	rest, ok := strings.CutPrefix(kafka, digestStart)
	return ok && len(rest) == 2*sha256.Size && strings.Trim(rest, "0123456789abcdef") == ""
}

// digestName returns the Kafka name of a name whose Kafka name is a digest.
func digestName(name string) (kafka string, ok bool) {
	kafka = KafkaName(name)
	return kafka, IsDigest(kafka)
}

// FromKafkaName returns the name of the topic that Kafka clients know by a name; KafkaName makes the same of it again. The error is a *NameError: for a name that
// Kafka does not allow, for one that begins with EscapePrefix but was not made by KafkaName, and for a digest.
func FromKafkaName(kafka string) (name string, err error) {
	if reason := illegal(kafka); reason != "" {
		return "", &NameError{kafka, reason}
	}
	escaped, ok := strings.CutPrefix(kafka, EscapePrefix)
	if !ok {
		return kafka, nil
	}
	if IsDigest(kafka) {
		return "", &NameError{kafka, "stands for a name that is too long for Kafka, and no topic here has it"}
	}
	var b strings.Builder
	for i := 0; i < len(escaped); i++ {
		if escaped[i] != '-' {
			b.WriteByte(escaped[i])
			continue
		}
		var c [1]byte
		if i+2 >= len(escaped) {
			return "", &NameError{kafka, fmt.Sprintf("ends within an escape; names that begin with %q are reserved for escaped ones", EscapePrefix)}
		}
		if _, err := hex.Decode(c[:], []byte(escaped[i+1:i+3])); err != nil {
			return "", &NameError{kafka, fmt.Sprintf("has no hexadecimal digits behind the hyphen at byte %d; names that begin with %q are reserved for escaped ones",
				len(EscapePrefix)+i, EscapePrefix)}
		}
		b.WriteByte(c[0])
		i += 2
	}
	if name = b.String(); name == "" || KafkaName(name) != kafka {
		return "", &NameError{kafka, fmt.Sprintf("escapes a name that needs no escape or another one; names that begin with %q are reserved for escaped ones", EscapePrefix)}
	}
	return name, nil
}

// Collide tells whether two different Kafka names are one to Kafka's metrics, which write '_' for '.'. Kafka creates no topic whose name collides with
// another's.
func Collide(a, b string) bool {
	return a != b && len(a) == len(b) && strings.ReplaceAll(a, ".", "_") == strings.ReplaceAll(b, ".", "_")
}
