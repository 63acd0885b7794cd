package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/group"
)

// DescribeGroups (15): v0 to v6. v3 can ask for what the client may do (KIP-430), v4 has static members (KIP-345), v5 is flexible, v6 answers an error for a group
// that does not exist (KIP-1043), which before is one in state Dead.

// groupOperations are what everybody may do with a group: read (bit 3), delete (6), describe (8).
const groupOperations = 1<<3 | 1<<6 | 1<<8

// notAsked says that what the client may do was not asked for.
const notAsked = -1 << 31

// describeGroups tells of groups and their members.
func (c *call) describeGroups() {
	req := c.req.(*kmsg.DescribeGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	for i, name := range req.Groups {
		out := &resp.Groups[i]
		out.Group, out.AuthorizedOperations = name, notAsked
		d, err := c.server.opts.Groups.Describe(c.conn.namespace, name)
		if err == nil && d.State == group.Dead && req.Version >= 6 {
			err = &group.NotFoundError{Group: name}
		}
		out.State = d.State.String()
		if err != nil {
			out.ErrorCode, out.ErrorMessage = code(err), errorMessage(err)
			out.State = group.Dead.String()
			continue
		}
		out.ProtocolType, out.Protocol = d.ProtocolType, d.Protocol
		if req.IncludeAuthorizedOperations {
			out.AuthorizedOperations = groupOperations
		}
		for _, m := range d.Members {
			out.Members = append(out.Members, kmsg.DescribeGroupsResponseGroupMember{MemberID: m.ID, InstanceID: textOrNull(m.InstanceID), ClientID: m.ClientID,
				ClientHost: m.Host, ProtocolMetadata: m.Metadata, MemberAssignment: m.Assignment})
		}
	}
	c.respond(resp)
}
