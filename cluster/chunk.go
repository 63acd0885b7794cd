package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A chunk is one message of the stream: proposals of one writer, gathered.
//
//	u8  version, 1
//	u8  kind
//	u16 length of the writer's name
//	u32 CRC-32C of everything else
//	u64 epoch of the writer
//	u64 number: 1, 2, 3 … within the epoch
//	u64 incarnation of the writer: drawn by its process, so that two that think to have the same epoch are told apart
//	    name, then the body
//
// The body of data is proposals, each behind its length (uvarint); of a part, a piece of one proposal that is too large for a message; of join, a member's description
// (JSON); of gone, leave and forget, the name (to its end) of whom they are about behind the epoch (u64). Numbers are little-endian. The server notices damage to a stored
// message only sometimes, so the chunk has a checksum of its own.
const (
	chunkVersion = 1
	chunkHeader  = 32
)

type kind uint8

const (
	kindData   kind = iota + 1
	kindPart        // not the last piece
	kindLast        // the last piece
	kindJoin        // the writer begins its epoch
	kindGone        // a writer's epoch is over, its sender says
	kindLeave       // the writer's own epoch is over
	kindForget      // a writer that has left is no member any more
)

func (k kind) String() string {
	switch k {
	case kindData:
		return "data"
	case kindPart, kindLast:
		return "part"
	case kindJoin:
		return "join"
	case kindGone:
		return "gone"
	case kindLeave:
		return "leave"
	case kindForget:
		return "forget"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// chunk is a chunk as it is read. body points into the message.
type chunk struct {
	kind          kind
	writer        string
	epoch, number uint64
	incarnation   uint64
	body          []byte
}

// proposalsMax bounds the proposals of a chunk: their numbers in the order are that of the chunk and their place in it (see numbering.go).
const proposalsMax = 1<<placeBits - 2

var crcTable = crc32.MakeTable(crc32.Castagnoli)

var errBadChunk = errors.New("damaged chunk")

// beginChunk appends an unfinished header; what follows is the body.
func beginChunk(b []byte, k kind, writer string, epoch, incarnation uint64) []byte {
	b = append(b, chunkVersion, byte(k))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(writer)))
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, epoch)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, incarnation)
	return append(b, writer...)
}

// finishChunk gives a chunk its number and its checksum.
func finishChunk(b []byte, number uint64) {
	binary.LittleEndian.PutUint64(b[16:], number)
	binary.LittleEndian.PutUint32(b[4:], chunkSum(b))
}

func chunkSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], crcTable), crcTable, b[8:])
}

// VersionError means that another node of the cluster writes what this program does not know.
type VersionError struct {
	What      string
	Got, Know int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has version %d, this program knows %d; update this node", e.What, e.Got, e.Know)
}

// parseChunk reads a chunk: a *VersionError, or errBadChunk.
func parseChunk(b []byte) (c chunk, err error) {
	if len(b) < chunkHeader {
		return c, fmt.Errorf("%w: %d bytes are less than its header", errBadChunk, len(b))
	}
	if got, want := chunkSum(b), binary.LittleEndian.Uint32(b[4:]); got != want {
		return c, fmt.Errorf("%w: its CRC is %08x, stored %08x", errBadChunk, got, want)
	}
	if b[0] != chunkVersion {
		return c, &VersionError{"a chunk of the order", int(b[0]), chunkVersion}
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	if len(b) < chunkHeader+n {
		return c, fmt.Errorf("%w: a name of %d bytes in %d", errBadChunk, n, len(b)-chunkHeader)
	}
	c = chunk{
		kind: kind(b[1]), writer: string(b[chunkHeader : chunkHeader+n]), epoch: binary.LittleEndian.Uint64(b[8:]), number: binary.LittleEndian.Uint64(b[16:]),
		incarnation: binary.LittleEndian.Uint64(b[24:]),
		body:        b[chunkHeader+n:],
	}
	if c.kind < kindData || c.kind > kindForget {
		return c, &VersionError{"a kind of chunk", int(c.kind), int(kindForget)}
	}
	return c, nil
}

// proposals calls f for each proposal of a data chunk, until it fails.
func (c *chunk) proposals(f func(place int, proposal []byte) error) error {
	b := c.body
	for place := 1; len(b) > 0; place++ {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) || place > proposalsMax {
			return fmt.Errorf("%w: proposal %d is cut off, or one too many", errBadChunk, place)
		}
		end := k + int(n)
		if err := f(place, b[k:end:end]); err != nil {
			return err
		}
		b = b[end:]
	}
	return nil
}

// about is whom a chunk of kind gone, leave or forget is about.
func appendAbout(b []byte, name string, epoch uint64) []byte {
	return append(binary.LittleEndian.AppendUint64(b, epoch), name...)
}

func parseAbout(body []byte) (name string, epoch uint64, err error) {
	if len(body) < 9 {
		return "", 0, fmt.Errorf("%w: %d bytes name nobody", errBadChunk, len(body))
	}
	return string(body[8:]), binary.LittleEndian.Uint64(body), nil
}
