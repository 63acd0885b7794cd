package topic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/logstore/vfs"
)

// openStore opens a log in memory.
func openStore(t *testing.T) *logstore.Store {
	t.Helper()
	s, err := logstore.Open(logstore.Options{Dir: "log", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // the test is over
	return s
}

var ids atomic.Int64

func openCatalog(s *logstore.Store, now func() time.Time) *Catalog {
	return Open(Options{Store: s, Now: now, NewID: func() ID { return ID([]byte(fmt.Sprintf("%016d", ids.Add(1)))) }})
}

func isA[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

func TestTopicIsWhatItsSpecSays(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	a, b := openCatalog(s, time.Now), openCatalog(s, time.Now)
	ctx := context.Background()
	spec := Spec{
		Namespace: "v", Name: "orders", Partitions: 3, AckPolicy: Retain, Durable: true, AutoDelete: true, Hidden: true, Internal: true, Owner: "connection 7",
		Arguments: []byte{0, 0, 0, 0}, Config: map[string]string{ConfigRetentionMillis: "1000", ConfigCleanupPolicy: "compact"},
	}
	made, err := a.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.Find("v", "orders") // by another catalog, as another node has it
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []*Topic{made, found} {
		if got.Name != "orders" || got.Namespace != "v" || len(got.Shards) != 3 || got.AckPolicy != Retain || !got.Durable || !got.AutoDelete || !got.Hidden ||
			!got.Internal || got.Owner != "connection 7" || string(got.Arguments) != "\x00\x00\x00\x00" || !maps.Equal(got.Config, spec.Config) || got.ID != made.ID {
			t.Errorf("got %+v", got)
		}
	}
	if byID, err := b.FindID(made.ID); err != nil || byID != found {
		t.Errorf("by id: %+v, %v", byID, err)
	}
	if _, err := a.Create(ctx, spec); !isA[*ExistsError](err) {
		t.Errorf("made twice: %v", err)
	}
	if _, err := b.Find("/", "orders"); !isA[*UnknownError](err) {
		t.Errorf("in another namespace: %v", err)
	}
}

func TestDeletedTopicIsGoneForEveryone(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	a, b := openCatalog(s, time.Now), openCatalog(s, time.Now)
	ctx := context.Background()
	spec := Spec{Namespace: "/", Name: strings.Repeat("ü", 127), Partitions: 2}
	old, err := a.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	kafka := KafkaName(spec.Name)
	if got, err := b.FindKafka("/", kafka); err != nil || got.ID != old.ID {
		t.Fatalf("by its Kafka name %s: %v, %v", kafka, got, err)
	}
	if err := b.Delete(ctx, old); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Find("/", spec.Name); !isA[*UnknownError](err) {
		t.Fatalf("found after its deletion: %v", err)
	}
	if _, err := a.FindID(old.ID); !isA[*UnknownIDError](err) {
		t.Fatalf("found by its id after its deletion: %v", err)
	}
	if err := a.Delete(ctx, old); !isA[*UnknownError](err) {
		t.Fatalf("deleted twice: %v", err)
	}
	left := 0
	s.Scan("", func(key string, _ []byte) bool { left++; t.Logf("left: %q", key); return true })
	if left != 0 || s.Stats().Shards != 0 {
		t.Fatalf("%d keys and %d shards are left", left, s.Stats().Shards)
	}
	again, err := a.Create(ctx, spec)
	if err != nil || again.ID == old.ID {
		t.Fatalf("made anew: %+v, %v", again, err)
	}
	if err := a.Delete(ctx, old); !isA[*UnknownError](err) {
		t.Fatalf("the old topic's deletion deleted the new one: %v", err)
	}
}

func TestOneOfManyMakesATopic(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	var made, there atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		c := openCatalog(s, time.Now)
		wg.Go(func() {
			_, err := c.Create(context.Background(), Spec{Namespace: "/", Name: "t", Partitions: 1})
			switch {
			case err == nil:
				made.Add(1)
			case isA[*ExistsError](err):
				there.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 || there.Load() != 7 {
		t.Fatalf("%d made it and %d found it", made.Load(), there.Load())
	}
}

func TestListIsByNameAndNamespace(t *testing.T) {
	t.Parallel()
	c := openCatalog(openStore(t), time.Now)
	for _, p := range []place{{"/", "b"}, {"/", "a"}, {"v", "c"}, {"vv", "d"}, {"", "e"}} {
		if _, err := c.Create(context.Background(), Spec{Namespace: p.namespace, Name: p.name, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for ns, want := range map[string]string{"/": "a b", "v": "c", "vv": "d", "": "e", "x": ""} {
		ts, err := c.List(ns)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, topic := range ts {
			names = append(names, topic.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("in %q: %q, want %q", ns, got, want)
		}
	}
}

func TestWishesThatNoTopicFulfils(t *testing.T) {
	t.Parallel()
	c := openCatalog(openStore(t), time.Now)
	for _, tc := range []struct {
		spec Spec
		is   func(error) bool
	}{
		{Spec{Name: "t"}, isA[*PartitionsError]},
		{Spec{Name: "t", Partitions: PartitionsMax + 1}, isA[*PartitionsError]},
		{Spec{Name: "", Partitions: 1}, isA[*NameError]},
		{Spec{Name: strings.Repeat("x", 256), Partitions: 1}, isA[*NameError]},
		{Spec{Name: "t", Namespace: strings.Repeat("x", 256), Partitions: 1}, isA[*NameError]},
		{Spec{Name: "t", Partitions: 1, Config: map[string]string{"no.such.key": "1"}}, isA[*ConfigError]},
		{Spec{Name: "t", Partitions: 1, Config: map[string]string{ConfigRetentionMillis: "-2"}}, isA[*ConfigError]},
		{Spec{Name: "t", Partitions: 1, Config: map[string]string{ConfigCleanupPolicy: "keep"}}, isA[*ConfigError]},
		{Spec{Name: "t", Partitions: 1, Config: map[string]string{ConfigTimestampType: "Never"}}, isA[*ConfigError]},
	} {
		if _, err := c.Create(context.Background(), tc.spec); !tc.is(err) {
			t.Errorf("%+v: %v", tc.spec, err)
		}
	}
}

// A damaged value is an error and never a wrong topic, or a crash.
func TestDamagedValuesAreErrors(t *testing.T) {
	t.Parallel()
	whole := (&Topic{ID: ID{1}, Owner: "o", Arguments: []byte{1, 2}, Config: map[string]string{"k": "v"}, Created: 5}).encode(2)
	if n, err := new(Topic).decode(whole); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for i := range whole {
		if _, err := new(Topic).decode(whole[:i]); err == nil {
			t.Errorf("the first %d of %d bytes passed", i, len(whole))
		}
	}
	if _, err := new(Topic).decode(append([]byte{99}, whole[1:]...)); err == nil {
		t.Error("a version from the future passed")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add((&Topic{ID: ID{1}, Owner: "o", Arguments: []byte{1, 2}, Config: map[string]string{"k": "v"}, Created: 5}).encode(2))
	f.Fuzz(func(t *testing.T, b []byte) {
		var one, two Topic
		n, err := one.decode(b)
		if err != nil {
			return
		}
		if m, err := two.decode(one.encode(n)); err != nil || m != n {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
	})
}

// The figures are those of Kafka's own partitioner (DefaultPartitioner, murmur2 with its sign taken off), as its clients' tests have them.
func TestPartitionIsKafkas(t *testing.T) {
	t.Parallel()
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107} {
		if got := int32(murmur2([]byte(key))); got != hash {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, hash)
		}
		if p := PartitionOf([]byte(key), 7); p != int(uint32(hash)&0x7fffffff)%7 {
			t.Errorf("%q goes to partition %d", key, p)
		}
	}
}

func TestRetentionSweepTakesWhatIsDue(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	now := time.UnixMilli(1_000_000)
	c := openCatalog(s, func() time.Time { return now })
	ctx := context.Background()
	make := func(name string, policy AckPolicy, config map[string]string) *Topic {
		topic, err := c.Create(ctx, Spec{Namespace: "/", Name: name, Partitions: 1, AckPolicy: policy, Config: config})
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range []string{"a", "b", "a", "b"} {
			b := record.NewBuilder()
			b.Append(now.UnixMilli()-int64(400-100*i), []byte(key), []byte("x"), nil)
			batch, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.AppendBatch(topic.Shards[0], batch)}}); err != nil {
				t.Fatal(err)
			}
		}
		return topic
	}
	standard := make("standard", Retain, nil)
	short := make("short", Retain, map[string]string{ConfigRetentionMillis: "250"})
	ever := make("ever", Retain, map[string]string{ConfigRetentionMillis: "-1"})
	small := make("small", Retain, map[string]string{ConfigRetentionBytes: "100", ConfigRetentionMillis: "-1"})
	compact := make("compact", Retain, map[string]string{ConfigCleanupPolicy: "compact", ConfigRetentionMillis: "1"})
	queue := make("queue", Delete, nil)
	live := func(topic *Topic) int64 {
		n, err := s.Live(topic.Shards[0])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := c.SweepRetention(ctx, StandardDefaults); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		topic *Topic
		want  int64
	}{{standard, 4}, {short, 2}, {ever, 4}, {small, 1}, {compact, 2}, {queue, 4}} {
		if n := live(tc.topic); n != tc.want {
			t.Errorf("%s has %d records, want %d", tc.topic.Name, n, tc.want)
		}
	}
	now = now.Add(8 * 24 * time.Hour)
	if err := c.SweepRetention(ctx, StandardDefaults); err != nil {
		t.Fatal(err)
	}
	if live(standard) != 0 || live(ever) != 4 || live(queue) != 4 {
		t.Errorf("after eight days: %d %d %d", live(standard), live(ever), live(queue))
	}
}
