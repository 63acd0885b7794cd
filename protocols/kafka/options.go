package kafka

import (
	"net"
	"time"

	"polylog/logstore"
	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// Options are what a Server works with. All but Limits, Now, Logf and Partitions must be set.
type Options struct {
	Store  *logstore.Store
	Topics *topic.Catalog
	// Defaults are what holds for a topic whose configuration does not say; zero stands for topic.StandardDefaults.
	Defaults topic.Defaults

	Groups    *group.Coordinator
	Producers *group.Producers

	ClusterID string // the same for the life of the data
	NodeID    int32
	// Advertise returns the address that the client behind conn reaches this node by.
	Advertise func(conn net.Conn) (host string, port int32)
	// Brokers returns the live nodes, by ascending id, this one always among them, as the client behind conn reaches them. nil: there is only this node. Groups.Mine
	// must go by the same nodes (group.CoordinatorOf).
	Brokers func(conn net.Conn) []Broker

	AutoCreate bool // a topic that a client asks for and that does not exist is made, if the request allows it too
	Partitions int  // of a topic whose creator names no number; default 1

	Limits Limits
	Now    func() time.Time                 // default time.Now
	Logf   func(format string, args ...any) // is told what an operator may want to know; default: nobody is
}

// Limits bound what one client can make the broker hold. Zero stands for the default.
type Limits struct {
	RequestBytes      int           // size of a Produce request; default 100 MiB
	SmallRequestBytes int           // size of any other; default 4 MiB
	ResponseBytes     int           // records in a Fetch response, unless a single batch is larger; default 55 MiB
	Inflight          int           // requests of a connection that wait for their answer; default 1000
	ConnectionBytes   int           // of requests and answers that a connection has in flight, beyond which it is not read from; default 128 MiB
	DecodingBytes     int           // memory of all requests that are being decoded, at the worst that they can claim; default 1 GiB
	IdleTimeout       time.Duration // without a request and with none in flight; default 10 min
	StallTimeout      time.Duration // in the middle of a request, or with an answer that is not read; default 1 min
	FetchSessions     int           // of all connections together; default 1000
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func (o *Options) setDefaults() {
	l := &o.Limits
	orDefault(&l.RequestBytes, 100<<20)
	orDefault(&l.SmallRequestBytes, 4<<20)
	orDefault(&l.ResponseBytes, 55<<20)
	orDefault(&l.Inflight, 1000)
	orDefault(&l.ConnectionBytes, 128<<20)
	orDefault(&l.DecodingBytes, 1<<30)
	orDefault(&l.IdleTimeout, 10*time.Minute)
	orDefault(&l.StallTimeout, time.Minute)
	orDefault(&l.FetchSessions, 1000)
	orDefault(&o.Partitions, 1)
	if o.Defaults == (topic.Defaults{}) {
		o.Defaults = topic.StandardDefaults
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
}
