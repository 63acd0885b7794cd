package record

import (
	"bytes"
	"math"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// DefaultDecompressedLimit is how many bytes the records of a batch may have once decompressed: twice the largest batch, so that a batch
// built here always passes and what a small request can make a broker hold stays within the order of what a large one can.
const DefaultDecompressedLimit = 2 * MaxBatchSize

// Scratch holds the buffer and the decoders that reading compressed batches needs, for reuse. The zero Scratch is ready. It belongs to
// one goroutine, and what an Iter returned from a compressed batch is valid until the Scratch is used for another.
type Scratch struct {
	Limit int // most bytes of one batch's records once decompressed; 0 is DefaultDecompressedLimit

	buf        []byte // room for the records of one batch
	kept       []byte // the records that Filter is about to compress
	in         bytes.Reader
	gzip       *gzip.Reader
	lz4        *lz4.Reader
	zstd       *zstd.Decoder
	compressor compressor
}

func (s *Scratch) limit() int {
	if s.Limit <= 0 {
		return DefaultDecompressedLimit
	}
	return min(s.Limit, math.MaxInt32)
}

// maxPooledBuffer is the largest buffer that waits in the pool for its next user: four of Kafka's default largest messages.
const maxPooledBuffer = 4 << 20

// scratches holds decoders for callers without a Scratch. A decoder is costly to make, some hundred kilobytes for zstd.
var scratches = sync.Pool{New: func() any { return new(Scratch) }}

func borrowScratch() *Scratch { return scratches.Get().(*Scratch) }

func (s *Scratch) giveBack() {
	s.Limit = 0
	if cap(s.buf) > maxPooledBuffer {
		s.buf = nil
	}
	if cap(s.kept) > maxPooledBuffer {
		s.kept = nil
	}
	scratches.Put(s)
}
