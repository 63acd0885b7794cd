package logstore

import (
	"encoding/binary"
	"fmt"
	"math"

	"polylog/logstore/record"
	"polylog/logstore/segment"
)

// A transaction in the log: the entry's metadata is the list of operations, the batches of its appends follow in the same order.
// Conditions are not kept: an entry is in the log because they held. Integers are uvarints unless said otherwise.
//
//	metadata:   operations, one after another until the end
//	operation:  u8 kind, then
//	  append       shard, base offset, length of the batch, u32 CRC of the batch
//	  delete       shard, number of ranges, per range: from minus the previous to, to minus from
//	  trim before  shard, offset
//	  put          length and bytes of the key, length and bytes of the value
//	  remove       length and bytes of the key
//	  create shard number, length and bytes of the key
//	  drop shard   shard
const (
	entryOverhead = segment.EntryHeaderSize
	opOverhead    = 1 + 10 + 10 + 5 + 4 // the most that the fixed fields of an operation take
)

// encodeMeta appends the metadata of a transaction with the results that apply gave.
func encodeMeta(dst []byte, t *Txn, out *outcome) []byte {
	appends, creates := 0, 0
	for i := range t.Do {
		o := &t.Do[i]
		dst = append(dst, byte(o.kind))
		switch o.kind {
		case opAppend:
			dst = encodeAppended(dst[:len(dst)-1], o.shard, out.bases[appends], o.batch.Len(), o.batch.CRC())
			appends++
		case opDelete:
			dst = binary.AppendUvarint(dst, uint64(o.shard))
			dst = appendRanges(dst, o.ranges)
		case opTrimBefore:
			dst = binary.AppendUvarint(dst, uint64(o.shard))
			dst = binary.AppendUvarint(dst, uint64(o.offset))
		case opPut:
			dst = appendString(dst, o.key)
			dst = binary.AppendUvarint(dst, uint64(len(o.value)))
			dst = append(dst, o.value...)
		case opRemove:
			dst = appendString(dst, o.key)
		case opCreateShard:
			dst = binary.AppendUvarint(dst, uint64(out.shards[creates]))
			dst = appendString(dst, o.key)
			creates++
		case opDropShard:
			dst = binary.AppendUvarint(dst, uint64(o.shard))
		}
	}
	return dst
}

// encodeAppended appends an append with its outcome: all that the metadata says of a batch.
func encodeAppended(dst []byte, sh Shard, base int64, size int, crc uint32) []byte {
	dst = append(dst, byte(opAppend))
	dst = binary.AppendUvarint(dst, uint64(sh))
	dst = binary.AppendUvarint(dst, uint64(base))
	dst = binary.AppendUvarint(dst, uint64(size))
	return binary.LittleEndian.AppendUint32(dst, crc)
}

// locOf says where a batch lies: at pos in the file, its records from offset base on.
func locOf(sh Shard, base int64, b record.Batch, pos uint32) segment.Loc {
	return segment.Loc{
		Shard: uint64(sh), Base: base, MaxTime: b.MaxTimestamp(), Pos: pos, Size: uint32(b.Len()), Span: uint32(b.LastOffsetDelta()) + 1,
	}
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendRanges(dst []byte, ranges []Range) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ranges)))
	prev := int64(0)
	for _, r := range ranges {
		dst = binary.AppendVarint(dst, r.From-prev)
		dst = binary.AppendUvarint(dst, uint64(r.To-r.From))
		prev = r.To
	}
	return dst
}

// appliedOp is an operation read back from the log, with what apply had decided.
type appliedOp struct {
	Op
	base int64  // append
	pos  uint32 // append: of the batch in the file
}

// decodeEntry reads a transaction back from the log. The operations point into the entry. Batches are checked against their CRCs, and
// base offset and length against what the metadata says.
func decodeEntry(e *segment.Entry, ops []appliedOp) ([]appliedOp, error) {
	d := decoder{b: e.Meta}
	body, pos := e.Body, e.BodyPos()
	for n := 0; len(d.b) > 0 && !d.bad; n++ {
		o := appliedOp{Op: Op{kind: opKind(d.byte())}}
		if n == MaxOps {
			return ops, fmt.Errorf("entry %d has more than %d operations", e.Seq, MaxOps)
		}
		if e.Kind == segment.KindKept && o.kind != opAppend {
			return ops, fmt.Errorf("entry %d keeps batches and has an operation of kind %d", e.Seq, o.kind)
		}
		switch o.kind {
		case opAppend:
			o.shard = d.shard()
			o.base = d.offset()
			size, crc := d.uvarint(), d.uint32()
			if d.bad {
				break
			}
			if size > uint64(len(body)) {
				return ops, fmt.Errorf("a batch of shard %d claims %d bytes, %d are left of the entry", o.shard, size, len(body))
			}
			b, rest, err := record.Parse(body[:size])
			switch {
			case err != nil:
				return ops, fmt.Errorf("batch at offset %d of shard %d: %w", o.base, o.shard, err)
			case len(rest) != 0 || b.BaseOffset() != o.base || b.CRC() != crc || b.LeaderEpoch() != 0:
				return ops, fmt.Errorf("batch at offset %d of shard %d: its header says offset %d, CRC %08x, leader epoch %d and %d bytes; the entry says CRC %08x and %d bytes",
					o.base, o.shard, b.BaseOffset(), b.CRC(), b.LeaderEpoch(), b.Len(), crc, size)
			}
			o.batch, o.pos = b, pos
			body, pos = body[size:], pos+uint32(size)
		case opDelete:
			o.shard = d.shard()
			o.ranges = d.ranges()
		case opTrimBefore:
			o.shard = d.shard()
			o.offset = d.offset()
		case opPut:
			o.key = d.string(MaxKey)
			o.value = d.bytes(MaxValue)
		case opRemove:
			o.key = d.string(MaxKey)
		case opCreateShard:
			o.shard = d.shard()
			o.key = d.string(MaxKey)
		case opDropShard:
			o.shard = d.shard()
		default:
			return ops, fmt.Errorf("operation kind %d is unknown to this version", o.kind)
		}
		ops = append(ops, o)
	}
	if d.bad {
		return ops, fmt.Errorf("the metadata of entry %d ends inside an operation, or holds an impossible length", e.Seq)
	}
	if len(body) != 0 {
		return ops, fmt.Errorf("entry %d has %d bytes behind its last batch", e.Seq, len(body))
	}
	return ops, nil
}

// decoder reads the primitive fields of metadata, proposals and checkpoints. After the first bad field everything is zero and bad is set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.bad, d.b = true, nil }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uint32() uint32 {
	if len(d.b) < 4 {
		d.fail()
		return 0
	}
	v := binary.LittleEndian.Uint32(d.b)
	d.b = d.b[4:]
	return v
}

func (d *decoder) uint64() uint64 {
	if len(d.b) < 8 {
		d.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// offset reads an offset, which is never negative.
func (d *decoder) offset() int64 {
	v := d.uvarint()
	if v > math.MaxInt64 {
		d.fail()
		return 0
	}
	return int64(v)
}

// maxShard bounds the shard numbers that are read back. They are given out one after another, so no log lives to see this one, and the table of shards reaches as
// far as the highest number.
const maxShard = 1 << 40

func (d *decoder) shard() Shard {
	v := d.uvarint()
	if v > maxShard {
		d.fail()
		return 0
	}
	return Shard(v)
}

// bytes reads a length and that many bytes, which stay in the input. More than limit is bad.
func (d *decoder) bytes(limit uint64) []byte {
	n := d.uvarint()
	if n > limit || n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) string(limit uint64) string { return string(d.bytes(limit)) }

func (d *decoder) ranges() []Range {
	n := d.uvarint()
	if n > MaxRanges || n > uint64(len(d.b))/2 { // a range takes at least two bytes
		d.fail()
		return nil
	}
	rs := make([]Range, n)
	prev := int64(0)
	for i := range rs {
		from := prev + d.varint()
		to := from + int64(d.uvarint())
		if from < 0 || to <= from {
			d.fail()
			return nil
		}
		rs[i], prev = Range{from, to}, to
	}
	return rs
}
