package amqp

import (
	"fmt"
	"net"
	"time"

	"polylog/logstore"
	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/queue"
)

// Authenticator says who may come in. Its methods may be called from any goroutine.
type Authenticator interface {
	// Login checks a user's password. The error is logged; the client is told only that it was refused.
	Login(user, password string, remote net.Addr) error
	// OpenVhost checks that there is this virtual host and that the user may use it. The client is told the error.
	OpenVhost(user, vhost string) error
}

// Options are what the front-end needs.
type Options struct {
	Store  *logstore.Store
	Router *exchange.Router
	Queues *queue.View
	Auth   Authenticator
	Limits Limits

	Node    string           // names the broker in what clients are told, and this one among those of a cluster
	Epoch   uint64           // of the node in its cluster: two starts of it have different ones
	Version string           // likewise
	Now     func() time.Time // default time.Now
	// Logf is told what an operator may want to know. Default: nobody is.
	Logf func(format string, args ...any)
}

// Limits bound what a connection may ask for. A zero field stands for its default.
type Limits struct {
	FrameMax         int           // bytes of a frame, 4096 to 16 MiB; default 131072
	ChannelMax       int           // channels of a connection, 1 to 65535; default 2047
	Heartbeat        time.Duration // that is offered to clients, whole seconds up to 65535; default 60 s; negative: none
	MessageMax       int           // bytes of a message's body, up to 63 MiB; default 16 MiB
	PublishBytes     int           // published and not yet committed, beyond which the connection is not read on; default 4 MiB
	WriteBytes       int           // waiting to be written, beyond which nothing more is delivered; default 1 MiB
	UnackedMax       int           // messages that a channel may hold unacknowledged when it has set no prefetch; default 262144
	HandshakeTimeout time.Duration // from the first byte to connection.open-ok; default 10 s
	WriteTimeout     time.Duration // in which a client must take the next 256 KiB; default 60 s
	CloseTimeout     time.Duration // in which a client must answer connection.close; default 5 s
}

const (
	frameMaxMost   = 16 << 20
	messageMaxMost = 63 << 20 // a transaction must hold it
	// frameMaxBeforeTune bounds frames until the peers have agreed on more: enough for client properties and a long password.
	frameMaxBeforeTune = 64 << 10
	// publishCountMax bounds the messages of one transaction of the publisher, which bounds its operations as PublishBytes bounds its bytes.
	publishCountMax = 16 << 10
)

func (l Limits) withDefaults() (Limits, error) {
	for _, f := range []struct {
		name               string
		value              *int
		least, most, other int
	}{
		{"FrameMax", &l.FrameMax, wire.FrameMin, frameMaxMost, 128 << 10},
		{"ChannelMax", &l.ChannelMax, 1, 65535, 2047},
		{"MessageMax", &l.MessageMax, 1, messageMaxMost, 16 << 20},
		{"PublishBytes", &l.PublishBytes, 64 << 10, 64 << 20, 4 << 20},
		{"WriteBytes", &l.WriteBytes, 64 << 10, 64 << 20, 1 << 20},
		{"UnackedMax", &l.UnackedMax, 1, 1 << 24, 1 << 18},
	} {
		if *f.value == 0 {
			*f.value = f.other
		}
		if *f.value < f.least || *f.value > f.most {
			return l, fmt.Errorf("limit %s is %d; allowed are %d to %d", f.name, *f.value, f.least, f.most)
		}
	}
	for _, f := range []struct {
		name         string
		value        *time.Duration
		other, least time.Duration
	}{
		{"HandshakeTimeout", &l.HandshakeTimeout, 10 * time.Second, time.Millisecond},
		{"WriteTimeout", &l.WriteTimeout, time.Minute, time.Millisecond},
		{"CloseTimeout", &l.CloseTimeout, 5 * time.Second, time.Millisecond},
	} {
		if *f.value == 0 {
			*f.value = f.other
		}
		if *f.value < f.least {
			return l, fmt.Errorf("limit %s is %v; at least %v is needed", f.name, *f.value, f.least)
		}
	}
	switch {
	case l.Heartbeat == 0:
		l.Heartbeat = time.Minute
	case l.Heartbeat < 0:
		l.Heartbeat = 0
	case l.Heartbeat%time.Second != 0 || l.Heartbeat > 65535*time.Second:
		return l, fmt.Errorf("limit Heartbeat is %v; it is whole seconds, at most 65535, or negative for none", l.Heartbeat)
	}
	return l, nil
}
