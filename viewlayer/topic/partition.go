package topic

import "encoding/binary"

// PartitionOf returns the partition that Kafka's default partitioner chooses for a key, so that a key's records keep their order whichever protocol they come by:
// the key's murmur2 hash with the seed of Kafka's clients, without its sign, modulo the number of partitions.
func PartitionOf(key []byte, partitions int) int {
	return int(murmur2(key)&0x7fffffff) % partitions
}

// murmur2 is the 32-bit MurmurHash2 (Austin Appleby, public domain) with the seed 0x9747b28c.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		mix  = 0x5bd1e995
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * mix
		k = (k ^ k>>24) * mix
		h = h*mix ^ k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * mix
	}
	h = (h ^ h>>13) * mix
	return h ^ h>>15
}
