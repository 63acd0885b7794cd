package kafka

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator (10): v0 to v6.
//
// v1 adds the type of the key, v3 is flexible, v4 asks for several keys at once (KIP-699), v5 knows an error of transactions (KIP-890), v6 share groups (KIP-932).

// What a coordinator is asked for.
const (
	coordinatesGroup = 0
	coordinatesTxn   = 1
)

// findCoordinator names the node that coordinates a group. There are no transactions, but who asks for the coordinator of one is told a node too. Share groups, and
// types of key that do not exist, are answered INVALID_REQUEST. A node that is not in touch with a majority may not know who is alive, and says that it does not.
func (c *call) findCoordinator() {
	req := c.req.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	nodes, kind := c.server.layout(c.conn.net), int8(coordinatesGroup)
	if req.Version >= 1 {
		kind = req.CoordinatorType
	}
	find := func(key string) kmsg.FindCoordinatorResponseCoordinator { return c.coordinatorOf(nodes, kind, key) }
	if req.Version < 4 {
		node := find(req.CoordinatorKey)
		resp.NodeID, resp.Host, resp.Port, resp.ErrorCode, resp.ErrorMessage = node.NodeID, node.Host, node.Port, node.ErrorCode, node.ErrorMessage
		c.respond(resp)
		return
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, find(key))
	}
	c.respond(resp)
}

func (c *call) coordinatorOf(nodes *layout, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	refuse := func(code int16, why string) kmsg.FindCoordinatorResponseCoordinator {
		return kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: -1, Port: -1, ErrorCode: code, ErrorMessage: &why}
	}
	if kind != coordinatesGroup && kind != coordinatesTxn {
		return refuse(codeInvalidRequest, "no coordinator is there for keys of type "+strconv.Itoa(int(kind)))
	}
	if err := c.server.opts.Store.Available(); err != nil {
		return refuse(codeCoordinatorNotAvailable, err.Error())
	}
	b := nodes.coordinator(c.conn.namespace, key)
	return kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: b.ID, Host: b.Host, Port: b.Port}
}
