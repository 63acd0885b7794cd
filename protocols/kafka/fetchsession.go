package kafka

import (
	"container/list"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchTarget is a partition that a fetch asks for.
type fetchTarget struct {
	fetchKey
	offset   int64
	maxBytes int32
	epoch    int32 // of the leader as the client knows it; -1: none
	cached   *sessionPartition
}

// fetchKey names a partition: by the topic's name up to Fetch v12, by its id from v13 on.
type fetchKey struct {
	name      string
	id        [16]byte
	partition int32
}

// fetchSession is what KIP-227 keeps of a client's fetches, so that it need only say, and be told, what has changed.
//
// Guarded by the mutex: all but what is set when it is made.
type fetchSession struct {
	id    int32
	byID  bool // partitions are named by topic id
	owner <-chan struct{}
	place *list.Element // in fetchSessions.byUse; guarded by fetchSessions.mu
	used  time.Time     // guarded by fetchSessions.mu
	kept  int           // partitions that are accounted for; guarded by fetchSessions.mu

	mu    sync.Mutex
	epoch int32 // of the next request
	parts map[fetchKey]*sessionPartition
	// order is the order in which partitions are read. Those that gave records go to the end, so that none starves behind others that always have some.
	order []*sessionPartition
}

// sessionPartition is a partition of a session: what the client asked last, and what it was told last.
type sessionPartition struct {
	target      fetchTarget
	high, start int64 // -1: to be told anew
	gave        bool  // records, with the last answer
	gone        bool  // forgotten by the client
}

// mostSessionPartitions bounds the partitions of all sessions together; each takes some 200 bytes.
const mostSessionPartitions = 500_000

// sessionRest is for how long a session that is not used is safe from having to make room (Kafka's min.incremental.fetch.session.cache.slots.eviction).
const sessionRest = 2 * time.Minute

// fetchSessions are the sessions of all connections.
type fetchSessions struct {
	most  int // sessions
	room  int // partitions of all of them
	now   func() time.Time
	mu    sync.Mutex
	byID  map[int32]*fetchSession
	byUse *list.List // of *fetchSession, the longest unused first
	parts int        // of all of them
	// evicted counts sessions that had to make room.
	evicted int64
}

func newFetchSessions(most int, now func() time.Time) *fetchSessions {
	return &fetchSessions{most: most, room: mostSessionPartitions, now: now, byID: map[int32]*fetchSession{}, byUse: list.New()}
}

// counts returns how many sessions there are and how many had to make room.
func (s *fetchSessions) counts() (now, evicted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.byID)), s.evicted
}

// create makes a session of a full fetch's targets. It returns 0, which means no session, when there is no room.
func (s *fetchSessions) create(targets []fetchTarget, results []fetchResult, byID bool, owner <-chan struct{}) int32 {
	if len(targets) == 0 {
		return 0
	}
	f := &fetchSession{byID: byID, owner: owner, epoch: 1, parts: make(map[fetchKey]*sessionPartition, len(targets))}
	for i := range targets {
		f.add(&targets[i])
		p := f.parts[targets[i].fetchKey]
		p.told(&results[i])
	}
	f.reorder()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.makeRoom(len(f.parts)) {
		return 0
	}
	for f.id == 0 || s.byID[f.id] != nil {
		f.id = rand.Int32N(math.MaxInt32) // never 0, which is none
	}
	f.used, f.kept = s.now(), len(f.parts)
	s.byID[f.id] = f
	f.place = s.byUse.PushBack(f)
	s.parts += f.kept
	return f.id
}

// makeRoom makes room for a session with n partitions, at the cost of others whose connection is gone or that have not been used for a while. The lock is held.
func (s *fetchSessions) makeRoom(n int) bool {
	for e := s.byUse.Front(); len(s.byID) >= s.most || s.parts+n > s.room; {
		if e == nil {
			return false
		}
		f := e.Value.(*fetchSession)
		e = e.Next()
		ownerless := false
		select {
		case <-f.owner:
			ownerless = true
		default:
		}
		if ownerless || s.now().Sub(f.used) >= sessionRest {
			s.drop(f)
			s.evicted++
		}
	}
	return true
}

// drop removes a session. The lock is held.
func (s *fetchSessions) drop(f *fetchSession) {
	delete(s.byID, f.id)
	s.byUse.Remove(f.place)
	s.parts -= f.kept
}

// end removes the session with the id, if there is one.
func (s *fetchSessions) end(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.byID[id]; f != nil {
		s.drop(f)
	}
}

// use returns the session of an incremental fetch with what the request changes of it, and the partitions that it now has; or an error code.
func (s *fetchSessions) use(req *kmsg.FetchRequest, changed []fetchTarget) (*fetchSession, []fetchTarget, int16) {
	s.mu.Lock()
	f := s.byID[req.SessionID]
	if f == nil {
		s.mu.Unlock()
		return nil, nil, codeFetchSessionIDNotFound
	}
	f.used = s.now()
	s.byUse.MoveToBack(f.place)
	s.mu.Unlock()

	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case req.SessionEpoch != f.epoch:
		return nil, nil, codeInvalidFetchSessionEpoch
	case f.byID != (req.Version >= 13):
		return nil, nil, codeFetchSessionTopicIDError
	}
	if f.epoch++; f.epoch < 0 {
		f.epoch = 1 // KIP-227: 0 begins a session
	}
	f.forget(req)
	for i := range changed {
		f.add(&changed[i])
	}
	if !s.account(f) {
		return nil, nil, codeFetchSessionIDNotFound // the client begins with a full fetch
	}
	targets := make([]fetchTarget, len(f.order))
	for i, p := range f.order {
		targets[i] = p.target
		targets[i].cached = p
	}
	return f, targets, codeNone
}

// account makes the sum of partitions right after a session has changed, and drops the session if it became too large. The session's lock is held.
func (s *fetchSessions) account(f *fetchSession) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[f.id] != f {
		return true // it was dropped meanwhile, and ends with this fetch
	}
	s.parts += len(f.parts) - f.kept
	f.kept = len(f.parts)
	if s.parts > s.room {
		s.drop(f)
		s.evicted++
		return false
	}
	return true
}

// add adds a partition or changes what is asked of it. The lock is held.
func (f *fetchSession) add(t *fetchTarget) {
	p := f.parts[t.fetchKey]
	if p == nil {
		p = &sessionPartition{high: -1, start: -1}
		f.parts[t.fetchKey] = p
		f.order = append(f.order, p)
	}
	p.target = *t
}

// forget takes away the partitions that the client does not want any more. The lock is held.
func (f *fetchSession) forget(req *kmsg.FetchRequest) {
	any := false
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			key := targetKey(req.Version, t.Topic, t.TopicID, p)
			if gone := f.parts[key]; gone != nil {
				delete(f.parts, key)
				gone.gone, any = true, true
			}
		}
	}
	if any {
		kept := f.order[:0]
		for _, p := range f.order {
			if !p.gone {
				kept = append(kept, p)
			}
		}
		clear(f.order[len(kept):])
		f.order = kept
	}
}

// tell notes what the client is told, and returns for each target whether that is news to it.
func (f *fetchSession) tell(targets []fetchTarget, results []fetchResult) []bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := make([]bool, len(targets))
	for i := range targets {
		news[i] = targets[i].cached.told(&results[i])
	}
	f.reorder()
	return news
}

// told notes what the client is told about the partition, and reports whether that is news to it.
func (p *sessionPartition) told(r *fetchResult) (news bool) {
	news = len(r.records) > 0 || r.code != codeNone || r.high != p.high || r.start != p.start
	p.high, p.start, p.gave = r.high, r.start, len(r.records) > 0
	if r.code != codeNone {
		p.high = -1 // that the error is over is news again
	}
	return news
}

// reorder puts the partitions that gave records behind the others. The lock is held.
func (f *fetchSession) reorder() {
	var gave []*sessionPartition
	rest := f.order[:0]
	for _, p := range f.order {
		if p.gave {
			gave = append(gave, p)
			p.gave = false
		} else {
			rest = append(rest, p)
		}
	}
	f.order = append(rest, gave...)
}

// targetKey names a partition as requests of the version do.
func targetKey(version int16, name string, id [16]byte, partition int32) fetchKey {
	if version >= 13 {
		return fetchKey{id: id, partition: partition}
	}
	return fetchKey{name: name, partition: partition}
}
