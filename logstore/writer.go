package logstore

import (
	"time"
)

// relaxedDelay is how long a group that nobody waits for may stay off the disk under SyncAlways: the most that a power loss takes of
// acknowledgements and the like.
const relaxedDelay = 10 * time.Millisecond

// answerInline is how many waiters the writing goroutine answers itself. More are answered beside it, while it writes the next group.
const answerInline = 32

// writer is the writing goroutine: it writes groups, forces them to the disk as the policy says, publishes what may be read, and answers.
type writer struct {
	s       *Store
	seg     *openSegment // of the last group
	dirty   bool         // written since the last sync
	written position     // end of the last group
	lastSeq uint64       // in it
	timer   *time.Timer
	armed   bool  // the timer runs
	logged  int64 // bytes since the checkpointer was last woken
	answers chan []*request
}

func (w *writer) run() {
	defer w.s.logTasks.Done()
	defer close(w.s.seal)
	w.answers = make(chan []*request, 4)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for rs := range w.answers {
			finishAll(rs)
		}
	}()
	w.timer = time.NewTimer(time.Hour)
	w.timer.Stop()
	for {
		select {
		case g, ok := <-w.s.groups:
			if !ok {
				w.sync()
				close(w.answers)
				<-answered
				return
			}
			w.write(g)
			g.reset()
			w.s.spare <- g
		case <-w.timer.C:
			w.armed = false
			w.sync()
		}
	}
}

// write puts the group on the disk and answers those who wait for it.
func (w *writer) write(g *group) {
	s := w.s
	w.put(g)
	if g.last && s.failure.Load() == nil {
		w.sync() // the next segment is never on the disk without this one
	}
	if f := s.failure.Load(); f != nil {
		for _, r := range g.waiters {
			r.err = f
		}
	}
	w.answer(g.waiters)
	if s.failure.Load() == nil {
		s.growth.tell(g.grown)
	}
	if g.last {
		s.seal <- g.seg
	}
}

func (w *writer) put(g *group) {
	s := w.s
	if s.failure.Load() != nil {
		return
	}
	if len(g.buf) > 0 {
		w.seg = g.seg
		err := s.whileFull(func() error {
			_, err := g.seg.file.WriteAt(g.buf, int64(g.pos))
			return err
		})
		if err != nil {
			s.fail("writing to "+g.seg.name, err)
			return
		}
		w.dirty = true
		w.written, w.lastSeq = at(g.seg.id, g.pos+uint32(len(g.buf))), g.lastSeq
		s.stats.wrote()
		if w.logged += int64(len(g.buf)); w.logged > s.opts.CheckpointBytes/8 {
			w.logged = 0
			s.checkpoints.wake()
		}
	}
	if g.force || g.sync && s.policy() == SyncAlways {
		w.sync()
		return
	}
	if s.policy() != SyncAlways {
		s.visible.Store(uint64(w.written))
	}
	if w.dirty && !w.armed && s.policy() != SyncOS {
		delay := relaxedDelay
		if s.policy() == SyncInterval {
			delay = s.opts.SyncInterval
		}
		w.timer.Reset(delay)
		w.armed = true
	}
}

// policy is the sync policy of the local log: what an outside order holds need not be forced to this disk.
func (s *Store) policy() SyncPolicy {
	if s.follower != nil {
		return SyncOS
	}
	return s.opts.Sync
}

// sync forces everything written to the disk and publishes it. A sync that fails is never tried again: the system may have dropped
// the pages that it could not write, and would call a second try a success.
func (w *writer) sync() {
	s := w.s
	if !w.dirty || s.failure.Load() != nil {
		return
	}
	if err := w.seg.file.Sync(); err != nil {
		s.fail("syncing "+w.seg.name, err)
		return
	}
	w.dirty = false
	s.stats.synced()
	s.durableSeq.Store(w.lastSeq)
	s.visible.Store(uint64(w.written))
}

func (w *writer) answer(rs []*request) {
	if len(rs) <= answerInline {
		finishAll(rs)
		return
	}
	w.answers <- append([]*request(nil), rs...)
}
