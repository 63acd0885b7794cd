package record

import "math"

// Filter returns the batch with only the records whose offsets keep wants, and how many those are. It asks keep once per record, in
// order. Base offset, last offset, leader epoch, base timestamp, attributes and producer fields stay, and so do the records' bytes:
// their offset deltas leave gaps where records were.
//
// If every record is kept, out is b itself. Otherwise out is appended to dst; out.Bytes() is what was appended, so a caller that passes
// buf[:0] goes on with out.Bytes()[:0]. dst must not overlap b. If no record is kept, out covers the same offsets with none and has no
// codec, and its max timestamp is b's. Otherwise the max timestamp is the largest of the kept records, or b's with log append time.
//
// Records that were lz4 or zstd are compressed so again. Those that were gzip or snappy come out uncompressed, which can exceed
// MaxBatchSize; the error is ErrTooLarge then.
func (b Batch) Filter(keep func(offset int64) bool, s *Scratch, dst []byte) (out Batch, kept int, err error) {
	if s == nil {
		s = borrowScratch()
		defer s.giveBack()
	}
	codec := b.Codec()
	recompress := codec == LZ4 || codec == Zstd
	start, gathered := len(dst), dst
	if recompress {
		gathered = s.kept[:0]
	}

	// Until the first record is dropped nothing is copied, since it may be that none is.
	it := b.Iter(s)
	dropped, begin, newest := false, 0, int64(math.MinInt64)
	for it.Next() {
		switch {
		case keep(it.Offset()):
			kept++
			newest = max(newest, it.Timestamp())
			if dropped {
				gathered = append(gathered, it.data[begin:it.pos]...)
			}
		case !dropped:
			dropped = true
			gathered = append(appendHeaderRoom(gathered), it.data[:begin]...)
		}
		begin = it.pos
	}
	if recompress {
		s.kept = gathered
	}
	if it.err != nil {
		return Batch{}, 0, it.err
	}
	if !dropped {
		return b, kept, nil
	}

	h := decodeHeader(b.raw)
	h.Count = int32(kept)
	if kept > 0 {
		h.MaxTimestamp = newest // of the whole batch with log append time
	}
	switch {
	case recompress && kept > 0:
		gathered, err = s.compressor.compress(codec, appendHeaderRoom(dst), gathered[HeaderSize:])
	case recompress:
		h.Attributes &^= codecMask
		gathered = appendHeaderRoom(dst)
	default:
		h.Attributes &^= codecMask
	}
	if err != nil {
		return Batch{}, 0, failure(ErrMalformed, h.BaseOffset, "%v failed: %v", codec, err)
	}
	if n := len(gathered) - start; n > MaxBatchSize {
		return Batch{}, 0, failure(ErrTooLarge, h.BaseOffset, "%d bytes without the dropped records, at most %d are allowed", n, MaxBatchSize)
	}
	return h.seal(gathered[start:]), kept, nil
}
