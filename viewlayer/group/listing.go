package group

import (
	"cmp"
	"slices"

	"polylog/logstore"
)

// Listing is a group in a list.
type Listing struct {
	Group        string
	State        State
	ProtocolType string
}

// List returns the groups of the namespace that are this coordinator's, by name.
func (c *Coordinator) List(namespace string) (all []Listing, err error) {
	found := map[string]Listing{}
	c.opts.Store.Scan(headPrefix+keyText(namespace), func(key string, v []byte) bool {
		var n groupName
		var h head
		if n, _, err = parseName(headPrefix, key); err == nil {
			if !c.opts.Mine(n.namespace, n.group) {
				return true
			}
			h, err = decodeHead(key, v)
		}
		found[n.group] = Listing{n.group, Empty, h.protocolType}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	for _, g := range c.loaded() {
		if g.name.namespace != namespace || !c.opts.Mine(namespace, g.name.group) {
			continue
		}
		if c.acquire(g) != nil {
			continue // what is stored of it must do
		}
		if !g.gone && g.exists() {
			found[g.name.group] = Listing{g.name.group, g.state, g.protocolType}
		}
		g.turn.unlock()
	}
	for _, l := range found {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b Listing) int { return cmp.Compare(a.Group, b.Group) })
	return all, nil
}

// Description is what can be told of a group.
type Description struct {
	State                  State
	ProtocolType, Protocol string // Protocol: in Stable only
	Members                []Member
}

// Member is a member in a description. What it was given and said of itself is only there while the group is stable.
type Member struct {
	ID, InstanceID, ClientID, Host string
	Metadata, Assignment           []byte
}

// Describe tells of a group. One that does not exist is Dead.
func (c *Coordinator) Describe(namespace, group string) (Description, error) {
	g, err := c.lock(groupName{namespace, group})
	if err != nil {
		return Description{}, err
	}
	defer c.unlockLater(g)
	if !g.exists() {
		return Description{State: Dead}, nil
	}
	d := Description{State: g.state, ProtocolType: g.protocolType}
	stable := g.state == Stable
	if stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.members {
		t := Member{ID: m.id, InstanceID: m.instance, ClientID: m.clientID, Host: m.host}
		if stable {
			t.Metadata, t.Assignment = m.metadata(g.protocol), m.assignment
		}
		d.Members = append(d.Members, t)
	}
	return d, nil
}

// Delete removes a group without members, and its bookmarks, in bounded steps: if one fails the group is still there, with fewer bookmarks.
func (c *Coordinator) Delete(namespace, group string) error {
	n := groupName{namespace, group}
	g, err := c.lock(n)
	if err != nil {
		return err
	}
	defer c.unlock(g)
	if !g.exists() {
		return &NotFoundError{group}
	}
	if g.state != Empty {
		return &NonEmptyGroupError{group}
	}
	if g.raw == nil { // somebody is about to join and has an id; it will find that the id is not known any more
		clear(g.pending)
		return nil
	}
	if err := g.fence(); err != nil {
		return err
	}
	var ops []logstore.Op
	c.opts.Store.Scan(n.key(bookmarkPrefix), func(key string, _ []byte) bool {
		if ops = append(ops, logstore.Remove(key)); len(ops) == opsPerTxn {
			err = g.write(ops)
			ops = nil
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return g.forget(ops)
}

// fence rewrites the head, so that every commit that was checked before is either ordered by now or has no effect; the next ones wait for the lock.
func (g *group) fence() error {
	h := g.stored
	h.writes++
	h.owner = g.mark()
	raw := h.encode()
	if err := g.write([]logstore.Op{logstore.Put(g.headKey, raw)}); err != nil {
		return err
	}
	g.stored, g.raw = h, raw
	return nil
}

// forget takes the group, which has no members, out of the store; ops are the rest of what goes with it.
func (g *group) forget(ops []logstore.Op) error {
	for i := range g.stored.members { // those of a generation after which "there is nobody" could not be stored
		ops = append(ops, logstore.Remove(g.name.memberKey(i)))
	}
	if err := g.write(append(ops, logstore.Remove(g.headKey))); err != nil {
		return err
	}
	clear(g.pending)
	g.c.unload(g)
	return nil
}
