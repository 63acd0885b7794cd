package record

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

func compressedBatch(t testing.TB, codec Codec, payload []byte) Batch {
	t.Helper()
	b, _, err := Parse(assemble(Header{Count: 1, Attributes: int16(codec)}, payload))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// one is the records of a batch with a single large record, compressible but not only zeros.
func one() []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 300<<10)
	for i := range value {
		value[i] = "abcdefgh"[rnd.IntN(8)]
	}
	return rawRecord(0, 0, nil, value, nil)
}

func lz4With(t testing.TB, p []byte, options ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(options...); err != nil {
		t.Fatal(err)
	}
	return packed(t, w, &out, p)
}

func zstdWith(t testing.TB, p []byte, options ...zstd.EOption) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, options...)
	if err != nil {
		t.Fatal(err)
	}
	return packed(t, w, &out, p)
}

func TestWhatClientsWriteIsRead(t *testing.T) {
	t.Parallel()
	p := one()
	for name, c := range map[string]struct {
		codec   Codec
		payload []byte
	}{
		"lz4, every checksum":       {LZ4, lz4With(t, p, lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block64Kb))},
		"lz4, with its size":        {LZ4, lz4With(t, p, lz4.SizeOption(uint64(len(p))), lz4.BlockSizeOption(lz4.Block256Kb))},
		"lz4, blocks of 4 MiB":      {LZ4, lz4With(t, p, lz4.BlockSizeOption(lz4.Block4Mb))},
		"zstd, streamed":            {Zstd, zstdWith(t, p)},
		"zstd, streamed at level 1": {Zstd, zstdWith(t, p, zstd.WithEncoderLevel(zstd.SpeedFastest))},
		"zstd, window of 16 MiB":    {Zstd, zstdWith(t, p, zstd.WithWindowSize(16<<20), zstd.WithSingleSegment(false))},
		"zstd, two frames":          {Zstd, append(zstdWith(t, p[:1000]), zstdWith(t, p[1000:])...)},
		"zstd, a frame of nothing":  {Zstd, append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}, zstdWith(t, p)...)},
		"gzip, two members":         {Gzip, append(packGzip(t, p[:1000]), packGzip(t, p[1000:])...)},
		"snappy, not compressible":  {Snappy, snappy.Encode(nil, p)},
		"snappy, the best":          {Snappy, s2.EncodeSnappyBest(nil, p)},
		"snappy, an empty chunk":    {Snappy, append(packSnappyJava(t, p), 0, 0, 0, 1, 0)},
	} {
		b := compressedBatch(t, c.codec, c.payload)
		// The limit is the size of the records: a window or a block size larger than that is no reason to refuse.
		if err := b.Validate(Limits{Decompressed: len(p), Dense: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := collect(b, nil)
		if err != nil || len(got) != 1 || !bytes.Equal(rawRecord(0, 0, nil, got[0].value, nil), p) {
			t.Errorf("%s: %d records, %v", name, len(got), err)
		}
	}
}

func TestZstdOfUnknownSizeKeepsTheLimit(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{1, 100, 128<<10 - 1, 128 << 10, 200 << 10, 2 << 20} {
		for name, value := range map[string][]byte{
			"zeros":   make([]byte, size),
			"words":   bytes.Repeat([]byte("a word "), size/7+1)[:size],
			"noise":   noise(rnd, size),
			"changes": slices.Concat(noise(rnd, size/2), make([]byte, size-size/2)),
		} {
			p := rawRecord(0, 0, nil, value, nil)
			payload := zstdWith(t, p)
			twice := append(zstdWith(t, p[:len(p)/2]), zstdWith(t, p[len(p)/2:])...)
			for _, b := range []Batch{compressedBatch(t, Zstd, payload), compressedBatch(t, Zstd, twice)} {
				if err := b.Validate(Limits{Decompressed: len(p)}); err != nil {
					t.Fatalf("%d bytes of %s at their size: %v", size, name, err)
				}
				if _, err := collect(b, &Scratch{}); err != nil {
					t.Fatalf("%d bytes of %s: %v", size, name, err)
				}
				for _, limit := range []int{len(p) - 1, len(p)/2 + 1, 1} {
					wantKind(t, b.Validate(Limits{Decompressed: limit}), ErrTooLarge)
					_, err := collect(b, &Scratch{Limit: limit})
					wantKind(t, err, ErrTooLarge)
				}
			}
		}
	}
}

func noise(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func TestWhatOtherReadersRefuseIsRefused(t *testing.T) {
	t.Parallel()
	p := one()
	frame := lz4With(t, p)
	dependent := slices.Clone(frame)
	dependent[lz4FlagsPos] &^= lz4BlocksApart
	version := packSnappyJava(t, p)
	version[15] = 2
	for name, c := range map[string]struct {
		codec   Codec
		payload []byte
	}{
		"lz4, older kernel format": {LZ4, lz4With(t, p, lz4.LegacyOption(true))},
		"lz4, two frames":          {LZ4, append(slices.Clone(frame), frame...)},
		"lz4, a byte behind":       {LZ4, append(slices.Clone(frame), 0)},
		"lz4, dependent blocks":    {LZ4, dependent},
		"lz4, bare block":          {LZ4, frame[11:]},
		"snappy, dialect S2":       {Snappy, s2.Encode(nil, slices.Concat(p[:100], []byte("x"), p[:100], []byte("y"), p[:100], bytes.Repeat(p[:9000], 3)))},
		"snappy, framing of v2":    {Snappy, version},
		"snappy, Google's framing": {Snappy, append([]byte("\xff\x06\x00\x00sNaPpY"), p[:100]...)},
		"zstd, a dictionary":       {Zstd, zstdWith(t, p, zstd.WithEncoderDictRaw(77, p[:9000]))},
		"gzip, zeros behind":       {Gzip, append(packGzip(t, p), 0, 0, 0)},
		"gzip, as lz4":             {LZ4, packGzip(t, p)},
		"lz4, as gzip":             {Gzip, frame},
		"zstd, as snappy":          {Snappy, zstdWith(t, p)},
		"lz4, as zstd":             {Zstd, frame},
	} {
		err := compressedBatch(t, c.codec, c.payload).Validate(Limits{})
		if err == nil {
			t.Errorf("%s passed", name)
			continue
		}
		wantKind(t, err, ErrMalformed)
	}
}

func TestDamageInsideIsFoundWhereTheCodecCan(t *testing.T) {
	t.Parallel()
	// The CRC of the batch is the guard against damage. Without it nothing may go worse than an error or wrong bytes.
	plain, _ := sample(t, 12)
	s := &Scratch{Limit: 1 << 20}
	for _, f := range framings() {
		payload := repack(t, plain, f).Payload()
		for pos := range payload {
			for _, flip := range []byte{0x01, 0x80} {
				p := slices.Clone(payload)
				p[pos] ^= flip
				b, _, err := Parse(assemble(Header{LastOffsetDelta: 11, Count: 12, Attributes: int16(f.codec)}, p))
				if err != nil {
					t.Fatal(err)
				}
				_, iterated := collect(b, s)
				if err := b.Validate(Limits{Decompressed: 1 << 20}); (err == nil) != (iterated == nil) {
					t.Fatalf("%s, byte %d: Validate says %v, Iter %v", f.name, pos, err, iterated)
				}
			}
		}
	}
}

func TestManyUseThePoolAtOnce(t *testing.T) {
	t.Parallel()
	plain, want := sample(t, 300)
	done := make(chan error)
	const readers = 8
	for range readers {
		go func() {
			for range 5 {
				for _, f := range framings() {
					got, err := collect(repack(t, plain, f), nil)
					if err != nil || len(got) != len(want) || !got[299].equal(want[299]) {
						done <- err
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range readers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
