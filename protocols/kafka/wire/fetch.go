package wire

import (
	"encoding/binary"
	"slices"
)

// FetchPartition is what a fetch response says of a partition.
type FetchPartition struct {
	Partition     int32
	ErrorCode     int16
	HighWatermark int64 // also the last stable offset: there are no open transactions
	LogStart      int64
	Records       [][]byte // batches; they go into the answer as they lie
}

// size returns how many bytes of records there are.
func (p *FetchPartition) size() int {
	n := 0
	for _, b := range p.Records {
		n += len(b)
	}
	return n
}

// FetchTopic is what a fetch response says of a topic.
type FetchTopic struct {
	Name       string   // sent up to v12
	ID         [16]byte // sent from v13
	Partitions []FetchPartition
}

// FetchResponse is the answer to a fetch of version 4 to 18.
type FetchResponse struct {
	Correlation int32
	ErrorCode   int16
	SessionID   int32
	Topics      []FetchTopic
}

// Encode encodes a whole frame, size included, as parts of which those between the records lie in dst, which is appended to and returned.
//
//	size int32, correlation int32; v12: tags
//	throttle int32; v7: error int16, session int32
//	topics: name (v13: id 16)
//	  partitions: index int32, error int16, high watermark int64, last stable int64; v5: log start int64; aborted transactions, null;
//	              v11: preferred replica int32; records; v12: tags
//	  v12: tags
//	v12: tags
//
// Strings, arrays and records have lengths of 2, 4 and 4 bytes, from v12 on varints of the length + 1.
func (r *FetchResponse) Encode(version int16, dst []byte, parts [][]byte) ([]byte, [][]byte) {
	flexible := version >= 12
	start, records := len(dst), 0
	var cuts []int // where in dst the records of partitions with records belong
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Correlation))
	dst = appendTags(dst, flexible)
	dst = append(dst, 0, 0, 0, 0) // throttle time
	if version >= 7 {
		dst = binary.BigEndian.AppendUint16(dst, uint16(r.ErrorCode))
		dst = binary.BigEndian.AppendUint32(dst, uint32(r.SessionID))
	}
	dst = appendArrayLen(dst, len(r.Topics), flexible)
	for i := range r.Topics {
		t := &r.Topics[i]
		if version >= 13 {
			dst = append(dst, t.ID[:]...)
		} else {
			dst = appendString(dst, t.Name, flexible)
		}
		dst = appendArrayLen(dst, len(t.Partitions), flexible)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			dst = p.append(dst, version)
			n := p.size()
			if flexible {
				dst = binary.AppendUvarint(dst, uint64(n)+1)
			} else {
				dst = binary.BigEndian.AppendUint32(dst, uint32(n))
			}
			if n > 0 {
				records += n
				cuts = append(cuts, len(dst))
			}
			dst = appendTags(dst, flexible)
		}
		dst = appendTags(dst, flexible)
	}
	dst = appendTags(dst, flexible)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4+records))
	return dst, r.interleave(dst, start, cuts, parts)
}

// append encodes what comes before a partition's records.
func (p *FetchPartition) append(dst []byte, version int16) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Partition))
	dst = binary.BigEndian.AppendUint16(dst, uint16(p.ErrorCode))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.HighWatermark))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.HighWatermark))
	if version >= 5 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.LogStart))
	}
	if version >= 12 {
		dst = append(dst, 0) // no aborted transactions: null
	} else {
		dst = append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	if version >= 11 {
		dst = append(dst, 0xff, 0xff, 0xff, 0xff) // no replica is preferred: -1
	}
	return dst
}

// interleave appends dst[start:], cut at cuts, and the records between.
func (r *FetchResponse) interleave(dst []byte, start int, cuts []int, parts [][]byte) [][]byte {
	parts = slices.Grow(parts, 2*len(cuts)+1)
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			if p.size() == 0 {
				continue
			}
			parts = append(parts, dst[start:cuts[0]])
			start, cuts = cuts[0], cuts[1:]
			parts = append(parts, p.Records...)
		}
	}
	return append(parts, dst[start:])
}

func appendTags(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return dst
}

func appendArrayLen(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

func appendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s))+1)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}
