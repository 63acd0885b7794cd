package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/logstore/seed"
	"polylog/viewlayer/group"
)

// bookmarkWatch looks at a group's bookmarks all the time, in what one node knows.
type bookmarkWatch struct {
	stop chan struct{}
	done sync.WaitGroup
}

// watchBookmarks fails the test when a bookmark moves backwards, or is gone.
func watchBookmarks(t *testing.T, nd *node, name string) *bookmarkWatch {
	t.Helper()
	reader, err := group.Open(group.Options{Store: nd.store, Now: time.Now, NewID: randomID}) // it is never asked to change anything
	if err != nil {
		t.Fatal(err)
	}
	w := &bookmarkWatch{stop: make(chan struct{})}
	seen := map[group.TopicPartition]int64{}
	w.done.Go(func() {
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(200 * time.Microsecond):
			}
			all, err := reader.FetchAll("/", name)
			if err != nil || len(all) < len(seen) {
				t.Errorf("%d bookmarks after %d, %v", len(all), len(seen), err)
				return
			}
			for _, b := range all {
				if b.Offset < seen[b.TopicPartition] {
					t.Errorf("node %d: the bookmark of partition %d moved from %d to %d", nd.id, b.Partition, seen[b.TopicPartition], b.Offset)
				}
				seen[b.TopicPartition] = b.Offset
			}
		}
	})
	return w
}

func (w *bookmarkWatch) end() {
	close(w.stop)
	w.done.Wait()
}

// A group goes on while its coordinators come and go, whichever node is behind: every record is read, and no committed offset moves backwards or is lost.
func TestGroupGoesOnWhileNodesComeAndGo(t *testing.T) {
	t.Parallel()
	const partitions, workers = 8, 3
	r := seed.Rand(t)
	c := startCluster(t, 3)
	c.topic("jobs", partitions)
	watch := watchBookmarks(t, c.nodes[0], "workers")
	ctx, cancel := context.WithCancel(t.Context())

	var mu sync.Mutex
	seen := map[string]bool{}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(seen) }
	var at [partitions]atomic.Int64 // how far the commits of a partition were acknowledged
	var working sync.WaitGroup
	for range workers {
		cl := c.client(kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
			kgo.HeartbeatInterval(50*time.Millisecond), kgo.SessionTimeout(2*time.Second), kgo.RebalanceTimeout(5*time.Second), kgo.FetchMaxWait(200*time.Millisecond),
			kgo.AdjustFetchOffsetsFn(func(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
				for p, o := range offsets["jobs"] { // where the member is told to go on
					if got, want := o.EpochOffset().Offset, at[p].Load(); want > 0 && got < want {
						t.Errorf("partition %d: a member is told to go on at %d after %d was committed", p, got, want)
					}
				}
				return offsets, nil
			}))
		working.Go(func() {
			for ctx.Err() == nil {
				poll, done := context.WithTimeout(ctx, 100*time.Millisecond) // a commit that failed is tried again
				fs := cl.PollFetches(poll)
				done()
				mu.Lock()
				fs.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
				mu.Unlock()
				if commit := cl.UncommittedOffsets(); len(commit) > 0 && cl.CommitUncommittedOffsets(ctx) == nil {
					for p, o := range commit["jobs"] {
						for was := at[p].Load(); was < o.Offset && !at[p].CompareAndSwap(was, o.Offset); was = at[p].Load() {
						}
					}
				}
				cl.AllowRebalance()
			}
			cl.CloseAllowingRebalance()
		})
	}
	written := 0
	w := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produce := func(n int) {
		t.Helper()
		for range n {
			w.Produce(ctx, &kgo.Record{Topic: "jobs", Partition: int32(written % partitions), Value: fmt.Appendf(nil, "job %d", written)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			written++
		}
	}
	flush := func() {
		t.Helper()
		if err := w.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	produce(400)
	flush()
	await(t, "the first records are read", func() bool { return count() == written })
	for range 3 {
		id := group.CoordinatorOf(c.ids(), "/", "workers")
		stale := c.nodes[r.IntN(len(c.nodes))]
		lag(stale, r, func() {
			produce(400)
			c.lose(id)
			produce(400)
			flush()
		})
		await(t, "all is read without the coordinator", func() bool { return count() == written })
		lag(c.nodes[r.IntN(len(c.nodes))], r, func() {
			produce(200)
			c.back(id)
			produce(200)
			flush()
		})
		await(t, "all is read when it is back", func() bool { return count() == written })
	}
	adm := kadm.NewClient(w)
	await(t, "all is committed", func() bool {
		offsets, err := adm.FetchOffsets(ctx, "workers")
		if err != nil {
			return false
		}
		sum := int64(0)
		offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
		return sum == int64(written)
	})
	cancel()
	working.Wait()
	watch.end()
	for _, nd := range c.nodes {
		c.caughtUp(nd)
	}
	_, hash := c.nodes[0].store.Hash()
	for _, nd := range c.nodes[1:] {
		eventually(t, "all stores are equal", func() bool { _, h := nd.store.Hash(); return h == hash })
	}
}

// lag does something while a node is behind, for a while.
func lag(nd *node, r *rand.Rand, f func()) {
	nd.seat.hold()
	timer := time.AfterFunc(time.Duration(r.IntN(300))*time.Millisecond, nd.seat.letGo)
	f()
	timer.Stop()
	nd.seat.letGo()
}

// A client produces to all leaders, and goes to another one when its leader is gone, though the leader epoch stays the same. An idempotent producer's records are
// stored once.
func TestClientFollowsLeaders(t *testing.T) {
	t.Parallel()
	const partitions = 12
	c := startCluster(t, 3)
	tp := c.topic("wide", partitions)
	w := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("wide"), kgo.MetadataMaxAge(100*time.Millisecond))
	round := 0
	write := func() {
		t.Helper()
		var rs []*kgo.Record
		for p := range int32(partitions) {
			for range 10 {
				rs = append(rs, &kgo.Record{Partition: p, Value: fmt.Appendf(nil, "%d", round)})
			}
		}
		round++
		if err := w.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produced := func(nd *node) int64 { return nd.server.Figures().ProducedBatches }
	write()
	for _, nd := range c.nodes {
		if produced(nd) == 0 {
			t.Errorf("node %d got nothing", nd.id)
		}
	}
	c.lose(2)
	write()
	c.back(2) // a new server, that nobody has produced to
	await(t, "the client goes back to the node that is back", func() bool {
		write()
		return produced(c.nodes[2]) > 0
	})
	read := c.client(kgo.ConsumeTopics("wide"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := [partitions]int64{}
	for _, rec := range consume(t, read, partitions*10*round) {
		if want := next[rec.Partition]; rec.Offset != want || string(rec.Value) != fmt.Sprint(want/10) {
			t.Fatalf("partition %d: %q at %d, want %d", rec.Partition, rec.Value, rec.Offset, want)
		}
		next[rec.Partition]++
	}
	for p := range next {
		if _, end, err := c.nodes[0].store.Bounds(tp.Shards[p]); err != nil || end != next[p] {
			t.Errorf("partition %d ends at %d, %d were read, %v", p, end, next[p], err)
		}
	}
}
