package logstore

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"polylog/logstore/record"
	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

const (
	keptEntryBytes = 256 << 10 // batches are gathered into entries of this size
	copyBytes      = 1 << 20   // and written in pieces of this
)

// rewrite copies the live batches of neighbouring segments into one file, which takes their place.
func (c *cleaner) rewrite(old []*sealedSegment) error {
	s := c.s
	s.mu.Lock()
	st := s.st.snapshot()
	s.mu.Unlock()
	if err := s.durable(st.seq); err != nil {
		return err
	}
	first, last := old[0], old[len(old)-1]
	h := segment.Header{ID: first.header.ID, CoversTo: last.header.CoversTo, PrevSeq: first.header.PrevSeq, Salt: s.opts.salt()}
	var firstSeq uint64
	for _, g := range old {
		h.Generation = max(h.Generation, g.header.Generation+1)
		h.LastSeq = max(h.LastSeq, g.index.LastSeq)
		if firstSeq == 0 {
			firstSeq = g.index.FirstSeq
		}
	}
	name := segmentName(h.ID, h.Generation)
	k := &keeper{c: c, seq: h.LastSeq, salt: h.Salt, start: time.Now()}
	err := s.replaceFile(name, func(f vfs.File) error {
		k.f, k.buf = f, h.AppendTo(nil)
		for _, g := range old {
			if err := k.copyLive(g, st); err != nil {
				return err
			}
		}
		if err := k.end(firstSeq); err != nil {
			return err
		}
		h.Live = k.live
		_, err := f.WriteAt(h.AppendTo(nil), 0)
		return err
	})
	if err != nil {
		return err
	}
	new := &sealedSegment{header: h, name: name, size: k.pos, index: k.index}
	s.mu.Lock()
	if k.index.Batches == 0 {
		new = nil
	}
	s.segs.replace(old, new)
	s.mu.Unlock()
	gain := -k.pos
	for _, g := range old {
		gain += g.size
	}
	if new == nil {
		if err := s.fs.Remove(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	s.stats.rewrittenSegments.Add(int64(len(old)))
	s.stats.copiedBytes.Add(k.copied)
	s.stats.reclaimedBytes.Add(gain)
	return s.retire(old)
}

// keeper writes the batches that are kept into a new segment file.
type keeper struct {
	c       *cleaner
	f       vfs.File
	seq     uint64 // that the entries carry: the last one of the segments they come from
	salt    uint32 // of their CRCs
	pos     int64  // in the file of buf[0]
	buf     []byte // whole entries, not yet written
	meta    []byte // of the entry being gathered
	body    []byte
	pending []segment.Loc // of its batches; Pos is the place in body
	locs    []segment.Loc
	index   *segment.Sealed
	copied  int64
	live    uint64 // offsets kept
	start   time.Time
	runs    []Range
	scratch record.Scratch
}

// kept is a batch to copy, with its live runs when some of it is dead.
type kept struct {
	segment.Loc
	from, to int // in keeper.runs; equal: all is live
}

// copyLive copies the batches of a segment that have live records, in the order in which they lie in the file.
func (k *keeper) copyLive(g *sealedSegment, st *state) error {
	var list []kept
	k.runs = k.runs[:0]
	err := walkLive(k.c.s.files, g, st, func(l segment.Loc, live int64, runs []Range) {
		if live == 0 {
			return
		}
		k.live += uint64(live)
		b := kept{Loc: l, from: len(k.runs)}
		// Taking few records out of a batch is not worth coding it anew.
		if live*4 <= int64(l.Span)*3 {
			k.runs = append(k.runs, runs...)
		}
		b.to = len(k.runs)
		list = append(list, b)
	})
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b kept) int { return int(int64(a.Pos) - int64(b.Pos)) })
	f, err := k.c.s.files.acquire(g.name)
	if err != nil {
		return err
	}
	defer k.c.s.files.release(f)
	var buf []byte
	for i := 0; i < len(list); {
		// One read serves all neighbours.
		start, end := list[i].Pos, list[i].Pos+list[i].Size
		j := i + 1
		for ; j < len(list) && list[j].Pos-end <= gapBytes && list[j].Pos+list[j].Size-start <= copyBytes; j++ {
			end = list[j].Pos + list[j].Size
		}
		if cap(buf) < int(end-start) {
			buf = make([]byte, max(int(end-start), copyBytes))
		}
		p := buf[:end-start]
		if err := segment.ReadFull(f, p, int64(start)); err != nil {
			return fmt.Errorf("reading %s: %w", g.name, err)
		}
		for ; i < j; i++ {
			b := &list[i]
			batch, err := parseStored(p[b.Pos-start:b.Pos-start+b.Size], b.Base)
			if err != nil {
				return &CorruptError{File: g.name, Pos: int64(b.Pos), What: err.Error()}
			}
			if err := k.add(b, batch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *keeper) add(b *kept, batch record.Batch) error {
	if runs := k.runs[b.from:b.to]; len(runs) > 0 {
		var err error
		batch, _, err = batch.Filter(func(o int64) bool {
			i, _ := slices.BinarySearchFunc(runs, o, func(r Range, o int64) int {
				if r.To <= o {
					return -1
				}
				return 1
			})
			return i < len(runs) && runs[i].From <= o
		}, &k.scratch, nil)
		if err != nil {
			return err
		}
	}
	k.meta = encodeAppended(k.meta, Shard(b.Shard), b.Base, batch.Len(), batch.CRC())
	k.pending = append(k.pending, locOf(Shard(b.Shard), b.Base, batch, uint32(len(k.body))))
	k.body = append(k.body, batch.Bytes()...)
	if len(k.body) >= keptEntryBytes {
		return k.endEntry()
	}
	return nil
}

// endEntry frames the gathered batches, and writes when there is enough.
func (k *keeper) endEntry() error {
	if len(k.pending) == 0 {
		return nil
	}
	start := len(k.buf)
	k.buf = append(k.buf, make([]byte, segment.EntryHeaderSize)...)
	k.buf = append(k.buf, k.meta...)
	at := uint32(k.pos) + uint32(len(k.buf))
	k.buf = append(k.buf, k.body...)
	segment.FinishEntry(k.buf[start:], k.salt, k.seq, 0, segment.KindKept, len(k.meta))
	for _, l := range k.pending {
		l.Pos += at
		k.locs = append(k.locs, l)
	}
	k.meta, k.body, k.pending = k.meta[:0], k.body[:0], k.pending[:0]
	if len(k.buf) >= copyBytes {
		return k.write()
	}
	return nil
}

// write puts the buffer into the file, at the rate that cleaning may have.
func (k *keeper) write() error {
	if _, err := k.f.WriteAt(k.buf, k.pos); err != nil {
		return err
	}
	k.pos += int64(len(k.buf))
	k.copied += int64(len(k.buf))
	k.buf = k.buf[:0]
	rate := k.c.s.opts.CleanRate
	if rate < 0 {
		return nil
	}
	due := time.Duration(float64(k.copied) / float64(rate) * float64(time.Second))
	if wait := due - time.Since(k.start); wait > 0 {
		select {
		case <-k.c.s.closing:
			return ErrClosed
		case <-time.After(wait):
		}
	}
	return nil
}

// end writes what is left, and the index.
func (k *keeper) end(firstSeq uint64) error {
	if err := k.endEntry(); err != nil {
		return err
	}
	if err := k.write(); err != nil {
		return err
	}
	var idx []byte
	idx, k.index = segment.BuildIndex(k.locs, uint32(k.pos), firstSeq, k.seq)
	if _, err := k.f.WriteAt(idx, k.pos); err != nil {
		return err
	}
	k.pos += int64(len(idx))
	return nil
}
