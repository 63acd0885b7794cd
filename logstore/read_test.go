package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/vfs"
)

func TestOffsetByTimeFindsTheFirstLiveRecord(t *testing.T) {
	t.Parallel()
	s := openMem(t, vfs.NewMem())
	defer mustClose(t, s)
	sh, other := newShard(t, s, "q"), newShard(t, s, "other")
	r := rand.New(rand.NewPCG(3, 4))
	b := record.NewBuilder()
	var times []int64
	for len(times) < 1500 {
		b.Reset()
		for range 1 + r.IntN(4) {
			ts := int64(len(times))*10 - int64(r.IntN(300)) // not ascending
			b.Append(ts, nil, make([]byte, 200), nil)
			times = append(times, ts)
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, s, AppendBatch(sh, copyBatch(batch)), AppendBatch(other, batchOf(int64(len(times)), "o")))
	}
	mustCommit(t, s, TrimBefore(sh, 100))
	deleted := map[int64]bool{}
	for range 200 {
		from := r.Int64N(1490)
		mustCommit(t, s, Delete(sh, Range{from, from + 3}))
		for o := from; o < from+3; o++ {
			deleted[o] = true
		}
	}
	for range 300 {
		ts := r.Int64N(16000) - 500
		want := int64(-1)
		for o := int64(100); o < int64(len(times)); o++ {
			if !deleted[o] && times[o] >= ts {
				want = o
				break
			}
		}
		o, at, found, err := s.OffsetByTime(context.Background(), sh, ts)
		if err != nil || found != (want >= 0) || found && (o != want || at != times[o]) {
			t.Fatalf("time %d gave offset %d, time %d, %v (%v), want offset %d", ts, o, at, found, err, want)
		}
	}
}

func TestReadRefusesOffsetsOutOfRange(t *testing.T) {
	t.Parallel()
	s := openMem(t, vfs.NewMem())
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	fill(t, s, sh, 20, 1)
	mustCommit(t, s, TrimBefore(sh, 5))
	for _, from := range []int64{-1, 0, 4, 21, 1 << 60} {
		_, err := s.Read(sh, from, 1000, nil)
		var out *OffsetRangeError
		if !errors.As(err, &out) || out.First != 5 || out.Next != 20 || out.Offset != from {
			t.Errorf("reading at %d gave %v", from, err)
		}
	}
	if c, err := s.Read(sh, 20, 1000, nil); err != nil || len(c.Batches) != 0 || c.Next != 20 {
		t.Errorf("reading at the end gave %+v, %v", c, err)
	}
	var unknown *UnknownShardError
	if _, err := s.Read(99, 0, 1000, nil); !errors.As(err, &unknown) || unknown.Shard != 99 {
		t.Errorf("reading an unknown shard gave %v", err)
	}
}

func TestAReadGivesAtLeastOneBatchAndAtMostMaxBytes(t *testing.T) {
	t.Parallel()
	s := openMem(t, vfs.NewMem())
	defer mustClose(t, s)
	sh := newShard(t, s, "q")
	fill(t, s, sh, 300, 3)
	for _, max := range []int{0, 1, 3000, 10000, 100000, 1 << 30} {
		for from := int64(0); from < 300; from += 17 {
			c, err := s.Read(sh, from, max, nil)
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			for _, b := range c.Batches {
				size += b.Len()
			}
			if len(c.Batches) == 0 || len(c.Batches) > 1 && size > max || c.Batches[0].BaseOffset() > from || c.Batches[0].LastOffset() < from {
				t.Fatalf("reading %d bytes at %d gave %d batches of %d bytes", max, from, len(c.Batches), size)
			}
			if last := c.Batches[len(c.Batches)-1].LastOffset(); c.Next != last+1 {
				t.Fatalf("reading at %d ends with offset %d and goes on at %d", from, last, c.Next)
			}
			if max == 1<<30 && c.Next != 300 {
				t.Fatalf("reading everything from %d ends at %d", from, c.Next)
			}
		}
	}
}

func TestDeletedRecordsAreNotServedAndOffsetsStay(t *testing.T) {
	t.Parallel()
	for _, codec := range []record.Codec{record.None, record.LZ4, record.Zstd} {
		s := openMem(t, vfs.NewMem())
		sh := newShard(t, s, "q")
		b := record.NewBuilder()
		b.SetCodec(codec)
		for i := range 10 {
			b.Append(int64(i), []byte("k"), fmt.Append(nil, i), []record.RecordHeader{{Key: []byte("h")}})
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, s, AppendBatch(sh, batch), AppendBatch(sh, batch))
		mustCommit(t, s, Delete(sh, Range{2, 4}, Range{7, 8}, Range{12, 13}))
		want := "[0=0 1=1 4=4 5=5 6=6 8=8 9=9 10=0 11=1 13=3 14=4 15=5 16=6 17=7 18=8 19=9]"
		if got := fmt.Sprint(values(t, s, sh, 0, 1<<20)); got != want {
			t.Errorf("%v: got %s, want %s", codec, got, want)
		}
		c, err := s.Read(sh, 0, 1<<20, nil)
		if err != nil || c.Batches[0].BaseOffset() != 0 || c.Batches[0].LastOffset() != 9 || c.Batches[0].Count() != 7 {
			t.Errorf("%v: the first batch has offsets %d to %d, %d records (%v)", codec, c.Batches[0].BaseOffset(), c.Batches[0].LastOffset(), c.Batches[0].Count(), err)
		}
		mustClose(t, s)
	}
}

// Under SyncAlways nobody reads what a power loss could take back.
func TestOnlyDurableRecordsAreReadable(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	syncing := make(chan struct{}, 100)
	var holding atomic.Bool
	mem := vfs.NewMem()
	fs := vfs.NewFault(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && holding.Load() {
			syncing <- struct{}{}
			<-hold
		}
		return nil
	})
	s := openMem(t, fs)
	sh := newShard(t, s, "q")
	mustCommit(t, s, AppendBatch(sh, batchOf(1, "durable")))
	if err := s.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	holding.Store(true)
	grown := make(chan struct{}, 1)
	defer s.NotifyGrowth(sh, grown)()
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), Txn{Do: []Op{AppendBatch(sh, batchOf(1, "not yet"))}})
		done <- err
	}()
	<-syncing
	if _, next, err := s.Bounds(sh); err != nil || next != 1 {
		t.Errorf("while the record is being synced the shard ends at %d (%v)", next, err)
	}
	if got := values(t, s, sh, 0, 1000); fmt.Sprint(got) != "[0=durable]" {
		t.Errorf("while the record is being synced one reads %v", got)
	}
	select {
	case <-grown:
		t.Error("told of growth before the sync")
	case <-done:
		t.Error("confirmed before the sync")
	default:
	}
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	<-grown
	if got := values(t, s, sh, 0, 1000); fmt.Sprint(got) != "[0=durable 1=not yet]" {
		t.Errorf("after the sync one reads %v", got)
	}
	mustClose(t, s)
}

func TestGrowthIsToldForTheShardsThatGrew(t *testing.T) {
	t.Parallel()
	s := openMem(t, vfs.NewMem())
	defer mustClose(t, s)
	a, b := newShard(t, s, "a"), newShard(t, s, "b")
	onA, onBoth := make(chan struct{}, 1), make(chan struct{}, 1)
	cancels := []func(){s.NotifyGrowth(a, onA), s.NotifyGrowth(a, onBoth), s.NotifyGrowth(b, onBoth)}
	mustCommit(t, s, AppendBatch(b, batchOf(1, "x")))
	<-onBoth
	if len(onA) != 0 {
		t.Error("shard a was said to have grown")
	}
	mustCommit(t, s, AppendBatch(a, batchOf(1, "x")))
	<-onBoth
	<-onA
	for _, cancel := range cancels {
		cancel()
		cancel() // twice is no harm
	}
	mustCommit(t, s, AppendBatch(a, batchOf(1, "x")), AppendBatch(b, batchOf(1, "x")))
	if len(onA)+len(onBoth) != 0 || s.growth.waiting.Load() != 0 || len(s.growth.shards) != 0 {
		t.Error("told of growth after cancelling")
	}
}
