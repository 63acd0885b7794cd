package record

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/pierrec/lz4/v4"
)

// zstdFrame is a frame with a given content size, or none, and blocks of one repeated byte.
func zstdFrame(size int64, blocks int) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd}
	if size >= 0 {
		b = append(b, 3<<6|1<<5) // eight bytes of size, one segment
		b = binary.LittleEndian.AppendUint64(b, uint64(size))
	} else {
		b = append(b, 0, 11<<3) // no size, a window of 2 MiB
	}
	for i := range blocks {
		last := uint32(0)
		if i == blocks-1 {
			last = 1
		}
		head := uint32(128<<10)<<3 | 1<<1 | last // 128 KiB, repeated
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 'a')
	}
	return b
}

// lz4Frame is a frame whose descriptor claims a size that its content has not.
func lz4Frame(t testing.TB, claim uint64) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(lz4.SizeOption(claim), lz4.BlockSizeOption(lz4.Block64Kb)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), 0, 0, 0, 0, 0, 0, 0, 0) // end and a checksum
}

func TestBombsAreRefusedCheaply(t *testing.T) {
	const limit = 1 << 20
	zeros := make([]byte, 64<<20)
	java := packSnappyJava(t, make([]byte, 32<<10))
	javaHead, javaChunk := java[:16], java[16:]
	for _, c := range []struct {
		name    string
		codec   Codec
		payload []byte
		limit   int
		want    error
	}{
		{"gzip of 64 MiB", Gzip, packGzip(t, zeros), limit, ErrTooLarge},
		{"gzip of many members", Gzip, bytes.Repeat(packGzip(t, zeros[:1<<20]), 64), limit, ErrTooLarge},
		{"snappy of 64 MiB", Snappy, snappy.Encode(nil, zeros), limit, ErrTooLarge},
		{"snappy claims 4 GiB", Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'a'}, 0, ErrTooLarge},
		{"snappy claims 100 MiB, below the limit", Snappy, append(binary.AppendUvarint(nil, 100<<20), 0, 'a'), 0, ErrMalformed},
		{"snappy in chunks of 64 MiB", Snappy, packSnappyJava(t, zeros), limit, ErrTooLarge},
		{"snappy chunk of 2 GiB", Snappy, append(slices.Clone(javaHead), 0x7f, 0xff, 0xff, 0xff, 1, 0, 'a'), 0, ErrMalformed},
		{"snappy chunk claims 4 GiB", Snappy, append(slices.Clone(java), 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'a'), 0, ErrTooLarge},
		{"snappy in many chunks", Snappy, append(slices.Clone(javaHead), bytes.Repeat(javaChunk, 5000)...), limit, ErrTooLarge},
		{"lz4 of 64 MiB", LZ4, packWith(LZ4)(t, zeros), limit, ErrTooLarge},
		{"lz4 claims an exabyte", LZ4, lz4Frame(t, 1<<60), 0, ErrTooLarge},
		{"lz4 claims 100 MiB, below the limit", LZ4, lz4Frame(t, 100<<20), 0, ErrMalformed},
		{"zstd of 64 MiB", Zstd, packWith(Zstd)(t, zeros), limit, ErrTooLarge},
		{"zstd of 64 MiB without a size", Zstd, zstdFrame(-1, 512), limit, ErrTooLarge},
		{"zstd of 64 MiB in a stream", Zstd, zstdWith(t, bytes.Repeat([]byte("a few words "), 64<<20/12)), limit, ErrTooLarge},
		{"zstd claims an exabyte", Zstd, zstdFrame(1<<60, 1), 0, ErrTooLarge},
		{"zstd claims everything", Zstd, zstdFrame(math.MaxInt64, 1), 0, ErrTooLarge},
		{"zstd claims 100 MiB, below the limit", Zstd, zstdFrame(100<<20, 1), 0, ErrMalformed},
		{"zstd second frame claims 100 MiB", Zstd, append(zstdFrame(-1, 1), zstdFrame(100<<20, 1)...), 0, ErrMalformed},
		{"zstd of nothing claims 100 MiB next", Zstd, append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}, zstdFrame(100<<20, 1)...), 0, ErrMalformed},
		{"zstd of many frames", Zstd, bytes.Repeat(zstdFrame(-1, 4), 128), limit, ErrTooLarge},
	} {
		b, _, err := Parse(assemble(Header{LastOffsetDelta: math.MaxInt32, Count: math.MaxInt32, Attributes: int16(c.codec)}, c.payload))
		if err != nil {
			t.Fatal(err)
		}
		s := &Scratch{Limit: c.limit}
		plain, _ := sample(t, 3)
		for _, f := range framings() { // makes the decoders, whose own memory is not what is measured
			if _, err := collect(repack(t, plain, f), s); err != nil {
				t.Fatal(err)
			}
		}
		s.buf = nil
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		it := b.Iter(s)
		more := it.Next()
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		if more {
			t.Errorf("%s: has a record", c.name)
		}
		wantKind(t, it.Err(), c.want)
		// Growth by doubling to the limit, and the blocks of the decoders.
		if grew := after.TotalAlloc - before.TotalAlloc; grew > 6<<20 {
			t.Errorf("%s: allocated %d bytes: %v", c.name, grew, it.Err())
		}
		if took > 5*time.Second {
			t.Errorf("%s: took %v", c.name, took)
		}
	}
}

func TestCountAllocatesNothing(t *testing.T) {
	// A header may claim two billion records in a compressed batch; what is allocated follows the bytes.
	for _, f := range framings()[1:] {
		payload := f.pack(t, rawRecord(0, 0, nil, nil, nil))
		b, _, err := Parse(assemble(Header{LastOffsetDelta: math.MaxInt32, Count: math.MaxInt32, Attributes: int16(f.codec)}, payload))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err = b.Filter(func(int64) bool { return false }, nil, nil)
		runtime.ReadMemStats(&after)
		wantKind(t, err, ErrMalformed)
		if grew := after.TotalAlloc - before.TotalAlloc; grew > 6<<20 {
			t.Errorf("%s: allocated %d bytes", f.name, grew)
		}
	}
}
