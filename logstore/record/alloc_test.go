package record

import "testing"

func TestIteratingUncompressedAllocatesNothing(t *testing.T) {
	b, _ := sample(t, 100)
	var sum int64
	allocs := testing.AllocsPerRun(100, func() {
		it := b.Iter(nil)
		for it.Next() {
			r := it.Record()
			sum += it.Offset() + it.Timestamp() + int64(len(r.Key)+len(r.Value))
			for h := r.Headers(); h.Next(); {
				sum += int64(len(h.Header().Key))
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		if err := b.Validate(Limits{Dense: true}); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := FirstOffsetAtOrAfterTime(b, 1<<60, nil); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	raw := goldenBytes(t)
	allocs := testing.AllocsPerRun(100, func() {
		if _, _, err := Parse(raw); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseHeader(raw); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestBuildingInAWarmBuilderAllocatesNothing(t *testing.T) {
	bl := NewBuilder()
	key, value, headers := []byte("key"), make([]byte, 1000), goldenHeaders()
	var dst []byte
	allocs := testing.AllocsPerRun(100, func() {
		bl.Reset()
		for i := range 50 {
			bl.Append(int64(i), key, value, headers)
		}
		if _, err := bl.Build(); err != nil {
			t.Fatal(err)
		}
		var err error
		if dst, err = bl.AppendTo(dst[:0]); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestFilteringUncompressedIntoAWarmBufferAllocatesNothing(t *testing.T) {
	b, _ := sample(t, 100)
	var s Scratch
	var dst []byte
	keep := func(off int64) bool { return off%2 == 0 }
	allocs := testing.AllocsPerRun(100, func() {
		out, _, err := b.Filter(keep, &s, dst[:0])
		if err != nil {
			t.Fatal(err)
		}
		dst = out.Bytes()
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
