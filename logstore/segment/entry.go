package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// EntryHeaderSize is the number of bytes before an entry's metadata.
//
//	 0  u32  CRC-32C of bytes 4 .. 24+metadata length (not of the batches: each carries its own CRC, repeated in the metadata),
//	         exclusive-or the salt in the segment's header
//	 4  u32  length of the whole entry in bytes, this header included
//	 8  u64  sequence number
//	16  u32  unsynced: sequence number minus the highest one known to be durable when this entry was written; 2^32-1: that is too far back to be told
//	20  u24  length of the metadata
//	23  u8   kind
//	24       metadata, then the batches, back to back
//
// All integers are little-endian (the batches inside are Kafka's, big-endian).
const EntryHeaderSize = 24

// MaxMetadata is the largest metadata of one entry, in bytes: what the 24-bit length holds.
const MaxMetadata = 1<<24 - 1

// MaxEntry is the largest entry in bytes. A batch may have 64 MiB (record.MaxBatchSize); the rest is room for metadata.
const MaxEntry = 64<<20 + MaxMetadata + EntryHeaderSize

// Kind tells what an entry is.
type Kind uint8

const (
	// KindTxn is a transaction of the order: its operations are replayed at recovery.
	KindTxn Kind = 1
	// KindKept is a batch that cleaning copied from an older file. It holds bytes only and is never replayed.
	KindKept Kind = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C used by every part of the on-disk format.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Entry is one framed entry. Meta and Body point into the buffer it was read from.
type Entry struct {
	Seq      uint64
	Unsynced uint32
	Kind     Kind
	Pos      uint32 // of the header in the file
	Meta     []byte
	Body     []byte // the batches
}

// UnsyncedUnknown stands in Entry.Unsynced for this distance and all larger ones.
const UnsyncedUnknown = math.MaxUint32

// Unsynced is the distance that an entry stores: how far its number is ahead of the highest one that is known to be durable.
func Unsynced(seq, durable uint64) uint32 { return uint32(min(seq-durable, UnsyncedUnknown)) }

// Durable is the highest sequence number that was known to be durable when the entry was written, or 0 when it does not say. Then it proves nothing: to take the distance
// for the largest that can be told would call entries durable that were not.
func (e *Entry) Durable() uint64 {
	if e.Unsynced == UnsyncedUnknown || uint64(e.Unsynced) > e.Seq {
		return 0
	}
	return e.Seq - uint64(e.Unsynced)
}

// Size is the number of bytes that the entry takes in the file.
func (e *Entry) Size() int { return EntryHeaderSize + len(e.Meta) + len(e.Body) }

// BodyPos is the position in the file of the first batch.
func (e *Entry) BodyPos() uint32 { return e.Pos + EntryHeaderSize + uint32(len(e.Meta)) }

// FinishEntry writes the header of an entry whose metadata stands at b[EntryHeaderSize:EntryHeaderSize+metaLen] and whose
// batches fill the rest of b.
//
// The salt, drawn at random for each segment, keeps a message that contains the bytes of an entry from being taken for one.
func FinishEntry(b []byte, salt uint32, seq uint64, unsynced uint32, kind Kind, metaLen int) {
	_ = b[EntryHeaderSize-1]
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint32(b[16:], unsynced)
	binary.LittleEndian.PutUint32(b[20:], uint32(metaLen)|uint32(kind)<<24)
	binary.LittleEndian.PutUint32(b, salt^Checksum(b[4:EntryHeaderSize+metaLen]))
}

// impliedSalt is the salt with which the header and metadata at b would be good.
func impliedSalt(b []byte, metaLen int) uint32 {
	return binary.LittleEndian.Uint32(b) ^ Checksum(b[4:EntryHeaderSize+metaLen])
}

// ErrNoEntry means that the bytes are zero where an entry would begin: the end of what was written.
var ErrNoEntry = errors.New("no entry")

// ErrBadEntry means that the bytes are not a whole, undamaged entry.
var ErrBadEntry = errors.New("bad entry")

// entryLengths returns what the header at b claims: the length of the entry and of its metadata, and whether an entry can have them.
func entryLengths(b []byte) (size, metaLen int, ok bool) {
	size = int(binary.LittleEndian.Uint32(b[4:]))
	metaLen = int(binary.LittleEndian.Uint32(b[20:]) & MaxMetadata)
	return size, metaLen, size >= EntryHeaderSize+metaLen && size <= MaxEntry
}

// entrySize is entryLengths with the reason why not.
func entrySize(b []byte) (size, metaLen int, err error) {
	size, metaLen, ok := entryLengths(b)
	switch {
	case size == 0:
		for _, c := range b[:EntryHeaderSize] {
			if c != 0 {
				return 0, 0, fmt.Errorf("%w: length 0 but the header is not empty", ErrBadEntry)
			}
		}
		return 0, 0, ErrNoEntry
	case !ok:
		return 0, 0, fmt.Errorf("%w: length %d with %d bytes of metadata (allowed: header and metadata to %d)",
			ErrBadEntry, size, metaLen, MaxEntry)
	}
	return size, metaLen, nil
}

// ParseEntry reads the entry at the start of b and checks its CRC. The batches in Body are not checked: their CRCs are
// the caller's to compare.
func ParseEntry(b []byte, salt uint32) (Entry, error) {
	if len(b) < EntryHeaderSize {
		for _, c := range b {
			if c != 0 {
				return Entry{}, fmt.Errorf("%w: %d bytes are less than a header", ErrBadEntry, len(b))
			}
		}
		return Entry{}, ErrNoEntry
	}
	size, metaLen, err := entrySize(b)
	if err != nil {
		return Entry{}, err
	}
	if size > len(b) {
		return Entry{}, fmt.Errorf("%w: claims %d bytes, %d are there", ErrBadEntry, size, len(b))
	}
	if got, want := salt^Checksum(b[4:EntryHeaderSize+metaLen]), binary.LittleEndian.Uint32(b); got != want {
		return Entry{}, fmt.Errorf("%w: CRC is %08x, stored %08x", ErrBadEntry, got, want)
	}
	kind := Kind(b[23])
	if kind != KindTxn && kind != KindKept {
		return Entry{}, fmt.Errorf("%w: kind %d is unknown to this version", ErrBadEntry, kind)
	}
	return Entry{
		Seq:      binary.LittleEndian.Uint64(b[8:]),
		Unsynced: binary.LittleEndian.Uint32(b[16:]),
		Kind:     kind,
		Meta:     b[EntryHeaderSize : EntryHeaderSize+metaLen : EntryHeaderSize+metaLen],
		Body:     b[EntryHeaderSize+metaLen : size : size],
	}, nil
}
