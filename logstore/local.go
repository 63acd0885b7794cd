package logstore

import (
	"runtime"
	"time"

	"polylog/logstore/record"
	"polylog/logstore/segment"
)

// groupBytes is how much is gathered into one write. More would only delay the answers: a write of this size costs the disk as much as a hundred syncs.
const groupBytes = 4 << 20

// orderStride is how many transactions are applied in one go while readers wait: about 50 µs.
const orderStride = 128

// keptGroups is how many groups there are: one gathers, one is written, and the others wait for the disk.
const keptGroups = 5

// maxYields is how often the ordering goroutine lets others run before it hands over a group while requests keep coming: those who were just answered come
// back with their next, and a sync that waits for them serves many instead of a few. With nobody else to run, a yield costs nothing.
const maxYields = 16

// group is what one write puts into the log, and who waits for it.
type group struct {
	seg     *openSegment
	pos     uint32 // position in the file of buf[0]
	buf     []byte
	lastSeq uint64
	waiters []*request // answered when the group is as durable as the sync policy says
	grown   []Shard    // shards with new batches, with repetitions
	sync    bool       // somebody waits for it to be on the disk
	force   bool       // whatever the policy
	last    bool       // of its segment: seal it
}

func (g *group) isEmpty() bool { return len(g.buf) == 0 && len(g.waiters) == 0 && !g.last }

// end is where the group ends in the log.
func (g *group) end() position { return at(g.seg.id, g.pos+uint32(len(g.buf))) }

// reset makes an empty group of a used one, and lets go of what an unusual entry needed.
func (g *group) reset() {
	clear(g.waiters)
	*g = group{buf: g.buf[:0], waiters: g.waiters[:0], grown: g.grown[:0]}
	if cap(g.buf) > 2*groupBytes {
		g.buf = nil
	}
}

// orderer is the ordering goroutine: it takes requests from the intake, judges and applies them one after another, and gathers their entries into a group while
// the group before is being written. A request that does not hold changes nothing and leaves no entry.
type orderer struct {
	s       *Store
	g       *group
	pending []*request // taken from the intake, not yet ordered
	spare   []*request
	done    []*request // answered when the lock is released
	out     outcome
	next    *openSegment // prepared, waiting to be the active segment
	asked   bool         // a segment is being prepared
	full    error        // why the last preparation failed; nil: it did not
	retry   time.Time    // when to ask again then
	// emergency: the disk is full and the reserve in use; only what makes room is taken.
	emergency bool
}

// fullRetry is how often a full disk is asked for room.
const fullRetry = 100 * time.Millisecond

// why ordering stopped before the end of the requests.
type stop uint8

const (
	stopNot   stop = iota
	stopYield      // let readers in
	stopFlush      // the group is full
	stopRoll       // the segment is
)

func (o *orderer) run() {
	defer o.s.logTasks.Done()
	defer close(o.s.groups)
	o.g = <-o.s.spare
	fresh, yields := false, 0 // requests came since the last yield; yields for this group
	for {
		if len(o.pending) == 0 {
			clear(o.spare)
			taken := o.s.intake.take(o.spare[:0])
			o.spare, o.pending = taken, taken
		}
		if len(o.pending) > 0 {
			o.advance()
			fresh = true
			continue
		}
		if !o.g.isEmpty() {
			if fresh && yields < maxYields {
				fresh = false
				yields++
				runtime.Gosched()
				continue
			}
			var ahead chan *group
			if len(o.g.buf) >= o.s.opts.aheadBytes {
				ahead = o.s.ahead
			}
			select {
			case o.s.groups <- o.g:
			case ahead <- o.g:
			case <-o.s.intake.kick:
				continue
			}
			o.g = <-o.s.spare
			yields = 0
			continue
		}
		if o.s.intake.isOver() {
			o.endSegment()
			close(o.s.prepare)
			return
		}
		<-o.s.intake.kick
	}
}

// advance orders some of the pending requests and does what they then need.
func (o *orderer) advance() {
	n, why := o.orderSome()
	o.answerDone()
	o.pending = o.pending[n:]
	switch why {
	case stopFlush:
		o.flush()
	case stopRoll:
		o.rollFor(o.pending[0])
	default:
		if len(o.g.buf) >= groupBytes {
			o.flush()
		}
	}
}

// answerDone answers those who need not wait for the disk.
func (o *orderer) answerDone() {
	finishAll(o.done)
	clear(o.done)
	o.done = o.done[:0]
}

// flush hands the group to the writing goroutine, whatever is on its way to the disk.
func (o *orderer) flush() {
	o.s.ahead <- o.g
	o.g = <-o.s.spare
}

// orderSome orders pending requests until one does not fit, and returns how many are done with.
func (o *orderer) orderSome() (n int, why stop) {
	s := o.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; n < len(o.pending); n++ {
		if n == orderStride {
			return n, stopYield
		}
		if why = o.orderOne(o.pending[n], false); why != stopNot {
			return n, why
		}
	}
	return n, stopNot
}

// orderOne judges and applies one request, unless its entry does not fit. squeeze uses the last part of the segment too, which is kept for transactions that make
// room.
func (o *orderer) orderOne(r *request, squeeze bool) stop {
	s := o.s
	if f := s.failure.Load(); f != nil {
		o.refuse(r, f)
		return stopNot
	}
	if len(r.txn.Do) > 0 {
		if full := s.stuck.Load(); full != nil && r.delivered == nil {
			o.refuse(r, full)
			return stopNot
		}
		if why := o.fits(r, squeeze); why != stopNot {
			return why
		}
	}
	if !r.taken.CompareAndSwap(requestWaiting, requestTaken) {
		return stopNot // its committer has left
	}
	if r.delivered != nil {
		r.delivered()
	}
	if err := s.st.check(&r.txn); err != nil {
		o.refuse(r, err)
		return stopNot
	}
	if len(r.txn.Do) > 0 {
		o.enter(r)
	}
	r.res.Seq = s.st.seq
	switch {
	case r.forceSync:
		o.g.force = true
		o.g.waiters = append(o.g.waiters, r)
	case r.txn.Wait == Durable:
		o.g.sync = true
		o.g.waiters = append(o.g.waiters, r)
	default:
		o.done = append(o.done, r)
	}
	return stopNot
}

func (o *orderer) refuse(r *request, err error) {
	if r.taken.Load() != requestTaken {
		if !r.taken.CompareAndSwap(requestWaiting, requestTaken) {
			return
		}
		if r.delivered != nil {
			r.delivered()
		}
	}
	r.err = err
	o.done = append(o.done, r)
}

// keptOut reports whether the request would use the reserve of a full disk and makes no room. What an outside order holds cannot be kept out.
func (o *orderer) keptOut(r *request) bool {
	return o.emergency && r.delivered == nil && !r.isFreeing()
}

// fits reports whether the entry has room in the group and in the segment.
func (o *orderer) fits(r *request, squeeze bool) stop {
	seg := o.s.segs.active
	if seg == nil || o.keptOut(r) {
		return stopRoll
	}
	room := seg.room(r.txn.batches())
	if !squeeze {
		room -= seg.capacity / 32
	}
	if room < int64(r.size) {
		return stopRoll
	}
	if len(o.g.buf) > 0 && len(o.g.buf)+r.size > groupBytes {
		return stopFlush
	}
	return stopNot
}

// enter applies a transaction that was found good and writes its entry into the group.
func (o *orderer) enter(r *request) {
	s, g, seg, t := o.s, o.g, o.s.segs.active, &r.txn
	seq := s.st.seq + 1
	if r.seq != 0 {
		seq = r.seq
	}
	o.out.reset()
	s.st.apply(t, &o.out)
	s.st.seq = seq
	s.freed.add(o.out.freed)
	s.tell(seq, t, &o.out)

	if len(g.buf) == 0 {
		g.seg, g.pos = seg, seg.pos
		if seg.firstSeq == 0 {
			g.pos = 0
			g.buf = seg.header().AppendTo(g.buf)
		}
	}
	if seg.firstSeq == 0 {
		seg.firstSeq = seq
	}
	start := len(g.buf)
	g.buf = append(g.buf, make([]byte, segment.EntryHeaderSize)...)
	g.buf = encodeMeta(g.buf, t, &o.out)
	meta := len(g.buf) - start - segment.EntryHeaderSize
	appends := 0
	for i := range t.Do {
		op := &t.Do[i]
		if op.kind != opAppend {
			continue
		}
		base, body := o.out.bases[appends], len(g.buf)
		appends++
		g.buf = append(g.buf, op.batch.Bytes()...)
		record.SetBase(g.buf[body:], base, 0)
		tail := &s.st.shards.own(op.shard).local
		tail.advance(uint32(seg.id))
		seg.index.Append(&tail.chain, locOf(op.shard, base, op.batch, seg.pos+uint32(body-start)))
		g.grown = append(g.grown, op.shard)
	}
	unsynced := segment.Unsynced(seq, s.durableSeq.Load())
	if unsynced > segment.UnsyncedUnknown/2 {
		g.force = true // so that the entries after this group can tell the distance
	}
	segment.FinishEntry(g.buf[start:], seg.salt, seq, unsynced, segment.KindTxn, meta)
	seg.pos += uint32(len(g.buf) - start)
	seg.lastSeq, g.lastSeq = seq, seq
	if appends > 0 {
		g.sync = true // nobody may read them before
	}
	r.res.take(&o.out)
	s.stats.ordered(appends, len(g.buf)-start)
	if !o.asked && o.next == nil && int64(seg.pos) > seg.capacity/16*14 {
		o.ask()
	}
}
