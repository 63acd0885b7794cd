package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/topic"
)

// requestSeeds calls f with a request of each version that is served, empty and, where there is one, with an example in it.
func requestSeeds(f func(key, version int16, body []byte)) {
	tp := &topic.Topic{Name: "example", ID: topic.ID{1}}
	for _, a := range apis() {
		for v := a.minVersion; v <= a.maxVersion; v++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			f(a.key, v, req.AppendTo(nil))
			switch a.key {
			case 0:
				req = produceRequest(v, tp, 0, -1, []byte("no batch"))
			case 1:
				req = sessionRequest(v, tp, 1, 0, 0, 1)
			case 2:
				req = listRequest(v, "example", -3)
			case 3:
				req = metadataRequest(v, false, "example", "none")
			case 19:
				req = createRequest(v, configured(assignedTo("made", []int32{0}, 1), "retention.ms", kmsg.StringPtr("1")))
			}
			f(a.key, v, req.AppendTo(nil))
		}
	}
}

// FuzzDecode: no body makes the decoder panic, and one that it takes is a request that goes on to be the same when it is encoded and decoded again.
func FuzzDecode(f *testing.F) {
	requestSeeds(func(key, version int16, body []byte) { f.Add(key, version, body) })
	server := &Server{table: newAPITable(apis()), decode: newAllowance(1 << 30)}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		a := server.table.find(key)
		if a == nil || version < a.minVersion || version > a.maxVersion {
			return
		}
		c := &connection{server: server, ctx: context.Background(), probes: map[int16]kmsg.Request{}}
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		held, err := c.decode(req, body)
		if err != nil {
			return
		}
		if held < int64(len(body)) {
			t.Errorf("%d bytes are accounted as %d", len(body), held)
		}
		again := kmsg.RequestForKey(key)
		again.SetVersion(version)
		encoded := req.AppendTo(nil)
		if _, err := c.decode(again, encoded); err != nil {
			t.Errorf("% x encodes to % x, which is none: %v", body, encoded, err)
		}
		if server.decode.left != server.decode.size {
			t.Errorf("%d of the allowance are not given back", server.decode.size-server.decode.left)
		}
	})
}

// FuzzServe: whatever request a broker gets, it answers it or ends the connection, and serves the next one.
func FuzzServe(f *testing.F) {
	requestSeeds(func(key, version int16, body []byte) { f.Add(key, version, body) })
	b := startBroker(f, func(o *Options) { o.Logf = nil })
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		client, conn := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.server.Handle(conn)
		}()
		go io.Copy(io.Discard, client)
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)+11))
		frame = binary.BigEndian.AppendUint16(frame, uint16(key))
		frame = binary.BigEndian.AppendUint16(frame, uint16(version))
		frame = append(frame, 0, 0, 0, 1, 0, 1, 'f')
		client.SetDeadline(time.Now().Add(10 * time.Second))
		client.Write(append(frame, body...))
		client.Close()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("the connection does not end")
		}
	})
}
