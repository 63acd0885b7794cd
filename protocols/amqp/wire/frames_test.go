package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"polylog/protocols/stream"
)

// example is a piece of a connection's input and what it is. The bytes are written out, so that the codec is not its own judge.
type example struct {
	name string
	hex  string // spaces do not matter
	want string // what describe gives, or a part of the error
	bad  bool
}

// examples are shared by the tests and the fuzz targets of this package.
var examples = []example{
	{"heartbeat", "08 0000 00000000 ce", "heartbeat 0", false},
	{
		"connection.start-ok", "01 0000 0000001b 000a000b 00000000 05504c41494e 00000003 006700 05656e5f5553 ce",
		"method 0 connection.start-ok {ClientProperties:[0 0 0 0] Mechanism:[80 76 65 73 78] Response:[0 103 0] Locale:[101 110 95 85 83]}", false,
	},
	{"connection.tune-ok", "01 0000 0000000c 000a001f 07ff 00020000 003c ce", "method 0 connection.tune-ok {ChannelMax:2047 FrameMax:131072 Heartbeat:60}", false},
	{"channel.open", "01 0001 00000005 0014000a 00 ce", "method 1 channel.open {}", false},
	{
		"queue.declare", "01 0001 0000000f 0032000a 0000 03 616263 02 00000000 ce",
		"method 1 queue.declare {Queue:[97 98 99] Passive:false Durable:true Exclusive:false AutoDelete:false NoWait:false Arguments:[0 0 0 0]}", false,
	},
	{
		"queue.declare with arguments", "01 0001 00000016 0032000a 0000 03 616263 1a 00000007 0178 49 00000001 ce",
		"method 1 queue.declare {Queue:[97 98 99] Passive:false Durable:true Exclusive:false AutoDelete:true NoWait:true Arguments:[0 0 0 7 1 120 73 0 0 0 1]}", false,
	},
	{
		"basic.publish", "01 0001 0000000e 003c0028 0000 01 65 04 6b6b6b6b 01 ce",
		"method 1 basic.publish {Exchange:[101] RoutingKey:[107 107 107 107] Mandatory:true Immediate:false}", false,
	},
	{
		"basic.publish, both bits", "01 0001 0000000e 003c0028 0000 01 65 04 6b6b6b6b 03 ce",
		"method 1 basic.publish {Exchange:[101] RoutingKey:[107 107 107 107] Mandatory:true Immediate:true}", false,
	},
	{"basic.ack", "01 ffff 0000000d 003c0050 0000000000000105 01 ce", "method 65535 basic.ack {DeliveryTag:261 Multiple:true}", false},
	{"content header without properties", "02 0001 0000000e 003c 0000 0000000000000003 0000 ce", "header 1 class 60 body 3 properties 0000", false},
	{"content header, persistent", "02 0001 0000000f 003c 0000 0000000000000003 1000 02 ce", "header 1 class 60 body 3 properties 100002", false},
	{"body", "03 0001 00000003 616263 ce", "body 1 616263", false},
	{"body without bytes", "03 0001 00000000 ce", "body 1 ", false},
	{"a reserved short string is passed over", "01 0001 00000008 0014000a 03 787878 ce", "method 1 channel.open {}", false},
	{"unused bits are passed over", "01 0001 0000000d 003c0050 0000000000000105 ff ce", "method 1 basic.ack {DeliveryTag:261 Multiple:true}", false},

	{"wrong end", "08 0000 00000000 cd", "ends with 0xcd", true},
	{"end missing: the next frame's first octet is taken for it", "01 0001 00000005 0014000a 00 08 0000 00000000 ce", "ends with 0x08", true},
	{"too long by one", "03 0001 00000ff9 ce", "agreed are at most 4088", true},
	{"claims four gigabytes", "03 0001 ffffffff ce", "agreed are at most 4088", true},
	{"nothing", "", ErrShort.Error(), true},
	{"half a frame header", "01 0001 00", ErrShort.Error(), true},
	{"half a payload", "01 0001 00000005 0014", ErrShort.Error(), true},
	{"payload without its end", "01 0001 00000005 0014000a 00", ErrShort.Error(), true},
	{"no method number", "01 0001 00000003 003c00 ce", "needs 4", true},
	{"no such method", "01 0001 00000004 003c0063 ce", "method 99 of class 60", true},
	{"no such class", "01 0001 00000004 00630001 ce", "method 1 of class 99", true},
	{"no such type of frame", "07 0001 00000000 ce", "type 7", true},
	{"arguments missing", "01 0001 00000004 003c0050 ce", "basic.ack does not decode", true},
	{"half a delivery tag", "01 0001 00000008 003c0050 00000000 ce", "basic.ack does not decode", true},
	{"short string longer than what is left", "01 0001 0000000a 003c0028 0000 ff 656565 ce", "a field of 255 bytes begins where 3 are left", true},
	{"table longer than what is left", "01 0001 00000010 0032000a 0000 03 616263 02 ffffffff 00 ce", "a field of 4294967299 bytes begins where 5 are left", true},
	{"long string of four gigabytes", "01 0000 00000009 000a0015 ffffffff 00 ce", "begins where 1 are left", true},
	{"left over", "01 0001 0000000e 003c0050 0000000000000105 01 00 ce", "1 bytes are left over", true},
	{"content header cut off", "02 0001 0000000d 003c 0000 0000000000000003 00 ce", "needs 14", true},
}

func (e example) bytes(t testing.TB) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(e.hex, " ", ""))
	if err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	return b
}

func TestFramesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			in := e.bytes(t)
			f, n, err := ParseFrame(in, FrameMin)
			got := ""
			if err == nil {
				got, err = describe(f)
			}
			switch {
			case e.bad && err == nil:
				t.Fatalf("it was taken: %s", got)
			case e.bad && !strings.Contains(err.Error(), e.want):
				t.Fatalf("error %q, expected %q in it", err, e.want)
			case !e.bad && err != nil:
				t.Fatal(err)
			case !e.bad && (got != e.want || n != len(in)):
				t.Fatalf("got %s (%d bytes of %d)\nexpected %s", got, n, len(in), e.want)
			}
			// From a connection, byte by byte: the same.
			r := NewReader(stream.NewReader(iotest.OneByteReader(bytes.NewReader(in)), 0), FrameMin)
			g, readErr := r.Next()
			if n > 0 != (readErr == nil) && !errors.As(readErr, new(*FrameError)) {
				t.Fatalf("from memory %d bytes, from a connection %v", n, readErr)
			}
			if readErr == nil && (g.Type != f.Type || g.Channel != f.Channel || !bytes.Equal(g.Payload, f.Payload)) {
				t.Fatalf("from memory %+v, from a connection %+v", f, g)
			}
			if errors.Is(err, ErrShort) && readErr != io.EOF && readErr != io.ErrUnexpectedEOF {
				t.Fatalf("from a connection that ends: %v", readErr)
			}
		})
	}
}
