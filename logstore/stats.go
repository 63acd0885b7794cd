package logstore

import "sync/atomic"

// counters are the running totals that Stats reports.
type counters struct {
	entries, batches, logBytes           atomic.Int64
	writes, syncs                        atomic.Int64
	checkpoints, checkpointBytes         atomic.Int64
	removedSegments, rewrittenSegments   atomic.Int64
	reusedSegments                       atomic.Int64
	copiedBytes, reclaimedBytes, rescans atomic.Int64
	cleaningRounds                       atomic.Int64
	corruptReads                         atomic.Int64
}

func (c *counters) ordered(batches, size int) {
	c.entries.Add(1)
	c.batches.Add(int64(batches))
	c.logBytes.Add(int64(size))
}

func (c *counters) wrote()  { c.writes.Add(1) }
func (c *counters) synced() { c.syncs.Add(1) }

// Stats is what a store did since it was opened, and what it holds.
type Stats struct {
	Entries  int64 // transactions that took effect
	Batches  int64 // appended
	LogBytes int64 // entries written, bytes
	Writes   int64 // write calls: one for each group
	Syncs    int64 // fdatasync calls

	Shards, Keys int
	KeyBytes     int64 // keys and values, bytes

	Segments     int    // files
	SegmentBytes int64  // of disk
	LiveOffsets  uint64 // in sealed segments
	LiveBytes    int64  // in sealed segments, estimated from the share of live offsets
	Uncounted    int    // sealed segments whose live offsets are not counted yet
	IndexBytes   uint64 // memory that indexes take

	Checkpoints     int64
	CheckpointBytes int64 // of the last one
	CheckpointSeq   uint64
	Seq             uint64
	DurableSeq      uint64

	SpareSegments int   // files of cleaned segments, kept to be written again
	SpareBytes    int64 // of disk

	HeldSegments int   // files that are out of the log and that open snapshots need
	HeldBytes    int64 // of disk

	RemovedSegments   int64 // taken out of the log whole, because nothing in them was live
	ReusedSegments    int64 // made of a spare file
	RewrittenSegments int64 // copied without what was dead
	CopiedBytes       int64 // by cleaning
	ReclaimedBytes    int64 // of disk, by cleaning
	CleaningRounds    int64 // times that the cleaner looked for something to do
	Rescans           int64 // times that live offsets were counted from scratch
	CorruptReads      int64
	DiskFull          bool // new messages are refused for want of room
}

// Stats returns the store's figures.
func (s *Store) Stats() Stats {
	c := &s.stats
	st := Stats{
		Entries: c.entries.Load(), Batches: c.batches.Load(), LogBytes: c.logBytes.Load(),
		Writes: c.writes.Load(), Syncs: c.syncs.Load(),
		Checkpoints: c.checkpoints.Load(), CheckpointBytes: c.checkpointBytes.Load(), CheckpointSeq: s.checkpoints.newest.Load(),
		DurableSeq:      s.durableSeq.Load(),
		RemovedSegments: c.removedSegments.Load(), ReusedSegments: c.reusedSegments.Load(), RewrittenSegments: c.rewrittenSegments.Load(),
		CopiedBytes: c.copiedBytes.Load(), ReclaimedBytes: c.reclaimedBytes.Load(), Rescans: c.rescans.Load(), CleaningRounds: c.cleaningRounds.Load(),
		CorruptReads: c.corruptReads.Load(), DiskFull: s.diskFull.Load() || s.stuck.Load() != nil,
	}
	st.SpareSegments, st.SpareBytes = s.spares.count()
	st.HeldSegments, st.HeldBytes = s.pins.held()
	s.mu.RLock()
	defer s.mu.RUnlock()
	st.Seq, st.Shards, st.Keys, st.KeyBytes = s.st.seq, s.st.shards.n, s.st.kv.m.Len(), s.st.kv.bytes
	for _, g := range s.segs.sealed {
		st.Segments++
		st.SegmentBytes += g.size
		st.LiveOffsets += g.live
		st.LiveBytes += g.liveBytes()
		st.IndexBytes += g.index.IndexBytes()
		if !g.counted {
			st.Uncounted++
		}
	}
	for _, g := range []*openSegment{s.segs.sealing, s.segs.active} {
		if g != nil {
			st.Segments++
			st.SegmentBytes += g.capacity
			st.IndexBytes += g.index.Bytes()
		}
	}
	return st
}
