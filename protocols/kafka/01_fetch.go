package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka/wire"
)

// Fetch (1): v4 to v18.
//
// v4 has record batches and the isolation level, v5 the log start offset, v7 sessions (KIP-227), v9 the leader epoch (KIP-320), v10 zstd (KIP-110), v11 the rack
// (KIP-392), v12 is flexible and knows the epoch last fetched, v13 has topic ids (KIP-516), v15 moves what only replicas send into tags, v16 tells the nodes of
// new leaders, v17 and v18 have tags of replicas.

// fetch is a fetch request on its way to an answer.
type fetch struct {
	call    *call
	session *fetchSession // of an incremental fetch
	// full is set when the request begins a session.
	full     bool
	minBytes int
	maxBytes int
	until    time.Time
	targets  []fetchTarget
	results  []fetchResult
	reader   fetchReader
}

// fetch answers with records: at once if there are enough, else when there are, or when the wait that the client wishes is over.
//
// One fetch of a connection is worked on at a time, so that a client has one set of read buffers, however many fetches it sends; the answers have to be in
// order anyway.
func (c *call) fetch() {
	req := c.req.(*kmsg.FetchRequest)
	f := &fetch{
		call: c, minBytes: int(req.MinBytes), maxBytes: min(int(req.MaxBytes), c.server.opts.Limits.ResponseBytes),
		reader: fetchReader{conn: c.conn, version: c.version},
	}
	if code := f.begin(req); code != codeNone {
		f.respond(&wire.FetchResponse{ErrorCode: code})
		return
	}
	select {
	case c.conn.fetching <- struct{}{}:
	case <-c.conn.ctx.Done():
		c.respondNothing()
		return
	}
	f.results = make([]fetchResult, len(f.targets))
	f.reader.current.Store(!c.server.isClustered())
	f.reader.read(f.targets, f.results, f.maxBytes)
	wait := time.Duration(req.MaxWaitMillis) * time.Millisecond
	if f.reader.ahead {
		wait = max(wait, aheadWait)
	}
	if wait <= 0 || f.isEnough() || len(f.targets) == 0 {
		f.answer()
		return
	}
	f.until = time.Now().Add(wait)
	c.server.figures.fetchesWaited.Add(1)
	c.conn.work.Go(f.wait)
}

// aheadWait is how long a fetch at least waits for this node to catch up with the offset, when the client wishes to wait less.
const aheadWait = time.Second / 2

// isEnough reports whether the answer need not wait. With nothing but an offset that is beyond the end here, it waits to learn whether that is the end.
func (f *fetch) isEnough() bool {
	return f.reader.failed || f.reader.bytes >= f.minBytes && (f.reader.bytes > 0 || !f.reader.ahead)
}

// begin finds out what is to be fetched (KIP-227).
func (f *fetch) begin(req *kmsg.FetchRequest) (code int16) {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	targets := make([]fetchTarget, 0, n)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			targets = append(targets, fetchTarget{
				fetchKey: targetKey(req.Version, t.Topic, t.TopicID, p.Partition),
				offset:   p.FetchOffset, maxBytes: p.PartitionMaxBytes, epoch: p.CurrentLeaderEpoch,
			})
		}
	}
	sessions := f.call.server.sessions
	if req.Version < 7 {
		f.targets = targets
		return codeNone
	}
	switch req.SessionEpoch {
	case 0, -1: // a full fetch: begins a session, or ends it; one that the client had before is over
		if req.SessionID != 0 {
			sessions.end(req.SessionID)
		}
		f.targets, f.full = targets, req.SessionEpoch == 0
		return codeNone
	}
	f.session, f.targets, code = sessions.use(req, targets)
	if code == codeNone && len(f.targets) == 0 {
		sessions.end(req.SessionID) // it has nothing left
		f.session = nil
	}
	return code
}

// Re-reading for a fetch that wants more than there is: each time that something was appended, but with growing pauses, since what there is is read anew.
const (
	rereadPause     = time.Millisecond
	rereadPauseMost = 50 * time.Millisecond
)

// wait answers when there is enough, the client's wait is over, or the broker stops.
func (f *fetch) wait() {
	c := f.call
	grown := make(chan struct{}, 1)
	for i := range f.results {
		if f.results[i].shard != 0 {
			defer c.server.opts.Store.NotifyGrowth(f.results[i].shard, grown)()
		}
	}
	if f.reader.ahead {
		c.conn.work.Go(func() { f.learnEnd(grown) })
	}
	timer := time.NewTimer(time.Until(f.until))
	defer timer.Stop()
	pause := time.Duration(0)
	for over := false; ; {
		f.reader.read(f.targets, f.results, f.maxBytes)
		if over || f.isEnough() {
			f.answer()
			return
		}
		if pause > 0 {
			over = !f.sleep(min(pause, time.Until(f.until)))
		}
		pause = min(max(2*pause, rereadPause), rereadPauseMost)
		select {
		case <-grown:
		case <-timer.C:
			over = true
		case <-c.server.draining:
			over = true
		case <-c.conn.ctx.Done():
			f.reader.memory.release()
			<-c.conn.fetching
			c.respondNothing()
			return
		}
	}
}

// learnEnd finds out whether offsets that are beyond the end here are beyond the end. If that takes longer than the fetch, it is answered that there is nothing yet:
// a real follower's OFFSET_OUT_OF_RANGE would have the consumer begin elsewhere.
func (f *fetch) learnEnd(learnt chan struct{}) {
	ctx, cancel := context.WithDeadline(f.call.conn.ctx, f.until)
	defer cancel()
	if f.call.server.catchUp(ctx) == nil {
		f.reader.current.Store(true)
		wake(learnt)
	}
}

// sleep waits, unless the broker stops or the connection ends.
func (f *fetch) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.call.server.draining:
	case <-f.call.conn.ctx.Done():
	}
	return false
}

// answer sends what was read last.
func (f *fetch) answer() {
	c := f.call
	resp := &wire.FetchResponse{}
	var news []bool
	switch {
	case f.session != nil:
		news = f.session.tell(f.targets, f.results)
		resp.SessionID = f.session.id
	case f.full:
		resp.SessionID = c.server.sessions.create(f.targets, f.results, c.version >= 13, c.conn.ctx.Done())
	}
	var topics []wire.FetchTopic
	for i := range f.targets {
		if news != nil && !news[i] {
			continue
		}
		t, r := &f.targets[i], &f.results[i]
		if n := len(topics); n == 0 || topics[n-1].Name != t.name || topics[n-1].ID != t.id {
			topics = append(topics, wire.FetchTopic{Name: t.name, ID: t.id})
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, wire.FetchPartition{
			Partition: t.partition, ErrorCode: r.code, HighWatermark: r.high, LogStart: r.start, Records: r.records,
		})
	}
	resp.Topics = topics
	f.reader.remember(f.targets, f.results)
	c.server.figures.fetchedBytes.Add(int64(f.reader.bytes))
	f.respond(resp)
	<-c.conn.fetching
}

// respond encodes the answer around the records and sends it.
func (f *fetch) respond(resp *wire.FetchResponse) {
	resp.Correlation = f.call.correlation
	head := answerBuffers.Get().(*[]byte)
	var parts [][]byte
	*head, parts = resp.Encode(f.call.version, (*head)[:0], nil)
	memory := &f.reader.memory
	f.call.respondParts(parts, cap(*head)+memory.size(), func() {
		memory.release()
		if cap(*head) <= keepBuffer {
			answerBuffers.Put(head)
		}
	})
}
