package topic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// valueVersion is the first byte of a topic's value. A reader that does not know the version says so and does not guess.
const valueVersion = 1

// Bits of the flags byte.
const (
	flagRetain = 1 << iota
	flagInternal
	flagDurable
	flagAutoDelete
	flagHidden
)

// encode gives the value that the topic's key has:
//
//	version  u8      1
//	id       16
//	flags    u8      bit 0 retain, 1 internal, 2 durable, 3 auto-delete, 4 hidden
//	created  varint  Unix milliseconds
//	shards   uvarint number of partitions
//	owner, arguments: uvarint length, bytes
//	config   uvarint number, then key and value of each, by key: uvarint length, bytes
func (t *Topic) encode(partitions int) []byte {
	b := append([]byte{valueVersion}, t.ID[:]...)
	flags := byte(0)
	for bit, on := range map[byte]bool{
		flagRetain: t.AckPolicy == Retain, flagInternal: t.Internal, flagDurable: t.Durable, flagAutoDelete: t.AutoDelete, flagHidden: t.Hidden,
	} {
		if on {
			flags |= bit
		}
	}
	b = append(b, flags)
	b = binary.AppendVarint(b, t.Created)
	b = binary.AppendUvarint(b, uint64(partitions))
	b = appendText(b, t.Owner)
	b = appendText(b, string(t.Arguments))
	b = binary.AppendUvarint(b, uint64(len(t.Config)))
	for _, k := range slices.Sorted(maps.Keys(t.Config)) {
		b = appendText(appendText(b, k), t.Config[k])
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errShort = errors.New("the topic's value ends early")

// decode reads what encode wrote into t, and returns the number of partitions.
func (t *Topic) decode(b []byte) (partitions int, err error) {
	if len(b) < 18 {
		return 0, errShort
	}
	if b[0] != valueVersion {
		return 0, fmt.Errorf("the topic's value has version %d; this program reads version %d", b[0], valueVersion)
	}
	copy(t.ID[:], b[1:17])
	flags := b[17]
	if flags&flagRetain != 0 {
		t.AckPolicy = Retain
	}
	t.Internal, t.Durable, t.AutoDelete, t.Hidden = flags&flagInternal != 0, flags&flagDurable != 0, flags&flagAutoDelete != 0, flags&flagHidden != 0
	r := valueReader{b: b[18:]}
	t.Created = r.varint()
	n := r.uvarint()
	t.Owner = r.text()
	if a := r.text(); a != "" {
		t.Arguments = []byte(a)
	}
	for range r.uvarint() {
		k, v := r.text(), r.text()
		if r.err != nil {
			break
		}
		if t.Config == nil {
			t.Config = map[string]string{}
		}
		t.Config[k] = v
	}
	if r.err == nil && (n < 1 || n > PartitionsMax) {
		return 0, &PartitionsError{int(min(n, 1<<31))}
	}
	return int(n), r.err
}

// valueReader takes a value apart; after the first error it gives zeros.
type valueReader struct {
	b   []byte
	err error
}

func (r *valueReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return v * r.skip(n)
}

func (r *valueReader) varint() int64 {
	v, n := binary.Varint(r.b)
	return v * int64(r.skip(n))
}

// skip goes over n bytes; it returns 1, or 0 if they are not there.
func (r *valueReader) skip(n int) uint64 {
	if r.err != nil || n <= 0 || n > len(r.b) {
		r.b, r.err = nil, errShort
		return 0
	}
	r.b = r.b[n:]
	return 1
}

func (r *valueReader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errShort
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}
