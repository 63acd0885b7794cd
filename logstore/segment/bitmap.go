package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// ParseBitmap reads a set of 64-bit numbers that fills b, in the portable form of roaring bitmaps (docs/log-format.md has it). The library believes what it
// reads: it allocates by a count that may be 2^63, and a set out of order answers wrongly or panics later. So the bytes are checked first, which
// takes one pass over them.
func ParseBitmap(b []byte) (*roaring64.Bitmap, error) {
	if err := checkBitmap(b); err != nil {
		return nil, fmt.Errorf("bitmap of %d bytes: %w", len(b), err)
	}
	set := roaring64.New()
	if n, err := set.ReadFrom(bytes.NewReader(b)); err != nil || n != int64(len(b)) {
		return nil, fmt.Errorf("bitmap of %d bytes: %d were read (%v)", len(b), n, err)
	}
	return set, nil
}

const (
	cookieNoRuns  = 12346
	cookieRuns    = 12347 // in the lower 16 bits
	offsetsFrom   = 4     // with runs, positions are stored from this many containers on
	arrayMax      = 4096  // more values than this are a bitmap
	bitmapBytes   = 1 << 13
	containersMax = 1 << 16
)

var (
	errBitmapShort = errors.New("it is cut off")
	errBitmapOrder = errors.New("its values do not ascend")
	errBitmapCount = errors.New("a count in it is wrong")
)

// checkBitmap walks the bytes of a 64-bit bitmap: a count, and for each upper half, ascending, a 32-bit bitmap.
func checkBitmap(b []byte) error {
	if len(b) < 8 {
		return errBitmapShort
	}
	count, b := binary.LittleEndian.Uint64(b), b[8:]
	prev := int64(-1)
	for ; count > 0; count-- {
		if len(b) < 4 {
			return errBitmapShort
		}
		key := int64(binary.LittleEndian.Uint32(b))
		if key <= prev {
			return errBitmapOrder
		}
		prev = key
		rest, err := checkBitmap32(b[4:])
		if err != nil {
			return err
		}
		b = rest
	}
	if len(b) > 0 {
		return errBitmapCount
	}
	return nil
}

// checkBitmap32 walks the 32-bit bitmap at the start of b and returns what lies behind it.
func checkBitmap32(b []byte) (rest []byte, err error) {
	if len(b) < 8 {
		return nil, errBitmapShort
	}
	var size int
	var runs []byte // one bit a container: it is made of runs
	switch cookie := binary.LittleEndian.Uint32(b); {
	case cookie == cookieNoRuns:
		n := binary.LittleEndian.Uint32(b[4:])
		if n > containersMax {
			return nil, errBitmapCount
		}
		size, b = int(n), b[8:]
	case cookie&0xffff == cookieRuns:
		size = int(cookie>>16) + 1
		n := (size + 7) / 8
		if len(b) < 4+n {
			return nil, errBitmapShort
		}
		runs, b = b[4:4+n], b[4+n:]
	default:
		return nil, fmt.Errorf("it begins with %08x", cookie)
	}
	if size == 0 {
		return nil, errBitmapCount
	}
	head := 4 * size
	if runs == nil || size >= offsetsFrom {
		head += 4 * size
	}
	if len(b) < head {
		return nil, errBitmapShort
	}
	keys, b := b, b[head:]
	prev := -1
	for i := range size {
		key, card := int(binary.LittleEndian.Uint16(keys[4*i:])), int(binary.LittleEndian.Uint16(keys[4*i+2:]))+1
		if key <= prev {
			return nil, errBitmapOrder
		}
		prev = key
		isRuns := runs != nil && runs[i/8]>>(i%8)&1 == 1
		n, err := checkContainer(b, card, isRuns)
		if err != nil {
			return nil, err
		}
		b = b[n:]
	}
	return b, nil
}

// checkContainer walks a container of card values at the start of b and returns its length.
func checkContainer(b []byte, card int, isRuns bool) (int, error) {
	switch {
	case isRuns:
		return checkRuns(b, card)
	case card > arrayMax:
		if len(b) < bitmapBytes {
			return 0, errBitmapShort
		}
		n := 0
		for i := 0; i < bitmapBytes; i += 8 {
			n += bits.OnesCount64(binary.LittleEndian.Uint64(b[i:]))
		}
		if n != card {
			return 0, errBitmapCount
		}
		return bitmapBytes, nil
	}
	if len(b) < 2*card {
		return 0, errBitmapShort
	}
	prev := -1
	for i := range card {
		v := int(binary.LittleEndian.Uint16(b[2*i:]))
		if v <= prev {
			return 0, errBitmapOrder
		}
		prev = v
	}
	return 2 * card, nil
}

func checkRuns(b []byte, card int) (int, error) {
	if len(b) < 2 {
		return 0, errBitmapShort
	}
	n := int(binary.LittleEndian.Uint16(b))
	if b = b[2:]; len(b) < 4*n {
		return 0, errBitmapShort
	}
	next, sum := 0, 0
	for i := range n {
		start, more := int(binary.LittleEndian.Uint16(b[4*i:])), int(binary.LittleEndian.Uint16(b[4*i+2:]))
		if start < next {
			return 0, errBitmapOrder
		}
		next = start + more + 1
		sum += more + 1
	}
	if sum != card || next > 1<<16 {
		return 0, errBitmapCount
	}
	return 2 + 4*n, nil
}
