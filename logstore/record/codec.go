package record

import "fmt"

// Codec is how the records of a batch are compressed: bits 0-2 of the attributes.
type Codec uint8

// The codecs of format v2. Zstd is KIP-110.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}
