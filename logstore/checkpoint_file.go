package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// A checkpoint file is a header and blocks of items. docs/log-format.md draws it byte by byte.
//
//	header, 64 bytes: [8] "PLOGCKP1", u32 version, u32 zero, u64 seq, u64 next shard, u64 shards, u64 keys,
//	                  u64 hash of the state, u32 zero, u32 CRC-32C of the 60 bytes before
//	block:            u32 length of the items, u32 CRC-32C of them, items
//	shard item:       u8 1, uvarint number, first, next - first, u64 digest, uvarint length of the bitmap of deleted offsets, bitmap
//	key item:         u8 2, key, value (each a uvarint length and bytes)
const (
	checkpointMagic      = "PLOGCKP1"
	checkpointVersion    = 1
	checkpointHeaderSize = 64
	checkpointBlock      = 256 << 10 // items are gathered up to this size
	maxCheckpointBlock   = 1 << 30

	itemShard = 1
	itemKey   = 2
)

// errBadCheckpoint means that a checkpoint file is damaged or incomplete.
var errBadCheckpoint = errors.New("bad checkpoint")

func checkpointHeader(st *state) []byte {
	h := make([]byte, checkpointHeaderSize)
	copy(h, checkpointMagic)
	binary.LittleEndian.PutUint32(h[8:], checkpointVersion)
	binary.LittleEndian.PutUint64(h[16:], st.seq)
	binary.LittleEndian.PutUint64(h[24:], uint64(st.nextShard))
	binary.LittleEndian.PutUint64(h[32:], uint64(st.shards.n))
	binary.LittleEndian.PutUint64(h[40:], uint64(st.kv.m.Len()))
	binary.LittleEndian.PutUint64(h[48:], st.hash())
	binary.LittleEndian.PutUint32(h[60:], segment.Checksum(h[:60]))
	return h
}

// writeCheckpoint writes the state, which nobody changes meanwhile, and returns the file's size in bytes.
func writeCheckpoint(f vfs.File, st *state) (int64, error) {
	w := &blockWriter{f: f, buf: make([]byte, 8, 4<<10)}
	h := checkpointHeader(st)
	if _, w.err = f.WriteAt(h, 0); w.err != nil {
		return 0, w.err
	}
	w.pos = checkpointHeaderSize
	var bm bytes.Buffer
	st.shards.all(func(id Shard, sh *shard) bool {
		bm.Reset()
		if sh.deleted != nil {
			if _, w.err = sh.deleted.bm.WriteTo(&bm); w.err != nil {
				return false
			}
		}
		w.buf = append(w.buf, itemShard)
		w.buf = binary.AppendUvarint(w.buf, uint64(id))
		w.buf = binary.AppendUvarint(w.buf, uint64(sh.first))
		w.buf = binary.AppendUvarint(w.buf, uint64(sh.next-sh.first))
		w.buf = binary.LittleEndian.AppendUint64(w.buf, sh.digest)
		w.buf = binary.AppendUvarint(w.buf, uint64(bm.Len()))
		w.buf = append(w.buf, bm.Bytes()...)
		return w.flushIfFull()
	})
	if w.err != nil {
		return 0, w.err
	}
	st.kv.m.Scan(func(k string, v []byte) bool {
		w.buf = append(w.buf, itemKey)
		w.buf = appendString(w.buf, k)
		w.buf = binary.AppendUvarint(w.buf, uint64(len(v)))
		w.buf = append(w.buf, v...)
		return w.flushIfFull()
	})
	if w.err == nil && len(w.buf) > 8 {
		w.flush()
	}
	return w.pos, w.err
}

// blockWriter writes items in blocks.
type blockWriter struct {
	f   vfs.File
	pos int64
	buf []byte // room for the block's header, then items
	err error
}

func (w *blockWriter) flushIfFull() bool {
	if len(w.buf) >= checkpointBlock {
		w.flush()
	}
	return w.err == nil
}

func (w *blockWriter) flush() {
	items := w.buf[8:]
	binary.LittleEndian.PutUint32(w.buf, uint32(len(items)))
	binary.LittleEndian.PutUint32(w.buf[4:], segment.Checksum(items))
	if _, w.err = w.f.WriteAt(w.buf, w.pos); w.err == nil {
		w.pos += int64(len(w.buf))
		w.buf = w.buf[:8]
	}
}

// readCheckpoint reads a checkpoint file of size bytes and verifies all of it, the hash included.
func readCheckpoint(r io.ReaderAt, size int64) (*state, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", errBadCheckpoint, fmt.Sprintf(format, args...))
	}
	h := make([]byte, checkpointHeaderSize)
	if size < checkpointHeaderSize {
		return nil, bad("%d bytes are less than a header", size)
	}
	if err := segment.ReadFull(r, h, 0); err != nil {
		return nil, err
	}
	if string(h[:8]) != checkpointMagic {
		return nil, bad("magic is %q", h[:8])
	}
	if got, want := segment.Checksum(h[:60]), binary.LittleEndian.Uint32(h[60:]); got != want {
		return nil, bad("header CRC is %08x, stored %08x", got, want)
	}
	if v := binary.LittleEndian.Uint32(h[8:]); v != checkpointVersion {
		return nil, fmt.Errorf("%w: checkpoint has version %d, this program knows %d; use a newer polylog", segment.ErrVersion, v, checkpointVersion)
	}
	u := func(i int) uint64 { return binary.LittleEndian.Uint64(h[i:]) }
	st := newState()
	st.seq, st.nextShard = u(16), Shard(u(24))
	if st.nextShard == 0 || st.nextShard > maxShard+1 {
		return nil, bad("the next shard is to be %d, allowed are 1 to %d", st.nextShard, int64(maxShard)+1)
	}
	for pos := int64(checkpointHeaderSize); pos < size; {
		var bh [8]byte
		if size-pos < 8 {
			return nil, bad("%d bytes at position %d are less than a block's header", size-pos, pos)
		}
		if err := segment.ReadFull(r, bh[:], pos); err != nil {
			return nil, err
		}
		n := int64(binary.LittleEndian.Uint32(bh[:]))
		if n > maxCheckpointBlock || n > size-pos-8 {
			return nil, bad("block at position %d claims %d bytes of %d", pos, n, size)
		}
		items := make([]byte, n)
		if err := segment.ReadFull(r, items, pos+8); err != nil {
			return nil, err
		}
		if got, want := segment.Checksum(items), binary.LittleEndian.Uint32(bh[4:]); got != want {
			return nil, bad("block at position %d has CRC %08x, stored %08x", pos, got, want)
		}
		if err := st.readItems(items); err != nil {
			return nil, bad("block at position %d: %v", pos, err)
		}
		pos += 8 + n
	}
	if uint64(st.shards.n) != u(32) || uint64(st.kv.m.Len()) != u(40) {
		return nil, bad("%d shards and %d keys, the header says %d and %d", st.shards.n, st.kv.m.Len(), u(32), u(40))
	}
	if got := st.hash(); got != u(48) {
		return nil, bad("the state has hash %016x, the header says %016x", got, u(48))
	}
	return st, nil
}

// readItems puts a block's items into the state.
func (st *state) readItems(items []byte) error {
	d := decoder{b: items}
	for len(d.b) > 0 {
		switch kind := d.byte(); kind {
		case itemShard:
			id := d.shard()
			sh := shard{first: d.offset()}
			sh.next = sh.first + d.offset()
			sh.digest = d.uint64()
			bm := d.bytes(maxCheckpointBlock)
			switch {
			case d.bad:
			case id == 0 || id >= st.nextShard || st.shards.get(id) != nil:
				return fmt.Errorf("shard %d is there twice, or was never given out", id)
			case sh.next < sh.first: // beyond the largest offset
				return fmt.Errorf("shard %d has the bounds %d to %d", id, sh.first, sh.next)
			default:
				var err error
				if sh.deleted, err = readOffsetSet(bm, sh.first, sh.next); err != nil {
					return fmt.Errorf("shard %d: %w", id, err)
				}
				st.shards.add(id, sh)
			}
		case itemKey:
			key := d.string(MaxKey)
			if value := d.bytes(MaxValue); !d.bad {
				st.kv.put(key, append([]byte{}, value...))
			}
		default:
			return fmt.Errorf("item kind %d is unknown to this version", kind)
		}
	}
	if d.bad {
		return errors.New("an item is cut off, or holds an impossible number")
	}
	return nil
}

// readOffsetSet reads a bitmap of deleted offsets, all of which lie between first and next.
func readOffsetSet(b []byte, first, next int64) (*offsetSet, error) {
	if len(b) == 0 {
		return nil, nil
	}
	bm, err := segment.ParseBitmap(b)
	if err != nil {
		return nil, fmt.Errorf("the deleted offsets cannot be read: %w", err)
	}
	set := &offsetSet{bm: bm}
	if set.bm.IsEmpty() || set.bm.Minimum() <= uint64(first) || set.bm.Maximum() >= uint64(next) {
		return nil, fmt.Errorf("the deleted offsets are not between %d and %d", first, next)
	}
	return set, nil
}
