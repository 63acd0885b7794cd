package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// Heartbeat (12): v0 to v4. v3 has static members (KIP-345), v4 is flexible.

// heartbeat keeps a member's session and tells it when to join anew.
func (c *call) heartbeat() {
	req := c.req.(*kmsg.HeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = code(c.server.opts.Groups.Heartbeat(c.conn.namespace, req.Group, req.MemberID, text(req.InstanceID), req.Generation))
	c.respond(resp)
}
