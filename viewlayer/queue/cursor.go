package queue

import (
	"encoding/binary"
	"fmt"

	"polylog/logstore"
	"polylog/viewlayer/topic"
)

const (
	cursorPrefix    = "q/"
	epochPrefix     = "e/"
	closedPrefix    = "c/"
	doubtPrefix     = "d/"
	boundPrefix     = "b/"
	consumerPrefix  = "u/"
	latestPrefix    = "n/"
	exclusivePrefix = "x/"
)

// cursor is how far the messages of one partition have been taken, as last read. It is only a guess until a transaction with its condition goes through.
type cursor struct {
	key string
	raw []byte // the value that was read; nil: there was none
	at  int64
}

func newCursor(id topic.ID, partition int) cursor {
	return cursor{key: cursorPrefix + string(binary.BigEndian.AppendUint32(id[:], uint32(partition)))}
}

// read reads the cursor anew.
func (c *cursor) read(s *logstore.Store) error {
	raw, ok := s.Get(c.key)
	if !ok {
		c.raw, c.at = nil, 0
		return nil
	}
	n, err := parseNumber(raw)
	if err != nil {
		return fmt.Errorf("the cursor %q: %w", c.key, err)
	}
	c.raw, c.at = raw, int64(n)
	return nil
}

// numberVersion begins the values that are numbers: of a cursor, of an epoch. They are a byte longer than that of a shard's key, so that nobody takes one for the
// other.
const numberVersion = 1

func number(n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{numberVersion}, n)
}

func parseNumber(raw []byte) (uint64, error) {
	if len(raw) != 9 || raw[0] != numberVersion {
		return 0, fmt.Errorf("the value %x is no number of version %d", raw, numberVersion)
	}
	return binary.BigEndian.Uint64(raw[1:]), nil
}

// unchanged is the condition that the cursor is still as it was read.
func (c *cursor) unchanged() logstore.Condition {
	if c.raw == nil {
		return logstore.KeyAbsent(c.key)
	}
	return logstore.KeyIs(c.key, c.raw)
}

// move is the operation that moves the cursor, and moved what the cursor is after that.
func (c *cursor) move(to int64) (logstore.Op, cursor) {
	raw := number(uint64(to))
	return logstore.Put(c.key, raw), cursor{c.key, raw, to}
}
