package record

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// golden is a batch written down field by field from the format; its CRC comes from a bitwise implementation outside this repository.
const golden = `
	0000000000000005 ; base offset 5
	0000004a         ; length 74
	00000007         ; leader epoch 7
	02               ; magic
	9b0aa12c         ; CRC
	0010             ; attributes: transactional
	00000001         ; last offset delta 1
	0000018bcfe56800 ; base timestamp 1700000000000
	0000018bcfe568fa ; max timestamp 1700000000250
	0000000000001234 ; producer id 4660
	0003             ; producer epoch 3
	00000009         ; base sequence 9
	00000002         ; 2 records
	20 00 00 00      ; 16 bytes, attributes, timestamp delta 0, offset delta 0
	02 6b            ; key k
	04 7631          ; value v1
	04               ; 2 headers
	02 68 02 78      ; h: x
	02 68 01         ; h: null
	0e 00 f403 02    ; 7 bytes, attributes, timestamp delta 250, offset delta 1
	01               ; null key
	00               ; empty value
	00               ; no headers
`

func goldenBytes(t testing.TB) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(golden) {
		field, _, _ := strings.Cut(line, ";")
		digits.WriteString(strings.Join(strings.Fields(field), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func goldenHeaders() []RecordHeader {
	return []RecordHeader{{Key: []byte("h"), Value: []byte("x")}, {Key: []byte("h")}}
}

func TestGoldenBatchReadsAsWrittenDown(t *testing.T) {
	t.Parallel()
	raw := goldenBytes(t)
	b, rest, err := Parse(append(bytes.Clone(raw), "next"...))
	if err != nil {
		t.Fatal(err)
	}
	if string(rest) != "next" || !bytes.Equal(b.Bytes(), raw) || b.Len() != 86 || b.IsZero() {
		t.Fatalf("rest %q, %d bytes", rest, b.Len())
	}
	for _, c := range []struct {
		field     string
		got, want any
	}{
		{"base offset", b.BaseOffset(), int64(5)},
		{"last offset", b.LastOffset(), int64(6)},
		{"last offset delta", b.LastOffsetDelta(), int32(1)},
		{"count", b.Count(), int32(2)},
		{"crc", b.CRC(), uint32(0x9b0aa12c)},
		{"attributes", b.Attributes(), int16(0x10)},
		{"codec", b.Codec(), None},
		{"log append time", b.LogAppendTime(), false},
		{"transactional", b.Transactional(), true},
		{"control", b.Control(), false},
		{"base timestamp", b.BaseTimestamp(), int64(1700000000000)},
		{"max timestamp", b.MaxTimestamp(), int64(1700000000250)},
		{"producer id", b.ProducerID(), int64(4660)},
		{"producer epoch", b.ProducerEpoch(), int16(3)},
		{"base sequence", b.BaseSequence(), int32(9)},
		{"leader epoch", b.LeaderEpoch(), int32(7)},
		{"payload", len(b.Payload()), 25},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, want %v", c.field, c.got, c.want)
		}
	}
	want := []message{
		{offset: 5, timestamp: 1700000000000, key: []byte("k"), value: []byte("v1"), headers: goldenHeaders()},
		{offset: 6, timestamp: 1700000000250, value: []byte{}},
	}
	sameMessages(t, read(t, b), want)
	if err := b.Validate(Limits{Dense: true}); err != nil {
		t.Error(err)
	}
}

func TestBuilderWritesTheGoldenBatch(t *testing.T) {
	t.Parallel()
	bl := NewBuilder()
	bl.SetBaseOffset(5)
	bl.SetProducer(4660, 3, 9)
	bl.SetTransactional(true)
	bl.Append(1700000000000, []byte("k"), []byte("v1"), goldenHeaders())
	bl.Append(1700000000250, nil, []byte{}, nil)
	if bl.Len() != 2 || bl.Size() != 86 {
		t.Fatalf("builder has %d records in %d bytes", bl.Len(), bl.Size())
	}
	b, err := bl.Build()
	if err != nil {
		t.Fatal(err)
	}
	SetBase(b.raw, 5, 7)
	if want := goldenBytes(t); !bytes.Equal(b.Bytes(), want) {
		t.Fatalf("built\n%x, want\n%x", b.Bytes(), want)
	}
}

func TestParseHeaderNeedsOnlyTheHeader(t *testing.T) {
	t.Parallel()
	h, err := ParseHeader(goldenBytes(t)[:HeaderSize])
	if err != nil {
		t.Fatal(err)
	}
	want := Header{
		BaseOffset: 5, Size: 86, LeaderEpoch: 7, CRC: 0x9b0aa12c, Attributes: 0x10, LastOffsetDelta: 1, BaseTimestamp: 1700000000000,
		MaxTimestamp: 1700000000250, ProducerID: 4660, ProducerEpoch: 3, BaseSequence: 9, Count: 2,
	}
	if h != want {
		t.Fatalf("got %+v, want %+v", h, want)
	}
	if h.LastOffset() != 6 || h.Codec() != None {
		t.Fatalf("last offset %d, codec %v", h.LastOffset(), h.Codec())
	}
}
