package logstore

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// preparation is a new segment file with its disk space reserved, or why there is none.
type preparation struct {
	seg *openSegment
	err error
}

// ask has the next segment file prepared beside the ordering.
func (o *orderer) ask() {
	o.asked = true
	o.s.prepare <- struct{}{}
}

// nextSegment returns the prepared segment. While the disk is full it does not wait, but asks again now and then.
func (o *orderer) nextSegment() (*openSegment, error) {
	if o.next != nil {
		return o.next, nil
	}
	if !o.asked {
		if o.full != nil && time.Now().Before(o.retry) {
			return nil, o.full
		}
		o.ask()
	}
	var p preparation
	if o.full == nil || o.emergency {
		p = <-o.s.prepared
	} else {
		select {
		case p = <-o.s.prepared:
		default:
			return nil, o.full
		}
	}
	o.asked = false
	switch {
	case p.err == nil:
		o.next = p.seg
		return p.seg, nil
	case vfs.IsNoSpace(p.err):
		return nil, o.noRoom(p.err)
	}
	o.s.fail("making a segment file", p.err)
	return nil, o.s.Failure()
}

// noRoom remembers that the disk is full.
func (o *orderer) noRoom(err error) error {
	if o.full == nil {
		o.s.opts.Logf("the disk is full (%v): messages are refused until there is room", err)
	}
	o.full, o.retry = &DiskFullError{Dir: o.s.dir, Err: err}, time.Now().Add(fullRetry)
	o.s.diskFull.Store(true)
	o.s.cleaner.wake()
	return o.full
}

// rollFor makes room for a request whose entry does not fit in the active segment, or refuses it.
func (o *orderer) rollFor(r *request) {
	err := o.roll(r)
	if err == nil {
		o.roomAgain()
		return
	}
	why := stopRoll
	if r.isFreeing() {
		why = o.orderLocked(r)
		if why == stopFlush {
			o.flush()
			why = o.orderLocked(r)
		}
	}
	if why == stopRoll && r.isFreeing() && o.full != nil && !o.emergency {
		o.beginEmergency()
		return
	}
	if why == stopRoll && r.delivered != nil && o.s.failure.Load() == nil {
		// What the outside order holds cannot be refused, only waited for.
		select {
		case <-time.After(fullRetry):
			return
		case <-o.s.closing:
			err = ErrClosed
		}
	}
	if why != stopNot {
		o.refuse(r, err)
	}
	o.answerDone()
	o.pending = o.pending[1:]
}

func (o *orderer) orderLocked(r *request) stop {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return o.orderOne(r, true)
}

// roll makes a segment active that has room for the request.
func (o *orderer) roll(r *request) error {
	s := o.s
	if o.keptOut(r) {
		return o.endEmergency()
	}
	need := segment.HeaderSize + int64(r.size) + indexReserve + int64(r.txn.batches())*indexReservePerBatch
	need += need/16 + 64 // the part that is kept for transactions that make room
	if a := s.segs.active; a != nil && a.firstSeq == 0 {
		return o.enlarge(a, need)
	}
	next, err := o.nextSegment()
	if err != nil {
		return err
	}
	if next.capacity < need {
		if err := o.enlarge(next, need); err != nil {
			return err
		}
	}
	o.next = nil
	s.spares.nextUsed()
	if s.segs.active == nil {
		s.mu.Lock()
		next.prevSeq = s.st.seq
		s.segs.active = next
		s.mu.Unlock()
		return nil
	}
	o.complete(next)
	return nil
}

// complete hands the active segment over to be sealed and makes next (nil: none) active. It waits while the segment before is being sealed, so that never
// more than two indexes are in memory.
func (o *orderer) complete(next *openSegment) {
	s := o.s
	<-s.sealFree
	if s.failure.Load() != nil {
		s.sealFree <- struct{}{}
		return // what could not be sealed stays readable from memory
	}
	s.mu.Lock()
	o.g.seg, o.g.last = s.segs.active, true
	s.segs.sealing, s.segs.active = s.segs.active, next
	if next != nil {
		next.prevSeq = s.st.seq
	}
	s.mu.Unlock()
	o.flush()
}

// enlarge reserves more room for a segment that has no entry yet.
func (o *orderer) enlarge(seg *openSegment, need int64) error {
	err := seg.file.Preallocate(need)
	switch {
	case err == nil:
		seg.capacity = need
		return nil
	case vfs.IsNoSpace(err):
		return o.noRoom(err)
	}
	o.s.fail("enlarging segment file "+seg.name, err)
	return o.s.Failure()
}

// endSegment completes the active segment, and removes the files that were prepared for nothing.
func (o *orderer) endSegment() {
	s := o.s
	if o.asked {
		if p := <-s.prepared; p.err == nil {
			o.next = p.seg
		}
	}
	if o.next != nil {
		s.discard(o.next)
	}
	switch a := s.segs.active; {
	case a == nil:
		o.flush()
	case a.firstSeq == 0:
		s.mu.Lock()
		s.segs.active = nil
		s.mu.Unlock()
		o.flush()
		s.discard(a)
	default:
		o.complete(nil)
	}
}

// discard removes a segment file that has no entry.
func (s *Store) discard(seg *openSegment) {
	s.files.drop(seg.name)
	s.files.release(seg.file)
	if err := s.fs.Remove(filepath.Join(s.dir, seg.name)); err != nil && s.failure.Load() == nil {
		s.opts.Logf("removing the unused segment file %s: %v; the next start removes it", seg.name, err)
	}
}

// prepareLoop makes a segment file each time it is asked to.
func (s *Store) prepareLoop(nextID uint64) {
	defer s.logTasks.Done()
	for range s.prepare {
		seg, err := s.newSegment(nextID)
		nextID++
		s.prepared <- preparation{seg, err}
	}
}

// newSegment makes a segment file of a spare one, or creates it and reserves its disk space: as much as configured, or on a nearly full disk what there is,
// down to a small part of it.
func (s *Store) newSegment(id uint64) (*openSegment, error) {
	name := segmentName(id, 0)
	path := filepath.Join(s.dir, name)
	seg := &openSegment{id: id, name: name, capacity: s.opts.SegmentBytes, pos: segment.HeaderSize, salt: s.opts.salt()}
	var f vfs.File
	var err error
	if f, seg.initialised = s.reuse(name); f == nil {
		if f, err = s.fs.Create(path); err != nil {
			return nil, err
		}
		for err = f.Preallocate(seg.capacity); vfs.IsNoSpace(err) && seg.capacity > s.smallestSegment(); err = f.Preallocate(seg.capacity) {
			seg.capacity /= 2
		}
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		f.Close()
		if rmErr := s.fs.Remove(path); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
		return nil, err
	}
	seg.file = s.files.adopt(name, f)
	return seg, nil
}

// sealLoop seals one segment after another.
func (s *Store) sealLoop() {
	defer s.logTasks.Done()
	for seg := range s.seal {
		if s.failure.Load() == nil {
			if err := s.sealSegment(seg); err != nil {
				s.fail("sealing segment file "+seg.name, err)
			}
		}
		s.sealFree <- struct{}{}
	}
}

// sealSegment writes the index behind the entries, gives back the disk space that is left, and lets go of the index in memory. All entries
// are on the disk when it begins.
func (s *Store) sealSegment(seg *openSegment) error {
	locs := make([]segment.Loc, 0, seg.index.Len())
	seg.index.All(func(l *segment.Loc) { locs = append(locs, *l) })
	idx, sealed := segment.BuildIndex(locs, seg.pos, seg.firstSeq, seg.lastSeq)
	size := int64(seg.pos) + int64(len(idx))
	err := s.whileFull(func() error {
		_, err := seg.file.WriteAt(idx, int64(seg.pos))
		return err
	})
	if err == nil {
		err = seg.file.Sync()
	}
	if err == nil {
		err = seg.file.Truncate(size) // after the sync: what was in the file before must never stand where the index is looked for
	}
	if err == nil {
		err = seg.file.Sync()
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.segs.addSealed(&sealedSegment{
		header: seg.header(),
		name:   seg.name, size: size, index: sealed,
	})
	s.segs.sealing = nil
	s.mu.Unlock()
	s.files.release(seg.file)
	s.checkpoints.wake()
	s.cleaner.wake()
	return nil
}

// whileFull repeats a write that finds no room until there is, the store closes, or it fails otherwise. Meanwhile new messages are refused.
func (s *Store) whileFull(write func() error) error {
	err := write()
	if !vfs.IsNoSpace(err) {
		return err
	}
	s.opts.Logf("the disk is full (%v): what is on its way waits until there is room", err)
	s.stuck.Store(&DiskFullError{Dir: s.dir, Err: err})
	defer s.stuck.Store(nil)
	for vfs.IsNoSpace(err) {
		select {
		case <-s.closing:
			return err
		case <-time.After(fullRetry):
		}
		err = write()
	}
	return err
}
