package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/group"
)

// SyncGroup (14): v0 to v5. v3 has static members (KIP-345), v4 is flexible, v5 says and answers the protocol and its type (KIP-559).

// syncGroup brings the leader's assignments, and answers each member with its own once the disk has them.
func (c *call) syncGroup() {
	req := c.req.(*kmsg.SyncGroupRequest)
	sync := &group.SyncRequest{
		Namespace: c.conn.namespace, Group: req.Group, MemberID: req.MemberID, InstanceID: text(req.InstanceID), Generation: req.Generation,
		ProtocolType: text(req.ProtocolType), Protocol: text(req.Protocol),
	}
	for _, a := range req.GroupAssignment {
		sync.Assignments = append(sync.Assignments, group.Assignment{MemberID: a.MemberID, Assignment: append([]byte{}, a.MemberAssignment...)}) // kept longer than the request
	}
	c.park()
	c.server.opts.Groups.Sync(sync, func(res group.SyncResult, err error) {
		if err != nil {
			c.synced(res, err)
			return
		}
		c.afterOrder(func(err error) { c.synced(res, err) })
	})
}

func (c *call) synced(res group.SyncResult, err error) {
	resp := c.req.ResponseKind().(*kmsg.SyncGroupResponse)
	if err != nil {
		resp.ErrorCode = code(err)
		c.respond(resp)
		return
	}
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &res.ProtocolType, &res.Protocol, res.Assignment
	c.respond(resp)
}
