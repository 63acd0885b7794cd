package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"polylog/logstore"
)

// removeServers takes embedded servers that will not come back out of the NATS cluster: their votes would count for ever, and their copies of the order would be missed.
func (n *Node) removeServers() {
	if n.p.b.srv == nil {
		return
	}
	var names []string
	n.store.Scan(serverPrefix, func(key string, _ []byte) bool {
		names = append(names, strings.TrimPrefix(key, serverPrefix))
		return true
	})
	for _, name := range names {
		if err := n.removeServer(name); err != nil {
			n.o.Logf("removing the server '%s' of a node that is gone for good failed and is tried again: %v", name, err)
			continue
		}
		ctx, cancel := context.WithTimeout(n.ctx, apiSlow)
		_, err := n.store.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.Remove(serverPrefix + name)}})
		cancel()
		if err != nil {
			return
		}
	}
}

// serverUnknown is JetStream's code for a server that is not in its cluster.
const serverUnknown = 10044

func (n *Node) removeServer(name string) error {
	nc, err := nats.Connect("", nats.InProcessServer(n.p.b.srv), nats.UserInfo(systemUser, n.o.Secret))
	if err != nil {
		return err
	}
	defer nc.Close()
	q, err := json.Marshal(map[string]string{"peer": name})
	if err != nil {
		return err
	}
	m, err := nc.Request("$JS.API.SERVER.REMOVE", q, apiSlow)
	if err != nil {
		return err
	}
	var answer struct {
		Success bool `json:"success"`
		Error   *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return err
	}
	if e := answer.Error; e != nil && e.Code != serverUnknown {
		return errors.New(e.Description)
	}
	n.o.Logf("the server '%s' is no part of the NATS cluster any more", name)
	return nil
}

// Remove makes a node that was stopped, or is gone, no member any more, for good. A live one is not removed.
func (n *Node) Remove(ctx context.Context, name string) error {
	var m *Member
	for _, x := range n.Members() {
		if x.Name == name {
			m = &x
		}
	}
	switch {
	case m == nil:
		return fmt.Errorf("there is no node '%s' in the cluster", name)
	case m.Live:
		return fmt.Errorf("node '%s' is live: stop it first", name)
	}
	if err := n.order.out.control(kindForget, name, m.Epoch); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiSlow)
	defer cancel()
	return retry(ctx, n.o, "removing node '"+name+"'", func(context.Context) error {
		if _, is := n.store.Get(memberPrefix + name); is {
			return errors.New("it is a member still")
		}
		return nil
	})
}
