package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"polylog/logstore/record"
)

// proposalVersion is the first byte of an encoded proposal. An unknown one is refused, so that a node never half-understands another.
const proposalVersion = 1

// errBadProposal means that a batch in a proposal is damaged.
var errBadProposal = errors.New("bad proposal")

// encodeProposal encodes a transaction with its conditions, as it travels to a Sequencer:
//
//	u8 version, u64 writer, u64 number, conditions (count, each: u8 kind, key, value, shard, offset),
//	operations (count, each: u8 kind, shard, offset, key, value, ranges, batch)
//
// with the absent fields of a kind left out.
func encodeProposal(dst []byte, id ProposalID, t *Txn) []byte {
	dst = append(dst, proposalVersion)
	dst = binary.LittleEndian.AppendUint64(dst, id.Writer)
	dst = binary.LittleEndian.AppendUint64(dst, id.Number)
	dst = binary.AppendUvarint(dst, uint64(len(t.If)))
	for i := range t.If {
		c := &t.If[i]
		dst = append(dst, byte(c.kind))
		switch c.kind {
		case condKeyIs:
			dst = appendString(dst, c.key)
			dst = binary.AppendUvarint(dst, uint64(len(c.value)))
			dst = append(dst, c.value...)
		case condKeyAbsent:
			dst = appendString(dst, c.key)
		case condLive, condNext:
			dst = binary.AppendUvarint(dst, uint64(c.shard))
			dst = binary.AppendVarint(dst, c.offset)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Do)))
	for i := range t.Do {
		o := &t.Do[i]
		dst = append(dst, byte(o.kind))
		switch o.kind {
		case opAppend:
			dst = binary.AppendUvarint(dst, uint64(o.shard))
			dst = binary.AppendUvarint(dst, uint64(o.batch.Len()))
			dst = append(dst, o.batch.Bytes()...)
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
		case opRemove, opCreateShard:
			dst = appendString(dst, o.key)
		case opDropShard:
			dst = binary.AppendUvarint(dst, uint64(o.shard))
		}
	}
	return dst
}

// decodeProposal reads a proposal. The transaction points into b.
func decodeProposal(b []byte) (id ProposalID, t Txn, err error) {
	d := decoder{b: b}
	switch v := d.byte(); v {
	case proposalVersion:
	case 0: // no version, or no byte at all: no node will ever read it
		return id, t, &InvalidError{"the proposal is empty, or none"}
	default:
		return id, t, fmt.Errorf("proposal has version %d, this program knows %d; update this node", v, proposalVersion)
	}
	id = ProposalID{Writer: d.uint64(), Number: d.uint64()}
	n := d.uvarint()
	if n > MaxConditions {
		return id, t, &LimitError{"conditions of a transaction", int(min(n, 1<<31)), MaxConditions}
	}
	for ; n > 0 && !d.bad; n-- {
		c := Condition{kind: conditionKind(d.byte())}
		switch c.kind {
		case condKeyIs:
			c.key, c.value = d.string(MaxKey), d.bytes(MaxValue)
		case condKeyAbsent:
			c.key = d.string(MaxKey)
		case condLive, condNext:
			c.shard, c.offset = Shard(d.uvarint()), d.varint()
		}
		t.If = append(t.If, c)
	}
	n = d.uvarint()
	if n > MaxOps {
		return id, t, &LimitError{"operations of a transaction", int(min(n, 1<<31)), MaxOps}
	}
	for ; n > 0 && !d.bad; n-- {
		o := Op{kind: opKind(d.byte())}
		switch o.kind {
		case opAppend:
			o.shard = Shard(d.uvarint())
			p := d.bytes(record.MaxBatchSize)
			if d.bad {
				break
			}
			var rest []byte
			if o.batch, rest, err = record.Parse(p); err != nil {
				return id, t, fmt.Errorf("%w: batch for shard %d: %w", errBadProposal, o.shard, err)
			}
			if len(rest) != 0 {
				return id, t, &InvalidError{fmt.Sprintf("%d bytes behind the batch for shard %d", len(rest), o.shard)}
			}
		case opDelete:
			o.shard, o.ranges = Shard(d.uvarint()), d.ranges()
		case opTrimBefore:
			o.shard, o.offset = Shard(d.uvarint()), d.offset()
		case opPut:
			o.key, o.value = d.string(MaxKey), d.bytes(MaxValue)
		case opRemove, opCreateShard:
			o.key = d.string(MaxKey)
		case opDropShard:
			o.shard = Shard(d.uvarint())
		}
		t.Do = append(t.Do, o)
	}
	if d.bad || len(d.b) != 0 {
		return id, t, &InvalidError{"the proposal is cut off, or has bytes behind its end"}
	}
	return id, t, nil
}
