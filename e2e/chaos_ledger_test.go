package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// chaosLedger is what the clients of the chaos test know, and where what they see is held against it. It trusts no order between what comes from different nodes: a node
// that was stopped in the middle may send on, when it goes on, what others have meanwhile given to somebody else. So its rules are such that hold in whatever order the
// clients hear of things.
type chaosLedger struct {
	began    time.Time
	mu       sync.Mutex
	messages map[string]*fate
	records  map[recordAt]value
	values   map[value]recordAt // of records whose producer was told where they are
	group    map[value]bool     // what the group has read
	answered map[int32]int64    // bookmarks that were answered for
	told     map[string]int64   // node and partition -> the bookmark that it told last
	counts   chaosCounts
	wrong    map[string]int
	examples []string
}

// chaosCounts shows that all kinds of clients were at work.
type chaosCounts struct {
	published, confirmed, refused, delivered, again, settled, produced, grouped, bookmarked, looked int
}

// fate is what became of a message.
type fate struct {
	confirmed, acked bool
	delivered        int
	unmarked         int       // deliveries without the mark that it may have been delivered before
	settled          int       // acknowledgements that a later reply on the same channel covered
	settledAt        time.Time // the first
	trail            []event
}

// event is for who looks for the cause of what went wrong.
type event struct {
	at         time.Duration
	node, what string
}

func newChaosLedger() *chaosLedger {
	return &chaosLedger{
		began: time.Now(), messages: map[string]*fate{}, records: map[recordAt]value{}, values: map[value]recordAt{}, group: map[value]bool{},
		answered: map[int32]int64{}, told: map[string]int64{}, wrong: map[string]int{},
	}
}

// The promises that a cluster is held to.
const (
	chaosReal     = "only what was published is delivered"
	chaosKept     = "what was confirmed is delivered, and acknowledged in the end"
	chaosMarked   = "at most one delivery of a message is not marked redelivered"
	chaosSettled  = "a message is settled at most once, and does not come to who asks afterwards"
	chaosOffset   = "an offset has one value for ever, on every node"
	chaosStored   = "an idempotent producer's record is stored once, where the answer says"
	chaosBookmark = "bookmarks do not go back"
	chaosOneClaim = "one claim at most covers an offset"
)

// fail notes that a promise was broken. The lock is held.
func (l *chaosLedger) fail(promise, format string, args ...any) {
	l.wrong[promise]++
	if l.wrong[promise] <= 4 {
		l.examples = append(l.examples, fmt.Sprintf("after %v: %s: %s", time.Since(l.began).Round(time.Millisecond), promise, fmt.Sprintf(format, args...)))
	}
}

// report tells what was wrong.
func (l *chaosLedger) report(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for promise, n := range l.wrong {
		t.Errorf("%d times not: %s", n, promise)
	}
	for _, e := range l.examples {
		t.Log(e)
	}
	l.examples, l.wrong = nil, map[string]int{}
}

func (l *chaosLedger) summary() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%+v", l.counts)
}

// note adds to a message's trail. The lock is held.
func (l *chaosLedger) note(f *fate, node, what string) {
	f.trail = append(f.trail, event{time.Since(l.began), node, what})
}

// story tells what is known of a message. The lock is held.
func (l *chaosLedger) story(id string) string {
	f := l.messages[id]
	if f == nil {
		return id + " is unknown"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", id)
	for _, e := range f.trail {
		fmt.Fprintf(&b, " %v %s %s;", e.at.Round(time.Millisecond), e.node, e.what)
	}
	return b.String()
}

func (l *chaosLedger) publishing(id, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &fate{}
	l.messages[id] = f
	l.counts.published++
	l.note(f, node, "published")
}

func (l *chaosLedger) confirmed(id, node string, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.messages[id]
	if is {
		f.confirmed = true
		l.counts.confirmed++
		l.note(f, node, "confirmed")
	} else {
		l.counts.refused++
		l.note(f, node, "not confirmed")
	}
}

// delivered notes a delivery. dialled is when its connection was about to be made.
func (l *chaosLedger) delivered(id, node string, marked bool, dialled time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.messages[id]
	if f == nil {
		l.fail(chaosReal, "%s came from %s", id, node)
		return
	}
	f.delivered++
	l.counts.delivered++
	if f.delivered > 1 {
		l.counts.again++
	}
	if marked {
		l.note(f, node, "delivered, marked")
	} else {
		l.note(f, node, "delivered")
		if f.unmarked++; f.unmarked > 1 {
			l.fail(chaosMarked, "%s", l.story(id))
		}
	}
	if f.settled > 0 && dialled.After(f.settledAt) {
		l.fail(chaosSettled, "it came to a connection made after %v: %s", dialled.Sub(l.began), l.story(id))
	}
}

// acking notes messages whose acknowledgement is about to be sent.
func (l *chaosLedger) acking(node string, ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if f := l.messages[id]; f != nil {
			f.acked = true
			l.note(f, node, "acknowledging")
		}
	}
}

// settled notes that a reply came behind acknowledgements.
func (l *chaosLedger) settled(node string, ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		f := l.messages[id]
		if f == nil {
			continue
		}
		l.counts.settled++
		l.note(f, node, "settled")
		if f.settled++; f.settled > 1 {
			l.fail(chaosSettled, "twice: %s", l.story(id))
		} else {
			f.settledAt = time.Now()
		}
	}
}

func (l *chaosLedger) gaveBack(node string, ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if f := l.messages[id]; f != nil {
			l.note(f, node, "given back")
		}
	}
}

// owed returns the messages of a queue that must come: confirmed, and never acknowledged.
func (l *chaosLedger) owed(queue string) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := map[string]bool{}
	for id, f := range l.messages {
		if f.confirmed && !f.acked && strings.HasPrefix(id, queue+"-") {
			ids[id] = true
		}
	}
	return ids
}

// never notes messages that should have come to a drain and did not.
func (l *chaosLedger) never(ids map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range ids {
		l.fail(chaosKept, "%s", l.story(id))
	}
}

// allCame sees that everything that was confirmed came to somebody.
func (l *chaosLedger) allCame() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, f := range l.messages {
		if f.confirmed && f.delivered == 0 {
			l.fail(chaosKept, "%s", l.story(id))
		}
	}
}

// produced notes where a producer was told that its record is.
func (l *chaosLedger) produced(at recordAt, v value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values[v] = at
	l.see(at, v, "the producer")
	l.counts.produced++
}

// seen notes a record that was read.
func (l *chaosLedger) seen(at recordAt, v value, by string, byGroup bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.see(at, v, by)
	if byGroup {
		l.group[v] = true
		l.counts.grouped++
	}
}

func (l *chaosLedger) see(at recordAt, v value, by string) {
	if old, has := l.records[at]; has && old != v {
		l.fail(chaosOffset, "%v was %q and %s says it is %q", at, old.begins, by, v.begins)
	}
	l.records[at] = v
}

// unread returns how the produced records begin that the group has not read.
func (l *chaosLedger) unread() (begins []string) {
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

// bookmarked notes a bookmark that was answered for.
func (l *chaosLedger) bookmarked(partition int32, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered[partition] = max(l.answered[partition], offset)
	l.counts.bookmarked++
}

// looked notes the bookmark that a node tells. One node never tells less than before; and when last, it tells no less than was answered for.
func (l *chaosLedger) looked(node string, partition int32, offset int64, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.looked++
	key := fmt.Sprint(node, "/", partition)
	if was := l.told[key]; offset < was {
		l.fail(chaosBookmark, "%s said %d for partition %d and now says %d", node, was, partition, offset)
	}
	l.told[key] = offset
	if a := l.answered[partition]; last && offset < a {
		l.fail(chaosBookmark, "%s says %d for partition %d, and %d was answered for", node, offset, partition, a)
	}
}

// holds compares the records of a topic that one node has with what producers were told.
func (l *chaosLedger) holds(node string, all map[recordAt]value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	times := map[value]int{}
	for at, v := range all {
		l.see(at, v, node)
		times[v]++
	}
	for v, at := range l.values {
		if n := times[v]; n != 1 {
			l.fail(chaosStored, "%s has record %s, which was answered to be at %v, %d times", node, v.begins, at, n)
		}
	}
	for v, n := range times {
		if n > 1 {
			l.fail(chaosStored, "%s has record %s %d times", node, v.begins, n)
		}
	}
}
