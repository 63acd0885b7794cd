package logstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"polylog/logstore/vfs"
)

// atSeal returns the disk of a store as it is when the index of the first segment is written and not synced yet, and the shards in it. The index has several blocks,
// which lie in several sectors. checkpoint: there is one by then that has all entries of the segment.
func atSeal(t *testing.T, r *rand.Rand, checkpoint bool) (*vfs.Mem, []Shard) {
	t.Helper()
	disk := vfs.NewMem()
	var at *vfs.Mem
	written, goOn := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	truncated, done := "", false
	fault := vfs.NewFault(disk, func(op vfs.Op) error {
		mu.Lock()
		if op.Kind == vfs.OpTruncate && truncated == "" {
			truncated = op.Name
		}
		isIt := op.Kind == vfs.OpSync && op.Name == truncated && !done
		done = done || isIt
		mu.Unlock()
		if isIt {
			close(written)
			<-goOn
			at = disk.Snapshot()
		}
		return nil
	})
	s := openMem(t, fault, func(o *Options) { o.checkpointsByHand = true })
	var shards []Shard
	for i := range 20 {
		shards = append(shards, newShard(t, s, fmt.Sprint(i)))
	}
	for isWritten := false; !isWritten; {
		mustCommit(t, s, AppendBatch(shards[r.IntN(len(shards))], batchOf(1, strings.Repeat("x", r.IntN(10)))))
		select {
		case <-written:
			isWritten = true
		default:
		}
	}
	if checkpoint {
		if err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	mustClose(t, s)
	return at, shards
}

func TestASealCutOffByAPowerLossLosesNothing(t *testing.T) {
	t.Parallel()
	for _, checkpoint := range []bool{false, true} {
		t.Run(fmt.Sprintf("checkpoint %v", checkpoint), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			r := rand.New(rand.NewPCG(seed, 7))
			at, shards := atSeal(t, r, checkpoint)
			for i := range rounds(100) {
				disk := at.Snapshot()
				if i%4 == 0 {
					disk = afterSecondLife(t, disk, shards[0])
				}
				disk = disk.Crash(vfs.CrashPlan{Kind: vfs.Reorder, Rand: r})
				if r := mustCheck(t, disk); !r.OK() {
					t.Errorf("the check finds %v; notes %q", r.Problems, r.Notes)
				}
				s := openMem(t, disk)
				for _, id := range shards {
					if _, err := readAll(s, id, 0, 1<<20); err != nil {
						t.Errorf("shard %d: %v; recovery: %+v", id, err, s.Recovery)
					}
				}
				mustClose(t, s)
				if r := mustCheck(t, disk); !r.OK() || len(r.Notes) > 0 {
					t.Errorf("after recovery the check finds %v; notes %q", r.Problems, r.Notes)
				}
				if t.Failed() {
					t.Fatalf("seed %d, round %d", seed, i)
				}
			}
		})
	}
}

// afterSecondLife kills the process, so that nothing is lost and nothing more durable, and has another one write some segments.
func afterSecondLife(t *testing.T, disk *vfs.Mem, id Shard) *vfs.Mem {
	t.Helper()
	disk = disk.Crash(vfs.CrashPlan{Kind: vfs.KeepAll})
	s := openMem(t, disk)
	for s.Stats().Segments < 6 {
		mustCommit(t, s, AppendBatch(id, batchOf(1, strings.Repeat("y", 2000))))
	}
	after := disk.Snapshot()
	mustClose(t, s)
	return after
}
