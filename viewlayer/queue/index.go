package queue

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/topic"
)

// IndexTopic is the name of the topic, in the default namespace, whose records say which messages are claimed and which have come back. Kafka clients can
// read it.
const IndexTopic = "__claims"

// span is a run of offsets, first <= o < end, whose messages have the same counters.
type span struct {
	first, end       int64
	acquired, failed uint32
}

// kinds of index records.
const (
	kindClaim    = "claim"
	kindReturned = "returned"
)

// entry is an index record, decoded. Its form is JSON, so that whoever reads the topic sees what it says:
//
//	key    <namespace>/<queue>, the default namespace being only "/"
//	value  {"kind":"claim", "namespace":…, "queue":…, "topic":hex, "partition":n, "ranges":[[first,count],…],
//	        "holder":…, "node":…, "epoch":n, "time":Unix ms}
//
// A range is [first,count], or [first,count,acquired,failed] when the messages have come back before: acquired times in all, failed times by a rejection or a lost
// client. Offsets of a range that are deleted do not count. "returned" has no holder; its node and epoch are those of who
// returned the messages.
type entry struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Queue     string    `json:"queue"`
	Topic     string    `json:"topic"`
	Partition int       `json:"partition"`
	Ranges    [][]int64 `json:"ranges"`
	Holder    string    `json:"holder"`
	Node      string    `json:"node"`
	Epoch     uint64    `json:"epoch"`
	Time      int64     `json:"time"`
}

// parseEntry reads an index record's value.
func parseEntry(value []byte) (e entry, id topic.ID, spans []span, err error) {
	if err = json.Unmarshal(value, &e); err != nil {
		return e, id, nil, fmt.Errorf("index record: %w", err)
	}
	raw, err := hex.DecodeString(e.Topic)
	if err != nil || len(raw) != len(id) {
		return e, id, nil, fmt.Errorf("index record: %q is no topic id", e.Topic)
	}
	copy(id[:], raw)
	for _, r := range e.Ranges {
		if len(r) != 2 && len(r) != 4 || r[0] < 0 || r[1] < 1 {
			return e, id, nil, fmt.Errorf("index record: %v is no range", r)
		}
		s := span{first: r[0], end: r[0] + r[1]}
		if len(r) == 4 {
			s.acquired, s.failed = uint32(r[2]), uint32(r[3])
		}
		spans = append(spans, s)
	}
	return e, id, spans, nil
}

// entryWriter gathers index records into one batch. It belongs to one goroutine at a time.
type entryWriter struct {
	b   *record.Builder
	buf []byte
}

func (w *entryWriter) reset() {
	if w.b == nil {
		w.b = record.NewBuilder()
	}
	w.b.Reset()
}

// len returns how many records there are; the next one's place in the batch.
func (w *entryWriter) len() int { return w.b.Len() }

// claim adds a claim's record.
func (w *entryWriter) claim(q *Queue, part int, spans []span, h *Holder, at int64) {
	w.buf = w.open(kindClaim, q, part, spans)
	w.buf = append(w.buf, h.suffix...)
	w.close(q, at)
}

// returned adds a record of messages that have come back.
func (w *entryWriter) returned(q *Queue, part int, spans []span, at int64) {
	w.buf = w.open(kindReturned, q, part, spans)
	w.buf = append(w.buf, q.v.stamp...)
	w.close(q, at)
}

func (w *entryWriter) open(kind string, q *Queue, part int, spans []span) []byte {
	b := append(w.buf[:0], `{"kind":"`...)
	b = append(b, kind...)
	b = append(b, q.infix...)
	b = strconv.AppendInt(b, int64(part), 10)
	b = append(b, `,"ranges":[`...)
	for i, s := range spans {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, s.first, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, s.end-s.first, 10)
		if s.acquired > 0 || s.failed > 0 {
			b = append(b, ',')
			b = strconv.AppendUint(b, uint64(s.acquired), 10)
			b = append(b, ',')
			b = strconv.AppendUint(b, uint64(s.failed), 10)
		}
		b = append(b, ']')
	}
	return append(b, ']')
}

func (w *entryWriter) close(q *Queue, at int64) {
	w.buf = append(w.buf, timeField...)
	w.buf = strconv.AppendInt(w.buf, at, 10)
	w.buf = append(w.buf, '}')
	w.b.Append(at, q.indexKey, w.buf, nil)
}

// timeField follows the node and epoch of a record.
const timeField = `,"time":`

// originOf reads the node and epoch of an index record, and nothing else of it if it can.
func originOf(value []byte) (o origin, ok bool) {
	if o, ok = plainOrigin(value); ok {
		return o, true
	}
	e, _, _, err := parseEntry(value)
	return origin{e.Node, e.Epoch}, err == nil
}

func plainOrigin(value []byte) (o origin, ok bool) {
	at := bytes.LastIndex(value, nodeField)
	if at < 0 {
		return o, false
	}
	rest := value[at+len(nodeField):]
	end := bytes.Index(rest, epochField)
	stop := bytes.LastIndex(rest, []byte(timeField))
	if end < 2 || stop < end+len(epochField) || rest[0] != '"' || bytes.IndexByte(rest[1:end-1], '\\') >= 0 {
		return o, false
	}
	epoch, err := strconv.ParseUint(string(rest[end+len(epochField):stop]), 10, 64)
	return origin{string(rest[1 : end-1]), epoch}, err == nil
}

var (
	nodeField  = []byte(`,"node":`)
	epochField = []byte(`,"epoch":`)
)

// returnedMark begins the value of a record of messages that have come back, and of no other.
var returnedMark = []byte(`{"kind":"` + kindReturned + `"`)

// op returns the append of what was gathered.
func (w *entryWriter) op(index logstore.Shard) (logstore.Op, error) {
	batch, err := w.b.Build()
	if err != nil {
		return logstore.Op{}, fmt.Errorf("writing index records: %w", err)
	}
	return logstore.AppendBatch(index, batch), nil
}

// infix is the constant part of a queue's index records.
func infix(t *topic.Topic) []byte {
	b := append([]byte(nil), `","namespace":`...)
	b = appendJSON(b, t.Namespace)
	b = append(b, `,"queue":`...)
	b = appendJSON(b, t.Name)
	b = append(b, `,"topic":"`...)
	b = hex.AppendEncode(b, t.ID[:])
	return append(b, `","partition":`...)
}

// suffix is the constant part of a holder's claims.
func suffix(holder string, stamp []byte) []byte {
	return append(appendJSON([]byte(`,"holder":`), holder), stamp...)
}

// stamp says which node's, in which epoch, a record is. A queue or holder cannot have a name that looks like it: quotes in names are escaped.
func stamp(node string, epoch uint64) []byte {
	b := appendJSON([]byte(`,"node":`), node)
	b = append(b, `,"epoch":`...)
	return strconv.AppendUint(b, epoch, 10)
}

// appendJSON adds a JSON string. Bytes that are no UTF-8 become U+FFFD: the text is for people, and the topic's id says what is meant.
func appendJSON(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic("a string has no JSON form: " + err.Error())
	}
	return append(b, text...)
}

func indexKey(t *topic.Topic) []byte {
	if t.Namespace == topic.DefaultNamespace {
		return []byte("/" + t.Name)
	}
	return []byte(t.Namespace + "/" + t.Name)
}
