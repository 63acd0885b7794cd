package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
)

// fuzzLimit keeps a bomb that the fuzzer finds from slowing it down.
const fuzzLimit = 1 << 20

func FuzzParse(f *testing.F) {
	raw := goldenBytes(f)
	f.Add(raw)
	f.Add(append(slices.Clone(raw), raw...))
	f.Add(raw[:HeaderSize])
	f.Add(Empty(7, 9, 1, nil).Bytes())
	plain, _ := sample(f, 5)
	for _, fr := range framings() {
		f.Add(repack(f, plain, fr).Bytes())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := slices.Clone(in)
		b, rest, err := Parse(in)
		trusted, trustedRest, trustedErr := ParseTrusted(in)
		h, headerErr := ParseHeader(in)
		if err != nil {
			e := (*Error)(nil)
			if !errors.As(err, &e) || !b.IsZero() || rest != nil {
				t.Fatalf("failed with %v and left %d bytes", err, b.Len())
			}
			if (trustedErr == nil) != errors.Is(err, ErrCRC) {
				t.Fatalf("Parse says %v, ParseTrusted %v", err, trustedErr)
			}
		}
		if headerErr != nil && trustedErr == nil || headerErr == nil && trustedErr != nil && !errors.Is(trustedErr, ErrTruncated) {
			t.Fatalf("ParseHeader says %v, ParseTrusted %v", headerErr, trustedErr)
		}
		if trustedErr != nil {
			return
		}
		if !bytes.Equal(slices.Concat(trusted.Bytes(), trustedRest), in) || h != decodeHeader(trusted.raw) || h.Size != trusted.Len() {
			t.Fatal("batch and rest are not the input")
		}
		if trusted.LastOffset() < trusted.BaseOffset() || int64(trusted.Count()) > int64(trusted.LastOffsetDelta())+1 || trusted.Count() < 0 {
			t.Fatalf("incoherent header %+v", h)
		}
		invalid := trusted.Validate(Limits{Decompressed: fuzzLimit})
		if invalid == nil {
			// What passed once passes again with a place in the log.
			placed := slices.Clone(trusted.Bytes())
			SetBase(placed, 0, 5)
			SetLogAppendTime(placed, 77)
			if b, _, err := Parse(placed); err != nil || b.Validate(Limits{Decompressed: fuzzLimit}) != nil {
				t.Fatalf("placed: %v", err)
			}
		}
		if !bytes.Equal(in, before) {
			t.Fatal("reading changed the input")
		}
	})
}

// batchOf wraps a payload in a coherent header, so that the fuzzer need not find a CRC. It reports false if the header is refused.
func batchOf(codec uint8, count, last int32, payload []byte) (Batch, bool) {
	h := Header{BaseOffset: 1000, BaseTimestamp: 5000, MaxTimestamp: 6000, ProducerID: 3, Attributes: int16(codec & codecMask), LastOffsetDelta: last, Count: count}
	b, rest, err := Parse(assemble(h, payload))
	return b, err == nil && len(rest) == 0
}

// addPayloads seeds a fuzzer with good and spoiled records in every framing.
func addPayloads(f *testing.F, add func(codec uint8, count, last int32, payload []byte)) {
	plain, _ := sample(f, 5)
	for _, fr := range framings() {
		add(uint8(fr.codec), 5, 4, fr.pack(f, plain.Payload()))
		add(uint8(fr.codec), 0, 4, fr.pack(f, nil))
		for _, records := range spoiled() {
			add(uint8(fr.codec), 2, 1, fr.pack(f, records))
		}
	}
	add(uint8(Zstd), 1, math.MaxInt32, zstdFrame(-1, 20))
	add(uint8(LZ4), 1, 0, lz4Frame(f, 1<<60))
}

func FuzzIterate(f *testing.F) {
	addPayloads(f, func(codec uint8, count, last int32, payload []byte) { f.Add(codec, count, last, payload) })
	warm := &Scratch{Limit: fuzzLimit}
	f.Fuzz(func(t *testing.T, codec uint8, count, last int32, payload []byte) {
		b, ok := batchOf(codec, count, last, payload)
		if !ok {
			return
		}
		got, err := collect(b, warm)
		if invalid := b.Validate(Limits{Decompressed: max(fuzzLimit, len(payload))}); (invalid == nil) != (err == nil) {
			t.Fatalf("Validate says %v, Iter %v", invalid, err)
		}
		again, errAgain := collect(b, &Scratch{Limit: fuzzLimit})
		if (err == nil) != (errAgain == nil) {
			t.Fatalf("a warm Scratch gives %v, a new one %v", err, errAgain)
		}
		sameMessages(t, again, got)
		prev := b.BaseOffset() - 1
		for _, m := range got {
			if m.offset <= prev || m.offset > b.LastOffset() {
				t.Fatalf("offset %d behind %d in a batch to %d", m.offset, prev, b.LastOffset())
			}
			prev = m.offset
		}
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || e.Kind != ErrMalformed && e.Kind != ErrTooLarge {
				t.Fatalf("unexpected kind of error %v", err)
			}
			return
		}
		if len(got) != int(b.Count()) {
			t.Fatalf("%d records, the header says %d", len(got), b.Count())
		}
		// What was read, written anew, reads the same.
		var anew []byte
		for _, m := range got {
			anew = append(anew, rawRecord(int32(m.offset-1000), m.timestamp-5000, m.key, m.value, m.headers)...)
		}
		copied, ok := batchOf(uint8(None), count, last, anew)
		if !ok {
			t.Fatal("the records written anew are refused")
		}
		sameMessages(t, read(t, copied), got)
	})
}

func FuzzFilter(f *testing.F) {
	addPayloads(f, func(codec uint8, count, last int32, payload []byte) {
		f.Add(codec, count, last, payload, uint64(0b10110))
	})
	s := &Scratch{Limit: fuzzLimit}
	var dst []byte
	f.Fuzz(func(t *testing.T, codec uint8, count, last int32, payload []byte, mask uint64) {
		b, ok := batchOf(codec, count, last, payload)
		if !ok {
			return
		}
		before, err := collect(b, &Scratch{Limit: fuzzLimit})
		keep := func(off int64) bool { return mask>>(uint64(off)%64)&1 == 1 }
		out, kept, filterErr := b.Filter(keep, s, dst[:0])
		if (err == nil) != (filterErr == nil) {
			t.Fatalf("Iter says %v, Filter %v", err, filterErr)
		}
		if err != nil {
			return
		}
		if kept == len(before) {
			checkFiltered(t, b, before, keep, out, kept)
			return
		}
		dst = out.Bytes()
		checkFiltered(t, b, before, keep, out, kept)
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add(uint8(0), []byte("\x01k\x02v1\x01hx"), int64(1700000000000))
	f.Add(uint8(3), bytes.Repeat([]byte("\x03key\x05value"), 40), int64(-1))
	f.Add(uint8(4), bytes.Repeat([]byte{0, 255, 1, 7}, 100), int64(math.MaxInt64))
	bl := NewBuilder()
	f.Fuzz(func(t *testing.T, codec uint8, script []byte, ts int64) {
		codecs := []Codec{None, LZ4, Zstd}
		bl.Reset()
		bl.SetCodec(codecs[int(codec)%len(codecs)])
		bl.SetBaseOffset(1000)
		var want []message
		offset := int64(999)
		for len(script) > 0 {
			m := message{timestamp: ts}
			gap := int64(script[0] >> 6)
			m.key, script = fuzzBytes(script)
			m.value, script = fuzzBytes(script)
			for len(script) > 0 && script[0]&1 == 1 && len(m.headers) < 9 {
				var h RecordHeader
				if h.Key, script = fuzzBytes(script); h.Key == nil {
					h.Key = []byte{}
				}
				h.Value, script = fuzzBytes(script)
				m.headers = append(m.headers, h)
			}
			offset += 1 + gap
			m.offset = offset
			bl.AppendAt(int32(offset-1000), m.timestamp, m.key, m.value, m.headers)
			want = append(want, m)
			ts = ts*3 + int64(len(script))
		}
		size := bl.Size()
		built, err := bl.Build()
		if err != nil {
			if len(want) > 0 {
				t.Fatal(err)
			}
			wantKind(t, err, ErrMalformed)
			return
		}
		if built.Codec() == None && built.Len() != size {
			t.Fatalf("Size says %d, built are %d", size, built.Len())
		}
		b, rest, err := Parse(slices.Clone(built.Bytes()))
		if err != nil || len(rest) != 0 {
			t.Fatalf("%v, %d bytes behind", err, len(rest))
		}
		sameMessages(t, read(t, b), want)
		if b.LastOffset() != offset || int(b.Count()) != len(want) || b.BaseTimestamp() != want[0].timestamp {
			t.Fatalf("header is %+v", decodeHeader(b.raw))
		}
		dense := offset-999 == int64(len(want))
		if err := b.Validate(Limits{Dense: true}); (err == nil) != dense {
			t.Fatalf("dense is %v and Validate says %v", dense, err)
		}
		probe := want[len(want)/2].timestamp
		i := slices.IndexFunc(want, func(m message) bool { return m.timestamp >= probe })
		if off, at, ok, err := FirstOffsetAtOrAfterTime(b, probe, nil); err != nil || !ok || off != want[i].offset || at != want[i].timestamp {
			t.Fatalf("from time %d: offset %d, time %d, %v, %v; want offset %d", probe, off, at, ok, err, want[i].offset)
		}
	})
}

// fuzzBytes takes a nullable string from the front of the script: a length, or null, or a long one of a repeated byte.
func fuzzBytes(script []byte) (p, rest []byte) {
	if len(script) == 0 {
		return nil, nil
	}
	n := int(script[0] & 63)
	script = script[1:]
	switch {
	case n == 63:
		return nil, script
	case n == 62 && len(script) >= 3:
		return bytes.Repeat(script[:1], int(binary.BigEndian.Uint16(script[1:]))), script[3:]
	}
	n = min(n, len(script))
	return append([]byte{}, script[:n]...), script[n:]
}
