package group

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/logstore/seed"
	"polylog/logstore/vfs"
)

// shop is a store with a shard, and producers that append to it.
type shop struct {
	t     testing.TB
	fs    *vfs.Mem
	store *logstore.Store
	sh    logstore.Shard
	since int64 // when the shard was made
	p     *Producers
	now   time.Time
}

func newShop(t testing.TB) *shop {
	s := &shop{t: t, fs: vfs.NewMem(), now: time.Unix(1_000_000, 0)}
	s.open()
	res, err := s.store.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.CreateShard("t")}})
	if err != nil {
		t.Fatal(err)
	}
	s.sh = res.Shard(0)
	t.Cleanup(func() { s.store.Close() })
	return s
}

func (s *shop) open() {
	var err error
	if s.store, err = logstore.Open(logstore.Options{Dir: "log", FS: s.fs, SegmentBytes: 1 << 20}); err != nil {
		s.t.Fatal(err)
	}
	if s.p, err = NewProducers(ProducerOptions{Store: s.store, Now: func() time.Time { return s.now }}); err != nil {
		s.t.Fatal(err)
	}
}

// crash loses what was not synced.
func (s *shop) crash() {
	s.fs = s.fs.Crash(vfs.CrashPlan{Kind: vfs.DropUnsynced})
	s.store.Close()
	s.open()
}

// batch is a batch of a producer.
func (s *shop) batch(id int64, epoch int16, first, count int32) record.Batch {
	b := record.NewBuilder()
	b.SetProducer(id, epoch, first)
	for i := range count {
		b.Append(s.now.UnixMilli(), nil, fmt.Appendf(nil, "%d", first+i), nil)
	}
	built, err := b.Build()
	if err != nil {
		s.t.Fatal(err)
	}
	return built
}

// produce does what a front-end does with a batch, and returns the offset that the producer is told.
func (s *shop) produce(id int64, epoch int16, first, count int32, remember bool) (offset int64, duplicate bool, err error) {
	_, next, err := s.store.Bounds(s.sh)
	if err != nil {
		s.t.Fatal(err)
	}
	d, err := s.p.Begin(Batch{s.sh, s.since, next, id, epoch, first, count})
	if err != nil {
		return -1, false, err
	}
	if d.Duplicate != nil {
		offset, err := s.p.Locate(s.t.Context(), d.Duplicate)
		return offset, true, err
	}
	txn := logstore.Txn{If: d.Conditions, Do: append(d.Ops, logstore.AppendBatch(s.sh, s.batch(id, epoch, first, count))), Wait: logstore.Durable}
	res, err := s.store.Commit(s.t.Context(), txn)
	if err != nil {
		s.t.Fatal(err)
	}
	if remember {
		s.p.Appended(s.sh, id, epoch, first, res.Base(0))
	}
	return res.Base(0), false, nil
}

func wantError[E error](t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[E](err); !ok {
		t.Fatalf("the error is %T %v", err, err)
	}
}

func (s *shop) newID() int64 {
	id, err := s.p.NewID(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func TestSequencesAreHeldTo(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.newID()
	next := func(epoch int16, first, count int32) {
		t.Helper()
		if _, dup, err := s.produce(id, epoch, first, count, true); err != nil || dup {
			t.Fatalf("sequence %d of epoch %d: duplicate %v, %v", first, epoch, dup, err)
		}
	}
	_, _, err := s.produce(id, 0, 3, 1, true)
	wantError[*OutOfOrderSequenceError](t, err) // a new id begins with 0
	next(0, 0, 3)
	next(0, 3, 1)
	_, _, err = s.produce(id, 0, 5, 1, true)
	wantError[*OutOfOrderSequenceError](t, err) // 4 is missing
	_, _, err = s.produce(id, 0, 3, 2, true)
	wantError[*OutOfOrderSequenceError](t, err) // begins like a batch and is another
	_, _, err = s.produce(id, 1, 4, 1, true)
	wantError[*OutOfOrderSequenceError](t, err) // a new epoch begins with 0
	next(1, 0, 3)                               // as the first batch of the old epoch, and not the same
	_, _, err = s.produce(id, 0, 4, 1, true)
	wantError[*InvalidEpochError](t, err)
	next(1, 3, 1)
	_, _, err = s.produce(id+1_000_000, 0, 1, 1, true)
	wantError[*UnknownProducerError](t, err) // an id that was never given out here
}

func TestDuplicateIsAnsweredWithTheOffsetOfTheFirst(t *testing.T) {
	t.Parallel()
	for _, remember := range []bool{true, false} {
		s := newShop(t)
		id, other := s.newID(), s.newID()
		var offsets []int64
		for i := range int32(8) {
			offset, _, err := s.produce(id, 0, 2*i, 2, remember)
			if err != nil {
				t.Fatal(err)
			}
			offsets = append(offsets, offset)
			if _, _, err := s.produce(other, 0, i, 1, remember); err != nil {
				t.Fatal(err)
			}
		}
		for i := range int32(8) {
			offset, dup, err := s.produce(id, 0, 2*i, 2, remember)
			if i < 3 {
				wantError[*OutOfOrderSequenceError](t, err) // not one of the last five
				continue
			}
			if err != nil || !dup || offset != offsets[i] {
				t.Fatalf("the repeated batch %d has offset %d, duplicate %v, %v; the first had %d", i, offset, dup, err, offsets[i])
			}
		}
		if _, next, _ := s.store.Bounds(s.sh); next != 24 {
			t.Fatalf("the shard goes to %d; a duplicate was appended", next)
		}
	}
}

// A duplicate whose original was deleted is one all the same; nobody knows its offset any more.
func TestDuplicateOfADeletedBatchHasNoOffset(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.newID()
	for i := range int32(3) {
		if _, _, err := s.produce(id, 0, i, 1, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.store.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.TrimBefore(s.sh, 2)}}); err != nil {
		t.Fatal(err)
	}
	for first, want := range map[int32]int64{1: -1, 2: 2} {
		if offset, dup, err := s.produce(id, 0, first, 1, false); err != nil || !dup || offset != want {
			t.Fatalf("sequence %d: offset %d, duplicate %v, %v", first, offset, dup, err)
		}
	}
}

func TestSequenceWraps(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	// A state as it is after 2^31-6 records.
	key := producerKey(s.sh, 7)
	state := producerState{epoch: 0, at: s.now.UnixMilli(), batches: []batchRange{{math.MaxInt32 - 9, math.MaxInt32 - 6, 0}}}
	if _, err := s.store.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.Put(key, state.encode())}}); err != nil {
		t.Fatal(err)
	}
	for _, first := range []int32{math.MaxInt32 - 5, math.MaxInt32 - 1, 2, 6} { // of 4 each: the second is MaxInt32-1, MaxInt32, 0, 1
		if _, dup, err := s.produce(7, 0, first, 4, false); err != nil || dup {
			t.Fatalf("sequence %d: duplicate %v, %v", first, dup, err)
		}
	}
	if offset, dup, err := s.produce(7, 0, math.MaxInt32-1, 4, false); err != nil || !dup || offset != 4 {
		t.Fatalf("offset %d, duplicate %v, %v", offset, dup, err)
	}
}

// Two connections of one producer send the same batch at the same time: one is appended.
func TestRacingDuplicatesAreStoredOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.newID()
	for first := range int32(3) {
		a, err := s.p.Begin(Batch{Shard: s.sh, ProducerID: id, First: first, Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.produce(id, 0, first, 1, true); err != nil {
			t.Fatal(err)
		}
		_, err = s.store.Commit(t.Context(), logstore.Txn{If: a.Conditions, Do: append(a.Ops, logstore.AppendBatch(s.sh, s.batch(id, 0, first, 1)))})
		if !errors.Is(err, logstore.ErrConflict) {
			t.Fatalf("the second of two equal batches: %v", err)
		}
		if _, dup, err := s.produce(id, 0, first, 1, true); err != nil || !dup {
			t.Fatalf("begun again it is no duplicate: %v", err)
		}
	}
}

func TestProducerIDsNeverRepeat(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	r := seed.Rand(t)
	seen := map[int64]bool{}
	for range 10 {
		for range r.IntN(3 * idBlock) {
			id := s.newID()
			if seen[id] {
				t.Fatalf("%d was given out twice", id)
			}
			seen[id] = true
		}
		s.now = s.now.Add(time.Duration(r.IntN(100)) * time.Minute)
		if r.IntN(2) == 0 {
			if _, err := s.p.Sweep(); err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(2) == 0 {
			s.crash()
		}
	}
}

// What was sent before a crash and is sent again after it is stored once, wherever the crash was.
func TestCrashForgetsNoSequence(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	r := seed.Rand(t)
	id := s.newID()
	var offsets []int64
	for range 50 {
		first := int32(len(offsets))
		if r.IntN(3) == 0 && first > 0 {
			first -= 1 + r.Int32N(min(first, batchesKept))
		}
		offset, dup, err := s.produce(id, 0, first, 1, r.IntN(2) == 0)
		switch {
		case err != nil:
			t.Fatal(err)
		case dup != (int(first) < len(offsets)):
			t.Fatalf("sequence %d of %d: duplicate %v", first, len(offsets), dup)
		case dup && offset != offsets[first]:
			t.Fatalf("sequence %d is at %d, and was at %d", first, offset, offsets[first])
		case !dup:
			offsets = append(offsets, offset)
		}
		if r.IntN(4) == 0 {
			s.crash()
		}
	}
}

func TestIdleProducersAreForgotten(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	idle, busy := s.newID(), s.newID()
	for _, id := range []int64{idle, busy} {
		if _, _, err := s.produce(id, 0, 0, 1, true); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func() {
		t.Helper()
		if next, err := s.p.Sweep(); err != nil || next != SweepInterval {
			t.Fatalf("again in %v, %v", next, err)
		}
	}
	seq := int32(1)
	for range 30 {
		s.now = s.now.Add(time.Hour)
		if _, _, err := s.produce(busy, 0, seq, 1, true); err != nil {
			t.Fatal(err)
		}
		seq++
		sweep()
	}
	_, _, err := s.produce(idle, 0, 1, 1, true)
	wantError[*UnknownProducerError](t, err)
	young := s.newID()
	_, _, err = s.produce(young, 0, 1, 1, true)
	wantError[*OutOfOrderSequenceError](t, err)
	if _, _, err := s.produce(idle, 1, 0, 1, true); err != nil {
		t.Fatalf("it begins anew: %v", err)
	}

	if _, err := s.store.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.DropShard(s.sh), logstore.Remove("t")}}); err != nil {
		t.Fatal(err)
	}
	sweep()
	s.store.Scan(producerPrefix, func(key string, _ []byte) bool {
		t.Errorf("%q is left of a shard that is gone", key)
		return true
	})
	ids, _, err := s.p.readIDs()
	if err != nil || len(ids.marks) > 2 {
		t.Fatalf("%d marks for few ids, %v", len(ids.marks), err)
	}
}

// A topic that is deleted and made anew under a producer: the client is told to begin anew, not that something is missing.
func TestProducerOlderThanItsShardBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	old := s.newID()
	if _, _, err := s.produce(old, 0, 0, 3, true); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(time.Second)
	res, err := s.store.Commit(t.Context(), logstore.Txn{Do: []logstore.Op{logstore.DropShard(s.sh), logstore.Remove("t"), logstore.CreateShard("again")}})
	if err != nil {
		t.Fatal(err)
	}
	s.sh, s.since = res.Shard(0), s.now.UnixMilli()
	s.now = s.now.Add(time.Second)
	young := s.newID()
	for _, crash := range []bool{false, true} {
		if crash {
			s.crash()
		}
		_, _, err = s.produce(old, 0, 3, 1, true)
		if crash { // when exactly it was given out is not known any more
			wantError[*OutOfOrderSequenceError](t, err)
		} else {
			wantError[*UnknownProducerError](t, err)
		}
		_, _, err = s.produce(young, 0, 3, 1, true)
		wantError[*OutOfOrderSequenceError](t, err)
	}
	for range 3 * marksKept {
		s.newID()
	}
	if len(s.p.given) > marksKept {
		t.Errorf("%d marks are kept", len(s.p.given))
	}
}

// Ids that another node has yet to give out are not taken for old, whatever this one gave out or marked meanwhile.
func TestIDsOfOtherNodesAreNotTakenForOld(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	shared := func() *Producers {
		p, err := NewProducers(ProducerOptions{Store: s.store, Now: func() time.Time { return s.now }, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	newID := func(p *Producers) int64 {
		id, err := p.NewID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	a, b := shared(), shared()
	newID(a)
	newID(b)
	for _, mark := range []bool{false, true} {
		s.now = s.now.Add(2 * time.Hour)
		if mark {
			if _, err := b.Sweep(); err != nil {
				t.Fatal(err)
			}
		}
		s.since = s.now.UnixMilli()
		s.now = s.now.Add(time.Second)
		id := newID(a) // of the block that it had before b gave one out, and marked
		for _, p := range []*Producers{a, b} {
			s.p = p
			_, _, err := s.produce(id, 0, 3, 1, true)
			wantError[*OutOfOrderSequenceError](t, err)
		}
	}
}

func TestLocateEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.p.Locate(ctx, &Duplicate{Shard: s.sh}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func BenchmarkBegin(b *testing.B) {
	s := newShop(b)
	id := s.newID()
	if _, _, err := s.produce(id, 0, 0, 1, true); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.p.Begin(Batch{Shard: s.sh, Next: 100, ProducerID: id, First: 1, Count: 10}); err != nil {
			b.Fatal(err)
		}
	}
}
