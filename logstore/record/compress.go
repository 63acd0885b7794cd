package record

import (
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// compressor holds the encoders for reuse. It belongs to one goroutine.
type compressor struct {
	lz4w *lz4.Writer
	zstw *zstd.Encoder
	sink []byte // where lz4w writes
}

// Write makes the compressor the sink of its streaming encoder.
func (c *compressor) Write(p []byte) (int, error) {
	c.sink = append(c.sink, p...)
	return len(p), nil
}

// compress appends the compressed src to dst. The codec is LZ4 or Zstd.
func (c *compressor) compress(codec Codec, dst, src []byte) ([]byte, error) {
	if codec == LZ4 {
		return c.compressLZ4(dst, src)
	}
	return c.compressZstd(dst, src)
}

// compressLZ4 writes what Java clients write: independent blocks of 64 KiB, which is all a consumer needs to buffer, and no checksum of
// the content, as the batch has its CRC.
func (c *compressor) compressLZ4(dst, src []byte) ([]byte, error) {
	if c.lz4w == nil {
		w := lz4.NewWriter(nil)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)); err != nil {
			return dst, err
		}
		c.lz4w = w
	}
	c.sink = dst
	c.lz4w.Reset(c)
	_, err := c.lz4w.Write(src)
	if err == nil {
		err = c.lz4w.Close()
	}
	dst, c.sink = c.sink, nil
	return dst, err
}

// zstdWindow bounds what a streaming consumer must hold for a batch of ours. Most batches are below it.
const zstdWindow = 1 << 20

func (c *compressor) compressZstd(dst, src []byte) ([]byte, error) {
	if c.zstw == nil {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(zstdWindow),
			zstd.WithLowerEncoderMem(true))
		if err != nil {
			return dst, err
		}
		c.zstw = w
	}
	return c.zstw.EncodeAll(src, dst), nil
}
