package cli

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// frames reads and writes AMQP methods by hand.
type frames struct {
	t    *testing.T
	conn net.Conn
}

// method sends a method on channel 0.
func (f *frames) method(class, id uint16, args ...byte) {
	f.t.Helper()
	payload := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), id)
	payload = append(payload, args...)
	frame := binary.BigEndian.AppendUint32([]byte{1, 0, 0}, uint32(len(payload)))
	f.write(append(append(frame, payload...), 0xCE))
}

func (f *frames) write(b []byte) {
	f.t.Helper()
	if _, err := f.conn.Write(b); err != nil {
		f.t.Fatal(err)
	}
}

// expect reads a method and returns its arguments.
func (f *frames) expect(class, id uint16) (args []byte) {
	f.t.Helper()
	var head [7]byte
	if _, err := io.ReadFull(f.conn, head[:]); err != nil {
		f.t.Fatal(err)
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
	if _, err := io.ReadFull(f.conn, payload); err != nil {
		f.t.Fatal(err)
	}
	if c, m := binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]); c != class || m != id {
		f.t.Fatalf("got the method %d.%d, want %d.%d", c, m, class, id)
	}
	return payload[4 : len(payload)-1]
}

// openAMQP logs guest in and leaves the connection open until the end of the test.
func openAMQP(t *testing.T, addr string) *frames {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	f := &frames{t, conn}
	f.write([]byte("AMQP\x00\x00\x09\x01"))
	f.expect(10, 10) // start
	// No client properties, PLAIN, response, locale.
	f.method(10, 11, []byte("\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x0c\x00guest\x00guest\x05en_US")...)
	f.expect(10, 30)                             // tune
	f.method(10, 31, 0, 16, 0, 2, 0, 0, 0, 0)    // tune-ok: 16 channels, 128 KiB, no heartbeat
	f.method(10, 40, []byte("\x01/\x00\x00")...) // open /
	f.expect(10, 41)                             // open-ok
	return f
}
