package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// rehead makes the CRC of a segment header right again.
func rehead(b []byte) {
	if len(b) >= HeaderSize {
		binary.LittleEndian.PutUint32(b[60:], Checksum(b[:60]))
	}
}

func TestSegmentHeaderReadsAsWritten(t *testing.T) {
	t.Parallel()
	for _, h := range []Header{
		{ID: 1, CoversTo: 1},
		{ID: 7, CoversTo: 7, PrevSeq: 100},
		{Generation: 3, ID: 7, CoversTo: 12, PrevSeq: 100, LastSeq: 900, Live: 17, Salt: math.MaxUint32},
		{Generation: math.MaxUint32, ID: MaxID, CoversTo: MaxID, PrevSeq: math.MaxUint64, LastSeq: math.MaxUint64, Live: math.MaxUint64},
	} {
		b := h.AppendTo([]byte("before"))
		if len(b) != len("before")+HeaderSize || string(b[:6]) != "before" {
			t.Fatalf("%+v: %d bytes", h, len(b))
		}
		got, err := ParseHeader(append(b[6:], "behind"...))
		if err != nil || got != h {
			t.Errorf("%+v came back as %+v, %v", h, got, err)
		}
	}
}

func TestSegmentHeaderIsLaidOutAsDrawn(t *testing.T) {
	t.Parallel()
	b := Header{Generation: 0x11, ID: 0x22, CoversTo: 0x33, PrevSeq: 0x44, LastSeq: 0x55, Live: 0x66, Salt: 0x77}.AppendTo(nil)
	le := func(v, n int) string { return string([]byte{byte(v)}) + strings.Repeat("\x00", n-1) }
	want := "PLOGSEG1" + le(1, 4) + le(0x11, 4) + le(0x22, 8) + le(0x33, 8) + le(0x44, 8) + le(0x55, 8) + le(0x66, 8) + le(0x77, 4)
	if string(b[:60]) != want || binary.LittleEndian.Uint32(b[60:]) != Checksum(b[:60]) {
		t.Fatalf("got  %x\nwant %x", b, want)
	}
}

func TestEveryFlippedBitOfTheSegmentHeaderIsFound(t *testing.T) {
	t.Parallel()
	good := Header{Generation: 3, ID: 7, CoversTo: 12, PrevSeq: 100, LastSeq: 900, Live: 17}.AppendTo(nil)
	for i := range good {
		for mask := 1; mask < 256; mask++ {
			b := bytes.Clone(good)
			b[i] ^= byte(mask)
			if _, err := ParseHeader(b); !errors.Is(err, ErrBadHeader) {
				t.Fatalf("byte %d xor %02x: %v", i, mask, err)
			}
		}
	}
}

func TestSegmentHeadersThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	good := Header{ID: 7, CoversTo: 12}.AppendTo(nil)
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   error
		says   string
	}{
		{"short", func(b []byte) []byte { return b[:63] }, ErrBadHeader, "63 bytes, need 64"},
		{"empty file", func(b []byte) []byte { return nil }, ErrBadHeader, "0 bytes"},
		{"zeros", func(b []byte) []byte { return make([]byte, HeaderSize) }, ErrBadHeader, "magic"},
		{"another magic", func(b []byte) []byte { b[7] = '2'; return b }, ErrBadHeader, `magic is "PLOGSEG2"`},
		{"newer version", func(b []byte) []byte { b[8] = 2; return b }, ErrVersion, "version 2, this program knows 1"},
		{"version 0", func(b []byte) []byte { b[8] = 0; return b }, ErrVersion, "version 0"},
		{"id 0", func(b []byte) []byte { clear(b[16:24]); return b }, ErrBadHeader, "segment 0"},
		{"covers backwards", func(b []byte) []byte { b[24] = 6; return b }, ErrBadHeader, "segment 7 covers to 6"},
		{"id beyond 32 bits", func(b []byte) []byte { b[28] = 1; return b }, ErrBadHeader, "covers to 4294967308 (allowed: 1 to 4294967295, ascending)"},
	} {
		b := c.change(bytes.Clone(good))
		rehead(b)
		if _, err := ParseHeader(b); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v with %q", c.name, err, c.want, c.says)
		}
	}
}
