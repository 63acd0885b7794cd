package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// entry frames metadata and batches.
func entry(seq uint64, unsynced uint32, kind Kind, meta, body []byte) []byte {
	b := make([]byte, EntryHeaderSize, EntryHeaderSize+len(meta)+len(body))
	b = append(append(b, meta...), body...)
	FinishEntry(b, 0, seq, unsynced, kind, len(meta))
	return b
}

// reframe makes the CRC of an entry right again, as far as its lengths allow.
func reframe(b []byte) {
	if len(b) < EntryHeaderSize {
		return
	}
	if _, metaLen, err := entrySize(b); err == nil && EntryHeaderSize+metaLen <= len(b) {
		binary.LittleEndian.PutUint32(b, Checksum(b[4:EntryHeaderSize+metaLen]))
	}
}

func TestEntryReadsAsFramed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seq        uint64
		unsynced   uint32
		kind       Kind
		meta, body int
	}{
		{1, 0, KindTxn, 0, 0},
		{1, 1, KindTxn, 1, 0},
		{math.MaxUint64, math.MaxUint32, KindKept, 300, 70_000},
		{7, 2, KindTxn, MaxMetadata, 5},
	} {
		meta, body := bytes.Repeat([]byte{0xa1}, c.meta), bytes.Repeat([]byte{0xb2}, c.body)
		b := entry(c.seq, c.unsynced, c.kind, meta, body)
		e, err := ParseEntry(append(bytes.Clone(b), "behind"...), 0)
		must(t, err)
		if e.Seq != c.seq || e.Unsynced != c.unsynced || e.Kind != c.kind || !bytes.Equal(e.Meta, meta) || !bytes.Equal(e.Body, body) {
			t.Errorf("%+v came back as seq %d, unsynced %d, kind %d, %d and %d bytes", c, e.Seq, e.Unsynced, e.Kind, len(e.Meta), len(e.Body))
		}
		e.Pos = 1000
		if e.Size() != len(b) || e.BodyPos() != uint32(1000+EntryHeaderSize+c.meta) {
			t.Errorf("%+v: size %d, body at %d", c, e.Size(), e.BodyPos())
		}
		if cap(e.Meta) != len(e.Meta) || cap(e.Body) != len(e.Body) {
			t.Errorf("%+v: appending to a part would write over what is behind it", c)
		}
	}
}

func TestEntryHeaderIsLaidOutAsDrawn(t *testing.T) {
	t.Parallel()
	b := entry(0x1122334455667788, 0x99aabbcc, KindKept, []byte("meta"), []byte("batches"))
	want := "\x23\x00\x00\x00" + "\x88\x77\x66\x55\x44\x33\x22\x11" + "\xcc\xbb\xaa\x99" + "\x04\x00\x00" + "\x02" + "meta" + "batches"
	if string(b[4:]) != want {
		t.Fatalf("got  %x\nwant %x", b[4:], want)
	}
	if crc := binary.LittleEndian.Uint32(b); crc != Checksum(b[4:28]) {
		t.Fatalf("CRC is %08x", crc)
	}
}

func TestEveryFlippedBitOfHeaderAndMetadataIsFound(t *testing.T) {
	t.Parallel()
	good := entry(77, 3, KindTxn, []byte("some metadata"), []byte("batches have their own CRC"))
	for i := range EntryHeaderSize + len("some metadata") {
		for mask := 1; mask < 256; mask++ {
			b := bytes.Clone(good)
			b[i] ^= byte(mask)
			if _, err := ParseEntry(b, 0); !errors.Is(err, ErrBadEntry) {
				t.Fatalf("byte %d xor %02x: %v", i, mask, err)
			}
		}
	}
}

func TestBadEntriesAreToldApart(t *testing.T) {
	t.Parallel()
	good := entry(77, 3, KindTxn, []byte("meta"), []byte("body"))
	change := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		reframe(b)
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
		says string
	}{
		{"nothing", nil, ErrNoEntry, ""},
		{"a few zeros", make([]byte, 5), ErrNoEntry, ""},
		{"a header of zeros", make([]byte, EntryHeaderSize), ErrNoEntry, ""},
		{"zeros, then something", append(make([]byte, EntryHeaderSize), good...), ErrNoEntry, ""},
		{"a few bytes", good[:EntryHeaderSize-1], ErrBadEntry, "23 bytes are less than a header"},
		{"length zero", change(func(b []byte) { binary.LittleEndian.PutUint32(b[4:], 0) }), ErrBadEntry, "length 0 but the header is not empty"},
		{"cut off", good[:len(good)-1], ErrBadEntry, "claims 32 bytes, 31 are there"},
		{"shorter than its metadata", change(func(b []byte) { binary.LittleEndian.PutUint32(b[4:], EntryHeaderSize+3) }), ErrBadEntry, "length 27 with 4 bytes of metadata"},
		{"largest length", change(func(b []byte) { binary.LittleEndian.PutUint32(b[4:], math.MaxUint32) }), ErrBadEntry, "length 4294967295"},
		{"one over the limit", change(func(b []byte) { binary.LittleEndian.PutUint32(b[4:], MaxEntry+1) }), ErrBadEntry, "to 83886103"},
		{"the limit", change(func(b []byte) { binary.LittleEndian.PutUint32(b[4:], MaxEntry) }), ErrBadEntry, "claims 83886103 bytes, 32 are there"},
		{"kind 0", change(func(b []byte) { b[23] = 0 }), ErrBadEntry, "kind 0 is unknown to this version"},
		{"kind 3", change(func(b []byte) { b[23] = 3 }), ErrBadEntry, "kind 3 is unknown to this version"},
	} {
		_, err := ParseEntry(c.b, 0)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v with %q", c.name, err, c.want, c.says)
		}
	}
}

func TestADistanceThatCannotBeToldProvesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ seq, durable, want uint64 }{
		{18, 17, 17},
		{18, 0, 0},
		{1 << 40, 1<<40 - 1<<32 + 2, 1<<40 - 1<<32 + 2},
		{1 << 40, 1<<40 - 1<<32 + 1, 0},
		{1 << 40, 1<<40 - 1<<32, 0},
		{1 << 63, 1, 0},
	} {
		e := Entry{Seq: c.seq, Unsynced: Unsynced(c.seq, c.durable)}
		if got := e.Durable(); got != c.want {
			t.Errorf("entry %d, written when %d was durable, says %d, want %d", c.seq, c.durable, got, c.want)
		}
	}
	if got := (&Entry{Seq: 3, Unsynced: 4}).Durable(); got != 0 {
		t.Errorf("an impossible distance says %d", got)
	}
}
