package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// allocated returns how many bytes of memory f asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// everyTxn is one transaction of each kind and more, as seeds.
func everyTxn() []Txn {
	big := record.Empty(0, 1<<20, 5, nil)
	return []Txn{
		{},
		{Do: []Op{AppendBatch(1, batchOf(1000, "a", "b"))}},
		{Do: []Op{AppendBatch(1, batchOf(1000, "a")), AppendBatch(300, batchOf(-1, "", "c")), AppendBatch(1, big)}},
		{Do: []Op{Delete(1, Range{0, 1}, Range{5, 900}, Range{2, 3}), Delete(2), TrimBefore(1, 1<<40)}},
		{Do: []Op{Put("key", []byte("value")), Put("", nil), Remove("key"), CreateShard("new"), CreateShard("newer"), DropShard(7)}},
		{If: []Condition{KeyIs("key", []byte("value")), KeyAbsent("none"), Live(1, 5), NextIs(1, -3)}, Do: []Op{Put("k", make([]byte, 300))}},
	}
}

// outcomeOf is what applying could have decided.
func outcomeOf(t *Txn) *outcome {
	var out outcome
	for i := range t.Do {
		switch t.Do[i].kind {
		case opAppend:
			out.bases = append(out.bases, int64(len(out.bases))<<33)
		case opCreateShard:
			out.shards = append(out.shards, Shard(len(out.shards)+300))
		}
	}
	return &out
}

// encodedEntry is the metadata and the batches of a transaction as they are in the log.
func encodedEntry(t *Txn) (meta, body []byte) {
	out := outcomeOf(t)
	meta = encodeMeta(nil, t, out)
	appends := 0
	for i := range t.Do {
		if t.Do[i].kind == opAppend {
			at := len(body)
			body = append(body, t.Do[i].batch.Bytes()...)
			record.SetBase(body[at:], out.bases[appends], 0)
			appends++
		}
	}
	return meta, body
}

// repairBatch makes a batch of b, as far as the bytes are enough: its length and CRC are right.
func repairBatch(b []byte) {
	if len(b) < record.HeaderSize {
		return
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
}

// repairEntry makes the batches of an entry those that its metadata tells of, so that the fuzzer gets past their checksums.
func repairEntry(meta, body []byte) {
	d := decoder{b: meta}
	for len(d.b) > 0 && !d.bad {
		switch opKind(d.byte()) {
		case opAppend:
			d.uvarint()
			base, size := d.uvarint(), d.uvarint()
			crc := d.b
			if d.uint32(); d.bad || size > uint64(len(body)) || size < record.HeaderSize {
				return
			}
			repairBatch(body[:size])
			record.SetBase(body, int64(base), 0)
			copy(crc[:4], binary.LittleEndian.AppendUint32(nil, binary.BigEndian.Uint32(body[17:])))
			body = body[size:]
		case opDelete:
			d.uvarint()
			d.ranges()
		case opTrimBefore:
			d.uvarint()
			d.uvarint()
		case opPut:
			d.bytes(math.MaxUint32)
			d.bytes(math.MaxUint32)
		case opRemove:
			d.bytes(math.MaxUint32)
		case opCreateShard:
			d.uvarint()
			d.bytes(math.MaxUint32)
		case opDropShard:
			d.uvarint()
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	for _, t := range everyTxn() {
		meta, body := encodedEntry(&t)
		f.Add(meta, body, false)
		f.Add(meta, body, true)
	}
	f.Fuzz(func(t *testing.T, meta, body []byte, kept bool) {
		meta, body = slices.Clone(meta), slices.Clone(body)
		repairEntry(meta, body)
		e := &segment.Entry{Seq: 5, Kind: segment.KindTxn, Pos: 64, Meta: meta, Body: body}
		if kept {
			e.Kind = segment.KindKept
		}
		n := allocated(func() { checkDecodedEntry(t, e) })
		if n > uint64(1<<20+3000*len(meta)+10*len(body)) {
			t.Fatalf("%d bytes were allocated for %d of metadata and %d of batches", n, len(meta), len(body))
		}
	})
}

// checkDecodedEntry decodes an entry from any bytes: it is refused, or everything in it is possible and is encoded again as it was.
func checkDecodedEntry(t *testing.T, e *segment.Entry) {
	ops, err := decodeEntry(e, nil)
	if err != nil {
		return
	}
	var out outcome
	txn := Txn{Do: make([]Op, len(ops))}
	var body []byte
	for i := range ops {
		o := &ops[i]
		txn.Do[i] = o.Op
		if o.shard > maxShard || o.offset < 0 || o.base < 0 || e.Kind == segment.KindKept && o.kind != opAppend {
			t.Fatalf("taken: %+v", o)
		}
		switch o.kind {
		case opAppend:
			if int(o.pos) != int(e.BodyPos())+len(body) || o.batch.LastOffset() < o.base {
				t.Fatalf("the batch at %d goes from %d to %d", o.pos, o.base, o.batch.LastOffset())
			}
			body = append(body, o.batch.Bytes()...)
			out.bases = append(out.bases, o.base)
		case opCreateShard:
			out.shards = append(out.shards, o.shard)
		}
	}
	if !bytes.Equal(body, e.Body) {
		t.Fatalf("the batches are %d bytes of %d", len(body), len(e.Body))
	}
	// What validate refuses was never written, and is taken all the same: replaying it does no harm.
	if _, err := txn.validate(); err != nil {
		var limit *LimitError
		var invalid *InvalidError
		if !errors.As(err, &limit) && !errors.As(err, &invalid) {
			t.Fatal(err)
		}
	}
	again := *e
	again.Meta = encodeMeta(nil, &txn, &out)
	ops2, err := decodeEntry(&again, nil)
	if err != nil {
		t.Fatalf("encoded again it is refused: %v", err)
	}
	for i := range ops2 {
		if ops2[i].kind == opAppend {
			ops2[i].pos += uint32(len(e.Meta)) - uint32(len(again.Meta)) // varints may have been longer than needed
		}
	}
	if !reflect.DeepEqual(ops, ops2) {
		t.Fatalf("encoded again it is %+v, was %+v", ops2, ops)
	}
}

// repairProposal repairs whatever looks like a batch.
func repairProposal(b []byte) {
	for i := 0; i+record.HeaderSize <= len(b); i++ {
		n := int64(binary.BigEndian.Uint32(b[i+8:])) + 12
		if b[i+16] == 2 && n >= record.HeaderSize && n <= int64(len(b)-i) {
			repairBatch(b[i : i+int(n)])
			i += int(n) - 1
		}
	}
}

func FuzzDecodeProposal(f *testing.F) {
	for _, t := range everyTxn() {
		f.Add(encodeProposal(nil, ProposalID{Writer: 0x1122334455667788, Number: 9}, &t))
	}
	f.Add([]byte{})
	f.Add([]byte{2, 1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		b = slices.Clone(b)
		repairProposal(b)
		before := slices.Clone(b)
		n := allocated(func() {
			id, txn, err := decodeProposal(b)
			if err != nil {
				var limit *LimitError
				var invalid *InvalidError
				known := errors.As(err, &limit) || errors.As(err, &invalid) || errors.Is(err, errBadProposal)
				if !known && (len(b) == 0 || b[0] <= proposalVersion) {
					t.Fatalf("only a newer version may stop a node that reads the order: %v", err)
				}
				return
			}
			again := encodeProposal(nil, id, &txn)
			id2, txn2, err := decodeProposal(again)
			if err != nil || id2 != id || !reflect.DeepEqual(txn2, txn) {
				t.Fatalf("encoded again it is %v %+v, %v; was %v %+v", id2, txn2, err, id, txn)
			}
			if size, err := txn.validate(); err == nil && (size < entryOverhead || size > segment.MaxEntry) {
				t.Fatalf("an entry of %d bytes", size)
			}
		})
		if n > uint64(1<<20+3000*len(b)) {
			t.Fatalf("%d bytes were allocated for %d", n, len(b))
		}
		if !bytes.Equal(b, before) {
			t.Fatal("decoding changed the proposal")
		}
	})
}

// sampleState is a state with shards of all sorts.
func sampleState() *state {
	st := newState()
	st.seq = 77
	var out outcome
	for _, key := range []string{"a", "b", "c", "d"} {
		st.createShard(st.nextShard, key)
	}
	st.apply(&Txn{Do: []Op{
		AppendBatch(1, record.Empty(0, 99_999, 1, nil)), AppendBatch(2, batchOf(1, "x", "y", "z")), AppendBatch(4, record.Empty(0, 1<<20, 1, nil)),
		Delete(1, Range{0, 10}, Range{500, 90_000}, Range{95_000, 95_001}), Delete(2, Range{1, 2}), DropShard(3), Remove("c"),
		TrimBefore(4, 1<<19), Put("k", []byte("value")), Put("", nil),
	}}, &out)
	return st
}

// memFile is a file in memory.
func memFile(t testing.TB) vfs.File {
	t.Helper()
	f, err := vfs.NewMem().Create("f")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// checkpointBytes is the file that a state is written to.
func checkpointBytes(t testing.TB, st *state) []byte {
	t.Helper()
	f := memFile(t)
	size, err := writeCheckpoint(f, st)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if err := segment.ReadFull(f, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// repairCheckpoint makes checksums, counts and hash of a checkpoint file right, as far as the bytes can be read.
func repairCheckpoint(b []byte) {
	if len(b) < checkpointHeaderSize {
		return
	}
	le := binary.LittleEndian
	copy(b, checkpointMagic)
	le.PutUint32(b[8:], checkpointVersion)
	st := newState()
	st.nextShard = Shard(le.Uint64(b[24:]))
	for pos := checkpointHeaderSize; pos+8 <= len(b); {
		end := pos + 8 + int(le.Uint32(b[pos:]))
		if end > len(b) {
			break
		}
		le.PutUint32(b[pos+4:], segment.Checksum(b[pos+8:end]))
		if st.readItems(b[pos+8:end]) != nil {
			break
		}
		pos = end
	}
	le.PutUint64(b[32:], uint64(st.shards.n))
	le.PutUint64(b[40:], uint64(st.kv.m.Len()))
	le.PutUint64(b[48:], st.hash())
	le.PutUint32(b[60:], segment.Checksum(b[:60]))
}

func FuzzReadCheckpoint(f *testing.F) {
	f.Add(checkpointBytes(f, newState()), true)
	f.Add(checkpointBytes(f, sampleState()), true)
	f.Add(checkpointBytes(f, sampleState()), false)
	f.Fuzz(func(t *testing.T, b []byte, repair bool) {
		b = slices.Clone(b)
		if repair {
			repairCheckpoint(b)
		}
		n := allocated(func() { checkReadCheckpoint(t, b) })
		// A shard that stands alone takes a page and a directory, and the highest number there may be a table of 128 MiB.
		if n > uint64(1<<30+100_000*len(b)) {
			t.Fatalf("%d bytes were allocated for a file of %d", n, len(b))
		}
	})
}

// checkReadCheckpoint reads a checkpoint from any bytes: it is refused, or the state is one that can be.
func checkReadCheckpoint(t *testing.T, b []byte) {
	st, err := readCheckpoint(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		if !errors.Is(err, errBadCheckpoint) && !errors.Is(err, segment.ErrVersion) {
			t.Fatal(err)
		}
		return
	}
	st.shards.all(func(id Shard, sh *shard) bool {
		if sh.first < 0 || sh.next < sh.first || sh.live() < 0 || sh.deleted.contains(sh.first) || id >= st.nextShard {
			t.Fatalf("shard %d has the bounds %d to %d, %d are live", id, sh.first, sh.next, sh.live())
		}
		return true
	})
	again, err := readCheckpoint(bytes.NewReader(checkpointBytes(t, st)), int64(len(checkpointBytes(t, st))))
	if err != nil || again.hash() != st.hash() || again.seq != st.seq || again.nextShard != st.nextShard {
		t.Fatalf("written and read again it differs: %v", err)
	}
}

func FuzzParseNames(f *testing.F) {
	for _, name := range []string{
		segmentName(1, 0), segmentName(segment.MaxID, math.MaxUint32), checkpointName(checkpointID{0, 0}), checkpointName(checkpointID{math.MaxUint64, 7}),
		"0000000000000001-0.seg.tmp", "0000000000000001-01.seg", "000000000000000A-1.seg", "+000000000000001-1.seg", "0000000000000000-0.seg", "lock", "-.seg", ".ckpt",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if id, generation, ok := parseSegmentName(name); ok {
			if segmentName(id, generation) != name || id == 0 || id > segment.MaxID {
				t.Fatalf("%q is segment %d, generation %d", name, id, generation)
			}
			if _, too := parseCheckpointName(name); too {
				t.Fatalf("%q is two things", name)
			}
		}
		if id, ok := parseCheckpointName(name); ok && checkpointName(id) != name {
			t.Fatalf("%q is checkpoint %+v", name, id)
		}
	})
}

func readCheckpointBytes(b []byte) error {
	_, err := readCheckpoint(bytes.NewReader(b), int64(len(b)))
	return err
}
