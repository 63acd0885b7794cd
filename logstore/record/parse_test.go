package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestParseTellsEveryTruncation(t *testing.T) {
	t.Parallel()
	raw := goldenBytes(t)
	for n := range raw {
		_, _, err := Parse(raw[:n])
		wantKind(t, err, ErrTruncated)
		_, _, err = ParseTrusted(raw[:n:n])
		wantKind(t, err, ErrTruncated)
		if _, err = ParseHeader(raw[:n]); (err == nil) != (n >= HeaderSize) {
			t.Fatalf("ParseHeader of %d bytes: %v", n, err)
		}
	}
}

func TestParseFindsEveryFlippedBit(t *testing.T) {
	t.Parallel()
	raw := goldenBytes(t)
	for pos := posCRC; pos < len(raw); pos++ {
		for bit := range 8 {
			b := bytes.Clone(raw)
			b[pos] ^= 1 << bit
			if _, _, err := Parse(b); err == nil {
				t.Fatalf("bit %d of byte %d flipped unnoticed", bit, pos)
			}
			// A flip that the header checks cannot see is the CRC's to find.
			if batch, _, err := ParseTrusted(b); err == nil {
				wantKind(t, batch.VerifyCRC(), ErrCRC)
			}
		}
	}
}

func TestParseJudgesTheHeader(t *testing.T) {
	t.Parallel()
	records := goldenBytes(t)[HeaderSize:]
	good := decodeHeader(goldenBytes(t))
	length := func(n int32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[posLength:], uint32(n)) }
	}
	for _, c := range []struct {
		name   string
		change func(*Header)
		patch  func([]byte)
		want   error // nil: the batch is taken
		says   string
	}{
		{name: "as it is"},
		{name: "negative count", change: func(h *Header) { h.Count = -1 }, want: ErrMalformed, says: "-1"},
		{name: "smallest count", change: func(h *Header) { h.Count = math.MinInt32 }, want: ErrMalformed, says: "-2147483648"},
		{name: "negative last offset delta", change: func(h *Header) { h.LastOffsetDelta = -1; h.Count = 0 }, want: ErrMalformed, says: "-1"},
		{name: "count over the range", change: func(h *Header) { h.Count = 3 }, want: ErrMalformed, says: "room for 2"},
		{name: "count over the bytes", change: func(h *Header) { h.Count = 4; h.LastOffsetDelta = 9 }, want: ErrMalformed, says: "at most 3"},
		{name: "compressed count over the bytes", change: func(h *Header) { h.Count = 4; h.LastOffsetDelta = 9; h.Attributes = int16(Zstd) }},
		{name: "largest count and range", change: func(h *Header) { h.Count = math.MaxInt32; h.LastOffsetDelta = math.MaxInt32; h.Attributes = int16(LZ4) }},
		{name: "fewer records than offsets", change: func(h *Header) { h.Count = 1 }},
		{name: "no records", change: func(h *Header) { h.Count = 0 }},
		{name: "negative base", change: func(h *Header) { h.BaseOffset = -1 }, want: ErrMalformed, says: "-1"},
		{name: "base at the end", change: func(h *Header) { h.BaseOffset = math.MaxInt64 - 1 }},
		{name: "base past the end", change: func(h *Header) { h.BaseOffset = math.MaxInt64 }, want: ErrMalformed, says: "largest offset"},
		{name: "codec 5", change: func(h *Header) { h.Attributes = 5 }, want: ErrCodec, says: "codec 5"},
		{name: "codec 7", change: func(h *Header) { h.Attributes = 7 }, want: ErrCodec, says: "codec 7"},
		{name: "magic 1", patch: func(b []byte) { b[posMagic] = 1 }, want: ErrMagic, says: "magic 1"},
		{name: "magic 0", patch: func(b []byte) { b[posMagic] = 0 }, want: ErrMagic, says: "magic 0"},
		{name: "length 0", patch: length(0), want: ErrMalformed, says: "length field 0"},
		{name: "length -1", patch: length(-1), want: ErrMalformed, says: "length field -1"},
		{name: "length of half a header", patch: length(48), want: ErrMalformed, says: "at least 49"},
		{name: "length one over the limit", patch: length(MaxBatchSize - lengthEnd + 1), want: ErrTooLarge, says: "at most 67108852"},
		{name: "largest length", patch: length(math.MaxInt32), want: ErrTooLarge, says: "2147483647"},
		{name: "length of the limit", patch: length(MaxBatchSize - lengthEnd), want: ErrTruncated, says: "67108864"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := good
			if c.change != nil {
				c.change(&h)
			}
			raw := assemble(h, records)
			if c.patch != nil {
				c.patch(raw)
			}
			_, _, err := Parse(raw)
			_, _, trusted := ParseTrusted(raw)
			if c.want == nil {
				if err != nil || trusted != nil {
					t.Fatalf("not taken: %v, %v", err, trusted)
				}
				return
			}
			wantKind(t, err, c.want)
			wantKind(t, trusted, c.want)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
		})
	}
}

func TestOldFormatIsNamedEvenWhenShort(t *testing.T) {
	t.Parallel()
	// A magic 1 message of 36 bytes.
	b := make([]byte, 36)
	b[posMagic] = 1
	_, _, err := Parse(b)
	wantKind(t, err, ErrMagic)
}

func TestErrorNamesTheBatch(t *testing.T) {
	t.Parallel()
	raw := goldenBytes(t)
	raw[len(raw)-1] ^= 1
	_, _, err := Parse(raw)
	var e *Error
	if !errors.As(err, &e) || e.Offset != 5 || e.Kind != ErrCRC {
		t.Fatalf("got %+v", err)
	}
	if want := "record: CRC mismatch: base offset 5: stored 9b0aa12c, the bytes have "; !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("%q does not begin with %q", err, want)
	}
	if _, _, err = Parse(nil); err.Error() != "record: truncated batch: 0 bytes, a header has 61" {
		t.Fatalf("got %q", err)
	}
}

func TestSetBaseLeavesTheCRCIntact(t *testing.T) {
	t.Parallel()
	raw := goldenBytes(t)
	SetBase(raw, 1<<40, 12)
	b, _, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if b.BaseOffset() != 1<<40 || b.LastOffset() != 1<<40+1 || b.LeaderEpoch() != 12 {
		t.Fatalf("base offset %d, leader epoch %d", b.BaseOffset(), b.LeaderEpoch())
	}
}

func TestSetLogAppendTimeGivesAllRecordsTheTime(t *testing.T) {
	t.Parallel()
	raw := append(goldenBytes(t), "next"...)
	SetLogAppendTime(raw, 1800000000000)
	b, rest, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if string(rest) != "next" || !b.LogAppendTime() || !b.Transactional() || b.MaxTimestamp() != 1800000000000 {
		t.Fatalf("rest %q, attributes %x, max timestamp %d", rest, b.Attributes(), b.MaxTimestamp())
	}
	for _, m := range read(t, b) {
		if m.timestamp != 1800000000000 {
			t.Fatalf("offset %d has time %d", m.offset, m.timestamp)
		}
	}
}

func TestBatchBytesCannotGrowIntoTheNext(t *testing.T) {
	t.Parallel()
	b, rest, err := Parse(append(goldenBytes(t), "next"...))
	if err != nil {
		t.Fatal(err)
	}
	_ = append(b.Bytes(), "xxxx"...)
	if string(rest) != "next" {
		t.Fatalf("appending to a batch wrote %q over the next", rest)
	}
}

func TestCodecNames(t *testing.T) {
	t.Parallel()
	for c, want := range map[Codec]string{None: "none", Gzip: "gzip", Snappy: "snappy", LZ4: "lz4", Zstd: "zstd", 9: "codec(9)"} {
		if c.String() != want {
			t.Errorf("codec %d is %q, want %q", uint8(c), c, want)
		}
	}
}
