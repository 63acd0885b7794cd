package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore"
)

// ListOffsets (2): v1 to v11.
//
// v1 asks for one offset by time, v2 has the isolation level, v4 the leader epoch (KIP-320), v6 is flexible, v7 asks for the largest timestamp (KIP-734), v8 for the
// earliest local offset (KIP-405), v9 for the latest tiered one (KIP-1005), v10 has a timeout for tiered storage, v11 asks for the earliest that waits to be
// tiered (KIP-1023).

// Timestamps that are no times.
const (
	timeLatest          = -1
	timeEarliest        = -2
	timeMax             = -3
	timeEarliestLocal   = -4
	timeLatestTiered    = -5
	timeEarliestPending = -6
)

// timeSince is the version that brought a special timestamp.
var timeSince = map[int64]int16{timeLatest: 1, timeEarliest: 1, timeMax: 7, timeEarliestLocal: 8, timeLatestTiered: 9, timeEarliestPending: 11}

// listOffsets answers with offsets. Looking for a time walks the shard's index, so a request that asks for that leaves the reading goroutine.
func (c *call) listOffsets() {
	req := c.req.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	seen := map[fetchKey]int{}
	byTime, byEnd := false, false
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[j]
			seen[fetchKey{name: req.Topics[i].Topic, partition: p.Partition}]++
			byTime = byTime || p.Timestamp >= 0 || p.Timestamp == timeMax
			byEnd = byEnd || p.Timestamp == timeLatest
		}
	}
	if !byTime && (!byEnd || !c.server.isClustered()) {
		c.fillOffsets(req, resp, seen, nil)
		c.respond(resp)
		return
	}
	c.conn.work.Go(func() {
		unsure := c.server.catchUp(c.conn.ctx) // what was acknowledged, by whatever node, is counted
		if c.startSearch() {
			c.fillOffsets(req, resp, seen, unsure)
			<-c.server.searching
			<-c.conn.searching
		}
		c.respond(resp)
	})
}

// startSearch waits for the turn to look for times: one request of a connection at a time, and some of all. It reports false if the connection has ended.
func (c *call) startSearch() bool {
	select {
	case c.conn.searching <- struct{}{}:
	case <-c.conn.ctx.Done():
		return false
	}
	select {
	case c.server.searching <- struct{}{}:
		return true
	case <-c.conn.ctx.Done():
		return false
	}
}

// fillOffsets fills in the answer; unsure is why it is not known whether this node has all that there is.
func (c *call) fillOffsets(req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse, seen map[fetchKey]int, unsure error) {
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, out := &req.Topics[i], &resp.Topics[i]
		out.Topic = rt.Topic
		out.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			rp, po := &rt.Partitions[j], &out.Partitions[j]
			po.Default()
			po.Partition = rp.Partition
			since, special := timeSince[rp.Timestamp]
			switch {
			case seen[fetchKey{name: rt.Topic, partition: rp.Partition}] > 1:
				po.ErrorCode = codeInvalidRequest
			case rp.Timestamp < 0 && (!special || c.version < since):
				po.ErrorCode = codeUnsupportedVersion
			case unsure != nil && rp.Timestamp != timeEarliest:
				po.ErrorCode = codeNotLeaderOrFollower // the client looks for a better one
			default:
				c.fillOffset(rt.Topic, rp, po)
			}
		}
	}
}

func (c *call) fillOffset(name string, rp *kmsg.ListOffsetsRequestTopicPartition, out *kmsg.ListOffsetsResponseTopicPartition) {
	t, err := c.conn.find(name)
	var sh logstore.Shard
	if err == nil {
		sh, err = partition(t, rp.Partition)
	}
	if err != nil {
		out.ErrorCode = code(err)
		return
	}
	if out.ErrorCode = checkEpoch(rp.CurrentLeaderEpoch); out.ErrorCode != codeNone {
		return
	}
	b, err := c.server.bounds(t, sh)
	if err != nil {
		out.ErrorCode = code(err)
		return
	}
	found := true
	switch rp.Timestamp {
	case timeLatest:
		out.Offset = b.next
	case timeEarliest, timeEarliestLocal:
		out.Offset = b.first
	case timeLatestTiered, timeEarliestPending:
		found = false // nothing is tiered
	case timeMax:
		out.Offset, out.Timestamp, found, err = c.maxTime(sh, b)
	default:
		out.Offset, out.Timestamp, found, err = c.server.opts.Store.OffsetByTime(c.conn.ctx, sh, rp.Timestamp)
	}
	switch {
	case err != nil:
		out.Default()
		out.ErrorCode = code(err)
	case !found:
		out.Offset, out.Timestamp = -1, -1
	default:
		out.LeaderEpoch = leaderEpoch
	}
}

// maxTime returns the first of the records with the largest timestamp. Timestamps mostly ascend, so it begins with that of the last batch; while there is a later
// one it goes on in growing steps, and then closes in. Two looks are the rule, some sixty the most.
func (c *call) maxTime(sh logstore.Shard, b bounds) (offset, timestamp int64, found bool, err error) {
	store := c.server.opts.Store
	look := func(ts int64) (bool, error) {
		o, t, ok, err := store.OffsetByTime(c.conn.ctx, sh, ts)
		if ok {
			offset, timestamp, found = o, t, true
		}
		return ok, err
	}
	if b.first == b.next {
		return 0, 0, false, nil
	}
	start := int64(0)
	chunk, err := store.Read(sh, b.next-1, 0, nil)
	_, moved := errors.AsType[*logstore.OffsetRangeError](err)
	if err != nil && !moved {
		return 0, 0, false, err
	}
	if n := len(chunk.Batches); err == nil && n > 0 {
		start = chunk.Batches[n-1].MaxTimestamp()
	}
	if ok, err := look(start); err != nil {
		return 0, 0, false, err
	} else if !ok {
		// The header claims more than its records have, or they are gone.
		if ok, err = look(0); err != nil || !ok {
			return 0, 0, false, err
		}
	}
	step := int64(1)
	for ; timestamp+step > timestamp; step *= 2 {
		if ok, err := look(timestamp + step); err != nil {
			return 0, 0, false, err
		} else if !ok {
			break
		}
	}
	for none := timestamp + step; none > timestamp+1; { // nothing is at none or later
		middle := timestamp + (none-timestamp)/2
		ok, err := look(middle)
		if err != nil {
			return 0, 0, false, err
		}
		if !ok {
			none = middle
		}
	}
	return offset, timestamp, true, nil // every look finds the first record that is late enough, so also the first with the largest time
}
