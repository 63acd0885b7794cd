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

// findCoordinator names this node: it coordinates everything. Share groups, and types of key that do not exist, are answered INVALID_REQUEST.
func (c *call) findCoordinator() {
	req := c.req.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	node := kmsg.FindCoordinatorResponseCoordinator{NodeID: c.server.opts.NodeID}
	node.Host, node.Port = c.server.opts.Advertise(c.conn.net)
	if kind := req.CoordinatorType; req.Version >= 1 && kind != coordinatesGroup && kind != coordinatesTxn {
		why := "no coordinator is there for keys of type " + strconv.Itoa(int(kind))
		node = kmsg.FindCoordinatorResponseCoordinator{NodeID: -1, Port: -1, ErrorCode: codeInvalidRequest, ErrorMessage: &why}
	}
	if req.Version < 4 {
		resp.NodeID, resp.Host, resp.Port, resp.ErrorCode, resp.ErrorMessage = node.NodeID, node.Host, node.Port, node.ErrorCode, node.ErrorMessage
		c.respond(resp)
		return
	}
	for _, key := range req.CoordinatorKeys {
		node.Key = key
		resp.Coordinators = append(resp.Coordinators, node)
	}
	c.respond(resp)
}
