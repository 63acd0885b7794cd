package kafka

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// startGroups starts a broker whose groups are ticked, on a disk in memory that can lose its power.
func startGroups(t *testing.T, fs *vfs.Mem, change func(*group.Options)) *broker {
	t.Helper()
	return startBroker(t, func(o *Options) {
		store, err := logstore.Open(logstore.Options{Dir: "log", FS: fs, SegmentBytes: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		wake := make(chan struct{}, 1)
		g := group.Options{Store: store, Now: time.Now, InitialDelay: 50 * time.Millisecond, SessionMin: 100 * time.Millisecond, NewID: func() string {
			var id [8]byte
			rand.Read(id[:])
			return hex.EncodeToString(id[:])
		}, Wake: func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		}}
		if change != nil {
			change(&g)
		}
		if o.Groups, err = group.Open(g); err != nil {
			t.Fatal(err)
		}
		if o.Producers, err = group.NewProducers(group.ProducerOptions{Store: store, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		o.Store = store
		o.Topics = topic.Open(topic.Options{Store: store, Now: time.Now, NewID: func() (id topic.ID) {
			rand.Read(id[:])
			return id
		}})
		done := make(chan struct{})
		var ticking sync.WaitGroup
		ticking.Go(func() {
			timer := time.NewTimer(0)
			for {
				select {
				case <-done:
					return
				case <-wake:
				case <-timer.C:
				}
				if next := o.Groups.Tick(time.Now()); !next.IsZero() {
					timer.Reset(time.Until(next))
				}
			}
		})
		t.Cleanup(func() {
			close(done)
			ticking.Wait()
			o.Groups.Close()
		})
	})
}

// await waits until a condition holds.
func await(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// worker is a group member that counts what it reads.
type worker struct {
	cl   *kgo.Client
	stop context.CancelFunc
	done chan struct{}
	mu   sync.Mutex
	has  map[int32]bool // partitions that it has now
}

// workplace is a group's members, and what they read together: the value of each record, how often.
type workplace struct {
	mu   sync.Mutex
	seen map[string]int
}

func (p *workplace) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// hire starts a member; it commits what it has read after every poll.
func (p *workplace) hire(b *broker, opts ...kgo.Opt) *worker {
	w := &worker{done: make(chan struct{}), has: map[int32]bool{}}
	change := func(on bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, ps := range m {
				for _, p := range ps {
					if on {
						w.has[p] = true
					} else {
						delete(w.has, p)
					}
				}
			}
		}
	}
	w.cl = b.client(append([]kgo.Opt{
		kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.HeartbeatInterval(50 * time.Millisecond), kgo.SessionTimeout(2 * time.Second), kgo.RebalanceTimeout(5 * time.Second),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	}, opts...)...)
	ctx, stop := context.WithCancel(b.t.Context())
	w.stop = stop
	go func() {
		defer close(w.done)
		for ctx.Err() == nil {
			fs := w.cl.PollFetches(ctx)
			p.mu.Lock()
			fs.EachRecord(func(r *kgo.Record) { p.seen[string(r.Value)]++ })
			p.mu.Unlock()
			if len(fs.Records()) > 0 { // before it ends, too
				if err := w.cl.CommitUncommittedOffsets(b.t.Context()); err != nil {
					b.t.Errorf("commit: %v", err)
				}
			}
			w.cl.AllowRebalance()
		}
	}()
	return w
}

// end stops the worker; leave says whether it tells the group.
func (w *worker) end(leave bool) {
	w.stop()
	<-w.done
	if leave {
		w.cl.CloseAllowingRebalance()
	}
}

func (w *worker) partitions() []int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.has))
}

// write appends n jobs, evenly over the partitions.
func write(t *testing.T, b *broker, from, n, partitions int) {
	t.Helper()
	cl := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var rs []*kgo.Record
	for i := from; i < from+n; i++ {
		rs = append(rs, &kgo.Record{Topic: "jobs", Partition: int32(i % partitions), Value: fmt.Appendf(nil, "job %d", i)})
	}
	if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// shared reports whether the workers have all partitions, each one once, and every worker at least one.
func shared(partitions int, ws ...*worker) bool {
	have := map[int32]int{}
	for _, w := range ws {
		ps := w.partitions()
		if len(ps) == 0 {
			return false
		}
		for _, p := range ps {
			have[p]++
		}
	}
	for p := range int32(partitions) {
		if have[p] != 1 {
			return false
		}
	}
	return len(have) == partitions
}

// Members come, leave and die; the partitions are always somebody's, and every record is read. As the members commit before they give up a partition, those
// that end in order read nothing twice.
func TestMembersShareOutTheWork(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]kgo.Opt{
		"cooperative": kgo.Balancers(kgo.CooperativeStickyBalancer()),
		"eager":       kgo.Balancers(kgo.RangeBalancer()),
		"upgrading":   kgo.Balancers(kgo.CooperativeStickyBalancer(), kgo.RoundRobinBalancer()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startGroups(t, vfs.NewMem(), nil)
			b.topic("jobs", func(s *topic.Spec) { s.Partitions = 6 })
			p := &workplace{seen: map[string]int{}}
			write(t, b, 0, 600, 6)
			one := p.hire(b, opt)
			await(t, "one member reads all", func() bool { return p.count() == 600 && shared(6, one) })
			two, three := p.hire(b, opt), p.hire(b, opt)
			await(t, "three share", func() bool { return shared(6, one, two, three) })
			write(t, b, 600, 600, 6)
			await(t, "three read all", func() bool { return p.count() == 1200 })
			one.end(true)
			await(t, "two share", func() bool { return shared(6, two, three) })
			write(t, b, 1200, 600, 6)
			await(t, "two read all", func() bool { return p.count() == 1800 })
			for v, n := range p.seen {
				if n != 1 {
					t.Errorf("%q was read %d times", v, n)
				}
			}
			lags, err := kadm.NewClient(two.cl).Lag(t.Context(), "workers")
			if lag := lags["workers"]; err != nil || lag.Error() != nil || lag.State != "Stable" || lag.Lag.Total() != 0 {
				t.Errorf("lag: %+v %v", lag, err)
			}

			two.end(false) // it dies: nothing more is heard of it
			two.cl.PauseFetchTopics("jobs")
			two.cl.Close()
			await(t, "the last one has all", func() bool { return shared(6, three) })
			write(t, b, 1800, 600, 6)
			await(t, "the last one reads all", func() bool { return p.count() == 2400 })
			three.end(true)
			d, err := b.opts.Groups.Describe("/", "workers")
			if err != nil || d.State != group.Empty {
				t.Errorf("the group is %v, %v", d.State, err)
			}
		})
	}
}

// A static member that comes back within its session has its partitions again, and the others have not joined anew.
func TestStaticMemberComesBackToItsPlace(t *testing.T) {
	t.Parallel()
	b := startGroups(t, vfs.NewMem(), nil)
	b.topic("jobs", func(s *topic.Spec) { s.Partitions = 4 })
	p := &workplace{seen: map[string]int{}}
	write(t, b, 0, 400, 4)
	opts := func(id string) []kgo.Opt {
		return []kgo.Opt{kgo.InstanceID(id), kgo.SessionTimeout(20 * time.Second), kgo.Balancers(kgo.RangeBalancer())}
	}
	var joins atomic.Int32
	one := p.hire(b, append(opts("one"), kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { joins.Add(1) }))...)
	two := p.hire(b, opts("two")...)
	await(t, "two share", func() bool { return len(two.partitions()) == 2 && p.count() == 400 })
	before, joined := two.partitions(), joins.Load()
	_, generation := two.cl.GroupMetadata()

	two.end(true) // a static member does not leave the group when it ends
	again := p.hire(b, opts("two")...)
	await(t, "it is back", func() bool { return len(again.partitions()) == 2 })
	if got := again.partitions(); !slices.Equal(got, before) {
		t.Errorf("it has partitions %v, and had %v", got, before)
	}
	if _, g := again.cl.GroupMetadata(); g != generation || joins.Load() != joined {
		t.Errorf("generation %d after %d; the other one was assigned %d times", g, generation, joins.Load()-joined)
	}
	write(t, b, 400, 400, 4)
	await(t, "all is read", func() bool { return p.count() == 800 })

	// An administrator takes it out by its instance id; the other one gets its work.
	again.end(true)
	left, err := kadm.NewClient(one.cl).LeaveGroup(t.Context(), kadm.LeaveGroup("workers").InstanceIDs("two"))
	if err != nil || !left.Ok() {
		t.Fatalf("leave: %v %v", left, err)
	}
	await(t, "the other has all", func() bool {
		d, err := b.opts.Groups.Describe("/", "workers")
		return err == nil && d.State == group.Stable && len(d.Members) == 1
	})
	one.end(true)
}

// admin returns a kadm client.
func (b *broker) admin() *kadm.Client { return kadm.NewClient(b.client()) }

func offsets(topicName string, at ...int64) kadm.Offsets {
	o := kadm.Offsets{}
	for p, a := range at {
		o.AddOffset(topicName, int32(p), a, -1)
	}
	return o
}

func TestAdministratorSeesAndChangesGroups(t *testing.T) {
	t.Parallel()
	b := startGroups(t, vfs.NewMem(), nil)
	b.topic("jobs", func(s *topic.Spec) { s.Partitions = 2 })
	b.topic("other", func(s *topic.Spec) { s.Partitions = 2 })
	adm, ctx := b.admin(), t.Context()
	p := &workplace{seen: map[string]int{}}
	write(t, b, 0, 10, 2)
	w := p.hire(b)
	await(t, "all is read", func() bool { return p.count() == 10 })
	if err := adm.CommitAllOffsets(ctx, "tool", offsets("other", 7, 8)); err != nil {
		t.Fatal(err)
	}
	if err := adm.CommitAllOffsets(ctx, "workers", offsets("other", 7)); !errors.Is(err, kerr.UnknownMemberID) {
		t.Errorf("somebody else moves the bookmarks of a group at work: %v", err)
	}
	await(t, "the work is committed", func() bool {
		o, err := adm.FetchOffsets(ctx, "workers")
		return err == nil && o["jobs"][0].At == 5 && o["jobs"][1].At == 5
	})

	listed, err := adm.ListGroups(ctx)
	if err != nil || !slices.Equal(listed.Groups(), []string{"tool", "workers"}) {
		t.Fatalf("groups: %v %v", listed, err)
	}
	if l, err := adm.ListGroups(ctx, "stable"); err != nil || !slices.Equal(l.Groups(), []string{"workers"}) {
		t.Errorf("stable groups: %v %v", l, err)
	}
	described, err := adm.DescribeGroups(ctx, "workers", "tool", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	d := described["workers"]
	if d.State != "Stable" || d.ProtocolType != "consumer" || len(d.Members) != 1 || d.Members[0].ClientHost != "/127.0.0.1" || d.Members[0].ClientID != "kgo" {
		t.Errorf("workers: %+v", d)
	}
	if got := d.AssignedPartitions(); len(got["jobs"]) != 2 {
		t.Errorf("assigned: %v", got)
	}
	if described["tool"].State != "Empty" || described["nobody"].State != "Dead" || !errors.Is(described["nobody"].Err, kerr.GroupIDNotFound) {
		t.Errorf("tool: %+v, nobody: %+v", described["tool"], described["nobody"])
	}
	many := adm.FetchManyOffsets(ctx, "workers", "tool", "nobody")
	if many["tool"].Fetched["other"][1].At != 8 || many["workers"].Fetched["jobs"][0].At != 5 || len(many["nobody"].Fetched) != 0 || many["nobody"].Err != nil {
		t.Errorf("offsets: %+v", many)
	}

	deleted, err := adm.DeleteGroups(ctx, "workers", "nobody")
	if err != nil || !errors.Is(deleted["workers"].Err, kerr.NonEmptyGroup) || !errors.Is(deleted["nobody"].Err, kerr.GroupIDNotFound) {
		t.Errorf("delete: %v %v", deleted, err)
	}
	var set kadm.TopicsSet
	set.Add("jobs", 0)
	set.Add("other", 0)
	set.Add("none", 0)
	gone, err := adm.DeleteOffsets(ctx, "workers", set)
	if err != nil || !errors.Is(gone["jobs"][0], kerr.GroupSubscribedToTopic) || gone["other"][0] != nil || !errors.Is(gone["none"][0], kerr.UnknownTopicOrPartition) {
		t.Errorf("offsets of a topic at work: %v %v", gone, err)
	}
	if gone, err := adm.DeleteOffsets(ctx, "tool", set); err != nil || gone["other"][0] != nil {
		t.Errorf("delete offsets: %v %v", gone, err)
	}
	if o, err := adm.FetchOffsets(ctx, "tool"); err != nil || len(o["other"]) != 1 || o["other"][1].At != 8 {
		t.Errorf("offsets: %v %v", o, err)
	}
	w.end(true)
	if deleted, err := adm.DeleteGroups(ctx, "workers", "tool"); err != nil || deleted.Error() != nil {
		t.Errorf("delete: %v %v", deleted, err)
	}
	if l, err := adm.ListGroups(ctx); err != nil || len(l) != 0 {
		t.Errorf("groups: %v %v", l, err)
	}
}

// A topic that is deleted and made anew begins without bookmarks.
func TestTopicMadeAnewHasNoOffsets(t *testing.T) {
	t.Parallel()
	b := startGroups(t, vfs.NewMem(), nil)
	b.topic("jobs", nil)
	adm, ctx := b.admin(), t.Context()
	if err := adm.CommitAllOffsets(ctx, "tool", offsets("jobs", 7)); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteTopics(ctx, "jobs"); err != nil {
		t.Fatal(err)
	}
	if o, err := adm.FetchOffsets(ctx, "tool"); err != nil || len(o) != 0 {
		t.Errorf("offsets without the topic: %v %v", o, err)
	}
	b.topic("jobs", nil)
	adm = b.admin() // the first remembers that there is no such topic
	if o, err := adm.FetchOffsets(ctx, "tool"); err != nil || len(o) != 0 {
		t.Errorf("offsets of the new topic: %v %v", o, err)
	}
	if res, err := adm.CommitOffsets(ctx, "tool", offsets("jobs", 1, 1)); err != nil || res["jobs"][0].Err != nil || !errors.Is(res["jobs"][1].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("commit to a partition that is not there: %v %v", res, err)
	}
}

// What was answered is there after a power cut: the bookmarks, the generation, the members.
func TestCommitSurvivesPowerCut(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	b := startGroups(t, fs, nil)
	b.topic("jobs", func(s *topic.Spec) { s.Partitions = 2 })
	adm, ctx := b.admin(), t.Context()
	p := &workplace{seen: map[string]int{}}
	write(t, b, 0, 100, 2)
	w := p.hire(b, kgo.InstanceID("one"), kgo.SessionTimeout(20*time.Second))
	await(t, "all is read", func() bool { return p.count() == 100 })
	var last int64
	for i := range int64(50) {
		if err := adm.CommitAllOffsets(ctx, "tool", offsets("jobs", i)); err != nil {
			t.Fatal(err)
		}
		last = i
	}
	_, generation := w.cl.GroupMetadata()
	fs = fs.Crash(vfs.CrashPlan{Kind: vfs.DropUnsynced})
	w.stop()
	<-w.done

	b = startGroups(t, fs, nil)
	adm = b.admin()
	if o, err := adm.FetchOffsets(ctx, "tool"); err != nil || o["jobs"][0].At != last {
		t.Errorf("%d was committed, and %v is there, %v", last, o, err)
	}
	d, err := adm.DescribeGroups(ctx, "workers")
	if err != nil || d["workers"].State != "Stable" || len(d["workers"].Members) != 1 || *d["workers"].Members[0].InstanceID != "one" {
		t.Fatalf("the group is %+v, %v", d, err)
	}
	write(t, b, 100, 100, 2)
	w = p.hire(b, kgo.InstanceID("one"), kgo.SessionTimeout(20*time.Second))
	await(t, "the rest is read", func() bool { return p.count() == 200 })
	if _, g := w.cl.GroupMetadata(); g != generation {
		t.Errorf("generation %d after %d", g, generation)
	}
	w.end(true)
}
