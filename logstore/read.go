package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"polylog/logstore/record"
	"polylog/logstore/segment"
)

// Chunk is a piece of a shard, in the order of offsets.
type Chunk struct {
	// Batches hold the live records. The first may begin before the offset that was asked for.
	Batches []record.Batch
	// Next is the offset to go on from. It may be beyond the last batch, when what follows is deleted.
	Next int64
}

// Buffer is memory that Read uses again from call to call. The zero value is ready. It belongs to one goroutine, and what
// Read returned is valid until it is passed to Read again.
type Buffer struct {
	bytes   []byte
	batches []record.Batch
	items   []located
	runs    []Range
	cursor  segment.Cursor
	scratch record.Scratch
	hint    uint64 // id of the segment that the last step was in
	ahead   readAhead
	held    int // bytes that what Read returned last keeps from being freed
}

// Size returns how many bytes of memory the buffer and what Read last returned hold, spare room included.
func (b *Buffer) Size() int { return b.held }

// readAhead sees when a file is read from front to back in large pieces, and has the next piece fetched while the last one is looked at: the
// system's own read-ahead is shorter than a piece.
type readAhead struct {
	file *cachedFile
	end  int64 // of the last piece
}

// largePiece is from what size on a piece is worth a hint.
const largePiece = 128 << 10

// indexAhead is how much of a segment's index is fetched ahead by one who reads on in it: eight blocks, for some thousands of batches.
const indexAhead = 32 << 10

func (r *readAhead) read(f *cachedFile, pos, size int64) {
	goesOn := r.file == f && pos >= r.end && pos-r.end <= gapBytes
	r.file, r.end = f, pos+size
	if goesOn && size >= largePiece {
		f.prefetch(r.end, size)
	}
}

// keptBytes is how much memory a Buffer keeps whatever is asked for: a batch of published messages is often larger than what a reader asks for at a time.
const keptBytes = 4 << 20

// gapBytes is how much of other shards' data is read along to save a read call: what a call costs.
const gapBytes = 8 << 10

// take returns n bytes that stay untouched until the next Read.
func (b *Buffer) take(n int) []byte {
	if cap(b.bytes)-len(b.bytes) < n {
		// What was taken before stays where it is, so doubling a large one would only hold more.
		b.bytes = make([]byte, 0, max(n, min(2*cap(b.bytes), 256<<10), 64<<10))
		b.held += cap(b.bytes)
	}
	at := len(b.bytes)
	b.bytes = b.bytes[:at+n]
	return b.bytes[at : at+n : at+n]
}

// Read returns live records of the shard from offset from on: whole batches until they have max bytes, but at least one if there is one. A batch that holds
// deleted records is returned without them, under its own base offset. buf may be nil.
//
// The error is *UnknownShardError, *OffsetRangeError when from lies outside the shard's Bounds, or *CorruptError when the disk does
// not give back what was written; what lies before the damage is read by a smaller max.
func (s *Store) Read(sh Shard, from int64, max int, buf *Buffer) (Chunk, error) {
	if buf == nil {
		buf = &Buffer{}
	}
	buf.bytes, buf.batches = buf.bytes[:0], buf.batches[:0]
	if cap(buf.bytes) > 4*max && cap(buf.bytes) > keptBytes {
		buf.bytes = nil // one large batch does not make every reader keep its size
	}
	buf.held = cap(buf.bytes)
	c := Chunk{Next: from}
	got, strict := 0, true
	for got == 0 || got < max {
		files := s.filesVersion()
		st, err := s.locate(sh, c.Next, max-got, strict, buf)
		if err == nil && st.name != "" {
			err = s.load(&st, buf, &got, max)
		}
		if errors.Is(err, fs.ErrNotExist) && files != s.filesVersion() {
			continue // by cleaning, between finding it and opening it
		}
		if err != nil {
			if got > 0 {
				break // what was read is good; the next call meets the error
			}
			return Chunk{Next: c.Next}, err
		}
		strict = false
		if st.end > c.Next {
			c.Next = st.end
		}
		if st.name == "" || got+segment.EntryHeaderSize > max {
			break
		}
		if len(buf.items) > 0 && c.Next < buf.items[len(buf.items)-1].End() {
			break
		}
	}
	c.Batches = buf.batches
	return c, nil
}

// filesVersion changes when cleaning takes a file away.
func (s *Store) filesVersion() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.segs.replaced
}

// load reads the located batches that fit into max, verifies them and takes the deleted records out. It sets st.end to where it stopped.
func (s *Store) load(st *step, buf *Buffer, got *int, max int) error {
	f, err := s.files.acquire(st.name)
	if err != nil {
		return err
	}
	defer s.files.release(f)
	for i := 0; i < len(buf.items); {
		j, total := i, 0
		for ; j < len(buf.items); j++ {
			it := &buf.items[j]
			if *got+total > 0 && *got+total+int(it.Size) > max {
				break
			}
			if j > i {
				before := &buf.items[j-1]
				if gap := int64(it.Pos) - int64(before.Pos) - int64(before.Size); gap < 0 || gap > gapBytes {
					break
				}
			}
			total += int(it.Size)
		}
		if j == i {
			st.end = buf.items[i].Base
			return nil
		}
		if err := s.loadRun(f, st.sealed, buf.items[i:j], buf); err != nil {
			return err
		}
		*got += total
		i = j
	}
	return nil
}

// loadRun reads neighbouring batches with one call. Behind the end of a file that still grows there is nothing to fetch ahead but space that was put aside.
func (s *Store) loadRun(f *cachedFile, sealed bool, items []located, buf *Buffer) error {
	name := f.name
	start := items[0].Pos
	last := &items[len(items)-1]
	p := buf.take(int(last.Pos + last.Size - start))
	if n, err := f.ReadAt(p, int64(start)); n < len(p) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
			return s.corruptRead(name, int64(start), err)
		}
		return fmt.Errorf("reading %d bytes at %d of %s: %w", len(p), start, name, err)
	}
	if sealed {
		buf.ahead.read(f, int64(start), int64(len(p)))
	}
	for i := range items {
		it := &items[i]
		raw := p[it.Pos-start : it.Pos-start+it.Size]
		b, err := parseStored(raw, it.Base)
		if err != nil {
			return s.corruptRead(name, int64(it.Pos), err)
		}
		if !it.whole {
			runs, at := buf.runs[it.from:it.to], 0
			b, _, err = b.Filter(func(o int64) bool {
				for at < len(runs) && runs[at].To <= o {
					at++
				}
				return at < len(runs) && runs[at].From <= o
			}, &buf.scratch, nil)
			if err != nil {
				return s.corruptRead(name, int64(it.Pos), err)
			}
			buf.held += b.Len()
			if b.Count() == 0 {
				continue // the live offsets were those of records that are not there, as in a batch from a compacted topic
			}
		}
		buf.batches = append(buf.batches, b)
	}
	return nil
}

// parseStored checks a batch that was read from the log.
func parseStored(raw []byte, base int64) (record.Batch, error) {
	b, rest, err := record.ParseTrusted(raw)
	switch {
	case err != nil:
		return b, err
	case len(rest) > 0 || b.BaseOffset() != base:
		return b, fmt.Errorf("the index says offset %d and %d bytes, the batch says offset %d and %d bytes", base, len(raw), b.BaseOffset(), b.Len())
	}
	return b, b.VerifyCRC()
}

func (s *Store) corruptRead(name string, pos int64, err error) error {
	s.stats.corruptReads.Add(1)
	c := &CorruptError{File: name, Pos: pos, What: err.Error()}
	s.opts.Logf("%v", c)
	return c
}
