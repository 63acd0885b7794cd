package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"polylog/logstore"
)

// order is the logstore.Sequencer of one node. Proposals go out by the outbox; the stream is followed from the copy that this node's own server has, if it has one.
type order struct {
	o      *Options
	b      *broker
	s      *stream
	out    *outbox
	events chan<- event

	// unavailable says why proposals are refused now; nil: they are not. The membership's clock sets it.
	unavailable atomic.Pointer[logstore.UnavailableError]

	// Of the following goroutine.
	roster *roster // as of next-1
	next   uint64  // the sequence of the stream that must come now; 0: following has not begun
	done   int     // the last place of the chunk next that the log has already; -1: it has nothing of it
	from   uint64  // pieces of proposals are read again from here up to next
	// elsewhere: the copy here did not bring what there is, so that another server's is read for once.
	elsewhere bool

	last  atomic.Uint64 // the last sequence that was delivered here
	floor atomic.Uint64 // everything from here on is needed for what is not whole yet; 0: nothing
	heard atomic.Int64  // when something was last delivered, Unix ns
	known atomic.Uint64 // a sequence that is known to exist, from acknowledgements and other nodes

	refused     atomic.Int64
	incarnation uint64 // of this process: its chunks have it

	mu          sync.Mutex
	epoch       uint64 // of this node, or that which it asks for; 0: it does not yet
	description []byte
	isIn        bool
	joined      chan struct{}
	lost        error // a *BehindError or *VersionError: this node cannot follow any more
}

// event is something of the order that the membership must know at once.
type event uint8

const (
	eventGone event = iota // this node's epoch is over
	eventLost              // this node cannot follow any more
)

// BehindError means that what a node must apply next is not in the stream any more, or cannot be read: it needs a copy of another node's log.
type BehindError struct {
	Need, First uint64 // sequences of the stream
	Damaged     bool   // the stream had it, and this server's copy has not
}

func (e *BehindError) Error() string {
	if e.Damaged {
		return fmt.Sprintf("the order's entry %d is missing in the stream although it was not trimmed (the next one there is %d): this node's copy of the stream is damaged; the node starts anew from "+
			"another one's log", e.Need, e.First)
	}
	return fmt.Sprintf("the order's entry %d was trimmed (the first one there is %d): this node was away for too long; it starts anew from another one's log", e.Need, e.First)
}

func newOrder(o *Options, b *broker, s *stream, events chan<- event) *order {
	r := &order{o: o, b: b, s: s, events: events, incarnation: randomNumber(), joined: make(chan struct{})}
	subject := o.subject("order")
	r.out = newOutbox(o.Node, r.incarnation, func(chunk []byte) error { return b.nc.Publish(subject, chunk) }, resendAfter, resendPause)
	return r
}

// Propose implements logstore.Sequencer.
func (r *order) Propose(ctx context.Context, p []byte) error {
	if u := r.unavailable.Load(); u != nil {
		return u
	}
	return r.out.propose(ctx, p)
}

// Available implements logstore.Sequencer.
func (r *order) Available() error {
	if u := r.unavailable.Load(); u != nil {
		return u
	}
	return nil
}

// Attach implements logstore.Sequencer.
func (r *order) Attach(s *logstore.Store) (err error) {
	r.roster, err = loadRoster(s)
	return err
}

// Follow implements logstore.Sequencer.
func (r *order) Follow(ctx context.Context, after uint64, deliver func(uint64, []byte) error) error {
	r.begin(after)
	c, err := r.subscribe(ctx, r.from)
	if err != nil {
		return err
	}
	defer c.end()
	err = c.each(ctx, func(sequence uint64, data []byte) error {
		switch {
		case sequence < r.from:
			return nil
		case sequence > r.from:
			return r.gap(ctx, r.from, sequence)
		}
		err := r.message(sequence, data, deliver)
		if err == nil {
			r.from++
		}
		return err
	})
	if errors.Is(err, errSilent) {
		r.elsewhere = !r.elsewhere
	}
	if errors.As(err, new(*BehindError)) || errors.As(err, new(*VersionError)) {
		r.mu.Lock()
		r.lost = err
		r.mu.Unlock()
		r.tell(eventLost)
		<-ctx.Done() // it would fail in the same way each time
	}
	return err
}

// begin finds where following begins, when it does for the first time.
func (r *order) begin(after uint64) {
	if r.next == 0 {
		sequence, place := r.s.split(after)
		r.next, r.done = max(sequence, 1), place
		if sequence == 0 {
			r.done = -1
		}
		if r.from = r.roster.firstPart(); r.from == 0 || r.from > r.next {
			r.from = r.next
		}
	}
}

// gap says what it means that the stream goes on with another sequence than the one that must come.
func (r *order) gap(ctx context.Context, need, got uint64) error {
	err := &BehindError{Need: need, First: got}
	if info, infoErr := r.s.info(ctx); infoErr == nil && info.State.FirstSeq <= need {
		err.Damaged = true
	}
	return err
}

// message takes in one message of the stream.
func (r *order) message(sequence uint64, data []byte, deliver func(uint64, []byte) error) error {
	c, err := parseChunk(data)
	if err != nil {
		if errors.Is(err, errBadChunk) {
			return fmt.Errorf("entry %d of the order: %w", sequence, errors.Join(err, &BehindError{Need: sequence, First: sequence, Damaged: true}))
		}
		return fmt.Errorf("entry %d of the order: %w", sequence, err)
	}
	if sequence < r.next {
		r.roster.recollect(&c, sequence)
		return nil
	}
	if err := r.chunk(sequence, &c, deliver); err != nil {
		return err
	}
	r.next, r.done = sequence+1, -1
	r.floor.Store(r.roster.firstPart())
	r.last.Store(sequence)
	r.heard.Store(time.Now().UnixNano())
	return nil
}

// chunk judges a chunk and hands what counts to the log.
func (r *order) chunk(sequence uint64, c *chunk, deliver func(uint64, []byte) error) error {
	mine := c.writer == r.o.Node && c.incarnation == r.incarnation
	// What the chunk changes of the roster comes first, save that a proposal in pieces comes before it is said that there are none any more.
	own := 0
	if c.kind == kindLast {
		own = 1
	}
	if r.done >= own { // the log has it, so it was accepted
		r.roster.recollect(c, sequence)
	} else {
		if v := r.roster.judge(c); v != accepted {
			r.refused.Add(1)
			if mine && v == early {
				r.out.resend()
			}
			if mine && v == repeated {
				r.out.seen(c.epoch, c.number, time.Now())
			}
			if mine && v == expired && c.kind == kindJoin {
				r.askAgain(c.epoch)
			}
			return nil
		}
		ops, whole, err := r.roster.take(c, sequence)
		if err != nil {
			return fmt.Errorf("entry %d of the order: %w", sequence, err)
		}
		if whole != nil && r.done < 0 {
			if err := deliver(r.s.number(sequence, 0), whole); err != nil {
				return err
			}
		}
		if c.kind == kindJoin {
			ops = append(ops, logstore.Put(identityKey, []byte(r.s.identity)))
		}
		if len(ops) > 0 {
			if err := deliver(r.s.number(sequence, own), logstore.EncodeProposal(&logstore.Txn{Do: ops})); err != nil {
				return err
			}
		}
	}
	if c.kind == kindData {
		err := c.proposals(func(place int, p []byte) error {
			if place <= r.done {
				return nil
			}
			return deliver(r.s.number(sequence, place), p)
		})
		if err != nil {
			return err
		}
	}
	if mine {
		r.out.seen(c.epoch, c.number, time.Now())
	}
	switch c.kind {
	case kindJoin, kindGone, kindLeave, kindForget:
		r.changed(c, mine)
	}
	return nil
}

// changed tells the membership.
func (r *order) changed(c *chunk, mine bool) {
	r.mu.Lock()
	if c.kind == kindJoin && mine && !r.isIn {
		r.isIn = true
		close(r.joined)
	}
	w := r.roster.writers[r.o.Node]
	gone := r.isIn && (w.incarnation != r.incarnation || !w.live)
	r.mu.Unlock()
	if gone {
		r.out.end(&logstore.UnavailableError{Err: ErrGone})
		r.tell(eventGone)
	}
}

func (r *order) tell(e event) {
	select {
	case r.events <- e:
	default: // there are enough waiting to be looked at
	}
}

// join begins an epoch of this node and returns it when the order has it.
func (r *order) join(ctx context.Context, after uint64, description []byte) (epoch uint64, err error) {
	r.mu.Lock()
	r.epoch, r.description = after+1, description
	r.mu.Unlock()
	r.out.begin(after+1, description)
	select {
	case <-r.joined:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.epoch, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// wanted returns the epoch that this node has or asks for; 0: it does not yet.
func (r *order) wanted() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// know notes that the stream has a sequence.
func (r *order) know(sequence uint64) {
	for k := r.known.Load(); k < sequence && !r.known.CompareAndSwap(k, sequence); k = r.known.Load() {
	}
}

// askAgain asks for the next epoch, since somebody else has the one that this process wanted: most often what the process before it had still on its way.
func (r *order) askAgain(refused uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isIn || refused != r.epoch {
		return
	}
	r.epoch = r.roster.writers[r.o.Node].epoch + 1
	r.out.begin(r.epoch, r.description)
}

// subscription is a consumer of the stream on this node's own server, as long as there is a copy of the stream there.
type subscription struct {
	r    *order
	name string
	it   jetstream.MessagesContext
}

const (
	// pinTries is how often a consumer is made until it is on this node's own server. Where one is put is the cluster's choice.
	pinTries = 12
	// pullBytes is what is asked for at a time.
	pullBytes = 4 << 20
	// pullSilence is how long nothing, not even a sign of life, may come before the subscription is made anew.
	pullSilence = 2 * time.Second
	// forgetAfter is when the server forgets a consumer that nobody asks any more.
	forgetAfter = 30 * time.Second
)

// subscribe begins to read at a sequence.
func (r *order) subscribe(ctx context.Context, from uint64) (*subscription, error) {
	c := &subscription{r: r}
	for try := range pinTries {
		consumer, err := r.consumer(ctx, from)
		if err != nil {
			return nil, fmt.Errorf("following the order from %d: %w", from, err)
		}
		info := consumer.CachedInfo()
		c.name = info.Name
		if here := r.b.name == "" || info.Cluster == nil || info.Cluster.Leader == r.b.name; here == r.elsewhere && try < pinTries-1 && r.hasCopy() {
			c.remove()
			continue
		}
		c.it, err = consumer.Messages(jetstream.PullMaxBytes(pullBytes), jetstream.PullHeartbeat(pullSilence/2), jetstream.PullExpiry(30*time.Second))
		if err != nil {
			c.remove()
			return nil, fmt.Errorf("following the order from %d: %w", from, err)
		}
		break
	}
	return c, nil
}

// hasCopy reports whether the embedded server has a copy of the stream.
func (r *order) hasCopy() bool {
	return r.b.srv != nil && r.b.srv.JetStreamIsStreamAssigned("$G", r.o.streamName())
}

func (r *order) consumer(ctx context.Context, from uint64) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*apiTry)
	defer cancel()
	return r.s.js.CreateConsumer(ctx, r.o.streamName(), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: forgetAfter,
	})
}

// remove takes the consumer away, without waiting for it: the server forgets it by itself too.
func (c *subscription) remove() {
	c.r.b.nc.Publish("$JS.API.CONSUMER.DELETE."+c.r.o.streamName()+"."+c.name, nil) //nolint:errcheck // see above
}

func (c *subscription) end() {
	c.it.Stop()
	c.remove()
}

// errSilent means that a subscription brought nothing although there is something.
var errSilent = errors.New("the stream has more than it delivers; it is read anew")

// each calls f for every message until it fails or ctx ends.
func (c *subscription) each(ctx context.Context, f func(sequence uint64, data []byte) error) error {
	stop := context.AfterFunc(ctx, c.it.Stop)
	defer stop()
	watch := time.NewTicker(pullSilence)
	defer watch.Stop()
	silent := make(chan struct{})
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-watch.C:
				quiet := time.Since(time.Unix(0, c.r.heard.Load())) > pullSilence
				if quiet && c.r.known.Load() > c.r.last.Load() {
					close(silent)
					c.it.Stop()
					return
				}
			}
		}
	}()
	for {
		m, err := c.it.Next()
		if err != nil {
			select {
			case <-silent:
				return errSilent
			default:
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("following the order: %w", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("following the order: %w", err)
		}
		if err := f(meta.Sequence.Stream, m.Data()); err != nil {
			return err
		}
	}
}
