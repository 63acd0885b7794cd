package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"polylog/logstore/seed"
)

// describe says what a frame is, or why it is malformed.
func describe(f Frame) (string, error) {
	switch f.Type {
	case FrameHeartbeat:
		return fmt.Sprintf("heartbeat %d", f.Channel), nil
	case FrameMethod:
		id, args, err := SplitMethod(f.Payload)
		if err != nil {
			return "", err
		}
		m := New(id)
		if m == nil {
			return "", errors.New("there is no " + id.String())
		}
		if err := m.Decode(args); err != nil {
			return "", err
		}
		return fmt.Sprintf("method %d %s %+v", f.Channel, id, reflect.ValueOf(m).Elem().Interface()), nil
	case FrameHeader:
		h, err := ParseHeader(f.Payload)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("header %d class %d body %d properties %x", f.Channel, h.Class, h.BodySize, h.Properties), nil
	case FrameBody:
		return fmt.Sprintf("body %d %x", f.Channel, f.Payload), nil
	}
	return "", fmt.Errorf("frame of type %d", f.Type)
}

// allMethods returns an empty one of every method.
func allMethods() []Method {
	var all []Method
	for class := range uint32(128) {
		for method := range uint32(256) {
			if m := New(MethodID(class<<16 | method)); m != nil {
				all = append(all, m)
			}
		}
	}
	return all
}

// fill sets every field of a struct at random. Byte fields are never empty, since an empty one decodes as such and not as nil.
func fill(rng *rand.Rand, v any) {
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		f := s.Field(i)
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(rng.IntN(2) == 0)
		case reflect.Slice:
			b := make([]byte, 1+rng.IntN(255))
			for k := range b {
				b[k] = byte(rng.Uint32())
			}
			if name := s.Type().Field(i).Name; name == "Arguments" || name == "ServerProperties" || name == "ClientProperties" {
				b = appendLongString(nil, b) // a table brings its length
			}
			f.SetBytes(b)
		default:
			f.SetUint(rng.Uint64() >> (64 - f.Type().Bits()))
		}
	}
}

func TestEveryMethodComesBackAsItWasSent(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	all := allMethods()
	if len(all) != 66 {
		t.Fatalf("there are %d methods", len(all))
	}
	for _, m := range all {
		for range 20 {
			fill(rng, m)
			channel := uint16(rng.Uint32())
			raw := m.AppendFrame([]byte("before"), channel)[6:]
			f, n, err := ParseFrame(raw, 1<<20)
			if err != nil || n != len(raw) || f.Type != FrameMethod || f.Channel != channel {
				t.Fatalf("%s: frame %+v, %d bytes of %d, %v", m.ID(), f, n, len(raw), err)
			}
			id, args, err := SplitMethod(f.Payload)
			if err != nil || id != m.ID() || id.String() == id.numbers() {
				t.Fatalf("%s came back as %s, %v", m.ID(), id, err)
			}
			got := New(id)
			if err := got.Decode(args); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Fatalf("%s:\n got %+v\nsent %+v", id, got, m)
			}
			// Whatever is cut off is missed.
			for cut := range args {
				if err := New(id).Decode(args[:cut]); err == nil {
					t.Fatalf("%s with %d bytes of %d was taken", id, cut, len(args))
				}
			}
		}
	}
}

func TestBodiesAreSplitAtFrameMax(t *testing.T) {
	t.Parallel()
	const frameMax = 100
	for _, c := range []struct{ body, frames int }{{0, 0}, {1, 1}, {91, 1}, {92, 1}, {93, 2}, {184, 2}, {185, 3}, {1000, 11}} {
		body := bytes.Repeat([]byte("x"), c.body)
		raw := AppendContent(nil, 3, []byte{0, 0}, body, frameMax)
		if len(raw) != ContentBytes(2, c.body, frameMax) {
			t.Errorf("body of %d bytes: %d bytes were appended, %d announced", c.body, len(raw), ContentBytes(2, c.body, frameMax))
		}
		var got []byte
		frames := -1
		for len(raw) > 0 {
			f, n, err := ParseFrame(raw, frameMax)
			if err != nil || f.Channel != 3 {
				t.Fatalf("body of %d bytes: %+v, %v", c.body, f, err)
			}
			if f.Type == FrameHeader {
				if h, err := ParseHeader(f.Payload); err != nil || h.BodySize != uint64(c.body) || h.Class != ClassBasic || h.Weight != 0 {
					t.Errorf("body of %d bytes: header %+v, %v", c.body, h, err)
				}
			} else {
				got = append(got, f.Payload...)
			}
			raw = raw[n:]
			frames++
		}
		if frames != c.frames || !bytes.Equal(got, body) {
			t.Errorf("body of %d bytes: %d frames with %d bytes", c.body, frames, len(got))
		}
	}
	if raw := AppendContent(nil, 3, []byte{0, 0}, make([]byte, 1<<20), 0); len(raw) != ContentBytes(2, 1<<20, 0) || len(raw) != 1<<20+8+22 {
		t.Errorf("without a limit the body is %d bytes long", len(raw))
	}
}

func TestLongShortStringIsCut(t *testing.T) {
	t.Parallel()
	m := ConnectionClose{ReplyCode: uint16(InternalError), ReplyText: bytes.Repeat([]byte("x"), 300)}
	_, args, err := SplitMethod(m.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	var got ConnectionClose
	if err := got.Decode(args); err != nil || len(got.ReplyText) != 255 {
		t.Errorf("%d bytes came back, %v", len(got.ReplyText), err)
	}
}

func TestCodesHaveNamesAndClasses(t *testing.T) {
	t.Parallel()
	hard := 0
	for c := range codeNames {
		if c.ClosesConnection() {
			hard++
		}
	}
	if len(codeNames) != 19 || hard != 11 || NotFound.String() != "NOT_FOUND" || Code(999).String() != "CODE_999" {
		t.Errorf("%d codes, %d end the connection", len(codeNames), hard)
	}
}
