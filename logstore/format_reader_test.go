package logstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/cespare/xxhash/v2"
)

// This is a second reader of the files, written from docs/log-format.md and from nothing else: it shares no code with the store. It tells what is in a file in
// words, and panics where the document is not obeyed.

var le = binary.LittleEndian

func crc(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func insist(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(format, args...))
	}
}

// fields takes one field after another from the front of some bytes.
type fields struct{ b []byte }

func (f *fields) take(n int) []byte {
	insist(n >= 0 && n <= len(f.b), "%d bytes are wanted, %d are there", n, len(f.b))
	p := f.b[:n]
	f.b = f.b[n:]
	return p
}
func (f *fields) u8() uint8   { return f.take(1)[0] }
func (f *fields) u32() uint32 { return le.Uint32(f.take(4)) }
func (f *fields) u64() uint64 { return le.Uint64(f.take(8)) }
func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.b)
	insist(n > 0, "no varint: %x", f.b)
	f.take(n)
	return v
}
func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	insist(n > 0, "no varint: %x", f.b)
	f.take(n)
	return v
}
func (f *fields) counted() []byte { return f.take(int(f.uvarint())) }

// readerLoc is where the reader found a batch.
type readerLoc struct {
	shard, pos, size, span uint64
	base, newest           int64
}

// tellSegment reads a segment file.
func tellSegment(b []byte) (lines []string) {
	insist(string(b[:8]) == "PLOGSEG1" && le.Uint32(b[8:]) == 1 && crc(b[:60]) == le.Uint32(b[60:]), "header %x", b[:64])
	lines = append(lines, fmt.Sprintf("segment %d generation %d covers to %d, after entry %d, up to entry %d, %d live",
		le.Uint64(b[16:]), le.Uint32(b[12:]), le.Uint64(b[24:]), le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])))

	trailer := b[len(b)-72:]
	sealed := string(trailer[:8]) == "PLOGIDX1"
	end := len(b)
	if sealed {
		insist(crc(trailer[:68]) == le.Uint32(trailer[68:]), "trailer %x", trailer)
		end = int(le.Uint32(trailer[40:]))
	}
	pos := 64
	var locs []readerLoc
	for pos < end {
		if le.Uint32(b[pos+4:]) == 0 {
			insist(!sealed && len(strings.Trim(string(b[pos:]), "\x00")) == 0, "something lies behind the end at %d", pos)
			break
		}
		words, size := tellEntry(b, pos, le.Uint32(b[56:]), &locs)
		lines = append(lines, words)
		pos += size
	}
	insist(!sealed || pos == end, "the entries end at %d, the trailer says %d", pos, end)
	if sealed {
		lines = append(lines, tellIndex(b, locs))
	} else {
		lines = append(lines, fmt.Sprintf("not sealed, entries end at %d", pos))
	}
	return lines
}

// tellEntry reads the entry at pos and returns its size.
func tellEntry(b []byte, pos int, salt uint32, locs *[]readerLoc) (string, int) {
	h := b[pos : pos+24]
	size, metaLen := int(le.Uint32(h[4:])), int(le.Uint32(h[20:])&0xffffff)
	e := b[pos : pos+size]
	insist(salt^crc(e[4:24+metaLen]) == le.Uint32(h), "entry at %d", pos)
	meta, batches := fields{e[24 : 24+metaLen]}, fields{e[24+metaLen:]}
	var did []string
	for len(meta.b) > 0 {
		did = append(did, tellOp(&meta, &batches, func() int { return pos + size - len(batches.b) }, locs))
	}
	insist(len(batches.b) == 0, "%d bytes behind the batches of the entry at %d", len(batches.b), pos)
	kind := map[byte]string{1: "does", 2: "keeps"}[h[23]]
	return fmt.Sprintf("entry %d (unsynced %d) %s %s", le.Uint64(h[8:]), le.Uint32(h[16:]), kind, strings.Join(did, "; ")), size
}

func tellOp(meta, batches *fields, at func() int, locs *[]readerLoc) string {
	switch kind := meta.u8(); kind {
	case 1:
		shard, base, size, sum := meta.uvarint(), meta.uvarint(), meta.uvarint(), meta.u32()
		pos := at()
		batch := batches.take(int(size))
		words, span, newest := tellBatch(batch, int64(base), sum)
		*locs = append(*locs, readerLoc{shard, uint64(pos), size, uint64(span), int64(base), newest})
		return fmt.Sprintf("append to %d %s", shard, words)
	case 2:
		words := fmt.Sprintf("delete from %d", meta.uvarint())
		last := int64(0)
		for range meta.uvarint() {
			from := last + meta.varint()
			last = from + int64(meta.uvarint())
			words += fmt.Sprintf(" [%d,%d)", from, last)
		}
		return words
	case 3:
		return fmt.Sprintf("trim %d before %d", meta.uvarint(), meta.uvarint())
	case 4:
		return fmt.Sprintf("put %q = %q", meta.counted(), meta.counted())
	case 5:
		return fmt.Sprintf("remove %q", meta.counted())
	case 6:
		return fmt.Sprintf("create %d as %q", meta.uvarint(), meta.counted())
	case 7:
		return fmt.Sprintf("drop %d", meta.uvarint())
	default:
		panic(fmt.Sprintf("operation of kind %d", kind))
	}
}

// tellBatch reads a Kafka v2 batch. Of compressed records it tells only that they are, and of many the first and the last.
func tellBatch(b []byte, base int64, sum uint32) (words string, span, newest int64) {
	be := binary.BigEndian
	insist(int64(be.Uint64(b)) == base && int(be.Uint32(b[8:])) == len(b)-12 && be.Uint32(b[12:]) == 0 && b[16] == 2, "batch header %x", b[:61])
	insist(be.Uint32(b[17:]) == sum && crc(b[21:]) == sum, "CRC of the batch at offset %d", base)
	attributes := be.Uint16(b[21:])
	span, newest = int64(be.Uint32(b[23:]))+1, int64(be.Uint64(b[35:]))
	words = fmt.Sprintf("offsets [%d,%d) to time %d:", base, base+span, newest)
	if id := int64(be.Uint64(b[43:])); id >= 0 {
		words += fmt.Sprintf(" producer %d/%d/%d", id, int16(be.Uint16(b[51:])), int32(be.Uint32(b[53:])))
	}
	for bit, name := range []string{3: "log append time", 4: "transactional", 5: "control"} {
		if name != "" && attributes>>bit&1 == 1 {
			words += " " + name
		}
	}
	count := be.Uint32(b[57:])
	if attributes&7 != 0 {
		return fmt.Sprintf("%s %d records, codec %d", words, count, attributes&7), span, newest
	}
	records := fields{b[61:]}
	for i := range count {
		r := fields{records.take(int(records.varint()))}
		r.u8()
		timestamp, offset := int64(be.Uint64(b[27:]))+r.varint(), base+r.varint()
		record := fmt.Sprintf(" %d@%d %s=%s", offset, timestamp, nullable(&r), nullable(&r))
		for range r.varint() {
			record += fmt.Sprintf(" {%s=%s}", nullable(&r), nullable(&r))
		}
		insist(len(r.b) == 0, "%d bytes behind a record", len(r.b))
		switch {
		case count <= 4 || i == 0 || i == count-1:
			words += record
		case i == 1:
			words += fmt.Sprintf(" .. (%d records) ..", count)
		}
	}
	insist(len(records.b) == 0, "%d bytes behind the records", len(records.b))
	return words, span, newest
}

// nullable is a string or null, and of a long one the beginning.
func nullable(f *fields) string {
	n := f.varint()
	if n < 0 {
		return "null"
	}
	s := f.take(int(n))
	if n > 20 {
		return fmt.Sprintf("%q..(%d)", s[:6], n)
	}
	return fmt.Sprintf("%q", s)
}

// tellIndex reads the index of a sealed file, and holds it to the batches that the entries have.
func tellIndex(b []byte, entries []readerLoc) string {
	t := b[len(b)-72:]
	data, dir, bitmap, bitmapLen := le.Uint32(t[40:]), le.Uint32(t[44:]), le.Uint32(t[48:]), le.Uint32(t[52:])
	insist(int(bitmap+bitmapLen) == len(b)-72, "the bitmap ends at %d", bitmap+bitmapLen)
	insist(crc(b[dir:bitmap]) == le.Uint32(t[60:]) && crc(b[bitmap:bitmap+bitmapLen]) == le.Uint32(t[64:]), "directory or bitmap")
	var locs []readerLoc
	at := data
	for d := (fields{b[dir:bitmap]}); len(d.b) > 0; {
		shard, base, newest, pos, size, sum := d.u64(), int64(d.u64()), int64(d.u64()), d.u32(), d.u32(), d.u32()
		insist(pos == at && crc(b[pos:pos+size]) == sum, "block at %d", pos)
		at = pos + size
		first := len(locs)
		var p readerLoc
		for f := (fields{b[pos : pos+size]}); len(f.b) > 0; {
			l := readerLoc{shard: p.shard + f.uvarint(), base: int64(f.uvarint())}
			if len(locs) > first && l.shard == p.shard {
				l.base += p.base + int64(p.span)
			}
			l.pos = uint64(int64(p.pos+p.size) + f.varint())
			l.size, l.span = f.uvarint(), f.uvarint()
			l.newest = p.newest + f.varint()
			locs, p = append(locs, l), l
		}
		insist(locs[first].shard == shard && locs[first].base == base, "the directory says that the block at %d begins with offset %d of shard %d", pos, base, shard)
		insist(slices.MaxFunc(locs[first:], func(a, b readerLoc) int { return int(a.newest - b.newest) }).newest == newest, "newest time of the block at %d", pos)
	}
	insist(at == dir, "the blocks end at %d", at)
	slices.SortFunc(entries, func(a, b readerLoc) int {
		return int(a.shard-b.shard)<<32 + int(a.base-b.base)
	})
	insist(slices.Equal(locs, entries), "the index has %+v, the entries %+v", locs, entries)
	shards := roaring64.New()
	insist(shards.UnmarshalBinary(b[bitmap:bitmap+bitmapLen]) == nil, "bitmap")
	offsets, newest := uint64(0), int64(0)
	for _, l := range locs {
		insist(shards.Contains(l.shard), "the bitmap lacks %d", l.shard)
		offsets, newest = offsets+l.span, max(newest, l.newest)
	}
	insist(le.Uint64(t[24:]) == offsets && int64(le.Uint64(t[32:])) == newest && int(le.Uint32(t[56:])) == len(locs), "trailer %x", t)
	return fmt.Sprintf("index of entries %d to %d: %d batches of shards %v, %d offsets", le.Uint64(t[8:]), le.Uint64(t[16:]), len(locs), shards.ToArray(), offsets)
}

// tellCheckpoint reads a checkpoint file.
func tellCheckpoint(b []byte) (lines []string) {
	insist(string(b[:8]) == "PLOGCKP1" && le.Uint32(b[8:]) == 1 && crc(b[:60]) == le.Uint32(b[60:]), "header %x", b[:64])
	lines = append(lines, fmt.Sprintf("state after entry %d, next shard %d", le.Uint64(b[16:]), le.Uint64(b[24:])))
	hash := xxhash.New()
	num := func(v uint64) { hash.Write(le.AppendUint64(nil, v)) }
	num(le.Uint64(b[24:]))
	shards, keys := uint64(0), uint64(0)
	for f := (fields{b[64:]}); len(f.b) > 0; {
		size, sum := f.u32(), f.u32()
		items := fields{f.take(int(size))}
		insist(crc(items.b) == sum, "block of %d bytes", size)
		for len(items.b) > 0 {
			switch kind := items.u8(); kind {
			case 1:
				insist(keys == 0, "a shard behind a key")
				id, first := items.uvarint(), items.uvarint()
				next, digest := first+items.uvarint(), items.u64()
				deleted := roaring64.New()
				if p := items.counted(); len(p) > 0 {
					insist(deleted.UnmarshalBinary(p) == nil, "bitmap of shard %d", id)
				}
				live := liveRunsOf(first, next, deleted)
				for _, v := range append([]uint64{id, first, next, digest}, live...) {
					num(v)
				}
				lines = append(lines, fmt.Sprintf("shard %d from %d to %d, digest %016x, live %v", id, first, next, digest, live))
				shards++
			case 2:
				key, value := items.counted(), items.counted()
				if keys++; keys == 1 {
					num(le.Uint64(b[40:]))
				}
				num(uint64(len(key)))
				hash.Write(key)
				num(uint64(len(value)))
				hash.Write(value)
				lines = append(lines, fmt.Sprintf("key %q = %q", key, value))
			default:
				panic(fmt.Sprintf("item of kind %d", kind))
			}
		}
	}
	if keys == 0 {
		num(0)
	}
	insist(le.Uint64(b[32:]) == shards && le.Uint64(b[40:]) == keys, "%d shards and %d keys", shards, keys)
	insist(le.Uint64(b[48:]) == hash.Sum64(), "hash is %016x", hash.Sum64())
	return lines
}

// liveRunsOf returns the runs of first <= o < next that are not deleted: where each begins and ends.
func liveRunsOf(first, next uint64, deleted *roaring64.Bitmap) (bounds []uint64) {
	in := false
	for o := first; o <= next; o++ {
		if live := o < next && !deleted.Contains(o); live != in {
			bounds, in = append(bounds, o), live
		}
		insist(o < math.MaxInt64, "no end")
	}
	return bounds
}
