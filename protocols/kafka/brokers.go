package kafka

import (
	"encoding/binary"
	"net"
	"slices"

	"github.com/cespare/xxhash/v2"

	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// Broker is a node that clients can use. All nodes have all records and serve every partition, so leadership says only whom a client asks first.
type Broker struct {
	ID   int32
	Host string
	Port int32
	Rack string // empty: none
}

// brokers returns the live nodes, by their ids, as the client behind the connection reaches them.
func (s *Server) brokers(conn net.Conn) []Broker {
	if s.opts.Brokers != nil {
		return s.opts.Brokers(conn)
	}
	host, port := s.opts.Advertise(conn)
	return []Broker{{ID: s.opts.NodeID, Host: host, Port: port}}
}

// isClustered reports whether other nodes change the same log, so that what is here may be a little behind.
func (s *Server) isClustered() bool { return s.opts.Brokers != nil }

// layout is who leads what.
type layout struct {
	brokers  []Broker
	ids      []int32           // ascending
	replicas map[int32][]int32 // all ids, the key first
}

func (s *Server) layout(conn net.Conn) *layout {
	l := &layout{brokers: s.brokers(conn), replicas: map[int32][]int32{}}
	for _, b := range l.brokers {
		l.ids = append(l.ids, b.ID)
	}
	for i, id := range l.ids {
		l.replicas[id] = slices.Concat(l.ids[i:], l.ids[:i])
	}
	return l
}

// leader returns who leads a partition. Every node gives every client the same answer, as long as they know of the same live nodes, and leadership is spread evenly.
func (l *layout) leader(t topic.ID, partition int32) int32 {
	var key [len(t) + 4]byte
	copy(key[:], t[:])
	binary.BigEndian.PutUint32(key[len(t):], uint32(partition))
	return group.Elect(l.ids, xxhash.Sum64(key[:]))
}

// coordinator returns who coordinates a group.
func (l *layout) coordinator(namespace, key string) Broker {
	id := group.CoordinatorOf(l.ids, namespace, key)
	return l.brokers[slices.Index(l.ids, id)]
}
