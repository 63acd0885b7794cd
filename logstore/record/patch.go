package record

import "encoding/binary"

// SetBase gives the batch at the start of raw its place in the log: base offset and partition leader epoch, in place. Neither is under
// the CRC. The caller has parsed raw and owns it, and knows that base is not negative and that base plus the last offset delta fits.
func SetBase(raw []byte, base int64, leaderEpoch int32) {
	_ = raw[HeaderSize-1]
	binary.BigEndian.PutUint64(raw[posBase:], uint64(base))
	binary.BigEndian.PutUint32(raw[posLeaderEpoch:], uint32(leaderEpoch))
}

// SetLogAppendTime makes ts the time of all records of the batch at the start of raw, in place, and corrects the CRC. The records need
// not be decompressed: readers take the time from the header. The caller has parsed raw and owns it.
func SetLogAppendTime(raw []byte, ts int64) {
	raw = raw[:lengthEnd+int(be32(raw, posLength))]
	binary.BigEndian.PutUint16(raw[posAttributes:], be16(raw, posAttributes)|logAppendTimeBit)
	binary.BigEndian.PutUint64(raw[posMaxTimestamp:], uint64(ts))
	binary.BigEndian.PutUint32(raw[posCRC:], checksum(raw))
}
