package record

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"polylog/logstore/seed"
)

// naiveFilter is what Filter must do, told in terms of messages.
func naiveFilter(ms []message, keep func(int64) bool) []message {
	var kept []message
	for _, m := range ms {
		if keep(m.offset) {
			kept = append(kept, m)
		}
	}
	return kept
}

func checkFiltered(t testing.TB, b Batch, before []message, keep func(int64) bool, out Batch, kept int) {
	t.Helper()
	want := naiveFilter(before, keep)
	if kept != len(want) {
		t.Fatalf("kept %d, want %d", kept, len(want))
	}
	if kept == len(before) {
		if &out.raw[0] != &b.raw[0] || len(out.raw) != len(b.raw) {
			t.Fatal("all are kept and out is not the batch itself")
		}
		return
	}
	parsed, rest, err := Parse(out.Bytes())
	if err != nil || len(rest) != 0 {
		t.Fatalf("out does not parse: %v", err)
	}
	sameMessages(t, read(t, parsed), want)

	h := decodeHeader(b.raw)
	codec := h.Codec()
	if codec == Gzip || codec == Snappy || kept == 0 {
		h.Attributes &^= codecMask
	}
	if !b.LogAppendTime() && kept > 0 {
		h.MaxTimestamp = math.MinInt64
		for _, m := range want {
			h.MaxTimestamp = max(h.MaxTimestamp, m.timestamp)
		}
	}
	h.Count = int32(kept)
	got := decodeHeader(out.raw)
	h.Size, h.CRC = got.Size, got.CRC
	if got != h {
		t.Fatalf("header is\n%+v, want\n%+v", got, h)
	}
}

func TestFilterAgreesWithTheNaiveOne(t *testing.T) {
	t.Parallel()
	rnd := seed.Rand(t)
	var s Scratch
	var dst []byte
	for round := range 60 {
		plain, before := sample(t, 1+rnd.IntN(200))
		for _, f := range framings() {
			b := repack(t, plain, f)
			share := []float64{0, 0.02, 0.5, 0.98, 1}[rnd.IntN(5)]
			wanted := map[int64]bool{}
			for _, m := range before {
				wanted[m.offset] = rnd.Float64() < share
			}
			keep := func(off int64) bool { return wanted[off] }
			out, kept, err := b.Filter(keep, &s, dst[:0])
			if err != nil {
				t.Fatal(err)
			}
			where := fmt.Sprintf("round %d, %s", round, f.name)
			t.Run(where, func(t *testing.T) { checkFiltered(t, b, before, keep, out, kept) })
			if &out.raw[0] != &b.raw[0] {
				dst = out.Bytes()
			}
			// Filtering what was filtered changes nothing.
			again, n, err := out.Filter(keep, nil, nil)
			if err != nil || n != kept || !bytes.Equal(again.Bytes(), out.Bytes()) {
				t.Fatalf("%s: the second time %d are kept, %v", where, n, err)
			}
		}
	}
}

func TestFilterAppendsToDst(t *testing.T) {
	t.Parallel()
	plain, before := sample(t, 50)
	even := func(off int64) bool { return off%2 == 0 }
	none := func(int64) bool { return false }
	for _, f := range framings() {
		for name, keep := range map[string]func(int64) bool{"even": even, "none": none} {
			b := repack(t, plain, f)
			dst := append(make([]byte, 0, 1<<16), "before"...)
			out, kept, err := b.Filter(keep, nil, dst)
			if err != nil {
				t.Fatal(err)
			}
			checkFiltered(t, b, before, keep, out, kept)
			if whole := dst[:len(dst)+out.Len()]; !bytes.Equal(whole[:6], []byte("before")) || &whole[6] != &out.raw[0] {
				t.Errorf("%s, %s: out does not lie behind what was in dst", f.name, name)
			}
		}
	}
}

func TestFilterAsksOncePerRecordInOrder(t *testing.T) {
	t.Parallel()
	b, before := sample(t, 100)
	var asked []int64
	_, _, err := b.Filter(func(off int64) bool { asked = append(asked, off); return off%3 == 0 }, nil, nil)
	if err != nil || len(asked) != len(before) {
		t.Fatalf("asked %d times: %v", len(asked), err)
	}
	for i, off := range asked {
		if off != before[i].offset {
			t.Fatalf("question %d was for offset %d, want %d", i, off, before[i].offset)
		}
	}
}

func TestFilterKeepsLogAppendTime(t *testing.T) {
	t.Parallel()
	b, _ := sample(t, 10)
	raw := bytes.Clone(b.Bytes())
	SetLogAppendTime(raw, 42)
	b, _, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := b.Filter(func(off int64) bool { return off == 1003 }, nil, nil)
	if err != nil || !out.LogAppendTime() || out.MaxTimestamp() != 42 {
		t.Fatalf("max timestamp %d, %v", out.MaxTimestamp(), err)
	}
}

func TestFilterToNothingKeepsOffsetsAndProducer(t *testing.T) {
	t.Parallel()
	plain, _ := sample(t, 10)
	for _, f := range framings() {
		b := repack(t, plain, f)
		out, kept, err := b.Filter(func(int64) bool { return false }, nil, nil)
		if err != nil || kept != 0 || out.Len() != HeaderSize || out.Codec() != None {
			t.Fatalf("%s: %d kept in %d bytes of %v: %v", f.name, kept, out.Len(), out.Codec(), err)
		}
		if out.BaseOffset() != 1000 || out.LastOffset() != 1009 || out.ProducerID() != 7 || out.ProducerEpoch() != 1 || out.BaseSequence() != 100 {
			t.Fatalf("%s: header is %+v", f.name, decodeHeader(out.raw))
		}
	}
}

func TestFilterRefusesToGrowPastTheLargestBatch(t *testing.T) {
	t.Parallel()
	// 70 MiB that gzip makes small: without gzip the batch would be over the limit.
	records := rawRecord(0, 0, nil, make([]byte, 70<<20), nil)
	records = append(records, rawRecord(1, 0, nil, nil, nil)...)
	b, _, err := Parse(assemble(Header{LastOffsetDelta: 1, Count: 2, Attributes: int16(Gzip)}, packGzip(t, records)))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = b.Filter(func(off int64) bool { return off == 0 }, nil, nil)
	wantKind(t, err, ErrTooLarge)
}

func TestEmptyCoversItsOffsets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, last int64 }{{0, 0}, {5, 9}, {math.MaxInt64 - 3, math.MaxInt64}, {1, 1 + math.MaxInt32}} {
		dst := []byte("before")
		e := Empty(c.base, c.last, 1700000000000, dst)
		b, rest, err := Parse(e.Bytes())
		if err != nil || len(rest) != 0 || len(read(t, b)) != 0 {
			t.Fatalf("%v: %v", c, err)
		}
		if b.BaseOffset() != c.base || b.LastOffset() != c.last || b.Count() != 0 || b.MaxTimestamp() != 1700000000000 || b.ProducerID() != -1 {
			t.Fatalf("%v: header is %+v", c, decodeHeader(b.raw))
		}
		if err := b.Validate(Limits{}); err != nil {
			t.Error(err)
		}
		out, kept, err := b.Filter(func(int64) bool { t.Error("asked"); return true }, nil, nil)
		if err != nil || kept != 0 || !bytes.Equal(out.Bytes(), b.Bytes()) {
			t.Fatalf("filtered: %d, %v", kept, err)
		}
	}
	for _, c := range []struct{ base, last int64 }{{-1, 0}, {5, 4}, {0, 1 << 31}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v did not panic", c)
				}
			}()
			Empty(c.base, c.last, 0, nil)
		}()
	}
}
