package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"polylog/logstore"
)

const (
	// chunkBytes is how much is gathered into one chunk: with every replica syncing, about 64 to 256 KiB carry the most.
	chunkBytes = 256 << 10
	// chunkMax is the largest body of a chunk. A proposal that is larger travels in pieces of it.
	chunkMax = 1 << 20
	// windowBytes and windowChunks bound what is sent and not seen in the order yet.
	windowBytes  = 4 << 20
	windowChunks = 32
	// quickMax is the largest proposal that goes before larger ones.
	quickMax = 16 << 10
	// smallBytes is a chunk that is not worth its own sync: there are no more than smallWindow of those on their way, and what comes meanwhile gathers.
	smallBytes  = 32 << 10
	smallWindow = 2
	// outboxBytes bounds what waits to be sent in each lane; who proposes more waits.
	outboxBytes = 32 << 20
	// resendAfter is how long after the last sign of progress everything that was not seen is sent anew.
	resendAfter = time.Second
	// resendPause is the least time between two such: one lost chunk is noticed at each that was on its way behind it.
	resendPause = 100 * time.Millisecond
)

// ErrGone is why nothing of this node's epoch counts any more.
var ErrGone = errors.New("the other nodes have declared this one gone")

// flying is a chunk that was sent and not seen in the order yet.
type flying struct {
	number uint64
	bytes  []byte
}

// lane is chunks that wait to be sent, the last of them perhaps still being filled.
type lane struct {
	chunks [][]byte
	bytes  int // of them
	count  int // proposals in the last one; 0: it is complete, or there is none
}

// outbox holds what this node wants in the order until it is there. Chunks get ascending numbers when they are sent, in a window, and are sent again until they are seen. So
// each gets there once and in its place, whatever becomes of single messages; see roster.judge.
//
// There are two lanes: what is small goes before what is large, since it is claims, settlements and the like, for which consumers wait. What is committed at the same time has no order of
// its own.
type outbox struct {
	publish     func(b []byte) error
	name        string
	incarnation uint64
	// The constants of these names, save in tests.
	resendAfter, resendPause time.Duration

	mu          sync.Mutex
	room        sync.Cond
	epoch       uint64
	quick, bulk lane
	inFlight    []flying // ascending numbers
	flightBytes int
	next        uint64
	progress    time.Time // when something of what is in flight was last seen, or flight began
	tried       time.Time // when all of it was last sent anew, or something was seen
	again       bool      // all is to be sent once more
	closed      error     // nothing is taken any more
	resent      atomic.Int64
	kick        chan struct{}
	stop        chan struct{}
	done        chan struct{}
}

func newOutbox(name string, incarnation uint64, publish func([]byte) error, resendAfter, resendPause time.Duration) *outbox {
	o := &outbox{
		publish: publish, name: name, incarnation: incarnation, resendAfter: resendAfter, resendPause: resendPause, closed: errNotJoined,
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	o.room.L = &o.mu
	go o.run()
	return o
}

var errNotJoined = &logstore.UnavailableError{Err: errors.New("this node has not joined yet")}

// begin begins an epoch with its join chunk. Nothing of an earlier one is sent any more.
func (o *outbox) begin(epoch uint64, description []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.epoch, o.closed, o.next = epoch, nil, 1
	o.quick, o.bulk, o.inFlight, o.flightBytes = lane{}, lane{}, nil, 0
	o.quick.add(append(o.beginChunk(kindJoin, len(description)), description...))
	o.wake()
}

func (o *outbox) beginChunk(k kind, room int) []byte {
	return beginChunk(make([]byte, 0, chunkHeader+len(o.name)+room), k, o.name, o.epoch, o.incarnation)
}

// add puts a complete chunk into a lane.
func (l *lane) add(b []byte) {
	l.count = 0
	l.chunks = append(l.chunks, b)
	l.bytes += len(b)
}

// isFull reports whether a proposal of this size must wait for room.
func (l *lane) isFull(size int) bool { return l.bytes > 0 && l.bytes+size > outboxBytes }

// propose adds a proposal.
func (o *outbox) propose(ctx context.Context, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := &o.bulk
	if len(p) <= quickMax {
		l = &o.quick
	}
	if o.closed == nil && l.isFull(len(p)) {
		stop := context.AfterFunc(ctx, func() { o.mu.Lock(); o.room.Broadcast(); o.mu.Unlock() })
		defer stop()
		for o.closed == nil && ctx.Err() == nil && l.isFull(len(p)) {
			o.room.Wait()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	switch {
	case o.closed != nil:
		return o.closed
	case len(p) > chunkMax:
		o.split(p)
	default:
		o.gather(l, p)
	}
	o.wake()
	return nil
}

// gather adds a proposal to a lane's last chunk, or begins another one.
func (o *outbox) gather(l *lane, p []byte) {
	if n := len(l.chunks); n == 0 || l.count == 0 || l.count == proposalsMax || len(l.chunks[n-1])+len(p) > chunkBytes {
		l.add(o.beginChunk(kindData, max(len(p)+binary.MaxVarintLen32, 4<<10)))
	}
	last := &l.chunks[len(l.chunks)-1]
	before := len(*last)
	*last = append(binary.AppendUvarint(*last, uint64(len(p))), p...)
	l.bytes += len(*last) - before
	l.count++
}

// control sends a chunk of the membership's.
func (o *outbox) control(k kind, name string, epoch uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed != nil {
		return o.closed
	}
	o.quick.add(appendAbout(o.beginChunk(k, len(name)+8), name, epoch))
	o.wake()
	return nil
}

// split has a large proposal sent in pieces.
func (o *outbox) split(p []byte) {
	for len(p) > 0 {
		n, k := min(len(p), chunkMax/2), kindPart
		if n == len(p) {
			k = kindLast
		}
		o.bulk.add(append(o.beginChunk(k, n), p[:n]...))
		p = p[n:]
	}
}

func (o *outbox) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// seen takes the chunks up to number out: they are in the order.
func (o *outbox) seen(epoch, number uint64, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if epoch != o.epoch {
		return
	}
	n := 0
	for n < len(o.inFlight) && o.inFlight[n].number <= number {
		o.flightBytes -= len(o.inFlight[n].bytes)
		o.inFlight[n] = flying{}
		n++
	}
	if n == 0 {
		return
	}
	o.inFlight = o.inFlight[n:]
	o.progress, o.tried = now, now
	o.room.Broadcast()
	o.wake()
}

// resend has everything sent again: one on the way was lost, and those behind it did not count.
func (o *outbox) resend() {
	o.mu.Lock()
	o.again = true
	o.mu.Unlock()
}

// stuckFor returns for how long nothing has come into the order though something is on its way; 0: nothing is.
func (o *outbox) stuckFor(now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.inFlight) == 0 {
		return 0
	}
	return now.Sub(o.progress)
}

// end takes nothing any more, because of err.
func (o *outbox) end(err error) {
	o.mu.Lock()
	o.closed = err
	o.room.Broadcast()
	o.mu.Unlock()
}

// close ends the sending.
func (o *outbox) close() {
	o.end(logstore.ErrClosed)
	close(o.stop)
	<-o.done
}

// run sends.
func (o *outbox) run() {
	defer close(o.done)
	t := time.NewTimer(resendPause)
	defer t.Stop()
	for {
		for _, b := range o.due(time.Now()) {
			if err := o.publish(b); err != nil {
				break // the connection is down or full; the timer comes back to it
			}
		}
		t.Reset(o.resendPause)
		select {
		case <-o.stop:
			return
		case <-o.kick:
		case <-t.C:
		}
	}
}

// due returns what is to be sent now.
func (o *outbox) due(now time.Time) (bs [][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	after := o.resendAfter
	if o.tried.After(o.progress) {
		after *= 2 // a disk that is slow does not get faster by more to write
	}
	if since := now.Sub(o.tried); len(o.inFlight) > 0 && (since >= after || o.again && since >= o.resendPause) {
		for _, f := range o.inFlight {
			bs = append(bs, f.bytes)
		}
		o.resent.Add(int64(len(bs)))
		o.tried, o.again = now, false
	}
	small := 0
	for _, f := range o.inFlight {
		if len(f.bytes) < smallBytes {
			small++
		}
	}
	// send launches the first chunks of a lane for as long as there is one that fits, and it is worth its own sync.
	send := func(l *lane, fits func(size int) bool) {
		for len(l.chunks) > 0 {
			size := len(l.chunks[0])
			if !fits(size) || size < smallBytes && small >= smallWindow {
				return
			}
			if size < smallBytes {
				small++
			}
			bs = append(bs, o.launch(l, now))
		}
	}
	send(&o.quick, func(int) bool { return len(o.inFlight) < windowChunks && o.flightBytes < 2*windowBytes })
	send(&o.bulk, func(size int) bool {
		return len(o.inFlight) == 0 || len(o.inFlight) < windowChunks && o.flightBytes+size <= windowBytes
	})
	if len(bs) > 0 {
		o.room.Broadcast()
	}
	return bs
}

// launch numbers the first chunk of a lane: it is in flight from here on.
func (o *outbox) launch(l *lane, now time.Time) []byte {
	b := l.chunks[0]
	l.chunks[0] = nil
	l.bytes -= len(b)
	if l.chunks = l.chunks[1:]; len(l.chunks) == 0 {
		l.count = 0
	}
	finishChunk(b, o.next)
	if len(o.inFlight) == 0 {
		o.progress, o.tried = now, now
	}
	o.inFlight = append(o.inFlight, flying{o.next, b})
	o.flightBytes += len(b)
	o.next++
	return b
}
