package segment

// Loc says where one batch lies: offsets Base .. Base+Span-1 of Shard are the Size bytes at Pos.
type Loc struct {
	Shard   uint64
	Base    int64
	MaxTime int64 // highest record timestamp in the batch, ms
	Pos     uint32
	Size    uint32
	Span    uint32 // offsets covered, at least 1; more than the batch's records when some were filtered away
}

// End is the offset behind the last one that the batch covers.
func (l *Loc) End() int64 { return l.Base + int64(l.Span) }

// node is a Loc in the chain of its shard. jump is the skew-binary skip pointer (Myers, "An applicative random-access
// stack", 1983): following jump where it does not overshoot and prev where it does reaches any earlier
// node in O(log n) steps, with one pointer a node.
type node struct {
	Loc
	prev, next, jump uint32 // node number + 1; 0 is none
	depth            uint32
}

const nodeChunk = 1 << 9 // 28 KiB

// MemIndex is the index of the open segment: for each shard a chain of its batches in the order of their offsets. The heads of the
// chains (Chain) are kept by the caller, beside what else it knows of a shard, which saves a second look-up per append.
//
// One writer appends; readers must be kept out meanwhile by the caller's lock.
type MemIndex struct {
	chunks [][]node
	n      uint32
}

// Chain is the head of one shard's chain. The zero value is an empty chain.
type Chain struct{ First, Last uint32 }

// Len is the number of batches.
func (x *MemIndex) Len() int { return int(x.n) }

func (x *MemIndex) at(i uint32) *node { i--; return &x.chunks[i/nodeChunk][i%nodeChunk] }

// Append adds the location of a shard's newest batch to its chain.
func (x *MemIndex) Append(c *Chain, l Loc) {
	if int(x.n)%nodeChunk == 0 {
		if int(x.n)/nodeChunk == len(x.chunks) {
			x.chunks = append(x.chunks, make([]node, nodeChunk))
		}
	}
	x.n++
	id := x.n
	nd := x.at(id)
	*nd = node{Loc: l, prev: c.Last}
	if c.Last == 0 {
		c.First = id
	} else {
		p := x.at(c.Last)
		p.next = id
		nd.depth = p.depth + 1
		nd.jump = c.Last
		if p.jump != 0 {
			if j := x.at(p.jump); j.jump != 0 && p.depth-j.depth == j.depth-x.at(j.jump).depth {
				nd.jump = j.jump
			}
		}
	}
	c.Last = id
}

// Find returns the number of the first batch of the chain that ends behind offset (it holds the offset, or follows a gap
// at it), or 0 if there is none.
func (x *MemIndex) Find(c Chain, offset int64) uint32 {
	return x.search(c, func(n *node) bool { return n.End() > offset })
}

// FirstEndingAfter returns the number of the first batch of the chain whose bytes end behind file position pos, or 0.
func (x *MemIndex) FirstEndingAfter(c Chain, pos uint32) uint32 {
	return x.search(c, func(n *node) bool { return n.Pos+n.Size > pos })
}

// search returns the first node of the chain for which ok holds; ok must be monotonic along the chain (false, then true).
func (x *MemIndex) search(c Chain, ok func(*node) bool) uint32 {
	if c.Last == 0 || !ok(x.at(c.Last)) {
		return 0
	}
	cur := c.Last
	for {
		n := x.at(cur)
		switch {
		case n.prev == 0:
			return cur
		case n.jump != 0 && ok(x.at(n.jump)):
			cur = n.jump
		case ok(x.at(n.prev)):
			cur = n.prev
		default:
			return cur
		}
	}
}

// Loc returns batch number i, as Find gave it.
func (x *MemIndex) Loc(i uint32) Loc { return x.at(i).Loc }

// Next returns the number of the same shard's next batch, or 0.
func (x *MemIndex) Next(i uint32) uint32 { return x.at(i).next }

// All calls f for every batch in the order they were written.
func (x *MemIndex) All(f func(l *Loc)) {
	for i := uint32(1); i <= x.n; i++ {
		f(&x.at(i).Loc)
	}
}

// Bytes is the memory that the index takes.
func (x *MemIndex) Bytes() uint64 { return uint64(len(x.chunks)) * nodeChunk * 56 }
