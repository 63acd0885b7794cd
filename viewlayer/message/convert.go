package message

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"polylog/logstore/record"
)

// The entries of the headers table that stand for something else of a record or of its queue.
const (
	HeaderRecordKey     = "x-record-key"     // the record's key; a publisher sets it too
	HeaderStreamOffset  = "x-stream-offset"  // the offset, where it is of use
	HeaderPartition     = "x-partition"      // the partition
	HeaderTimestampMs   = "x-timestamp-ms"   // the record's time in milliseconds
	HeaderTombstone     = "x-tombstone"      // true: the record's value is null
	HeaderAcquiredCount = "x-acquired-count" // how often the message was returned to its queue
	HeaderDeliveryCount = "x-delivery-count" // how often its delivery failed
	HeaderOmitted       = "x-omitted-headers"
)

// Published is a message as an AMQP client publishes it.
type Published struct {
	Exchange   []byte // empty: the default exchange
	RoutingKey []byte
	Properties []byte // flags and property list as they are on the wire behind the body size of a content header; empty means none
	Body       []byte
	// Addressed says that the message goes to queues that its routing key does not name, so that the key must be kept. A CC or BCC header says so too.
	Addressed bool
}

// Delivered is a message as an AMQP client gets it. All of it is valid until the converter's next call, and no longer than the record.
type Delivered struct {
	Exchange   []byte
	RoutingKey []byte
	Properties []byte // flags and property list
	Body       []byte // shares the record
}

// Origin says where a record lies and what its queue knows of it.
type Origin struct {
	Topic     string // the topic's own name, not the one that Kafka sees; at most 255 bytes
	Partition int32
	Offset    int64
	Retained  bool   // the topic keeps what was settled, so that an offset is of use to a reader
	Counted   bool   // the queue's type tells failed deliveries (quorum)
	Acquired  uint32 // times the message was returned
	Failed    uint32 // times its delivery failed
}

// told tells whether the queue's counters are added to the headers.
func (o *Origin) told() bool { return o.Acquired > 0 || o.Counted && o.Failed > 0 }

// TooLargeError says that a record would be larger than any batch may be.
type TooLargeError struct {
	Bytes, Max int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message: a record of %d bytes, at most %d are left in a batch of at most %d", e.Bytes, e.Max, record.MaxBatchSize)
}

// Converter turns messages into records and back. It holds the memory that this takes and belongs to one goroutine. The zero Converter is ready.
type Converter struct {
	// PropertiesMax is the most bytes of Delivered.Properties, 0 for no limit. A content header cannot be split into frames, so that a record with more
	// headers than its consumer's frames can hold would come back for ever. Entries of the headers table that find no room are left out, and one of the name
	// HeaderOmitted says how many. Below propertiesMin it counts as that.
	PropertiesMax int

	properties Properties
	meta       []byte                // the reserved header
	text       []byte                // the plain forms of values and names; what lies in it stays where it is when it grows
	headers    []record.RecordHeader // of the record that is made
	keyEntry   int                   // which entry of the headers table is the record's key, -1 for none
	keyExact   bool                  // the key says all of that entry

	out     []byte // the property list that is made
	table   int    // where the headers table begins in it
	omitted int    // entries that found no room
	room    int    // most bytes of the table
	told    bool   // the counters are added
	counted bool   // the failed ones too
	key     []byte // the topic's name
	foreign foreign
}

const (
	// propertiesMin is the smallest limit: all properties but the headers (ten short strings, the rest is 12 bytes), and the entries that the converter itself
	// adds, without a record's key, fit into half of it. The smallest frame that AMQP allows (4096 bytes) has room for as much.
	propertiesMin = 4000
	fixedMax      = 10*256 + 12 + 512
)

var recordKeyName = []byte(HeaderRecordKey)

// topicKey returns the topic's name in the converter's memory.
func (c *Converter) topicKey(o *Origin) []byte {
	c.key = append(c.key[:0], o.Topic...)
	return c.key
}

// Key returns the key that the record of a message will have, nil for none: what picks the partition. It is valid until the next call. The error is a
// *PropertiesError.
func (c *Converter) Key(p *Published) ([]byte, error) {
	if err := c.properties.Parse(p.Properties); err != nil {
		return nil, err
	}
	c.text = c.text[:0]
	key, _ := c.findKey(p)
	return key, nil
}

// findKey returns the record's key, and sets keyEntry and keyExact. addressed says that the headers name further queues.
func (c *Converter) findKey(p *Published) (key []byte, addressed bool) {
	c.keyEntry = -1
	if c.properties.Has(FlagHeaders) {
		i := 0
		for it := c.properties.Headers.Fields(); it.Next(); i++ {
			switch string(it.field.Name) {
			case HeaderRecordKey:
				if c.keyEntry < 0 && !it.field.Value.IsVoid() {
					c.keyEntry = i
					key, c.keyExact = c.show(it.field.Value)
				}
			case "CC", "BCC":
				addressed = true
			}
		}
	}
	if c.keyEntry < 0 && len(p.Exchange) > 0 && len(p.RoutingKey) > 0 {
		key = p.RoutingKey
	}
	return key, addressed
}

// AppendAMQP appends a message that an AMQP client published to a batch; now is when it arrived, in milliseconds. It allocates nothing but to grow memory that
// is kept, and copies all bytes.
//
// The error is a *PropertiesError if the properties are malformed or a name is longer than AMQP has it, a *TooLargeError if the batch has no room. The batch is
// as it was then.
func (c *Converter) AppendAMQP(b *record.Builder, now int64, p *Published) error {
	props := &c.properties
	if err := props.Parse(p.Properties); err != nil {
		return err
	}
	if len(p.Exchange) > shortStringMax || len(p.RoutingKey) > shortStringMax {
		return &PropertiesError{At: -1, Reason: fmt.Sprintf("exchange and routing key have %d and %d bytes, at most %d are allowed",
			len(p.Exchange), len(p.RoutingKey), shortStringMax)}
	}
	c.text = c.text[:0]
	key, addressed := c.findKey(p)

	first := byte(reservedVersion)
	c.meta = append(c.meta[:0], 0)
	if len(p.Exchange) > 0 {
		first |= hasExchange
		c.meta = appendShort(c.meta, p.Exchange)
	}
	// A default exchange's routing key is the topic's name, unless the message goes to other queues too; that of a named one is the key, unless that is another.
	if len(p.Exchange) > 0 && c.keyEntry >= 0 || len(p.Exchange) == 0 && (addressed || p.Addressed) {
		first |= hasRoutingKey
		c.meta = appendShort(c.meta, p.RoutingKey)
	}
	c.headers = append(c.headers[:0], record.RecordHeader{})
	if props.Flags == 0 {
		first |= noProperties
	} else {
		c.appendProperties(props)
	}
	c.meta[0] = first
	c.headers[0] = record.RecordHeader{Key: reservedName, Value: c.meta}

	value := p.Body
	if value == nil {
		value = noFields[:0] // an empty body is no tombstone
	}
	return appendRecord(b, now, key, value, c.headers)
}

var reservedName = []byte(ReservedHeader)

// appendProperties writes the property list, which is not empty, into the reserved header and the plain ones.
func (c *Converter) appendProperties(props *Properties) {
	c.meta = binary.BigEndian.AppendUint16(c.meta, props.Flags)
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		switch {
		case props.Flags&flag == 0, flag&readable != 0:
		case flag == FlagHeaders:
			c.meta = binary.AppendUvarint(c.meta, uint64(props.Headers.Len()))
			i := 0
			for it := props.Headers.Fields(); it.Next(); i++ {
				c.appendEntry(it.field, i == c.keyEntry)
			}
		case flag == FlagDeliveryMode:
			c.meta = append(c.meta, props.DeliveryMode)
		case flag == FlagPriority:
			c.meta = append(c.meta, props.Priority)
		case flag == FlagTimestamp:
			c.meta = binary.BigEndian.AppendUint64(c.meta, props.Timestamp)
		default:
			c.meta = appendShort(c.meta, *props.shortString(flag))
		}
	}
	if props.Flags&readable == 0 {
		return
	}
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		if props.Flags&readable&flag != 0 {
			c.headers = append(c.headers, record.RecordHeader{Key: propertyKeys[bits.LeadingZeros16(flag)], Value: *props.shortString(flag)})
		}
	}
}

// appendRecord appends a record if the batch has room, as a builder that had to refuse one takes no others either.
func appendRecord(b *record.Builder, ts int64, key, value []byte, headers []record.RecordHeader) error {
	const framing = 32 // lengths, deltas and counts of a record
	size := framing + len(key) + len(value)
	for i := range headers {
		size += 2*binary.MaxVarintLen32 + len(headers[i].Key) + len(headers[i].Value)
	}
	if room := record.MaxBatchSize - b.Size(); size > room {
		return &TooLargeError{size, room}
	}
	b.Append(ts, key, value, headers)
	return nil
}

// ToAMQP makes d what an AMQP client gets of a record; ts is the record's time in milliseconds. A message that an AMQP client published comes out as it went
// in, plus the queue's counters if there are any; every other record is mapped. It allocates nothing but to grow memory that is kept.
//
// No record makes it fail. The error is a *PropertiesError for a topic's name that cannot be a routing key.
func (c *Converter) ToAMQP(rec record.Record, ts int64, o Origin, d *Delivered) error {
	if len(o.Topic) > shortStringMax {
		return &PropertiesError{At: -1, Reason: fmt.Sprintf("the topic's name has %d bytes, a routing key has at most %d", len(o.Topic), shortStringMax)}
	}
	headers := rec.Headers()
	count := rec.HeaderCount()
	next := headers
	if next.Next() {
		if _, moved := parseMoved(next.Header()); moved {
			headers = next
			count--
			next.Next()
		}
		if h := next.Header(); string(h.Key) == ReservedHeader && c.home(rec, h.Value, next, count-1, &o, d) {
			return nil
		}
	}
	c.abroad(rec, headers, ts, &o, d)
	return nil
}

// openTable begins the headers table in c.out.
func (c *Converter) openTable(o *Origin) {
	c.table, c.omitted = len(c.out), 0
	c.told, c.counted = o.Acquired > 0, o.Counted && o.Failed > 0
	c.room = 0
	if c.PropertiesMax > 0 {
		c.room = max(c.PropertiesMax, propertiesMin) - fixedMax
	}
	c.out = append(c.out, 0, 0, 0, 0)
}

// keepEntry looks at the entry that begins at mark and is the last one, and takes it back if there is no room for it or a counter of the queue takes its place.
func (c *Converter) keepEntry(mark int, name []byte) {
	switch {
	case c.told && string(name) == HeaderAcquiredCount, c.counted && string(name) == HeaderDeliveryCount:
		c.out = c.out[:mark]
	case c.room > 0 && len(c.out)-c.table > c.room:
		c.out = c.out[:mark]
		c.omitted++
	}
}

// closeTable adds the counters and ends the headers table.
func (c *Converter) closeTable(o *Origin) {
	if c.told {
		c.out = appendInt64(c.out, HeaderAcquiredCount, int64(o.Acquired))
	}
	if c.counted {
		c.out = appendInt64(c.out, HeaderDeliveryCount, int64(o.Failed))
	}
	if c.omitted > 0 {
		c.out = appendInt64(c.out, HeaderOmitted, int64(c.omitted))
	}
	binary.BigEndian.PutUint32(c.out[c.table:], uint32(len(c.out)-c.table-4))
}

// appendInt64 appends a field of 64 bits, the type that every client reads.
func appendInt64(dst []byte, name string, n int64) []byte {
	dst = append(append(append(dst, byte(len(name))), name...), byte(TypeInt64))
	return binary.BigEndian.AppendUint64(dst, uint64(n))
}
