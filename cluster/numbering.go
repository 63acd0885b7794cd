package cluster

// Every proposal has a number in the order: the stream's sequence of its chunk and its place in it. Place 0 is what the chunk itself changes: who has written how much.
//
//	number = base + sequence << 12 + place
//
// base is 0, or what the log of a node had counted that ran alone before and then began the cluster. It is written in the stream's metadata.
const placeBits = 12

type numbering struct{ base uint64 }

func (n numbering) number(sequence uint64, place int) uint64 {
	return n.base + sequence<<placeBits + uint64(place)
}

// split takes a number apart; sequence 0 is from before the stream.
func (n numbering) split(number uint64) (sequence uint64, place int) {
	if number < n.base {
		return 0, 0
	}
	d := number - n.base
	return d >> placeBits, int(d & (1<<placeBits - 1))
}

// baseFor returns a base above everything that a log has counted.
func baseFor(last uint64) uint64 {
	if last == 0 {
		return 0
	}
	return (last>>placeBits + 1) << placeBits
}
