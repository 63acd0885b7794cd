package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"polylog/logstore"
)

// Peer is this process's part of the NATS that carries the order. It lives as long as the process; a Node, which follows the order, may end before it and begin anew.
type Peer struct {
	o  Options
	b  *broker
	js jetstream.JetStream
	id string // of this process: two with the same name are told apart by it

	copies copies

	mu      sync.Mutex
	self    greeting
	damaged bool // this node's copy of the order, as the last Node that followed it has found
}

// greeting is what a node says of itself before it has joined.
type greeting struct {
	Node     string `json:"node"`
	Process  string `json:"process"`
	Last     uint64 `json:"last"`     // what its log has counted
	Identity string `json:"identity"` // of the order that its log follows; "": none
	Ready    bool   `json:"ready"`    // it looked at its log
}

// Start starts the embedded server, or connects to the cluster that is operated elsewhere. It does not wait for other nodes.
func Start(o Options) (*Peer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Peer{o: o, id: randomText(10), copies: copies{open: map[string]*givenCopy{}}}
	p.self = greeting{Node: o.Node, Process: p.id}
	if p.b, err = startBroker(&p.o); err != nil {
		return nil, err
	}
	if p.js, err = jetstream.New(p.b.nc); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.answer("hello", func(m *nats.Msg) {
		p.mu.Lock()
		g := p.self
		p.mu.Unlock()
		reply(m, g)
	}); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// answer has f called for each message on a subject of the cluster's.
func (p *Peer) answer(what string, f func(*nats.Msg)) error {
	if _, err := p.b.nc.Subscribe(p.o.subject(what), f); err != nil { // it ends with the connection
		return fmt.Errorf("listening to the other nodes: %w", err)
	}
	return nil
}

func reply(m *nats.Msg, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("an answer has no JSON form: " + err.Error())
	}
	m.Respond(b) //nolint:errcheck // who asked asks again
}

// Close ends the connection and the embedded server, after the Node.
func (p *Peer) Close() error {
	p.b.stop()
	return nil
}

// helloWait is how long nodes may take to say who they are.
const helloWait = 500 * time.Millisecond

// greet asks all nodes who they are, and returns the answers by name, this one's own among them.
func (p *Peer) greet(ctx context.Context) (map[string][]greeting, error) {
	inbox := p.b.nc.NewInbox()
	s, err := p.b.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer s.Unsubscribe() //nolint:errcheck // nothing comes any more
	if err := p.b.nc.PublishRequest(p.o.subject("hello"), inbox, nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	all := map[string][]greeting{}
	for {
		m, err := s.NextMsgWithContext(ctx)
		if err != nil {
			return all, nil //nolint:nilerr // the time is over
		}
		var g greeting
		if json.Unmarshal(m.Data, &g) == nil && g.Node != "" {
			all[g.Node] = append(all[g.Node], g)
		}
	}
}

// checkAlone returns why this node cannot have its name: another process has it.
func (p *Peer) checkAlone(ctx context.Context) error {
	all, err := p.greet(ctx)
	if err != nil {
		return err
	}
	for _, g := range all[p.o.Node] {
		if g.Process != p.id {
			return fmt.Errorf("another process is the node '%s' already: give each node a name of its own (node)", p.o.Node)
		}
	}
	return nil
}

// founding says who founds a new order, as all nodes that the seeds name see it.
type founding struct {
	mine bool
	base uint64
}

// decideFounder looks at what the nodes have said and returns why it cannot be decided yet, or ever (*permanentError).
func (p *Peer) decideFounder(all map[string][]greeting) (founding, error) {
	want := len(p.o.Seeds)
	var founder string
	var base uint64
	ready := 0
	for name, gs := range all {
		g := gs[0]
		if !g.Ready {
			continue
		}
		ready++
		switch {
		case g.Identity != "":
			return founding{}, &permanentError{fmt.Errorf("the log of node '%s' follows an order that is not there any more: what the embedded servers keep (the folder order of each data directory) was "+
				"lost on all nodes. Bring one of them back from a backup; what that log holds can be read by starting the node alone, without cluster.*", name)}
		case g.Last > 0 && base > 0:
			return founding{}, &permanentError{fmt.Errorf("the nodes '%s' and '%s' both have data of their own, and a cluster can begin with that of one: move the data of the others away", founder, name)}
		case g.Last > 0:
			founder, base = name, g.Last
		}
	}
	if ready < want {
		return founding{}, fmt.Errorf("%d of %d nodes are there: a new cluster begins when all that cluster.seeds names are", ready, want)
	}
	if founder == "" {
		for name := range all {
			if founder == "" || name < founder {
				founder = name
			}
		}
	}
	return founding{founder == p.o.Node, baseFor(base)}, nil
}

// findOrder finds the order, or founds it.
func (p *Peer) findOrder(ctx context.Context) (s *stream, err error) {
	err = retry(ctx, &p.o, "looking for the order of the cluster", func(ctx context.Context) error {
		if s, err = findStream(ctx, p.js, &p.o); !errors.Is(err, errNoStream) {
			if errors.As(err, new(*VersionError)) {
				return &permanentError{err}
			}
			return err
		}
		var f founding
		if len(p.o.External) > 0 {
			p.mu.Lock()
			f = founding{true, baseFor(p.self.Last)}
			p.mu.Unlock()
		} else {
			all, err := p.greet(ctx)
			if err != nil {
				return err
			}
			if f, err = p.decideFounder(all); err != nil {
				return err
			}
		}
		if !f.mine {
			return errors.New("another node is about to found it")
		}
		s, err = createStream(ctx, p.js, &p.o, f.base)
		if err == nil {
			p.o.Logf("founded the order of cluster '%s' with %d copies", p.o.Name, s.replicas)
		}
		return err
	})
	return s, err
}

// look opens the log by itself, to see how far it has counted and what it follows. unfinished says that it is to become a copy of another one, which did not come to its end.
func look(so logstore.Options) (last uint64, identity string, unfinished bool, err error) {
	if unfinished, err = logstore.Unfinished(so.FS, so.Dir); err != nil || unfinished {
		return 0, "", unfinished, err
	}
	s, err := logstore.Open(so)
	if err != nil {
		return 0, "", false, err
	}
	last, _ = s.Hash()
	id, _ := s.Get(identityKey)
	return last, string(id), false, s.Close()
}
