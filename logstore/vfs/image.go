package vfs

const (
	// sectorSize is what a disk writes in one piece: a write that is cut by power loss is cut between sectors.
	sectorSize = 512
	// blockSize is the unit in which Mem allocates disk, as ext4 and XFS do by default.
	blockSize = 4096
	// leafBlocks makes a leaf 1 MiB of file: its table is 2 KiB to copy when a block of it changes for the first time after a sync.
	leafBlocks = 256
	// maxFileSize keeps a wild offset from growing the table of leaves without bound: 1 TiB is a table of 8 MiB.
	maxFileSize = 1 << 40
)

// image is the content of a file: a size, and the blocks that were written; what was not written reads as zero and costs nothing. Invariants: bytes at
// and after size are zero; every block with content is among the reserved ones or counted by extra.
//
// Clones share blocks and leaves. A leaf or block may be changed in place only by the image whose edition it bears, and cloning gives both sides a new
// edition, so that a clone costs a pointer for each MiB and a change afterwards one block.
type image struct {
	size     int64
	reserved int64 // the first so many blocks are allocated, with content or without
	extra    int64 // blocks with content after those
	leaves   []*leaf
	edition  *edition
}

// edition is an identity; the byte makes each one differ from the others.
type edition struct{ _ byte }

type leaf struct {
	edition *edition
	blocks  [leafBlocks]*block
}

type block struct {
	edition *edition
	bytes   [blockSize]byte
}

func newImage() *image { return &image{edition: new(edition)} }

func (im *image) clone() *image {
	c := *im
	c.leaves = append([]*leaf(nil), im.leaves...)
	c.edition = new(edition)
	im.edition = new(edition)
	return &c
}

// blocksFor returns how many blocks hold the first size bytes.
func blocksFor(size int64) int64 { return (size + blockSize - 1) / blockSize }

// allocated returns the bytes of disk that the file takes.
func (im *image) allocated() int64 { return (im.reserved + im.extra) * blockSize }

// block returns block number b for reading, nil when it is all zero.
func (im *image) block(b int64) *block {
	l := b / leafBlocks
	if l >= int64(len(im.leaves)) || im.leaves[l] == nil {
		return nil
	}
	return im.leaves[l].blocks[b%leafBlocks]
}

// ownLeaf returns leaf number l ready to be changed.
func (im *image) ownLeaf(l int64) *leaf {
	for int64(len(im.leaves)) <= l {
		im.leaves = append(im.leaves, nil)
	}
	lf := im.leaves[l]
	switch {
	case lf == nil:
		lf = &leaf{edition: im.edition}
	case lf.edition != im.edition:
		c := *lf
		c.edition = im.edition
		lf = &c
	}
	im.leaves[l] = lf
	return lf
}

// ownBlock returns block number b ready to be changed.
func (im *image) ownBlock(b int64) *block {
	lf := im.ownLeaf(b / leafBlocks)
	bl := lf.blocks[b%leafBlocks]
	switch {
	case bl == nil:
		bl = &block{edition: im.edition}
		if b >= im.reserved {
			im.extra++
		}
	case bl.edition != im.edition:
		c := *bl
		c.edition = im.edition
		bl = &c
	}
	lf.blocks[b%leafBlocks] = bl
	return bl
}

// readAt copies what is there from off on and returns how many bytes that were.
func (im *image) readAt(p []byte, off int64) int {
	if off >= im.size {
		return 0
	}
	if rest := im.size - off; int64(len(p)) > rest {
		p = p[:rest]
	}
	im.peek(p, off)
	return len(p)
}

// peek fills p with the bytes from off on, whatever the size is.
func (im *image) peek(p []byte, off int64) {
	for len(p) > 0 {
		in := off % blockSize
		n := min(int64(len(p)), blockSize-in)
		if bl := im.block(off / blockSize); bl != nil {
			copy(p[:n], bl.bytes[in:])
		} else {
			clear(p[:n])
		}
		p, off = p[n:], off+n
	}
}

// writeAt writes p and extends the file if need be.
func (im *image) writeAt(p []byte, off int64) {
	im.poke(p, off)
	im.size = max(im.size, off+int64(len(p)))
}

// poke writes p and leaves the size alone. If that leaves bytes after the size, the caller calls cut in the end.
func (im *image) poke(p []byte, off int64) {
	for len(p) > 0 {
		n := copy(im.ownBlock(off / blockSize).bytes[off%blockSize:], p)
		p, off = p[n:], off+int64(n)
	}
}

// resize sets the size. What is cut off is given back to the disk.
func (im *image) resize(size int64) {
	shorter := size < im.size
	im.size = size
	if shorter {
		im.cut()
	}
}

// cut makes zero what lies after the size, and gives its blocks back.
func (im *image) cut() {
	end := blocksFor(im.size)
	if in := im.size % blockSize; in != 0 && im.block(end-1) != nil {
		clear(im.ownBlock(end - 1).bytes[in:])
	}
	for l := end / leafBlocks; l < int64(len(im.leaves)); l++ {
		if im.leaves[l] == nil {
			continue
		}
		first := max(end-l*leafBlocks, 0)
		lf := im.ownLeaf(l)
		for i := first; i < leafBlocks; i++ {
			if lf.blocks[i] == nil {
				continue
			}
			lf.blocks[i] = nil
			if l*leafBlocks+i >= im.reserved {
				im.extra--
			}
		}
		if first == 0 {
			im.leaves[l] = nil
		}
	}
	im.leaves = im.leaves[:min(int64(len(im.leaves)), (end+leafBlocks-1)/leafBlocks)]
	im.reserved = min(im.reserved, end)
}

// reserve allocates the blocks of the first size bytes and extends the file to them.
func (im *image) reserve(size int64) {
	if end := blocksFor(size); end > im.reserved {
		im.extra -= im.written(im.reserved, end)
		im.reserved = end
	}
	im.size = max(im.size, size)
}

// unallocated returns how many of the blocks from first up to end the disk would have to provide.
func (im *image) unallocated(first, end int64) int64 {
	first = max(first, im.reserved)
	if first >= end {
		return 0
	}
	return end - first - im.written(first, end)
}

// written returns how many of the blocks from first up to end have content.
func (im *image) written(first, end int64) int64 {
	var n int64
	for b := first; b < end; b++ {
		l := b / leafBlocks
		if l >= int64(len(im.leaves)) {
			break
		}
		if im.leaves[l] == nil {
			b = (l+1)*leafBlocks - 1
			continue
		}
		if im.leaves[l].blocks[b%leafBlocks] != nil {
			n++
		}
	}
	return n
}

// fitting returns how many of the n bytes from off on can be written when the disk provides that many new blocks.
func (im *image) fitting(off, n, blocks int64) int64 {
	end := off + n
	for b := off / blockSize; b*blockSize < end; b++ {
		if im.unallocated(b, b+1) == 0 {
			continue
		}
		if blocks == 0 {
			return max(b*blockSize-off, 0)
		}
		blocks--
	}
	return n
}
