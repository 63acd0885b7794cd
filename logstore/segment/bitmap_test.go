package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"polylog/logstore/seed"
)

// bitmaps are sets of every form that the library writes: arrays, bitmaps and runs, with few and many containers, in several upper halves.
func bitmaps() map[string]*roaring64.Bitmap {
	of := func(fill func(b *roaring64.Bitmap)) *roaring64.Bitmap {
		b := roaring64.New()
		fill(b)
		return b
	}
	every := func(from, to, step uint64) func(b *roaring64.Bitmap) {
		return func(b *roaring64.Bitmap) {
			for v := from; v < to; v += step {
				b.Add(v)
			}
		}
	}
	return map[string]*roaring64.Bitmap{
		"empty":          roaring64.New(),
		"one":            of(every(7, 8, 1)),
		"array":          of(every(3, 3+4096*7, 7)),
		"bitmap":         of(every(0, 60_000, 3)),
		"two upper":      of(func(b *roaring64.Bitmap) { b.Add(1); b.Add(1 << 40); b.Add(math.MaxUint64) }),
		"full container": of(func(b *roaring64.Bitmap) { b.AddRange(0, 1<<16) }),
		"long run":       of(func(b *roaring64.Bitmap) { b.AddRange(10, 1<<20) }),
		"few runs":       of(func(b *roaring64.Bitmap) { b.AddRange(10, 1000); b.AddRange(70_000, 71_000) }),
		"runs and arrays": of(func(b *roaring64.Bitmap) {
			b.AddRange(10, 200_000)
			every(300_000, 300_100, 9)(b)
			every(1<<33, 1<<33+60_000, 2)(b)
			b.RunOptimize()
		}),
		"more runs than are worth it": of(func(b *roaring64.Bitmap) {
			b.AddRange(0, 9000)
			for v := uint64(10_000); v < 1<<16; v += 22 {
				b.AddRange(v, v+1)
			}
		}),
	}
}

func serialized(t testing.TB, b *roaring64.Bitmap) []byte {
	t.Helper()
	raw, err := b.MarshalBinary()
	must(t, err)
	return raw
}

func TestBitmapReadsAsWritten(t *testing.T) {
	t.Parallel()
	for name, b := range bitmaps() {
		raw := serialized(t, b)
		got, err := ParseBitmap(raw)
		if err != nil || !got.Equals(b) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRandomBitmapsReadAsWritten(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 100 {
		b := roaring64.New()
		for range r.IntN(300) {
			from := uint64(r.Int64N(1 << uint(1+r.IntN(40))))
			switch r.IntN(5) {
			case 0:
				b.AddRange(from, from+uint64(r.IntN(200_000)))
			case 1:
				b.RemoveRange(from, from+uint64(r.IntN(70_000)))
			case 2:
				b.RunOptimize()
			default:
				b.Add(from)
			}
		}
		if got, err := ParseBitmap(serialized(t, b)); err != nil || !got.Equals(b) {
			t.Fatalf("a bitmap of %d values: %v", b.GetCardinality(), err)
		}
	}
}

func TestCutOrLongerBitmapsAreRefused(t *testing.T) {
	t.Parallel()
	for name, b := range bitmaps() {
		raw := serialized(t, b)
		for n := 0; n < len(raw); n += 1 + len(raw)/500 {
			if _, err := ParseBitmap(raw[:n:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes are taken", name, n, len(raw))
			}
		}
		if _, err := ParseBitmap(append(raw, 0)); err == nil {
			t.Errorf("%s: a byte behind it is taken", name)
		}
	}
}

func TestBitmapsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	le := binary.LittleEndian
	u16 := func(vs ...uint16) (b []byte) {
		for _, v := range vs {
			b = le.AppendUint16(b, v)
		}
		return b
	}
	cat := func(parts ...any) (b []byte) {
		for _, p := range parts {
			switch p := p.(type) {
			case uint64:
				b = le.AppendUint64(b, p)
			case uint32:
				b = le.AppendUint32(b, p)
			case []byte:
				b = append(b, p...)
			default:
				panic(fmt.Sprintf("%T", p))
			}
		}
		return b
	}
	one := cat(uint32(cookieNoRuns), uint32(1), u16(0, 0), uint32(16), u16(5))
	run := func(card uint16, runs ...uint16) []byte {
		return cat(uint64(1), uint32(0), uint32(cookieRuns), []byte{1}, u16(0, card-1), u16(uint16(len(runs)/2)), u16(runs...))
	}
	// The good ones show that it is not for another reason that the bad ones are refused.
	for name, b := range map[string][]byte{"array": cat(uint64(1), uint32(0), one), "runs": run(5, 3, 1, 9, 2), "run to the end": run(2, 65534, 1)} {
		if _, err := ParseBitmap(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"a count that nothing holds":     cat(uint64(1<<63), uint32(0), one),
		"a large count":                  cat(uint64(1<<40), uint32(0), one),
		"upper halves do not ascend":     cat(uint64(2), uint32(1), one, uint32(1), one),
		"another cookie":                 cat(uint64(1), uint32(0), uint32(12345), uint32(1), u16(0, 0), uint32(16), u16(5)),
		"an upper half without values":   cat(uint64(1), uint32(0), uint32(cookieNoRuns), uint32(0)),
		"too many containers":            cat(uint64(1), uint32(0), uint32(cookieNoRuns), uint32(1<<16+1), make([]byte, 1<<20)),
		"containers do not ascend":       cat(uint64(1), uint32(0), uint32(cookieNoRuns), uint32(2), u16(1, 0, 1, 0), uint32(24), uint32(26), u16(5), u16(5)),
		"array does not ascend":          cat(uint64(1), uint32(0), uint32(cookieNoRuns), uint32(1), u16(0, 1), uint32(16), u16(5, 5)),
		"bitmap with another count":      cat(uint64(1), uint32(0), uint32(cookieNoRuns), uint32(1), u16(0, 5000), uint32(16), make([]byte, bitmapBytes)),
		"no runs":                        run(1),
		"runs do not ascend":             run(5, 9, 2, 3, 1),
		"runs overlap":                   run(5, 3, 1, 4, 2),
		"run beyond the end":             run(3, 65534, 2),
		"runs with another count":        run(4, 3, 1, 9, 2),
		"no room for the run's lengths":  run(5, 3, 1, 9, 2)[:22],
		"bits of more runs than present": cat(uint64(1), uint32(0), uint32(cookieRuns|0xffff<<16), []byte{1}, u16(0, 0), u16(0)),
	} {
		if _, err := ParseBitmap(b); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// The library's own check compares every run with every other.
func TestBitmapOfManyRunsIsReadInOnePass(t *testing.T) {
	t.Parallel()
	b := bitmaps()["more runs than are worth it"]
	raw := serialized(t, b)
	if len(raw) < 2500*4 {
		t.Fatalf("only %d bytes, not as many runs as there should be", len(raw))
	}
	many := binary.LittleEndian.AppendUint64(nil, 50)
	for i := range uint32(50) {
		many = append(binary.LittleEndian.AppendUint32(many, i), raw[12:]...)
	}
	got, err := ParseBitmap(many)
	if err != nil || got.GetCardinality() != 50*b.GetCardinality() {
		t.Fatalf("%v", err)
	}
	if again := serialized(t, got); !bytes.Equal(again, many) {
		t.Error("it is written otherwise than it was read")
	}
}
