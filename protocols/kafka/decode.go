package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka/wire"
)

// What a decoded request takes, as a multiple of its bytes: claimed is the worst while it is decoded (an array that claims as many elements as bytes are left), real
// is the worst that is left of it when it turned out to be well-formed (an array of the smallest elements that there are).
const (
	claimedPerByte = 50
	realPerByte    = 10
)

// decode reads a request from its body, which must be it and nothing more, and returns how many bytes it holds.
func (c *connection) decode(req kmsg.Request, body []byte) (held int64, err error) {
	if req.Key() == int16(kmsg.Produce) {
		// Its records make it long and are not decoded, its arrays are checked before. So it needs no allowance.
		arrays, err := wire.CheckProduce(body, req.GetVersion())
		if err != nil {
			return 0, err
		}
		return int64(len(body)) + arrays, decode(req, body)
	}
	claimed, ok := c.server.decode.take(claimedPerByte*int64(len(body)), c.ctx.Done())
	if !ok {
		return 0, c.ctx.Err()
	}
	defer c.server.decode.give(claimed)
	if err := decode(req, body); err != nil {
		return 0, err
	}
	if err := c.checkEnd(req, body); err != nil {
		return 0, err
	}
	return realPerByte*int64(len(body)) + 1<<10, nil
}

func decode(req kmsg.Request, body []byte) error {
	if err := req.ReadFrom(body); err != nil {
		return requestErrorf("the body of %s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return nil
}

// unsafeReader is what a decoded message of kmsg has besides: it decodes without copying strings.
type unsafeReader interface{ UnsafeReadFrom([]byte) error }

// metadataSlack is how far a Metadata request may go on behind its end: librdkafka (2.16) leaves four bytes where the null that asks for all topics has one, in
// flexible versions, and Kafka does not look.
const metadataSlack = 3

// checkEnd refuses a body that goes on behind the request. The decoder does not tell where it ended, but it fails on a body that is one byte short; if it does not fail,
// the last byte was not part of the request.
func (c *connection) checkEnd(req kmsg.Request, body []byte) error {
	short := len(body) - 1
	if req.Key() == int16(kmsg.Metadata) && req.IsFlexible() {
		short -= metadataSlack
	}
	if short < 0 {
		return nil
	}
	probe := c.probes[req.Key()]
	if probe == nil {
		probe = kmsg.RequestForKey(req.Key())
		c.probes[req.Key()] = probe
	}
	probe.SetVersion(req.GetVersion())
	if probe.(unsafeReader).UnsafeReadFrom(body[:short]) == nil {
		return requestErrorf("the body of %s v%d goes on behind its end", kmsg.NameForKey(req.Key()), req.GetVersion())
	}
	return nil
}
