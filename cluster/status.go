package cluster

import (
	"context"
	"time"
)

// Status is the cluster as one node sees it.
type Status struct {
	Cluster     string         `json:"cluster"`
	Node        string         `json:"node"` // who says this
	Epoch       uint64         `json:"epoch"`
	Leader      string         `json:"leader"`
	Unavailable string         `json:"unavailable,omitempty"` // why this node takes no writes
	Members     []MemberStatus `json:"members"`
	Order       OrderStatus    `json:"order"`
}

// MemberStatus is a member and how it does.
type MemberStatus struct {
	Member
	SilentMillis int64  `json:"silent_ms"` // since it was last heard
	Last         uint64 `json:"last"`      // the last entry of the order that has come to it
	Lag          uint64 `json:"lag"`       // how many it is behind
}

// OrderStatus is the stream's.
type OrderStatus struct {
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
	Bytes  uint64 `json:"bytes"`
	Copies int    `json:"copies"`           // that there should be
	Leader string `json:"leader,omitempty"` // the server that has the say
	// Behind are servers whose copy is not up to date.
	Behind []string `json:"behind,omitempty"`
	Error  string   `json:"error,omitempty"` // why the rest is not known
}

// Status asks the stream and returns what this node knows.
func (n *Node) Status(ctx context.Context) Status {
	st := Status{Cluster: n.o.Name, Node: n.o.Node, Epoch: n.Epoch(), Leader: n.Leader()}
	if err := n.store.Available(); err != nil {
		st.Unavailable = err.Error()
	}
	info, err := n.s.info(ctx)
	if err != nil {
		st.Order.Error = err.Error()
	} else {
		st.Order = OrderStatus{First: info.State.FirstSeq, Last: info.State.LastSeq, Bytes: info.State.Bytes, Copies: info.Config.Replicas}
		if c := info.Cluster; c != nil {
			st.Order.Leader = c.Leader
			for _, r := range c.Replicas {
				if !r.Current || r.Offline {
					st.Order.Behind = append(st.Order.Behind, r.Name)
				}
			}
		}
	}
	now := time.Now()
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	last := n.order.last.Load()
	for _, b := range n.view.beats {
		last = max(last, b.Last)
	}
	for _, m := range n.view.members {
		s := MemberStatus{Member: m, SilentMillis: n.view.silence(m.Name, now).Milliseconds(), Last: n.view.beats[m.Name].Last}
		s.Lag = last - s.Last
		st.Members = append(st.Members, s)
	}
	return st
}

// Figures are what a node measures of its part.
type Figures struct {
	Live       int64 // members whose epoch goes on
	Leads      bool
	Available  bool
	Last       uint64 // the last entry of the order that has come here
	Behind     uint64 // how many entries of the order this node knows of and has not
	Pending    int64  // proposals that have come and are not applied yet
	Waiting    int64  // bytes of proposals of this node's that are not in the order yet
	Need       uint64 // the first entry of the order that this node may ask for again
	Resent     int64  // chunks sent more than once
	OrderBytes int64  // size of the order, as the leader last saw it; 0 elsewhere
	Refused    int64  // chunks that did not count: repeats, disorder, epochs that are over
}

// Figures returns the node's figures.
func (n *Node) Figures() Figures {
	_, pending := n.store.Following()
	r := n.order
	f := Figures{
		Live: int64(len(n.Live())), Leads: n.Leads(), Available: n.store.Available() == nil, Last: r.last.Load(), Pending: int64(pending), Need: n.need(),
		Resent: r.out.resent.Load(), Refused: r.refused.Load(), OrderBytes: n.orderBytes.Load(),
	}
	if k := r.known.Load(); k > f.Last {
		f.Behind = k - f.Last
	}
	r.out.mu.Lock()
	f.Waiting = int64(r.out.flightBytes + r.out.quick.bytes + r.out.bulk.bytes)
	r.out.mu.Unlock()
	return f
}
