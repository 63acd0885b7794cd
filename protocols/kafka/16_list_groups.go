package kafka

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListGroups (16): v0 to v5. v3 is flexible, v4 has states and filters by them (KIP-518), v5 types (KIP-848).

// groupType is the type of all groups there are: those whose members assign the work among themselves.
const groupType = "Classic"

// listGroups lists the groups in the states and of the types that are asked for; no filter is all.
func (c *call) listGroups() {
	req := c.req.(*kmsg.ListGroupsRequest)
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	all, err := c.server.opts.Groups.List(c.conn.namespace)
	resp.ErrorCode = code(err)
	for _, g := range all {
		if asksFor(req.StatesFilter, g.State.String()) && asksFor(req.TypesFilter, groupType) {
			resp.Groups = append(resp.Groups, kmsg.ListGroupsResponseGroup{Group: g.Group, ProtocolType: g.ProtocolType, GroupState: g.State.String(), GroupType: groupType})
		}
	}
	c.respond(resp)
}

// asksFor reports whether the filter wants the name, in whatever case it is written; an empty filter wants all.
func asksFor(filter []string, name string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, name) })
}
