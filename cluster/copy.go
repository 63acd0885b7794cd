package cluster

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"polylog/logstore"
)

// A node whose log cannot follow the stream any more, or that has none, becomes a copy of another one's: it asks all for a copy, takes the first offer, reads the files piece by piece,
// and opens them. While a copy is open, the node that gives it keeps its files and what of the order comes behind it.

const (
	copyPiece = 512 << 10
	// copyAhead is how many pieces are asked for at a time.
	copyAhead = 8
	// copyIdle is after how long without a request a copy is closed.
	copyIdle = 30 * time.Second
	// copyTry is how long a piece may take to come before it is asked for again, and copyTries how often it is.
	copyTry   = 5 * time.Second
	copyTries = 12
	// copiesMax bounds the copies that a node gives at a time.
	copiesMax = 4
)

// copies are those that this node gives.
type copies struct {
	mu   sync.Mutex
	open map[string]*givenCopy
}

type givenCopy struct {
	s    *logstore.Snapshot
	used time.Time
}

// held returns the number of the order up to which the oldest open copy goes; 0: none is open.
func (c *copies) held() (min uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.open {
		if min == 0 || g.s.Seq < min {
			min = g.s.Seq
		}
	}
	return min
}

// offer is what a node that asks for a copy is told.
type offer struct {
	Node     string                  `json:"node"`
	ID       string                  `json:"id"`
	Identity string                  `json:"identity"`
	Seq      uint64                  `json:"seq"`
	Files    []logstore.SnapshotFile `json:"files"`
	Err      string                  `json:"error,omitempty"`
}

// pieceRequest asks for a piece of a copy, or that it be closed.
type pieceRequest struct {
	ID   string `json:"id"`
	File int    `json:"file"`
	Off  int64  `json:"off"`
	N    int    `json:"n"`
	Done bool   `json:"done,omitempty"`
}

// giveCopies makes this node answer others that need a copy. Only members do: what they have is in the order.
func (n *Node) giveCopies() (stop func(), err error) {
	c := &n.p.copies
	var subs []*nats.Subscription
	listen := func(subject string, f func(*nats.Msg)) {
		if err != nil {
			return
		}
		var s *nats.Subscription
		if s, err = n.p.b.nc.Subscribe(n.o.subject(subject), f); err == nil {
			subs = append(subs, s)
		}
	}
	var giving sync.WaitGroup
	listen("copy", func(m *nats.Msg) {
		giving.Go(func() { n.offer(c, m) })
	})
	listen("piece."+n.o.Node, func(m *nats.Msg) {
		giving.Go(func() { c.give(m) })
	})
	return func() {
		for _, s := range subs {
			s.Unsubscribe() //nolint:errcheck // the connection may be gone
		}
		giving.Wait()
		c.expire(time.Time{})
	}, err
}

// offer opens a copy for who asks.
func (n *Node) offer(c *copies, m *nats.Msg) {
	if string(m.Data) == n.o.Node || n.store.Available() != nil {
		return
	}
	c.expire(time.Now().Add(-copyIdle))
	c.mu.Lock()
	full := len(c.open) >= copiesMax
	c.mu.Unlock()
	if full {
		return
	}
	s, err := n.store.Snapshot(n.ctx)
	if err != nil {
		n.o.Logf("a copy of the log for node '%s' could not be made: %v", m.Data, err)
		return
	}
	o := offer{Node: n.o.Node, ID: randomText(10), Identity: n.s.identity, Seq: s.Seq, Files: s.Files}
	c.mu.Lock()
	c.open[o.ID] = &givenCopy{s, time.Now()}
	c.mu.Unlock()
	n.o.Logf("gives node '%s' a copy of the log: %d files", m.Data, len(s.Files))
	reply(m, o)
}

// expire closes copies that were not used since a time; the zero time: all.
func (c *copies) expire(before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, g := range c.open {
		if before.IsZero() || g.used.Before(before) {
			delete(c.open, id)
			g.s.Close() //nolint:errcheck // it only lets go
		}
	}
}

// give answers with a piece: its checksum and its bytes.
func (c *copies) give(m *nats.Msg) {
	var r pieceRequest
	if json.Unmarshal(m.Data, &r) != nil {
		return
	}
	c.mu.Lock()
	g := c.open[r.ID]
	if g != nil {
		g.used = time.Now()
		if r.Done {
			delete(c.open, r.ID)
		}
	}
	c.mu.Unlock()
	switch {
	case g == nil:
		m.Respond(nil) //nolint:errcheck // who asked asks again
		return
	case r.Done:
		g.s.Close()    //nolint:errcheck // it only lets go
		m.Respond(nil) //nolint:errcheck // it is done
		return
	case r.N < 0 || r.N > copyPiece:
		return
	}
	b := make([]byte, 4+r.N)
	if r.N > 0 {
		if _, err := g.s.ReadAt(r.File, b[4:], r.Off); err != nil {
			m.Respond([]byte{0}) //nolint:errcheck // who asked asks again
			return
		}
	}
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], crcTable))
	m.Respond(b) //nolint:errcheck // who asked asks again
}

// heldCopy is a copy that another node keeps open for this one.
type heldCopy struct {
	p    *Peer
	from string
	id   string
}

// keep says that the copy is still needed.
func (h *heldCopy) keep(ctx context.Context) error {
	_, err := h.ask(ctx, pieceRequest{ID: h.id})
	return err
}

func (h *heldCopy) close() {
	ctx, cancel := context.WithTimeout(context.Background(), copyTry)
	defer cancel()
	h.ask(ctx, pieceRequest{ID: h.id, Done: true}) //nolint:errcheck // it is closed by itself too
}

var errCopyGone = errors.New("the other node does not have the copy open any more")

func (h *heldCopy) ask(ctx context.Context, r pieceRequest) ([]byte, error) {
	q, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, copyTry)
	defer cancel()
	m, err := h.p.b.nc.RequestWithContext(ctx, h.p.o.subject("piece."+h.from), q)
	switch {
	case err != nil:
		return nil, err
	case len(m.Data) == 0 && !r.Done:
		return nil, errCopyGone
	case r.Done:
		return nil, nil
	case len(m.Data) < 4:
		return nil, errors.New("the other node cannot read its log")
	}
	if got, want := crc32.Checksum(m.Data[4:], crcTable), binary.LittleEndian.Uint32(m.Data); got != want {
		return nil, fmt.Errorf("a piece came damaged: its CRC is %08x, sent was %08x", got, want)
	}
	return m.Data[4:], nil
}

// copyLog makes the log in so.Dir a copy of another member's.
func (n *Node) copyLog(ctx context.Context, so logstore.Options, why string) error {
	n.o.Logf("the log has to begin with a copy of another node's: %s", why)
	return retry(ctx, n.o, "copying the log of another node", func(ctx context.Context) error {
		o, err := n.askForCopy(ctx)
		if err != nil {
			return err
		}
		if o.Identity != n.s.identity {
			return &permanentError{fmt.Errorf("node '%s' follows another order", o.Node)}
		}
		h := &heldCopy{n.p, o.Node, o.ID}
		if err := n.receive(ctx, h, o, so); err != nil {
			h.close()
			return err
		}
		n.held = h
		return nil
	})
}

// askForCopy asks all members and takes the first offer.
func (n *Node) askForCopy(ctx context.Context) (o offer, err error) {
	ctx, cancel := context.WithTimeout(ctx, copyTry)
	defer cancel()
	m, err := n.p.b.nc.RequestWithContext(ctx, n.o.subject("copy"), []byte(n.o.Node))
	if err != nil {
		return o, fmt.Errorf("no member offers a copy of its log: %w", err)
	}
	if err := json.Unmarshal(m.Data, &o); err != nil {
		return o, fmt.Errorf("an offer of a copy: %w", err)
	}
	return o, nil
}

// piece is a part of a file.
type piece struct {
	file int
	off  int64
	n    int
}

// receive reads all files of a copy.
func (n *Node) receive(ctx context.Context, h *heldCopy, o offer, so logstore.Options) error {
	if err := logstore.Abandon(so.FS, so.Dir); err != nil {
		return &permanentError{err}
	}
	r, err := logstore.Restore(so.FS, so.Dir)
	if err != nil {
		return &permanentError{err}
	}
	var total, got atomic.Int64
	pieces := make(chan piece)
	files := make([]int, len(o.Files))
	for i, f := range o.Files {
		total.Add(f.Size)
		if files[i], err = r.Create(f.Name, f.Size); err != nil {
			return &permanentError{errors.Join(err, r.Abort())}
		}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		defer close(pieces)
		for i, f := range o.Files {
			for off := int64(0); off < f.Size; off += copyPiece {
				select {
				case pieces <- piece{i, off, int(min(copyPiece, f.Size-off))}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	began := time.Now()
	progress := time.NewTicker(tellEvery)
	defer progress.Stop()
	var wg sync.WaitGroup
	for range copyAhead {
		wg.Go(func() {
			for p := range pieces {
				b, err := h.fetch(ctx, p)
				if err == nil {
					_, err = r.WriteAt(files[p.file], b, p.off)
				}
				if err != nil {
					fail(fmt.Errorf("%s at %d: %w", o.Files[p.file].Name, p.off, err))
					return
				}
				got.Add(int64(len(b)))
			}
		})
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	for done := false; !done; {
		select {
		case <-progress.C:
			n.o.Logf("copying the log of node '%s': %d of %d MiB (%d %%)", o.Node, got.Load()>>20, total.Load()>>20, got.Load()*100/max(total.Load(), 1))
		case <-all:
			done = true
		}
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), r.Abort())
	}
	if err := r.Finish(); err != nil {
		return errors.Join(err, r.Abort())
	}
	n.o.Logf("copied the log of node '%s': %d MiB in %v", o.Node, total.Load()>>20, time.Since(began).Round(time.Millisecond))
	return nil
}

// fetch reads a piece, again and again if it has to.
func (h *heldCopy) fetch(ctx context.Context, p piece) (b []byte, err error) {
	for range copyTries {
		if b, err = h.ask(ctx, pieceRequest{ID: h.id, File: p.file, Off: p.off, N: p.n}); err == nil && len(b) == p.n {
			return b, nil
		}
		if errors.Is(err, errCopyGone) || ctx.Err() != nil {
			break
		}
	}
	if err == nil {
		err = fmt.Errorf("%d bytes instead of %d", len(b), p.n)
	}
	return nil, err
}
