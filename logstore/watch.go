package logstore

import (
	"context"
	"strings"
	"sync"
)

// watchBacklog is how many changes a watcher may be behind before it is told to start anew.
const watchBacklog = 1 << 14

// Event is one change of the key-value map.
type Event struct {
	Key     string
	Value   []byte // must not be changed; nil when removed
	Removed bool
	Seq     uint64 // of the transaction; 0: the key was there when the watch began
}

// Watcher sees the changes of all keys with a prefix, in the order in which they took effect. It is used by one goroutine; Stop may be called
// from any.
type Watcher struct {
	s      *Store
	prefix string
	start  []Event // keys that were there at the beginning
	ready  chan struct{}

	mu     sync.Mutex
	events []Event
	err    error
}

// Watch first yields the keys that have the prefix now, in their order, then every change of one, with nothing missed in between.
func (s *Store) Watch(prefix string) *Watcher {
	w := &Watcher{s: s, prefix: prefix, ready: make(chan struct{}, 1)}
	s.mu.Lock()
	view := s.st.kv.snapshot()
	s.watchers = append(s.watchers, w)
	s.mu.Unlock()
	view.scan(prefix, func(k string, v []byte) bool {
		w.start = append(w.start, Event{Key: k, Value: v})
		return true
	})
	select {
	case <-s.closing:
		w.end(ErrClosed)
	default:
	}
	return w
}

// Next waits for the next change. It returns ErrWatchLagged when the watcher was too slow and some are lost, ErrClosed when the store is
// closed or the watcher stopped, or the context's error.
func (w *Watcher) Next(ctx context.Context) (Event, error) {
	if len(w.start) > 0 {
		e := w.start[0]
		w.start = w.start[1:]
		return e, nil
	}
	for {
		w.mu.Lock()
		if len(w.events) > 0 {
			e := w.events[0]
			w.events[0] = Event{}
			w.events = w.events[1:]
			w.mu.Unlock()
			return e, nil
		}
		err := w.err
		w.mu.Unlock()
		if err != nil {
			return Event{}, err
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// Stop ends the watch.
func (w *Watcher) Stop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.dropWatcher(w)
	w.end(ErrClosed)
}

// end makes Next return err after the events that are waiting.
func (w *Watcher) end(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	w.wake()
}

func (w *Watcher) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// add queues an event and reports false when the watcher is too far behind.
func (w *Watcher) add(e Event) bool {
	w.mu.Lock()
	ok := len(w.events) < watchBacklog
	if ok {
		w.events = append(w.events, e)
	} else {
		w.events, w.err = nil, ErrWatchLagged
	}
	w.mu.Unlock()
	w.wake()
	return ok
}

// dropWatcher forgets a watcher. The store's lock is held.
func (s *Store) dropWatcher(w *Watcher) {
	for i := range s.watchers {
		if s.watchers[i] == w {
			s.watchers = append(s.watchers[:i:i], s.watchers[i+1:]...)
			return
		}
	}
}

// tell shows a transaction to the watchers. The store's lock is held.
func (s *Store) tell(seq uint64, t *Txn, out *outcome) {
	if len(s.watchers) == 0 {
		return
	}
	creates := 0
	for i := range t.Do {
		o := &t.Do[i]
		e := Event{Key: o.key, Seq: seq}
		switch o.kind {
		case opPut:
			// The map's copy, unless a later operation of the transaction has replaced it already.
			e.Value = append([]byte{}, o.value...)
		case opRemove:
			e.Removed = true
		case opCreateShard:
			e.Value = ShardValue(out.shards[creates])
			creates++
		default:
			continue
		}
		for _, w := range s.watchers {
			if strings.HasPrefix(e.Key, w.prefix) && !w.add(e) {
				s.dropWatcher(w)
			}
		}
	}
}

func (s *Store) closeWatchers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w.end(ErrClosed)
	}
	s.watchers = nil
}
