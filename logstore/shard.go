package logstore

import "polylog/logstore/segment"

// shard is what the state knows of one shard. Invariants: 0 <= first <= next; every offset in deleted lies in first < o < next; first itself is never
// deleted (it is the lowest live offset, or next when nothing is live). It is a value in a page of the shard table, and changed through state.own only.
type shard struct {
	first, next int64
	deleted     *offsetSet // nil: none
	// digest chains the CRCs of all batches that were ever appended, so that a state hash speaks of the data too.
	digest uint64
	exists bool

	// local says where the newest bytes of the shard lie on this node's disk. It is no part of the state that nodes have in common and is not hashed;
	// it stands here because an append touches this memory anyway.
	local localTail
}

// localTail is where the shard's newest batches stand in the indexes that are in memory: of the newest segment that it has any in, and of the one
// before. The segments are named by the low bits of their ids; one that is not in memory any more means nothing.
type localTail struct {
	seg, prevSeg     uint32
	chain, prevChain segment.Chain
}

// advance makes seg the newest segment.
func (t *localTail) advance(seg uint32) {
	if t.seg != seg {
		t.prevSeg, t.prevChain = t.seg, t.chain
		t.seg, t.chain = seg, segment.Chain{}
	}
}

// live returns how many records are neither deleted nor trimmed.
func (sh *shard) live() int64 {
	return sh.next - sh.first - sh.deleted.count(sh.first, sh.next)
}

// isLive reports whether the offset has a record that is not deleted.
func (sh *shard) isLive(o int64) bool {
	return o >= sh.first && o < sh.next && !sh.deleted.contains(o)
}

const (
	pageBits = 6 // 64 shards a page: about 5 KiB to copy when a page changes for the first time after a snapshot
	dirBits  = 10
	pageSize = 1 << pageBits
	dirSize  = 1 << dirBits
)

// shardTable maps shard numbers, which are given out densely, to shards: a tree of two levels with copy-on-write nodes. A
// snapshot shares all nodes; whoever changes one first copies it. Pages with no shard left are let go.
type shardTable struct {
	root  []*shardDir
	epoch uint64 // of the nodes that this table may change in place
	n     int    // shards that exist
}

type shardDir struct {
	epoch uint64
	used  int
	pages [dirSize]*shardPage
}

type shardPage struct {
	epoch  uint64
	used   int
	shards [pageSize]shard
}

// get returns the shard for reading, or nil.
func (t *shardTable) get(id Shard) *shard {
	d := uint64(id) >> (pageBits + dirBits)
	if d >= uint64(len(t.root)) || t.root[d] == nil {
		return nil
	}
	p := t.root[d].pages[uint64(id)>>pageBits%dirSize]
	if p == nil {
		return nil
	}
	if sh := &p.shards[id%pageSize]; sh.exists {
		return sh
	}
	return nil
}

// page returns the page of the shard, ready to be changed, making what is missing.
func (t *shardTable) page(id Shard) (*shardDir, *shardPage) {
	di := uint64(id) >> (pageBits + dirBits)
	for uint64(len(t.root)) <= di {
		t.root = append(t.root, nil)
	}
	d := t.root[di]
	switch {
	case d == nil:
		d = &shardDir{epoch: t.epoch}
		t.root[di] = d
	case d.epoch != t.epoch:
		c := *d
		c.epoch = t.epoch
		d = &c
		t.root[di] = d
	}
	pi := uint64(id) >> pageBits % dirSize
	p := d.pages[pi]
	switch {
	case p == nil:
		p = &shardPage{epoch: t.epoch}
		d.pages[pi] = p
		d.used++
	case p.epoch != t.epoch:
		c := *p
		c.epoch = t.epoch
		p = &c
		d.pages[pi] = p
	}
	return d, p
}

// own returns an existing shard for changing.
func (t *shardTable) own(id Shard) *shard {
	_, p := t.page(id)
	return &p.shards[id%pageSize]
}

// add makes the shard exist with the given content.
func (t *shardTable) add(id Shard, sh shard) {
	_, p := t.page(id)
	sh.exists = true
	p.shards[id%pageSize] = sh
	p.used++
	t.n++
}

// remove makes an existing shard not exist.
func (t *shardTable) remove(id Shard) {
	d, p := t.page(id)
	p.shards[id%pageSize] = shard{}
	t.n--
	if p.used--; p.used > 0 {
		return
	}
	d.pages[uint64(id)>>pageBits%dirSize] = nil
	if d.used--; d.used == 0 {
		t.root[uint64(id)>>(pageBits+dirBits)] = nil
	}
}

// all calls f for every shard in the order of their numbers.
func (t *shardTable) all(f func(id Shard, sh *shard) bool) {
	for di, d := range t.root {
		if d == nil {
			continue
		}
		for pi, p := range d.pages {
			if p == nil {
				continue
			}
			for si := range p.shards {
				if sh := &p.shards[si]; sh.exists && !f(Shard(di<<(pageBits+dirBits)|pi<<pageBits|si), sh) {
					return
				}
			}
		}
	}
}

// snapshot returns a table with the same content that is not changed by changes to t. newEpoch was never used before.
func (t *shardTable) snapshot(newEpoch uint64) shardTable {
	c := shardTable{root: append([]*shardDir(nil), t.root...), epoch: t.epoch, n: t.n}
	t.epoch = newEpoch
	return c
}
