package kafka

import (
	"encoding/binary"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// call is one request on its way to an answer. Its place in the connection's queue is the place of its answer.
//
// It is answered exactly once, by respond, respondParts, respondNothing or hangUp, from any goroutine. req, with everything that it points to, is the handler's
// until then; of a Produce request the records are not to be touched after the answer.
type call struct {
	server  *Server
	conn    *connection
	api     *api
	version int16
	req     kmsg.Request

	correlation int32
	nodes       *layout // of the answer to Metadata
	frame       *frame  // what req was decoded from; nil: nobody's to give back
	held        int64   // bytes that the connection accounts to this call

	// Guarded by conn.mu: the answer.
	answered bool
	parked   bool     // it may take as long as others like; a drain does not wait for it
	head     *[]byte  // the answer as one piece, from answerBuffers
	parts    [][]byte // or in several
	release  func()   // gives back what parts point to; nil: nothing to do
}

// answerBuffers are the memory that answers are encoded into.
var answerBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// keepBuffer is the largest buffer that is kept for another answer.
const keepBuffer = 256 << 10

// begin returns a buffer that holds the response header, with room for the size.
func (c *call) begin(flexible bool) *[]byte {
	b := answerBuffers.Get().(*[]byte)
	*b = binary.BigEndian.AppendUint32(append((*b)[:0], 0, 0, 0, 0), uint32(c.correlation))
	// KIP-511: the answer to ApiVersions keeps header v0, so that a client can read it whatever version it asked with.
	if flexible && c.api.key != int16(kmsg.ApiVersions) {
		*b = append(*b, 0) // no tagged fields
	}
	return b
}

// respond answers. The version of resp is set to that of the request.
func (c *call) respond(resp kmsg.Response) {
	resp.SetVersion(c.version)
	b := c.begin(resp.IsFlexible())
	*b = resp.AppendTo(*b)
	binary.BigEndian.PutUint32(*b, uint32(len(*b)-4))
	c.conn.answer(c, b, nil, int64(cap(*b)), nil)
}

// respondParts answers with a frame, size included, that lies in several places, of memory of size bytes. release is called when they have been written or never
// will be.
func (c *call) respondParts(parts [][]byte, size int, release func()) {
	c.conn.answer(c, nil, parts, int64(size), release)
}

// respondNothing is for a request that wants no answer.
func (c *call) respondNothing() { c.conn.answer(c, nil, nil, 0, nil) }

// hangUp closes the connection instead of answering: what the protocol has no other answer for.
func (c *call) hangUp(err error) {
	c.conn.fail(err)
	c.conn.answer(c, nil, nil, 0, nil)
}

// park says that the answer waits for what other clients do (a join for the other members), so that a drain does not wait for it.
func (c *call) park() {
	c.conn.mu.Lock()
	c.parked = true
	c.conn.mu.Unlock()
}
