package kafka

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/topic"
)

// fetchResult is what was found for a fetchTarget.
type fetchResult struct {
	code    int16
	topic   *topic.Topic   // nil: it was not found
	shard   logstore.Shard // 0: none
	high    int64          // high watermark, -1: not known
	start   int64          // log start, -1: not known
	records [][]byte       // batches; they lie in the memory of fetchMemory
	passed  bool           // records has no record and says that offsets are past
	ahead   bool           // the offset lies beyond the end that this node knows, which may not be the end
}

// fetchMemory is the memory of one fetch's records. What is small is copied together, so that a fetch of many partitions with little in each does not need a read
// buffer for each; what is large stays in the buffer it was read into.
type fetchMemory struct {
	scratch *logstore.Buffer   // to read with
	kept    []*logstore.Buffer // have records in them
	small   []byte             // records that were copied together; replaced when it is full
}

// smallRead is up to what size records are copied.
const smallRead = 16 << 10

// smallBlock is the size of the pieces in which memory for that is taken.
const smallBlock = 64 << 10

var readBuffers = sync.Pool{New: func() any { return &logstore.Buffer{} }}

// keep returns the batches so that they stay until release.
func (m *fetchMemory) keep(batches []record.Batch, size int) [][]byte {
	if size > smallRead {
		parts := make([][]byte, len(batches))
		for i := range batches {
			parts[i] = batches[i].Bytes()
		}
		m.kept = append(m.kept, m.scratch)
		m.scratch = nil
		return parts
	}
	if cap(m.small)-len(m.small) < size {
		m.small = make([]byte, 0, max(size, min(smallBlock, 4*cap(m.small))))
	}
	at := len(m.small)
	for i := range batches {
		m.small = append(m.small, batches[i].Bytes()...)
	}
	return [][]byte{m.small[at:len(m.small):len(m.small)]}
}

// buffer returns a buffer to read into.
func (m *fetchMemory) buffer() *logstore.Buffer {
	if m.scratch == nil {
		m.scratch = readBuffers.Get().(*logstore.Buffer)
	}
	return m.scratch
}

// size returns how many bytes of memory the records hold.
func (m *fetchMemory) size() int {
	n := cap(m.small)
	for _, b := range m.kept {
		n += b.Size()
	}
	return n
}

// pooledBytes is the largest read buffer that is kept for other fetches.
const pooledBytes = 1 << 20

func giveBackBuffer(b *logstore.Buffer) {
	if b != nil && b.Size() <= pooledBytes {
		readBuffers.Put(b)
	}
}

// release lets go of all records.
func (m *fetchMemory) release() {
	for i, b := range m.kept {
		giveBackBuffer(b)
		m.kept[i] = nil
	}
	giveBackBuffer(m.scratch)
	m.kept, m.scratch, m.small = m.kept[:0], nil, m.small[:0]
}

// fetchReader reads what a fetch asks for.
type fetchReader struct {
	conn    *connection
	version int16
	left    int // bytes that may be read yet
	bytes   int // that were read
	failed  bool
	ahead   bool        // an offset lies beyond the end that this node knows
	current atomic.Bool // all is here that was there when the fetch came: what is beyond the end is out of range
	memory  fetchMemory
	last    fetchKey     // whose topic was looked up last: partitions of a topic come together
	topic   *topic.Topic // of last
	err     error        // of last
}

// read fills in the results, in the order of the targets: whole batches until max bytes are reached, but the first one found is returned whatever its size (KIP-74).
func (r *fetchReader) read(targets []fetchTarget, results []fetchResult, max int) {
	r.memory.release()
	r.left, r.bytes, r.failed, r.ahead, r.topic, r.err = max, 0, false, false, nil, nil
	for i := range targets {
		results[i] = fetchResult{high: -1, start: -1}
		r.target(&targets[i], &results[i])
		if results[i].code != codeNone {
			r.failed = true
		}
		r.ahead = r.ahead || results[i].ahead
	}
}

// find looks up the topic of a target.
func (r *fetchReader) find(t *fetchTarget) (*topic.Topic, error) {
	if (r.topic != nil || r.err != nil) && r.last.name == t.name && r.last.id == t.id {
		return r.topic, r.err
	}
	r.last = t.fetchKey
	if r.version >= 13 {
		r.topic, r.err = r.conn.findID(t.id)
	} else {
		r.topic, r.err = r.conn.find(t.name)
	}
	return r.topic, r.err
}

// target reads one partition.
func (r *fetchReader) target(t *fetchTarget, res *fetchResult) {
	var err error
	if res.topic, err = r.find(t); err != nil {
		res.code = code(err)
		return
	}
	if res.shard, err = partition(res.topic, t.partition); err != nil {
		res.code = code(err)
		return
	}
	if res.code = checkEpoch(t.epoch); res.code != codeNone {
		return
	}
	for {
		current := r.current.Load() // before the bounds
		b, err := r.conn.server.bounds(res.topic, res.shard)
		if err != nil {
			res.code = code(err)
			return
		}
		res.high, res.start = b.next, b.start
		if t.offset > b.next && !current {
			// Another node has given the client more than is here yet. Its offset is at most the end.
			res.high, res.ahead = t.offset, true
			return
		}
		if t.offset < b.start || t.offset > b.next {
			res.code = codeOffsetOutOfRange
			return
		}
		from := max(t.offset, b.first)
		if t.offset == b.next || r.left <= 0 && r.bytes > 0 {
			return
		}
		if from >= b.next {
			r.moveOn(t, b.next, res)
			return
		}
		err = r.records(t, from, res)
		if _, moved := errors.AsType[*logstore.OffsetRangeError](err); moved {
			continue // the log start moved between the two calls
		}
		if err != nil {
			r.conn.server.complain("kafka: reading topic '%s', partition %d, offset %d: %v", res.topic.Name, t.partition, from, err)
			res.code = code(err)
		}
		return
	}
}

// records reads batches of one partition, from an offset on that is not before its first.
func (r *fetchReader) records(t *fetchTarget, from int64, res *fetchResult) error {
	store := r.conn.server.opts.Store
	most := max(min(int(t.maxBytes), r.left), 0)
	chunk, err := store.Read(res.shard, from, most, r.memory.buffer())
	if _, corrupt := errors.AsType[*logstore.CorruptError](err); corrupt {
		// What lies before the damage can be had, batch by batch.
		chunk, err = store.Read(res.shard, from, 0, r.memory.buffer())
	}
	if err != nil {
		return err
	}
	if len(chunk.Batches) == 0 {
		r.moveOn(t, chunk.Next, res)
		return nil
	}
	size := 0
	for i := range chunk.Batches {
		size += chunk.Batches[i].Len()
		if r.version < 10 && chunk.Batches[i].Codec() == record.Zstd {
			res.code = codeUnsupportedCompressionType // KIP-110
			return nil
		}
	}
	if size > most && r.bytes > 0 {
		return nil // one batch, too large for what is left; it is the first of a later answer
	}
	res.records = r.memory.keep(chunk.Batches, size)
	r.bytes += size
	r.left -= size
	return nil
}

// moveOn answers a fetch behind which all is deleted up to next: with a batch that covers these offsets and has no records, as compaction leaves in Kafka. So
// who reads until the end of a queue that others have emptied gets there. A client that does not move on for it, and asks again, is not sent it again, since it
// would ask again and again: for it there is nothing until there is.
func (r *fetchReader) moveOn(t *fetchTarget, next int64, res *fetchResult) {
	next = min(next, t.offset+math.MaxInt32)
	if next <= t.offset || r.bytes > 0 && r.left < record.HeaderSize || r.conn.passed[t.fetchKey] == t.offset+1 {
		return
	}
	empty := record.Empty(t.offset, next-1, -1, nil)
	record.SetBase(empty.Bytes(), t.offset, leaderEpoch)
	res.records = [][]byte{empty.Bytes()}
	res.passed = true
	r.bytes += empty.Len()
	r.left -= empty.Len()
}

// mostPassed bounds what is remembered of a connection's empty answers; beyond it all are forgotten, and may be sent once more.
const mostPassed = 10_000

// remember notes which targets were sent a batch without records.
func (r *fetchReader) remember(targets []fetchTarget, results []fetchResult) {
	for i := range results {
		if !results[i].passed {
			continue
		}
		if r.conn.passed == nil || len(r.conn.passed) >= mostPassed {
			r.conn.passed = map[fetchKey]int64{}
		}
		r.conn.passed[targets[i].fetchKey] = targets[i].offset + 1
	}
}
