package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// crashLedger is what the clients of the crash test know, and where what they see is held against it. A life is one process of the broker: what a client reads from
// the socket of an earlier life may be late and says nothing about the present one.
type crashLedger struct {
	mu       sync.Mutex
	alive    int                // number of the present life
	messages map[queued]*story  // of queues
	records  map[recordAt]value // of each offset of each topic, as anybody saw it
	values   map[value]recordAt // where a Kafka producer was told that its record is
	group    map[value]bool     // what the group has read
	read     map[int32]int64    // bookmarks that the broker answered for, by partition
	progress progress
	wrong    map[string]int
	examples []string
}

// queued is a message of a queue; every one has another id.
type queued struct{ queue, id string }

type recordAt struct {
	topic     string
	partition int32
	offset    int64
}

// value stands for the value of a record: how it begins, and a sum of all of it.
type value struct {
	begins string
	sum    uint64
}

func valueOf(b []byte) value { return value{string(b[:min(len(b), 24)]), xxhash.Sum64(b)} }

// story is what became of a message.
type story struct {
	confirmed bool
	delivered int  // times
	acked     bool // an ack was sent, or the attempt was made
	settled   bool // a synchronous reply followed the ack on its channel
	in        int  // life in which it was last delivered
	settledIn int
}

// progress counts what shows that all kinds of clients are at work.
type progress struct{ confirmed, delivered, settled, produced, grouped, committed int }

func (p progress) since(q progress) progress {
	return progress{
		p.confirmed - q.confirmed, p.delivered - q.delivered, p.settled - q.settled, p.produced - q.produced, p.grouped - q.grouped, p.committed - q.committed,
	}
}

func (p progress) least() int {
	return min(p.confirmed, p.delivered, p.settled, p.produced, p.grouped, p.committed)
}

func newCrashLedger() *crashLedger {
	return &crashLedger{
		messages: map[queued]*story{}, records: map[recordAt]value{}, values: map[value]recordAt{}, group: map[value]bool{}, read: map[int32]int64{},
		wrong: map[string]int{},
	}
}

// fail notes that a promise was broken. The lock is held.
func (l *crashLedger) fail(promise, format string, args ...any) {
	l.wrong[promise]++
	if l.wrong[promise] <= 5 {
		l.examples = append(l.examples, fmt.Sprintf("life %d: %s: %s", l.alive, promise, fmt.Sprintf(format, args...)))
	}
}

// report tells the test what was broken, and reports whether anything was.
func (l *crashLedger) report(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.examples {
		t.Error(e)
	}
	for promise, n := range l.wrong {
		t.Errorf("%d times: %s", n, promise)
	}
	l.examples, l.wrong = nil, map[string]int{}
}

func (l *crashLedger) life() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alive
}

func (l *crashLedger) nextLife() {
	l.mu.Lock()
	l.alive++
	l.mu.Unlock()
}

func (l *crashLedger) counts() progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.progress
}

// publishing notes a message that is about to be sent.
func (l *crashLedger) publishing(m queued) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages[m] = &story{}
}

// confirmed notes that the broker has taken a message over.
func (l *crashLedger) confirmed(m queued) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages[m].confirmed = true
	l.progress.confirmed++
}

// The promises that the crash test holds the broker to.
const (
	promiseReal       = "only what was published is delivered"
	promiseSettled    = "an acknowledgement that a later synchronous reply covers holds"
	promiseTold       = "a message that was delivered before is marked redelivered"
	promiseDelivered  = "what was confirmed and not acknowledged arrives"
	promiseOnce       = "in a drain each message comes once"
	promiseOffset     = "an offset has one value for ever"
	promiseIdempotent = "an idempotent producer's record is stored once, where the answer says"
	promiseBookmark   = "a bookmark that was answered for does not go back"
)

// delivered notes what came to a consumer over a connection of the given life.
func (l *crashLedger) delivered(m queued, life int, redelivered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.messages[m]
	if s == nil {
		l.fail(promiseReal, "%v", m)
		return
	}
	if life < s.in || s.settled && life < s.settledIn {
		return // it had come before, and lay in the client
	}
	if s.settled {
		l.fail(promiseSettled, "%v was settled in life %d and came in life %d, redelivered %v", m, s.settledIn, life, redelivered)
	}
	if s.delivered > 0 && !redelivered {
		l.fail(promiseTold, "%v came in life %d and then in life %d", m, s.in, life)
	}
	s.in = life
	s.delivered++
	l.progress.delivered++
}

// acking notes messages whose acknowledgement is about to be sent.
func (l *crashLedger) acking(ms ...queued) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range ms {
		if s := l.messages[m]; s != nil {
			s.acked = true
		}
	}
}

// settled notes that a synchronous reply came behind acknowledgements.
func (l *crashLedger) settled(ms []queued, life int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range ms {
		if s := l.messages[m]; s != nil {
			s.settled, s.settledIn = true, life
		}
	}
	l.progress.settled += len(ms)
}

// waiting returns the messages of a queue that must come: confirmed, and never acknowledged.
func (l *crashLedger) waiting(queue string) map[queued]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := map[queued]bool{}
	for m, s := range l.messages {
		if m.queue == queue && s.confirmed && !s.acked {
			ms[m] = true
		}
	}
	return ms
}

// produced notes where the broker says it has put a Kafka producer's record.
func (l *crashLedger) produced(at recordAt, v value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values[v] = at
	l.see(at, v)
	l.progress.produced++
}

// seen notes a record that a Kafka consumer read.
func (l *crashLedger) seen(at recordAt, v value, byGroup bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.see(at, v)
	if byGroup {
		l.group[v] = true
		l.progress.grouped++
	}
}

func (l *crashLedger) see(at recordAt, v value) {
	if old, has := l.records[at]; has && old != v {
		l.fail(promiseOffset, "%v was %q and is %q", at, old.begins, v.begins)
	}
	l.records[at] = v
}

// bookmarked notes a bookmark that the broker has answered for.
func (l *crashLedger) bookmarked(partition int32, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read[partition] = max(l.read[partition], offset)
	l.progress.committed++
}

// bookmarks returns what the broker has answered for.
func (l *crashLedger) bookmarks() map[int32]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := map[int32]int64{}
	for p, o := range l.read {
		m[p] = o
	}
	return m
}

// unread returns how the produced records begin that the group has not read.
func (l *crashLedger) unread() (begins []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for v := range l.values {
		if !l.group[v] {
			begins = append(begins, v.begins)
		}
	}
	slices.Sort(begins)
	return begins
}

// summary is for the test's log.
func (l *crashLedger) summary() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var published, again, acked int
	for _, s := range l.messages {
		published++
		if s.acked {
			acked++
		}
		if s.delivered > 1 {
			again++
		}
	}
	return fmt.Sprintf("%d messages, %d confirmed, %d acknowledged, %d of them surely; %d deliveries, %d messages more than once; %d records produced, %d read by the group, %d commits of bookmarks",
		published, l.progress.confirmed, acked, l.progress.settled, l.progress.delivered, again, l.progress.produced, l.progress.grouped, l.progress.committed)
}
