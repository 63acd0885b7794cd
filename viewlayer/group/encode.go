package group

import (
	"encoding/binary"
	"fmt"
	"time"
)

// valueVersion is the first byte of every value of this view, save for heads, which have headVersion. A reader that does not know the version says so and does not guess.
const (
	valueVersion = 1
	headVersion  = 2
)

// head is what is stored of a group besides its members. It changes with every change of the group, so "the head is as I know it" is the condition under which
// anything of the group is written.
//
//	version       u8       2; 1: without owner
//	writes        uvarint  how often the head was written: two heads of a group are never equal
//	generation    varint
//	since         varint   Unix milliseconds: when the group became empty; 0 if it is not
//	members       uvarint  number of member keys
//	protocol type, protocol, leader: uvarint length, bytes
//	owner         uvarint  the mark of the coordinator that wrote it
type head struct {
	writes                         uint64
	generation                     int32
	since                          int64
	members                        int
	protocolType, protocol, leader string
	owner                          uint64
}

func (h *head) encode() []byte {
	b := binary.AppendUvarint([]byte{headVersion}, h.writes)
	b = binary.AppendVarint(b, int64(h.generation))
	b = binary.AppendVarint(b, h.since)
	b = binary.AppendUvarint(b, uint64(h.members))
	for _, s := range []string{h.protocolType, h.protocol, h.leader} {
		b = appendBytes(b, s)
	}
	return binary.AppendUvarint(b, h.owner)
}

func decodeHead(key string, b []byte) (head, error) {
	r := newVersionReader(key, b, headVersion)
	h := head{writes: r.uvarint(), generation: int32(r.varint()), since: r.varint(), members: int(r.uvarint())}
	h.protocolType, h.protocol, h.leader = r.text(), r.text(), r.text()
	if r.version >= 2 {
		h.owner = r.uvarint()
	}
	return h, r.end()
}

// encode gives the value of the member's key:
//
//	version     u8       1
//	id, instance, client id, host: uvarint length, bytes
//	session     uvarint  milliseconds
//	rebalance   uvarint  milliseconds
//	protocols   uvarint  number, then name and metadata of each: uvarint length, bytes
//	assignment  uvarint  length, bytes
func (m *member) encode() []byte {
	b := []byte{valueVersion}
	for _, s := range []string{m.id, m.instance, m.clientID, m.host} {
		b = appendBytes(b, s)
	}
	b = binary.AppendUvarint(b, uint64(m.session.Milliseconds()))
	b = binary.AppendUvarint(b, uint64(m.rebalance.Milliseconds()))
	b = binary.AppendUvarint(b, uint64(len(m.protocols)))
	for _, p := range m.protocols {
		b = appendBytes(appendBytes(b, p.Name), p.Metadata)
	}
	return appendBytes(b, m.assignment)
}

func decodeMember(key string, b []byte) (*member, error) {
	r := newValueReader(key, b)
	m := &member{id: r.text(), instance: r.text(), clientID: r.text(), host: r.text()}
	m.session = time.Duration(r.uvarint()) * time.Millisecond
	m.rebalance = time.Duration(r.uvarint()) * time.Millisecond
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		m.protocols = append(m.protocols, Protocol{r.text(), []byte(r.text())})
	}
	m.assignment = []byte(r.text())
	return m, r.end()
}

// encode gives the value of a bookmark's key:
//
//	version       u8      1
//	offset        varint
//	leader epoch  varint  -1: not known
//	committed     varint  Unix milliseconds
//	expires       varint  Unix milliseconds; 0: as the broker is configured
//	metadata      the rest
func (b *Bookmark) encode() []byte {
	v := binary.AppendVarint([]byte{valueVersion}, b.Offset)
	v = binary.AppendVarint(v, int64(b.LeaderEpoch))
	v = binary.AppendVarint(v, b.Committed)
	v = binary.AppendVarint(v, b.Expires)
	return append(v, b.Metadata...)
}

func decodeBookmark(key string, p TopicPartition, v []byte) (Bookmark, error) {
	r := newValueReader(key, v)
	b := Bookmark{TopicPartition: p, Offset: r.varint(), LeaderEpoch: int32(r.varint()), Committed: r.varint(), Expires: r.varint()}
	b.Metadata = string(r.b)
	r.b = nil
	return b, r.end()
}

func appendBytes[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// valueReader takes a value apart; after the first error it gives zeros.
type valueReader struct {
	key     string
	version byte
	b       []byte
	err     error
}

func newValueReader(key string, b []byte) *valueReader { return newVersionReader(key, b, valueVersion) }

// newVersionReader reads a value of a version up to newest.
func newVersionReader(key string, b []byte, newest byte) *valueReader {
	r := &valueReader{key: key, b: b}
	switch {
	case len(b) == 0:
		r.fail("it is empty")
	case b[0] < valueVersion || b[0] > newest:
		r.fail(fmt.Sprintf("it has version %d, this program reads versions up to %d; it was written by a newer program", b[0], newest))
	default:
		r.version, r.b = b[0], b[1:]
	}
	return r
}

func (r *valueReader) fail(what string) {
	if r.err == nil {
		r.err = &CorruptValueError{r.key, what}
	}
	r.b = nil
}

func (r *valueReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("it ends early")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *valueReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("it ends early")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *valueReader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail("it ends early")
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// end says what was wrong, also if something is left.
func (r *valueReader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("it goes on behind its end")
	}
	return r.err
}
