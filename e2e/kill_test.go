package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/record"
)

// victimDir, in the environment, makes this test binary the process that is killed: it opens the log there and works until it dies.
const victimDir = "POLYLOG_VICTIM_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, "victim:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	victimShards  = 8
	victimWriters = 64
)

// note is one line of what the victim tells before it dies, 25 bytes: what, shard, offset, value.
type note struct {
	what   byte
	shard  uint64
	offset int64
	value  uint64
}

const (
	confirmed = 'c' // the store confirmed value at offset of shard
	deleting  = 'd' // the store is about to be asked to delete it
	keySet    = 'k' // the store confirmed key number shard to have the value
)

// victim appends, deletes and sets keys with many goroutines, and notes on stdout what was confirmed.
func victim(dir string) error {
	s, err := logstore.Open(logstore.Options{Dir: dir, SegmentBytes: 4 << 20, CheckpointBytes: 1 << 20})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := range victimShards {
		_, err := s.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.CreateShard(shardKey(i))}})
		if err != nil && !errors.Is(err, logstore.ErrConflict) {
			return err
		}
	}
	shards, err := victimShardIDs(s)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	tell := func(n note) {
		b := append(make([]byte, 0, 25), n.what)
		b = binary.BigEndian.AppendUint64(b, n.shard)
		b = binary.BigEndian.AppendUint64(b, uint64(n.offset))
		b = binary.BigEndian.AppendUint64(b, n.value)
		mu.Lock()
		defer mu.Unlock()
		os.Stdout.Write(b) //nolint:errcheck // the reader is gone: so are we, soon
	}
	failed := make(chan error, 1)
	for w := range victimWriters {
		go func() {
			if err := victimWriter(ctx, s, shards, w, tell); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		}()
	}
	return <-failed
}

func victimWriter(ctx context.Context, s *logstore.Store, shards []logstore.Shard, w int, tell func(note)) error {
	r := rand.New(rand.NewPCG(rand.Uint64(), uint64(w)))
	b := record.NewBuilder()
	for {
		i, value := r.IntN(victimShards), r.Uint64()
		payload := binary.BigEndian.AppendUint64(nil, value)
		b.Reset()
		b.Append(1, nil, append(payload, make([]byte, r.IntN(2000))...), nil)
		batch, err := b.Build()
		if err != nil {
			return err
		}
		key := fmt.Sprint("key ", w)
		res, err := s.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.AppendBatch(shards[i], batch), logstore.Put(key, payload)}})
		if err != nil {
			return err
		}
		tell(note{confirmed, uint64(i), res.Base(0), value})
		tell(note{keySet, uint64(w), 0, value})
		if r.IntN(3) == 0 {
			tell(note{deleting, uint64(i), res.Base(0), value})
			_, err := s.Commit(ctx, logstore.Txn{
				Do:   []logstore.Op{logstore.Delete(shards[i], logstore.Range{From: res.Base(0), To: res.Base(0) + 1})},
				Wait: logstore.Relaxed,
			})
			if err != nil {
				return err
			}
		}
	}
}

func shardKey(i int) string { return fmt.Sprint("shard ", i) }

func victimShardIDs(s *logstore.Store) ([]logstore.Shard, error) {
	var ids []logstore.Shard
	for i := range victimShards {
		v, _ := s.Get(shardKey(i))
		id, err := logstore.ParseShardValue(v)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// TestConfirmSurvivesKill kills a process that uses the log under load, again and again, and looks for every message that it was told is stored.
func TestConfirmSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	told := newTold()
	for round := range 6 {
		runVictim(t, dir, told, time.Duration(100+rand.IntN(500))*time.Millisecond)
		if t.Failed() {
			return
		}
		s, err := logstore.Open(logstore.Options{Dir: dir, SegmentBytes: 4 << 20, CheckpointBytes: 1 << 20})
		if err != nil {
			t.Fatalf("round %d: opening after the kill: %v", round, err)
		}
		t.Logf("round %d: %d records confirmed so far, %d entries replayed, torn %q", round, len(told.values), s.Recovery.ReplayedEntries, s.Recovery.TornFile)
		told.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

type place struct {
	shard  uint64
	offset int64
}

// told is what victims said.
type told struct {
	values  map[place]uint64
	deleted map[place]bool // or not: a relaxed deletion may be lost
	keys    map[uint64]uint64
}

func newTold() *told {
	return &told{values: map[place]uint64{}, deleted: map[place]bool{}, keys: map[uint64]uint64{}}
}

// runVictim starts a victim, listens, and kills it when it has worked for a while.
func runVictim(t *testing.T, dir string, told *told, life time.Duration) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	clear(told.keys)
	in := bufio.NewReaderSize(out, 1<<16)
	var kill *time.Timer
	var b [25]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			break // what was cut off was not told
		}
		if kill == nil { // it is at work
			kill = time.AfterFunc(life, func() { cmd.Process.Kill() }) //nolint:errcheck // SIGKILL; it may be gone already
		}
		n := note{b[0], binary.BigEndian.Uint64(b[1:]), int64(binary.BigEndian.Uint64(b[9:])), binary.BigEndian.Uint64(b[17:])}
		switch p := (place{n.shard, n.offset}); n.what {
		case confirmed:
			if _, twice := told.values[p]; twice {
				t.Errorf("offset %d of shard %d was confirmed twice", n.offset, n.shard)
			}
			told.values[p] = n.value
		case deleting:
			told.deleted[p] = true
		case keySet:
			told.keys[n.shard] = n.value
		}
	}
	err = cmd.Wait()
	if kill == nil || err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the victim ended by itself: %v", err)
	}
}

// check sees that the log holds what was told.
func (told *told) check(t *testing.T, s *logstore.Store) {
	t.Helper()
	ids, err := victimShardIDs(s)
	if err != nil {
		t.Fatal(err)
	}
	found := map[place]uint64{}
	for i, id := range ids {
		from, _, err := s.Bounds(id)
		if err != nil {
			t.Fatal(err)
		}
		var buf logstore.Buffer
		for {
			c, err := s.Read(id, from, 1<<20, &buf)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range c.Batches {
				it := b.Iter(nil)
				for it.Next() {
					found[place{uint64(i), it.Offset()}] = binary.BigEndian.Uint64(it.Record().Value)
				}
			}
			if c.Next == from {
				break
			}
			from = c.Next
		}
	}
	lost := 0
	for p, v := range told.values {
		if got, has := found[p]; !has && !told.deleted[p] || has && got != v {
			if lost++; lost < 10 {
				t.Errorf("offset %d of shard %d: found %v, value %x, confirmed was %x", p.offset, p.shard, has, got, v)
			}
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d confirmed records are lost or changed", lost, len(told.values))
	}
	// A key is set together with a record, so after its last confirmed value only values of records that are there may follow.
	values := map[uint64]bool{}
	for _, v := range found {
		values[v] = true
	}
	for w, v := range told.keys {
		got, _ := s.Get(fmt.Sprint("key ", w))
		if n := binary.BigEndian.Uint64(got); n != v && !values[n] {
			t.Errorf("key %d is %x, which is neither the confirmed %x nor that of a record", w, n, v)
		}
	}
}
