package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"testing/iotest"

	"polylog/protocols/stream"
)

func FuzzFrames(f *testing.F) {
	var all []byte
	for _, e := range examples {
		f.Add(e.bytes(f))
		if !e.bad {
			all = append(all, e.bytes(f)...)
		}
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, in []byte) {
		// The same frames come from memory and from a connection whose reads end anywhere.
		r := NewReader(stream.NewReader(iotest.HalfReader(bytes.NewReader(in)), 0), FrameMin)
		rest := in
		for {
			want, n, err := ParseFrame(rest, FrameMin)
			got, readErr := r.Next()
			if err != nil {
				if readErr == nil || errors.As(err, new(*FrameError)) != errors.As(readErr, new(*FrameError)) {
					t.Fatalf("from memory %v, from a connection %v", err, readErr)
				}
				return
			}
			if readErr != nil || got.Type != want.Type || got.Channel != want.Channel || !bytes.Equal(got.Payload, want.Payload) {
				t.Fatalf("from memory %+v, from a connection %+v, %v", want, got, readErr)
			}
			again := endFrame(append(beginFrame(nil, got.Type, got.Channel), got.Payload...), 0)
			if !bytes.Equal(again, rest[:n]) {
				t.Fatalf("%x became %x", rest[:n], again)
			}
			describe(got) //nolint:errcheck // it must not panic
			rest = rest[n:]
		}
	})
}

func FuzzMethod(f *testing.F) {
	for _, e := range examples {
		if fr, _, err := ParseFrame(e.bytes(f), FrameMin); err == nil {
			f.Add(fr.Payload)
		}
	}
	for _, m := range allMethods() {
		f.Add(m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		id, args, err := SplitMethod(in)
		if err != nil {
			return
		}
		m := New(id)
		if m == nil {
			return
		}
		if err := m.Decode(args); err != nil {
			if !errors.As(err, new(*SyntaxError)) {
				t.Fatalf("error %T", err)
			}
			return
		}
		// Reserved fields and spare bits aside, what is encoded decodes to the same.
		once := m.Append(nil)
		again := New(id)
		if err := again.Decode(once[4:]); err != nil {
			t.Fatalf("%s decoded, and what it encodes to does not: %v", id, err)
		}
		if twice := again.Append(nil); !bytes.Equal(once, twice) || len(once) > len(in) {
			t.Fatalf("%s: %x, then %x", id, once, twice)
		}
	})
}

func FuzzContentHeader(f *testing.F) {
	for _, e := range examples {
		if fr, _, err := ParseFrame(e.bytes(f), FrameMin); err == nil && fr.Type == FrameHeader {
			f.Add(fr.Payload)
		}
	}
	f.Add([]byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x10, 0, 2})
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := ParseHeader(in)
		if err != nil {
			if !errors.As(err, new(*SyntaxError)) {
				t.Fatalf("error %T", err)
			}
			return
		}
		again := binary.BigEndian.AppendUint16(nil, h.Class)
		again = binary.BigEndian.AppendUint16(again, h.Weight)
		again = append(binary.BigEndian.AppendUint64(again, h.BodySize), h.Properties...)
		if !bytes.Equal(again, in) {
			t.Fatalf("%x became %x", in, again)
		}
	})
}
