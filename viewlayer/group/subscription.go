package group

import "encoding/binary"

// consumerType is the protocol type of groups that share out partitions of topics. Their members' metadata begins with what they read:
//
//	version  int16
//	topics   int32 number, then int16 length and bytes of each
//	...      what later versions added
const consumerType = "consumer"

// subscription returns a function that tells which topics the members read; nil if this is not known, because the group shares out something else or a member
// speaks a dialect of its own.
func (g *classic) subscription() func(topic string) bool {
	if g.protocolType != consumerType {
		return nil
	}
	reads := map[string]bool{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if !subscribedTopics(p.Metadata, func(topic []byte) { reads[string(topic)] = true }) {
				return nil
			}
		}
	}
	return func(topic string) bool { return reads[topic] }
}

// subscribedTopics calls f for each topic in a member's metadata; false: it is not what consumers write.
func subscribedTopics(b []byte, f func([]byte)) bool {
	if len(b) < 6 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	for ; n > 0; n-- {
		if len(b) < 2 {
			return false
		}
		l := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+l {
			return false
		}
		f(b[2 : 2+l])
		b = b[2+l:]
	}
	return true
}

// sameTopics reports whether two things that a member says of itself are about the same topics. What else they say, as of the partitions that it had, is no reason
// to share out anew when a static member comes back.
//
// DEVIATES: Kafka does not look, so that a static member that comes back with other topics goes without them until something else makes the members join.
func (g *classic) sameTopics(a, b []byte) bool {
	if g.protocolType != consumerType {
		return true
	}
	reads := map[string]int{}
	if !subscribedTopics(a, func(t []byte) { reads[string(t)] |= 1 }) || !subscribedTopics(b, func(t []byte) { reads[string(t)] |= 2 }) {
		return true
	}
	for _, in := range reads {
		if in != 3 {
			return false
		}
	}
	return true
}
