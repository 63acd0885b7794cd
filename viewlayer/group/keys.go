package group

import (
	"encoding/binary"
	"strings"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

// NameMax is the longest name of a group in bytes. It keeps every key far below logstore.MaxKey.
const NameMax = 8 << 10

// What the keys of this view begin with. The table of keys is in the package comment.
const (
	headPrefix     = "g/h/"
	memberPrefix   = "g/m/"
	bookmarkPrefix = "g/b/"
	idsKey         = "p/ids"
	producerPrefix = "p/s/"
)

// groupName is a group in its namespace.
type groupName struct{ namespace, group string }

func (n groupName) check() error {
	if n.group == "" || len(n.group) > NameMax {
		return &InvalidGroupError{n.group}
	}
	return nil
}

// keyText is a part of a key that is followed by others: length and bytes.
func keyText(s string) string {
	return string(binary.AppendUvarint(nil, uint64(len(s)))) + s
}

// cutText takes what keyText made from the beginning of a key.
func cutText(key string) (s, rest string, ok bool) {
	n, w := binary.Uvarint([]byte(key[:min(len(key), binary.MaxVarintLen64)]))
	if w <= 0 || n > uint64(len(key)-w) {
		return "", "", false
	}
	return key[w : w+int(n)], key[w+int(n):], true
}

func (n groupName) key(prefix string) string {
	return prefix + keyText(n.namespace) + keyText(n.group)
}

// parseName reads the key of something that a group has; rest is what follows the group's name.
func parseName(prefix, key string) (n groupName, rest string, err error) {
	rest, ok := strings.CutPrefix(key, prefix)
	if ok {
		if n.namespace, rest, ok = cutText(rest); ok {
			if n.group, rest, ok = cutText(rest); ok {
				return n, rest, nil
			}
		}
	}
	return groupName{}, "", &CorruptValueError{key, "the key is not one of a group"}
}

func (n groupName) headKey() string { return n.key(headPrefix) }

// memberKey is the key of the i-th member.
func (n groupName) memberKey(i int) string {
	return string(binary.BigEndian.AppendUint32([]byte(n.key(memberPrefix)), uint32(i)))
}

func (n groupName) bookmarkKey(p TopicPartition) string {
	b := append([]byte(n.key(bookmarkPrefix)), p.Topic[:]...)
	return string(binary.BigEndian.AppendUint32(b, uint32(p.Partition)))
}

// parsePartition reads what follows the group's name in a bookmark's key.
func parsePartition(rest string) (p TopicPartition, ok bool) {
	if len(rest) != len(p.Topic)+4 {
		return p, false
	}
	copy(p.Topic[:], rest)
	p.Partition = int32(binary.BigEndian.Uint32([]byte(rest[len(p.Topic):])))
	return p, true
}

// TopicPartition is a partition of a topic, by the topic's identity: a topic that is made anew under an old name is another one.
type TopicPartition struct {
	Topic     topic.ID
	Partition int32
}

// producerKey is the key of what a shard remembers of a producer.
func producerKey(sh logstore.Shard, id int64) string {
	b := append(make([]byte, 0, len(producerPrefix)+16), producerPrefix...)
	b = binary.BigEndian.AppendUint64(b, uint64(sh))
	return string(binary.BigEndian.AppendUint64(b, uint64(id)))
}

// parseProducer reads a key that producerKey made.
func parseProducer(key string) (sh logstore.Shard, id int64, ok bool) {
	rest, ok := strings.CutPrefix(key, producerPrefix)
	if !ok || len(rest) != 16 {
		return 0, 0, false
	}
	return logstore.Shard(binary.BigEndian.Uint64([]byte(rest))), int64(binary.BigEndian.Uint64([]byte(rest[8:]))), true
}
