package record

// FirstOffsetAtOrAfterTime returns the first record of b, in offset order, whose timestamp is ts or later; ok is false if there is none.
// Times need not ascend with offsets. The header's max timestamp is not consulted, as it is only what the batch's writer claims; a
// caller that trusts it skips the batch first.
func FirstOffsetAtOrAfterTime(b Batch, ts int64, s *Scratch) (offset, timestamp int64, ok bool, err error) {
	if b.LogAppendTime() && b.MaxTimestamp() < ts {
		return 0, 0, false, nil // here the header is the time of the records
	}
	if s == nil {
		s = borrowScratch()
		defer s.giveBack()
	}
	it := b.Iter(s)
	for it.Next() {
		if t := it.Timestamp(); t >= ts {
			return it.Offset(), t, true, nil
		}
	}
	return 0, 0, false, it.Err()
}
