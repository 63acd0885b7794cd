package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HeaderSize is the number of bytes before the first entry of a segment file.
//
//	 0  [8]  "PLOGSEG1"
//	 8  u32  format version, 1
//	12  u32  generation: 0 as first written, one more each time cleaning rewrote it
//	16  u64  segment id
//	24  u64  covers to: the last segment id whose live batches this file holds (its own id unless cleaning merged several)
//	32  u64  previous sequence number: the last one ordered before this file's first entry
//	40  u64  last sequence number covered (generation > 0 only, else 0)
//	48  u64  offsets that were live when cleaning wrote the file (generation > 0 only, else 0)
//	56  u32  salt of the entries' CRCs
//	60  u32  CRC-32C of bytes 0 .. 60
const HeaderSize = 64

// Version is the format version that this code writes. An unknown one is refused.
const Version = 1

var headerMagic = [8]byte{'P', 'L', 'O', 'G', 'S', 'E', 'G', '1'}

// MaxID is the largest segment id; the smallest is 1. A position in the log is an id and a position in its file, 32 bits each.
const MaxID = 1<<32 - 1

// Header identifies a segment file.
type Header struct {
	Generation uint32
	ID         uint64
	CoversTo   uint64
	PrevSeq    uint64
	LastSeq    uint64
	Live       uint64
	Salt       uint32
}

// ErrVersion means that the file was written by a newer format.
var ErrVersion = errors.New("unknown format version")

// ErrBadHeader means that the bytes are not a segment header.
var ErrBadHeader = errors.New("bad segment header")

// AppendTo appends the encoded header to b.
func (h Header) AppendTo(b []byte) []byte {
	var p [HeaderSize]byte
	copy(p[:], headerMagic[:])
	binary.LittleEndian.PutUint32(p[8:], Version)
	binary.LittleEndian.PutUint32(p[12:], h.Generation)
	binary.LittleEndian.PutUint64(p[16:], h.ID)
	binary.LittleEndian.PutUint64(p[24:], h.CoversTo)
	binary.LittleEndian.PutUint64(p[32:], h.PrevSeq)
	binary.LittleEndian.PutUint64(p[40:], h.LastSeq)
	binary.LittleEndian.PutUint64(p[48:], h.Live)
	binary.LittleEndian.PutUint32(p[56:], h.Salt)
	binary.LittleEndian.PutUint32(p[60:], Checksum(p[:60]))
	return append(b, p[:]...)
}

// ParseHeader reads a segment header.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes, need %d", ErrBadHeader, len(b), HeaderSize)
	}
	if [8]byte(b[:8]) != headerMagic {
		return Header{}, fmt.Errorf("%w: magic is %q", ErrBadHeader, b[:8])
	}
	if got, want := Checksum(b[:60]), binary.LittleEndian.Uint32(b[60:]); got != want {
		return Header{}, fmt.Errorf("%w: CRC is %08x, stored %08x", ErrBadHeader, got, want)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != Version {
		return Header{}, fmt.Errorf("%w: segment has version %d, this program knows %d; use a newer polylog", ErrVersion, v, Version)
	}
	h := Header{
		Generation: binary.LittleEndian.Uint32(b[12:]),
		ID:         binary.LittleEndian.Uint64(b[16:]),
		CoversTo:   binary.LittleEndian.Uint64(b[24:]),
		PrevSeq:    binary.LittleEndian.Uint64(b[32:]),
		LastSeq:    binary.LittleEndian.Uint64(b[40:]),
		Live:       binary.LittleEndian.Uint64(b[48:]),
		Salt:       binary.LittleEndian.Uint32(b[56:]),
	}
	if h.ID == 0 || h.CoversTo < h.ID || h.CoversTo > MaxID {
		return Header{}, fmt.Errorf("%w: segment %d covers to %d (allowed: 1 to %d, ascending)", ErrBadHeader, h.ID, h.CoversTo, uint32(MaxID))
	}
	return h, nil
}
