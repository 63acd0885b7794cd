package record

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// spoiled lists payloads of a batch of two records with last offset delta 1 that must not iterate to the end.
func spoiled() map[string][]byte {
	ok := rawRecord(0, 0, []byte("k"), []byte("v"), nil)
	at := func(delta int32) []byte { return rawRecord(delta, 0, nil, nil, nil) }
	sized := func(body ...byte) []byte { return append(binary.AppendVarint(nil, int64(len(body))), body...) }
	varints := func(vs ...int64) (b []byte) {
		for _, v := range vs {
			b = binary.AppendVarint(b, v)
		}
		return b
	}
	second := func(b []byte) []byte { return slices.Concat(ok, b) }
	return map[string][]byte{
		"bytes behind the records":      slices.Concat(ok, at(1), []byte{0}),
		"a record too many":             slices.Concat(ok, at(1), at(2)),
		"offset twice":                  second(at(0)),
		"offset over the last":          second(at(2)),
		"negative offset":               second(at(-1)),
		"smallest offset":               second(at(math.MinInt32)),
		"descending offsets":            slices.Concat(at(1), at(0)),
		"length over the rest":          second(append(varints(100), make([]byte, 20)...)),
		"length negative":               second(append(varints(-1), make([]byte, 20)...)),
		"length smallest":               second(append(varints(math.MinInt32), make([]byte, 20)...)),
		"length zero":                   second(make([]byte, 7)),
		"length of five":                second(sized(0, 0, 2, 1, 1)[:6]),
		"length does not end":           second([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}),
		"length of 33 bits":             second([]byte{0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 0, 0, 0, 0}),
		"timestamp of 65 bits":          second(sized(0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 2, 1, 1, 0)),
		"timestamp does not end":        second(sized(0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80)),
		"offset does not end":           second(sized(0, 0, 0x80, 0x80, 0x80, 0x80)),
		"key over the record":           second(sized(slices.Concat([]byte{0, 0, 2}, varints(20, -1, 0))...)),
		"key longer than memory":        second(sized(slices.Concat([]byte{0, 0, 2}, varints(math.MaxInt32, -1, 0))...)),
		"key of minus two":              second(sized(slices.Concat([]byte{0, 0, 2}, varints(-2, -1, 0))...)),
		"no room for a value":           second(sized(slices.Concat([]byte{0, 0, 2}, varints(2), []byte("kk"))...)),
		"value over the record":         second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, 2, 0))...)),
		"value of minus two":            second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -2, 0))...)),
		"no room for a header count":    second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, 1), []byte("v"))...)),
		"header count negative":         second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -1, -1))...)),
		"header count over the record":  second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -1, 2, 0, 0))...)),
		"header count of the largest":   second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -1, math.MaxInt32, 0, 0))...)),
		"header with null key":          second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -1, 1, -1, 0))...)),
		"header key over the record":    second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -1, 1, 5, 0))...)),
		"header value over the record":  second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -1, 1, 0, 5))...)),
		"header value of minus two":     second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -1, 1, 0, -2))...)),
		"header key takes the value":    second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -1, 1, 1), []byte("k"))...)),
		"bytes left in a record":        second(sized(slices.Concat([]byte{0, 0, 2}, varints(-1, -1, 0), []byte{0})...)),
		"fewer records than the header": second(nil),
		"no records":                    nil,
	}
}

func TestSpoiledRecordsAreMalformed(t *testing.T) {
	t.Parallel()
	for name, records := range spoiled() {
		for _, f := range framings() {
			h := Header{LastOffsetDelta: 1, Count: 2, Attributes: int16(f.codec)}
			b, _, err := Parse(assemble(h, f.pack(t, records)))
			if err != nil {
				wantKind(t, err, ErrMalformed) // the header can tell by the number of bytes
				continue
			}
			err = b.Validate(Limits{})
			if err == nil {
				t.Fatalf("%s in %s passed", name, f.name)
			}
			wantKind(t, err, ErrMalformed)
			if ms, err := collect(b, nil); err == nil {
				t.Fatalf("%s in %s iterates to %d records", name, f.name, len(ms))
			}
			if _, _, err := b.Filter(func(int64) bool { return false }, nil, nil); err == nil {
				t.Fatalf("%s in %s is filtered", name, f.name)
			}
		}
	}
}

func TestRecordsCutAtEveryByteAreMalformed(t *testing.T) {
	t.Parallel()
	plain, _ := sample(t, 20)
	for _, f := range framings() {
		whole := repack(t, plain, f)
		for n := range len(whole.Payload()) {
			b, _, err := Parse(assemble(decodeHeader(whole.raw), whole.Payload()[:n]))
			if err == nil {
				err = b.Validate(Limits{})
			}
			if err == nil {
				t.Fatalf("%s cut to %d of %d bytes passed", f.name, n, len(whole.Payload()))
			}
			wantKind(t, err, ErrMalformed)
		}
	}
}

func TestDenseMeansEveryOffset(t *testing.T) {
	t.Parallel()
	two := slices.Concat(rawRecord(0, 0, nil, nil, nil), rawRecord(1, 0, nil, nil, nil))
	gap := slices.Concat(rawRecord(0, 0, nil, nil, nil), rawRecord(2, 0, nil, nil, nil))
	late := slices.Concat(rawRecord(1, 0, nil, nil, nil), rawRecord(2, 0, nil, nil, nil))
	for _, c := range []struct {
		name    string
		h       Header
		records []byte
		dense   bool
	}{
		{"two of two", Header{LastOffsetDelta: 1, Count: 2}, two, true},
		{"a gap", Header{LastOffsetDelta: 2, Count: 2}, gap, false},
		{"the first missing", Header{LastOffsetDelta: 2, Count: 2}, late, false},
		{"the last missing", Header{LastOffsetDelta: 2, Count: 2}, two, false},
		{"none", Header{LastOffsetDelta: 0, Count: 0}, nil, false},
	} {
		b, _, err := Parse(assemble(c.h, c.records))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Validate(Limits{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := b.Validate(Limits{Dense: true}); (err == nil) != c.dense {
			t.Errorf("%s, dense: %v", c.name, err)
		} else if err != nil {
			wantKind(t, err, ErrMalformed)
		}
	}
}

func TestDecompressedLimitIsExact(t *testing.T) {
	t.Parallel()
	plain, _ := sample(t, 500)
	size := len(plain.Payload())
	for _, f := range framings() {
		b := repack(t, plain, f)
		if err := b.Validate(Limits{Decompressed: size}); err != nil {
			t.Errorf("%s at its size: %v", f.name, err)
		}
		wantKind(t, b.Validate(Limits{Decompressed: size - 1}), ErrTooLarge)
		if f.codec == None {
			continue
		}
		_, err := collect(b, &Scratch{Limit: size - 1})
		wantKind(t, err, ErrTooLarge)
		// A buffer that is larger already does not raise the limit.
		warm := &Scratch{}
		if _, err := collect(b, warm); err != nil {
			t.Fatal(err)
		}
		warm.buf = make([]byte, 0, 4*size)
		warm.Limit = size - 1
		_, err = collect(b, warm)
		wantKind(t, err, ErrTooLarge)
		warm.Limit = math.MaxInt
		if _, err = collect(b, warm); err != nil {
			t.Errorf("%s without a limit: %v", f.name, err)
		}
	}
}

func TestIterStaysEnded(t *testing.T) {
	t.Parallel()
	b, _ := sample(t, 1)
	it := b.Iter(nil)
	if !it.Next() || it.Next() || it.Next() || it.Err() != nil {
		t.Fatalf("a batch of one does not end after one: %v", it.Err())
	}
	if r := it.Record(); r.Value != nil || r.HeaderCount() != 0 {
		t.Fatalf("behind the end the record is %+v", r)
	}
	b, _, err := Parse(assemble(Header{LastOffsetDelta: 1, Count: 1}, bytes.Repeat(rawRecord(0, 0, nil, nil, nil), 2)))
	if err != nil {
		t.Fatal(err)
	}
	it = b.Iter(nil)
	if !it.Next() || it.Next() || it.Next() {
		t.Fatal("a batch of one does not end after one")
	}
	wantKind(t, it.Err(), ErrMalformed)
}
