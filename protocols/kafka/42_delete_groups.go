package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// DeleteGroups (42): v0 to v3. v2 is flexible, v3 has messages to errors.

// deleteGroups removes groups without members, with their bookmarks, and answers once that is durable.
func (c *call) deleteGroups() {
	req := c.req.(*kmsg.DeleteGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(req.Groups))
	for i, name := range req.Groups {
		err := c.server.opts.Groups.Delete(c.conn.namespace, name)
		resp.Groups[i].Group, resp.Groups[i].ErrorCode, resp.Groups[i].ErrorMessage = name, code(err), errorMessage(err)
	}
	c.afterOrder(func(err error) {
		for i := range resp.Groups {
			if g := &resp.Groups[i]; err != nil && g.ErrorCode == codeNone {
				g.ErrorCode, g.ErrorMessage = code(err), errorMessage(err)
			}
		}
		c.respond(resp)
	})
}
