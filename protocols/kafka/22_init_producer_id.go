package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerID (22): v0 to v5.
//
// v2 is flexible, v3 lets a transactional producer go on with its id (KIP-360), v4 fences it by PRODUCER_FENCED (KIP-588), v5 is for transactions v2 (KIP-890).

// initProducerID gives out a producer id for idempotence: a new one each time, as Kafka does for a producer without a transactional id. Now and then that waits
// for the disk.
//
// DEVIATES: there are no transactions; a transactional id is answered UNSUPPORTED_VERSION, which ends the producer at its start.
func (c *call) initProducerID() {
	req := c.req.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "":
		resp.ErrorCode = codeInvalidRequest
	case req.TransactionalID != nil:
		resp.ErrorCode = codeUnsupportedVersion
	default:
		c.conn.work.Go(func() {
			id, err := c.server.opts.Producers.NewID(c.conn.ctx)
			if err != nil {
				if resp.ErrorCode = code(err); resp.ErrorCode == codeNotEnoughReplicas || resp.ErrorCode == codeRequestTimedOut {
					resp.ErrorCode = codeCoordinatorLoadInProgress // the one that all clients just ask again after
				}
			} else {
				resp.ProducerID, resp.ProducerEpoch = id, 0
			}
			c.respond(resp)
		})
		return
	}
	c.respond(resp)
}
