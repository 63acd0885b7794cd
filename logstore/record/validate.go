package record

// Limits are what Validate holds a batch to.
type Limits struct {
	Decompressed int  // most bytes of the records once decompressed; 0 is DefaultDecompressedLimit
	Dense        bool // every offset from the base to the last has a record, and there is at least one: what a producer must send
}

// Validate walks every record. A batch that passes iterates without error under the same limit. The CRC is Parse's business.
func (b Batch) Validate(l Limits) error {
	if count, last := b.Count(), b.LastOffsetDelta(); l.Dense && (count == 0 || last != count-1) {
		return failure(ErrMalformed, b.BaseOffset(), "record count %d with last offset delta %d, every offset must have a record", count, last)
	}
	limit := l.Decompressed
	if limit <= 0 {
		limit = DefaultDecompressedLimit
	}
	if b.Codec() == None {
		if n := len(b.Payload()); n > limit {
			return failure(ErrTooLarge, b.BaseOffset(), "%d bytes of records, at most %d are allowed", n, limit)
		}
		return b.walk(nil)
	}
	s := borrowScratch()
	defer s.giveBack()
	s.Limit = limit
	return b.walk(s)
}

// walk reads the batch to its end. Ascending offsets within the range of a dense header leave no gap, so dense needs no more than that.
func (b Batch) walk(s *Scratch) error {
	it := b.Iter(s)
	for it.Next() {
	}
	return it.Err()
}
