package record

import (
	"bytes"
	"math"
	"testing"
)

func TestFirstOffsetAtOrAfterTime(t *testing.T) {
	t.Parallel()
	bl := NewBuilder()
	bl.SetBaseOffset(10)
	for i, ts := range []int64{100, 50, 300, 200} { // not in the order of time
		bl.AppendAt(int32(2*i+1), ts, nil, nil, nil)
	}
	plain, err := bl.Build()
	if err != nil {
		t.Fatal(err)
	}
	var s Scratch
	for _, f := range framings() {
		b := repack(t, plain, f)
		for _, c := range []struct{ ts, offset, timestamp int64 }{
			{math.MinInt64, 11, 100}, {60, 11, 100}, {100, 11, 100}, {101, 15, 300}, {250, 15, 300}, {300, 15, 300}, {301, -1, 0},
		} {
			for _, scratch := range []*Scratch{nil, &s} {
				off, ts, ok, err := FirstOffsetAtOrAfterTime(b, c.ts, scratch)
				if err != nil || ok != (c.offset >= 0) || ok && (off != c.offset || ts != c.timestamp) {
					t.Errorf("%s: from time %d: offset %d, time %d, %v, %v; want offset %d", f.name, c.ts, off, ts, ok, err, c.offset)
				}
			}
		}
		// With the broker's time it is the first record or none.
		raw := bytes.Clone(b.Bytes())
		SetLogAppendTime(raw, 400)
		if b, _, err = Parse(raw); err != nil {
			t.Fatal(err)
		}
		if off, ts, ok, err := FirstOffsetAtOrAfterTime(b, 400, nil); err != nil || !ok || off != 11 || ts != 400 {
			t.Errorf("%s: offset %d, time %d, %v, %v", f.name, off, ts, ok, err)
		}
		if _, _, ok, err := FirstOffsetAtOrAfterTime(b, 401, nil); err != nil || ok {
			t.Errorf("%s: found %v, %v", f.name, ok, err)
		}
	}
	if _, _, ok, err := FirstOffsetAtOrAfterTime(Empty(0, 9, 500, nil), 0, nil); ok || err != nil {
		t.Errorf("found a record in an empty batch: %v", err)
	}
	bad, _, err := Parse(assemble(Header{LastOffsetDelta: 1, Count: 1, Attributes: int16(Zstd)}, []byte("no zstd")))
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, err = FirstOffsetAtOrAfterTime(bad, 0, nil)
	wantKind(t, err, ErrMalformed)
}
