package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/group"
)

// LeaveGroup (13): v0 to v5. v3 lets several members leave at once, static ones by their instance id (KIP-345), v4 is flexible, v5 takes reasons (KIP-800).

// leaveGroup takes members out of their group.
func (c *call) leaveGroup() {
	req := c.req.(*kmsg.LeaveGroupRequest)
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	who := []group.Leaver{{MemberID: req.MemberID}}
	if req.Version >= 3 {
		who = who[:0]
		for _, m := range req.Members {
			who = append(who, group.Leaver{MemberID: m.MemberID, InstanceID: text(m.InstanceID), Reason: text(m.Reason)})
		}
	}
	errs, err := c.server.opts.Groups.Leave(c.conn.namespace, req.Group, who)
	switch {
	case err != nil:
		resp.ErrorCode = code(err)
	case req.Version < 3:
		resp.ErrorCode = code(errs[0])
	default:
		for i, m := range req.Members {
			resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{MemberID: m.MemberID, InstanceID: m.InstanceID, ErrorCode: code(errs[i])})
		}
	}
	c.respond(resp)
}
