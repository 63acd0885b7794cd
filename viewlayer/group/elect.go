package group

import "github.com/cespare/xxhash/v2"

// CoordinatorOf returns the node that coordinates a group, out of the ids of the live nodes; -1 if there are none. All nodes that know of the same live nodes agree, and
// when one comes or goes only the groups that it gets or had move.
func CoordinatorOf(ids []int32, namespace, group string) int32 {
	return Elect(ids, xxhash.Sum64String(keyText(namespace)+group))
}

// Elect returns the id that wins the key (rendezvous hashing): each id has a score for each key, the highest wins, so that every id wins as many keys and the order
// of the ids does not matter. -1 if there are no ids.
func Elect(ids []int32, key uint64) int32 {
	winner, most := int32(-1), uint64(0)
	for _, id := range ids {
		score := mix(key ^ mix(uint64(uint32(id))+1))
		if winner < 0 || score > most || score == most && id < winner {
			winner, most = id, score
		}
	}
	return winner
}

// mix spreads the bits of x (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
