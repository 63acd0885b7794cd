package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// stampBytes is the size of a stamp: the least that a message's body can have.
const stampBytes = 32

// stamp is what a message carries at the beginning of its body, in big-endian order:
//
//	 0        8         12        16        24        32
//	+--------+---------+---------+---------+---------+
//	| round  | producer| 0       | number  | time    |
//	+--------+---------+---------+---------+---------+
type stamp struct {
	round    uint64        // which round of which run sent it, so that what others left behind is told apart
	producer uint32        // from 0
	number   uint64        // of its producer, from 0
	at       time.Duration // when it was sent, or should have been, since the beginning of the round
}

// put writes the stamp over the first stampBytes of a body.
func (s stamp) put(body []byte) {
	_ = body[stampBytes-1]
	binary.BigEndian.PutUint64(body, s.round)
	binary.BigEndian.PutUint32(body[8:], s.producer)
	binary.BigEndian.PutUint32(body[12:], 0)
	binary.BigEndian.PutUint64(body[16:], s.number)
	binary.BigEndian.PutUint64(body[24:], uint64(s.at))
}

// stampOf reads the stamp of a body; false: it is too short for one.
func stampOf(body []byte) (s stamp, ok bool) {
	if len(body) < stampBytes {
		return s, false
	}
	return stamp{
		round: binary.BigEndian.Uint64(body), producer: binary.BigEndian.Uint32(body[8:]),
		number: binary.BigEndian.Uint64(body[16:]), at: time.Duration(binary.BigEndian.Uint64(body[24:])),
	}, true
}

// noise returns n bytes that no compression makes shorter: what bodies are filled with.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b) //nolint:errcheck // it has no errors
	return b
}
