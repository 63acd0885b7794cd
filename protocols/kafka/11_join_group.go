package kafka

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/group"
)

// JoinGroup (11): v0 to v9.
//
// v1 adds the rebalance timeout, v4 gives a new member its id before it joins (KIP-394), v5 has static members (KIP-345), v6 is flexible, v7 answers the protocol
// type and null protocols (KIP-559), v8 takes a reason (KIP-800), v9 can tell a leader to leave the assignment as it is (KIP-814).

// joinGroup makes the client a member. The answer comes when the group has gathered.
func (c *call) joinGroup() {
	req := c.req.(*kmsg.JoinGroupRequest)
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	join := &group.JoinRequest{
		Namespace: c.conn.namespace, Group: req.Group, MemberID: req.MemberID, InstanceID: text(req.InstanceID), ClientID: c.conn.clientID, Host: c.conn.host(),
		Session: session, Rebalance: session, ProtocolType: req.ProtocolType, RequireID: req.Version >= 4, KnowsSkip: req.Version >= 9, Reason: text(req.Reason),
	}
	if req.Version >= 1 {
		join.Rebalance = max(time.Duration(req.RebalanceTimeoutMillis)*time.Millisecond, 0)
	}
	for _, p := range req.Protocols {
		join.Protocols = append(join.Protocols, group.Protocol{Name: p.Name, Metadata: append([]byte{}, p.Metadata...)}) // kept longer than the request
	}
	c.park()
	c.server.opts.Groups.Join(join, func(res group.JoinResult, err error) { c.joined(req, res, err) })
}

func (c *call) joined(req *kmsg.JoinGroupRequest, res group.JoinResult, err error) {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	if err != nil {
		resp.ErrorCode, resp.Generation, resp.MemberID = code(err), -1, req.MemberID
		if given, ok := errors.AsType[*group.MemberIDRequiredError](err); ok {
			resp.MemberID = given.MemberID
		}
		c.respond(resp)
		return
	}
	resp.Generation, resp.MemberID, resp.LeaderID, resp.SkipAssignment = res.Generation, res.MemberID, res.Leader, res.SkipAssignment
	resp.ProtocolType, resp.Protocol = &res.ProtocolType, &res.Protocol
	for _, m := range res.Members {
		resp.Members = append(resp.Members, kmsg.JoinGroupResponseMember{MemberID: m.ID, InstanceID: textOrNull(m.InstanceID), ProtocolMetadata: m.Metadata})
	}
	c.respond(resp)
}
