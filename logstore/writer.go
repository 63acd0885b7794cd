package logstore

import (
	"slices"
	"time"

	"polylog/logstore/segment"
)

// relaxedDelay is how long a group that nobody waits for may stay off the disk under SyncAlways: the most that a power loss takes of
// acknowledgements and the like.
const relaxedDelay = 10 * time.Millisecond

// answerInline is how many waiters the writing goroutine answers itself. More are answered beside it, while it writes the next group.
const answerInline = 32

// aheadBytes is the least size of a group that is written while the one before is still being forced to the disk. A smaller one gathers meanwhile: it saves more
// in system calls than it would gain in time.
const aheadBytes = 256 << 10

// writer is the writing goroutine: it writes groups, and of the small ones forces each to the disk as the policy says, publishes what may be read, and answers.
// Large groups it leaves to the syncing goroutine for that, so that copying the next one to the system and the disk's work go on at the same time.
type writer struct {
	s       *Store
	seg     *openSegment // of the last group
	dirty   bool         // written, and no sync of it has begun
	written position     // end of the last group
	lastSeq uint64       // in it
	timer   *time.Timer
	armed   bool  // the timer runs
	logged  int64 // bytes since the checkpointer was last woken
	answers chan []*request

	toSync chan syncing  // to the syncing goroutine, in order
	synced chan struct{} // and that it is done with one
	behind int           // groups it is not done with
}

// syncing is a group that was written and waits for the disk.
type syncing struct {
	group   *group
	seg     *openSegment // nil: it needs no sync but those before it
	end     position     // of what is written
	lastSeq uint64       // in it
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
	w.toSync, w.synced = make(chan syncing, keptGroups), make(chan struct{}, keptGroups)
	go w.syncLoop()
	w.timer = time.NewTimer(time.Hour)
	w.timer.Stop()
	for {
		groups, timer := w.s.groups, w.timer.C
		if w.behind > 0 {
			groups, timer = nil, nil
		}
		select {
		case g, ok := <-groups:
			if !ok {
				w.sync()
				close(w.toSync)
				close(w.answers)
				<-answered
				return
			}
			w.write(g)
		case g := <-w.s.ahead:
			w.write(g)
		case <-w.synced:
			w.behind--
		case <-timer:
			w.armed = false
			w.sync()
		}
	}
}

// write puts the group on the disk and answers those who wait for it, or leaves that to the syncing goroutine.
func (w *writer) write(g *group) {
	mustSync := w.put(g)
	if g.last {
		for ; w.behind > 0; w.behind-- {
			<-w.synced
		}
	} else if w.behind > 0 || len(g.buf) >= w.s.opts.aheadBytes {
		s := syncing{group: g}
		if mustSync && w.dirty {
			w.dirty = false
			s.seg, s.end, s.lastSeq = w.seg, w.written, w.lastSeq
		}
		w.behind++
		w.toSync <- s
		return
	}
	if mustSync || g.last { // the next segment is never on the disk without this one
		w.sync()
	}
	w.finish(g)
}

// syncLoop is the syncing goroutine: it forces what was written to the disk, as many groups at once as there are.
func (w *writer) syncLoop() {
	var all []syncing
	for next := range w.toSync {
		all = append(all[:0], next)
		for len(w.toSync) > 0 {
			all = append(all, <-w.toSync)
		}
		for _, y := range slices.Backward(all) {
			if y.seg != nil {
				w.s.syncTo(y.seg, y.end, y.lastSeq)
				break // what was written before is on the disk too
			}
		}
		for _, y := range all {
			w.finish(y.group)
			w.synced <- struct{}{}
		}
	}
}

// finish answers those who wait for a group that is as durable as it needs to be, and gives it back.
func (w *writer) finish(g *group) {
	s := w.s
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
	g.reset()
	s.spare <- g
}

// put writes the group, and reports whether it must be forced to the disk now.
func (w *writer) put(g *group) (mustSync bool) {
	s := w.s
	if s.failure.Load() != nil {
		return false
	}
	if len(g.buf) > 0 {
		w.seg = g.seg
		data := g.withZeros()
		err := s.whileFull(func() error {
			_, err := g.seg.file.WriteAt(data, int64(g.pos))
			return err
		})
		if err != nil {
			s.fail("writing to "+g.seg.name, err)
			return false
		}
		w.dirty = true
		w.written, w.lastSeq = g.end(), g.lastSeq
		s.stats.wrote()
		if w.logged += int64(len(g.buf)); w.logged > s.opts.CheckpointBytes/8 {
			w.logged = 0
			s.checkpoints.wake()
		}
	}
	if s.policy() != SyncAlways {
		s.visible.Store(uint64(w.written))
	}
	if g.force || g.sync && s.policy() == SyncAlways {
		return true
	}
	if w.dirty && !w.armed && s.policy() != SyncOS {
		delay := relaxedDelay
		if s.policy() == SyncInterval {
			delay = s.opts.SyncInterval
		}
		w.timer.Reset(delay)
		w.armed = true
	}
	return false
}

// policy is the sync policy of the local log: what an outside order holds need not be forced to this disk.
func (s *Store) policy() SyncPolicy {
	if s.follower != nil {
		return SyncOS
	}
	return s.opts.Sync
}

// sync forces everything written to the disk. Nothing is with the syncing goroutine meanwhile.
func (w *writer) sync() {
	if w.dirty {
		w.dirty = false
		w.s.syncTo(w.seg, w.written, w.lastSeq)
	}
}

// syncTo forces the segment to the disk, of which everything up to end and lastSeq is written, and publishes that. A sync that fails is never tried again: the
// system may have dropped the pages that it could not write, and would call a second try a success.
func (s *Store) syncTo(seg *openSegment, end position, lastSeq uint64) {
	if s.failure.Load() != nil {
		return
	}
	if err := seg.file.Sync(); err != nil {
		s.fail("syncing "+seg.name, err)
		return
	}
	s.stats.synced()
	s.durableSeq.Store(lastSeq)
	if s.policy() == SyncAlways {
		s.visible.Store(uint64(end))
	}
}

func (w *writer) answer(rs []*request) {
	if len(rs) <= answerInline {
		finishAll(rs)
		return
	}
	w.answers <- append([]*request(nil), rs...)
}

const (
	// smallGroup is the size up to which a group is written with zeros behind it where the file was never written.
	smallGroup = 32 << 10
	// zeroStride is how far they go.
	zeroStride = 256 << 10
)

// withZeros returns what is to be written: the group, and zeros behind it.
//
// In a file that was written before they go to the end of the page and over the next entry's header. So the system need not read the rest of the page from the
// disk, and the entries end in zeros whatever an earlier segment left.
//
// In a new file they go further after a small group, to serve those that follow: blocks that are reserved and were never written cost the next sync a write to the
// file system's journal, which takes longer than a small group itself.
func (g *group) withZeros() []byte {
	seg, n := g.seg, len(g.buf)
	end := int64(g.pos) + int64(n)
	upTo := end
	switch {
	case end <= seg.initialised:
		upTo = (end + segment.EntryHeaderSize + diskPage - 1) &^ (diskPage - 1)
	case n <= smallGroup:
		upTo = end + zeroStride
	}
	upTo = max(end, min(upTo, seg.capacity))
	seg.initialised = max(seg.initialised, upTo)
	g.buf = append(g.buf, zeros[:upTo-end]...)[:n] // it keeps the memory for the next ones
	return g.buf[:n+int(upTo-end)]
}

const diskPage = 4 << 10

var zeros [zeroStride]byte
