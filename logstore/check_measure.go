package logstore

import (
	"cmp"
	"slices"

	"polylog/logstore/segment"
)

// largestListed is how many of the largest shards a report lists.
const largestListed = 10

// measure fills in the figures of the report that come of the state and the indexes.
func (c *checker) measure() error {
	r := c.report
	r.Shards, r.Keys, r.KeyBytes = c.st.shards.n, c.st.kv.m.Len(), c.st.kv.bytes
	for _, g := range c.sealed {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		err := walkLive(c.files, g, c.st, func(l segment.Loc, live int64, _ []Range) {
			liveBytes := int64(l.Size) * live / int64(l.Span)
			r.LiveBytes += liveBytes
			r.DeadBytes += int64(l.Size) - liveBytes
			r.DeadRecords += int64(l.Span) - live
		})
		c.indexUnreadable(err)
	}
	c.st.shards.all(func(id Shard, sh *shard) bool {
		live := sh.live()
		r.LiveRecords += live
		r.addLargest(ShardReport{Shard: id, First: sh.first, Next: sh.next, Live: live})
		return true
	})
	c.st.kv.m.Scan(func(key string, value []byte) bool {
		id, err := ParseShardValue(value)
		if err != nil {
			return true
		}
		if i := slices.IndexFunc(r.Largest, func(s ShardReport) bool { return s.Shard == id }); i >= 0 && r.Largest[i].Key == "" {
			r.Largest[i].Key = key
		}
		return true
	})
	return nil
}

// addLargest puts a shard into the list if it is one of the largest so far.
func (r *Report) addLargest(s ShardReport) {
	i, _ := slices.BinarySearchFunc(r.Largest, s, func(a, b ShardReport) int {
		return cmp.Or(cmp.Compare(b.Live, a.Live), -1) // behind its equals
	})
	if i < largestListed {
		r.Largest = slices.Insert(r.Largest, i, s)
		r.Largest = r.Largest[:min(len(r.Largest), largestListed)]
	}
}
