package logstore

import (
	"errors"
	"sync/atomic"
	"time"

	"polylog/logstore/vfs"
)

// cleanInterval is how often the cleaner looks at what was deleted meanwhile.
const cleanInterval = 100 * time.Millisecond

// cleaner is the goroutine that keeps the books of live offsets, and gives disk space back: it removes segments with nothing live, and copies the live batches
// of those that are mostly dead, or small, into a file that takes their place.
//
// A file is taken away only when no kept checkpoint needs to replay it, and when the deletions that emptied it are on the disk: so at every moment, and after
// every crash, each live record is in a file.
type cleaner struct {
	s         *Store
	kick      chan struct{}
	buf       Buffer
	scattered int64 // offsets freed since the last count, and not taken off the books
	skip      map[string]bool

	// waitsForCheckpoint: there is something to clean that a checkpoint still needs.
	waitsForCheckpoint atomic.Bool
}

func (c *cleaner) init(s *Store) {
	c.s, c.kick, c.skip = s, make(chan struct{}, 1), map[string]bool{}
}

func (c *cleaner) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *cleaner) run() {
	defer c.s.tasks.Done()
	tick := time.NewTicker(cleanInterval)
	defer tick.Stop()
	c.wake()
	for {
		kicked := false
		select {
		case <-c.s.stopTasks:
			return
		case <-c.kick:
			kicked = true
		case now := <-tick.C:
			c.s.pins.relieve()
			c.s.spares.note(now)
			if err := c.s.spares.trim(now); err != nil {
				c.s.opts.Logf("removing a spare segment file: %v; the next start removes it", err)
			}
		}
		if c.s.Failure() != nil {
			return
		}
		if !kicked && !c.hasWork() {
			continue
		}
		err := c.round()
		c.s.stats.cleaningRounds.Add(1)
		if err != nil && c.s.Failure() == nil && !errors.Is(err, ErrClosed) {
			c.s.opts.Logf("cleaning: %v; it goes on with other segments", err)
		}
	}
}

// hasWork reports whether anything was deleted since the last round.
func (c *cleaner) hasWork() bool {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	return c.s.freed.offsets > 0
}

// round keeps the books and cleans while there is something to clean.
func (c *cleaner) round() error {
	for {
		seq, err := c.account()
		if err != nil {
			return err
		}
		dead, rewrite := c.choose()
		if len(dead) == 0 && len(rewrite) == 0 {
			return nil
		}
		// What the books call deleted must be deleted after a crash too.
		if err := c.s.durable(seq); err != nil {
			return err
		}
		if len(dead) > 0 {
			if err := c.removeDead(dead); err != nil {
				return err
			}
		}
		if len(rewrite) > 0 {
			if err := c.rewrite(rewrite); vfs.IsNoSpace(err) {
				return err // when segments with nothing live are gone there may be room to copy the others
			} else if err != nil {
				for _, g := range rewrite {
					c.skip[g.name] = true // until the next start; the damage was reported
				}
				return err
			}
		}
		select {
		case <-c.s.stopTasks:
			return nil
		default:
		}
	}
}

// choose returns segments with nothing live, and one run of neighbours to be copied into one.
func (c *cleaner) choose() (dead, rewrite []*sealedSegment) {
	s := c.s
	s.mu.RLock()
	sealed := s.segs.sealed
	free := s.checkpoints.oldest.Load()
	s.mu.RUnlock()
	limit := s.opts.SegmentBytes / 8 * 7
	var (
		run         []*sealedSegment
		runLive     int64
		runDeadMost bool
		blocked     int64 // bytes that a checkpoint holds back
	)
	end := func() {
		if rewrite == nil && (runDeadMost || len(run) >= smallRun) {
			rewrite = run
		}
		run, runLive, runDeadMost = nil, 0, false
	}
	for _, g := range sealed {
		if !g.counted || g.live > 0 && c.skip[g.name] {
			end()
			continue
		}
		live := g.liveBytes()
		mostlyDead := g.live*2 <= g.offsets() && g.size-live > 4<<10
		small := live < s.opts.SegmentBytes/4
		if !mostlyDead && !small {
			end()
			continue
		}
		if g.index.LastSeq > free {
			if mostlyDead {
				blocked += g.size - live
			}
			end()
			continue
		}
		if g.live == 0 {
			dead = append(dead, g)
			end()
			continue
		}
		if runLive+live > limit {
			end()
		}
		run = append(run, g)
		runLive += live
		runDeadMost = runDeadMost || mostlyDead
	}
	end()
	if blocked > 4*s.stats.checkpointBytes.Load() && blocked > s.opts.SegmentBytes/2 || blocked > 0 && (s.idle() || s.diskFull.Load()) {
		c.waitsForCheckpoint.Store(true)
		s.checkpoints.wake()
	}
	return dead, rewrite
}

// smallRun is how many small neighbours are copied into one segment: each byte is copied once each time the log grows by this factor.
const smallRun = 4

// idle reports whether nothing was ordered since the newest checkpoint: what waits for another one would wait for long.
func (s *Store) idle() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.st.seq == s.checkpoints.newest.Load()
}

// removeDead removes segments with nothing live.
func (c *cleaner) removeDead(dead []*sealedSegment) error {
	s := c.s
	for _, g := range dead {
		s.mu.Lock()
		s.segs.replace([]*sealedSegment{g}, nil)
		s.mu.Unlock()
		s.stats.removedSegments.Add(1)
		s.stats.reclaimedBytes.Add(g.size)
	}
	return s.retire(dead)
}
