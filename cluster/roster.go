package cluster

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"polylog/logstore"
)

// Keys of the log that this package owns. They are changed by chunks only, on every node in the same way, save for the leader's.
const (
	memberPrefix = "cluster/n/"     // + name: Member as JSON
	writerPrefix = "cluster/w/"     // + name: how far the writer has come (writer.encode)
	leaderKey    = "cluster/leader" // name and epoch of who leads (membership.go)
	identityKey  = "cluster/id"     // the stream that the log follows
	serverPrefix = "cluster/x/"     // + name of an embedded server that is gone for good and is to be removed from the NATS cluster (servers.go)
)

// Member is a node of the cluster, as everybody sees it. It is in the log, and so the same on every node that has applied as much of the order.
type Member struct {
	Name string `json:"name"`
	// Epoch counts the times that the node has joined. What a node writes in an epoch that is over has no effect.
	Epoch uint64 `json:"epoch"`
	Live  bool   `json:"live"`           // its epoch goes on
	Left  bool   `json:"left,omitempty"` // it ended in order
	// ID numbers the nodes from 1, in the order in which they first joined, unless a node brings a number of its own. Kafka clients know them by it.
	ID      int32             `json:"id"`
	Server  string            `json:"server,omitempty"`  // the name of its embedded NATS server, one for each disk that it ever had
	Version string            `json:"version,omitempty"` // of its program
	Serves  map[string]string `json:"serves,omitempty"`  // protocol -> address for clients
}

// writer is how far a node's chunks have come into the order.
type writer struct {
	epoch, number uint64
	incarnation   uint64 // of the process that has the epoch
	live          bool
	// parts is the stream's sequence of the first piece of a proposal whose last piece has not come yet; 0: there is none.
	parts uint64
}

const writerVersion = 1

func (w *writer) encode() []byte {
	b := []byte{writerVersion, 0}
	if w.live {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, w.epoch)
	b = binary.BigEndian.AppendUint64(b, w.number)
	b = binary.BigEndian.AppendUint64(b, w.parts)
	return binary.BigEndian.AppendUint64(b, w.incarnation)
}

func parseWriter(b []byte) (w writer, err error) {
	if len(b) != 34 {
		return w, fmt.Errorf("the value %x is no writer's place", b)
	}
	if b[0] != writerVersion {
		return w, &VersionError{"a writer's place", int(b[0]), writerVersion}
	}
	u := binary.BigEndian.Uint64
	return writer{live: b[1] == 1, epoch: u(b[2:]), number: u(b[10:]), parts: u(b[18:]), incarnation: u(b[26:])}, nil
}

// roster decides which chunks count. It is a pure machine: every node feeds it the same chunks in the same order, and it says the same everywhere. What it knows is also in
// the log, put there by the operations that it gives out with each chunk, so that a restart goes on from there.
type roster struct {
	writers map[string]*writer
	members map[string]Member
	pieces  map[string][]byte // of proposals that are not whole yet
	// recollected is the number of each writer's last chunk that was read again.
	recollected map[string]uint64
}

func newRoster() *roster {
	return &roster{writers: map[string]*writer{}, members: map[string]Member{}, pieces: map[string][]byte{}, recollected: map[string]uint64{}}
}

// loadRoster reads the roster that a log holds.
func loadRoster(s *logstore.Store) (*roster, error) {
	r := newRoster()
	var err error
	s.Scan(writerPrefix, func(key string, v []byte) bool {
		var w writer
		if w, err = parseWriter(v); err == nil {
			r.writers[strings.TrimPrefix(key, writerPrefix)] = &w
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	ms, err := readMembers(s)
	for _, m := range ms {
		r.members[m.Name] = m
	}
	return r, err
}

// readMembers returns the members that a log knows, by name.
func readMembers(s *logstore.Store) (ms []Member, err error) {
	s.Scan(memberPrefix, func(key string, v []byte) bool {
		var m Member
		if err = json.Unmarshal(v, &m); err != nil {
			err = fmt.Errorf("the member under %q: %w", key, err)
		}
		ms = append(ms, m)
		return err == nil
	})
	return ms, err
}

// verdict is what becomes of a chunk.
type verdict uint8

const (
	accepted verdict = iota
	repeated         // it has come before
	early            // one before it is missing; its writer sends them all again
	expired          // its epoch is over, or not begun
)

func (v verdict) String() string {
	return [...]string{"accepted", "repeated", "early", "expired"}[v]
}

// judge says whether a chunk counts, and changes nothing.
func (r *roster) judge(c *chunk) verdict {
	w := r.writers[c.writer]
	if c.kind == kindJoin {
		var epoch uint64
		if w != nil {
			epoch = w.epoch
		}
		switch {
		case c.number == 1 && c.epoch == epoch+1:
			return accepted
		case w != nil && c.epoch == epoch && c.incarnation == w.incarnation:
			return repeated
		}
		return expired
	}
	switch {
	case w == nil || c.epoch != w.epoch || c.incarnation != w.incarnation || !w.live:
		return expired
	case c.number <= w.number:
		return repeated
	case c.number > w.number+1:
		return early
	}
	return accepted
}

// take takes in an accepted chunk at a sequence of the stream, and returns what changes in the log with it. whole is the proposal that its last piece has completed.
func (r *roster) take(c *chunk, sequence uint64) (ops []logstore.Op, whole []byte, err error) {
	w := r.writers[c.writer]
	if c.kind == kindJoin {
		ops, err = r.join(c)
		return ops, nil, err
	}
	w.number = c.number
	switch c.kind {
	case kindPart:
		if w.parts == 0 {
			w.parts = sequence
		}
		if len(r.pieces[c.writer])+len(c.body) > logstore.MaxTxn+logstore.MaxTxn/8 {
			return nil, nil, fmt.Errorf("%w: a proposal of more than %d bytes", errBadChunk, logstore.MaxTxn)
		}
		r.pieces[c.writer] = append(r.pieces[c.writer], c.body...)
	case kindLast:
		whole = append(r.pieces[c.writer], c.body...)
		delete(r.pieces, c.writer)
		w.parts = 0
	case kindGone, kindLeave, kindForget:
		if ops, err = r.end(c); err != nil {
			return nil, nil, err
		}
	}
	return append(ops, logstore.Put(writerPrefix+c.writer, w.encode())), whole, nil
}

// join begins a writer's epoch.
func (r *roster) join(c *chunk) ([]logstore.Op, error) {
	var m Member
	if err := json.Unmarshal(c.body, &m); err != nil {
		return nil, fmt.Errorf("%w: the description of node '%s': %w", errBadChunk, c.writer, err)
	}
	m.Name, m.Epoch, m.Live, m.Left = c.writer, c.epoch, true, false
	if m.ID == 0 || r.hasID(m.ID, c.writer) {
		m.ID = r.idFor(c.writer)
	}
	var ops []logstore.Op
	if was := r.members[c.writer].Server; was != "" && was != m.Server { // its disk was lost
		ops = append(ops, logstore.Put(serverPrefix+was, []byte(c.writer)))
	}
	r.members[c.writer] = m
	w := &writer{epoch: c.epoch, number: c.number, incarnation: c.incarnation, live: true}
	r.writers[c.writer] = w
	delete(r.pieces, c.writer)
	return append(ops, putMember(m), logstore.Put(writerPrefix+c.writer, w.encode())), nil
}

// hasID reports whether another member has the number.
func (r *roster) hasID(id int32, but string) bool {
	for name, m := range r.members {
		if m.ID == id && name != but {
			return true
		}
	}
	return false
}

// idFor returns the number that a node has, or the lowest that nobody has.
func (r *roster) idFor(name string) int32 {
	if m, ok := r.members[name]; ok {
		return m.ID
	}
	used := map[int32]bool{}
	for _, m := range r.members {
		used[m.ID] = true
	}
	id := int32(1)
	for used[id] {
		id++
	}
	return id
}

// end ends an epoch, unless it is over already or another one has begun.
func (r *roster) end(c *chunk) ([]logstore.Op, error) {
	name, epoch, err := parseAbout(c.body)
	if err != nil {
		return nil, err
	}
	w, known := r.writers[name]
	if !known || w.epoch != epoch {
		return nil, nil
	}
	m := r.members[name]
	if c.kind == kindForget {
		if m.Live {
			return nil, nil
		}
		// The writer's place stays: its epochs go on counting if it ever comes back.
		delete(r.members, name)
		ops := []logstore.Op{logstore.Remove(memberPrefix + name)}
		if m.Server != "" {
			ops = append(ops, logstore.Put(serverPrefix+m.Server, []byte(name)))
		}
		return ops, nil
	}
	if !w.live {
		return nil, nil
	}
	w.live, w.parts = false, 0
	delete(r.pieces, name)
	m.Live, m.Left = false, c.kind == kindLeave
	r.members[name] = m
	ops := []logstore.Op{putMember(m)}
	if name != c.writer {
		ops = append(ops, logstore.Put(writerPrefix+name, w.encode()))
	}
	return ops, nil
}

func putMember(m Member) logstore.Op {
	v, err := json.Marshal(m)
	if err != nil {
		panic("a member has no JSON form: " + err.Error())
	}
	return logstore.Put(memberPrefix+m.Name, v)
}

// firstPart returns the lowest sequence of the stream that has a piece of a proposal that is not whole; 0: there is none.
func (r *roster) firstPart() (first uint64) {
	for _, w := range r.writers {
		if w.parts != 0 && (first == 0 || w.parts < first) {
			first = w.parts
		}
	}
	return first
}

// recollect takes in a chunk that the log has counted already, when the stream is read again from the first piece on of what is not whole. Repeats and disorder are passed over as they
// were the first time.
func (r *roster) recollect(c *chunk, sequence uint64) {
	w := r.writers[c.writer]
	if w == nil || w.parts == 0 || sequence < w.parts || c.epoch != w.epoch || c.incarnation != w.incarnation {
		return
	}
	if sequence > w.parts && c.number != r.recollected[c.writer]+1 {
		return
	}
	r.recollected[c.writer] = c.number
	if c.kind == kindPart {
		r.pieces[c.writer] = append(r.pieces[c.writer], c.body...)
	}
}
