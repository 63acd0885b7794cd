package logstore

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/seed"
	"polylog/logstore/vfs"
)

var update = flag.Bool("update", false, "write the golden files anew: only when the format gets a new version")

const formatDir = "testdata/format-v1"

// unsealedName is the golden file that was still being written. The disk space that is reserved behind its entries is zeros, and all but a few of them are cut off.
const (
	unsealedName = "0000000000000003-0.seg"
	unsealedSize = 2 << 10
)

// goldenBatch builds a batch from records with ascending offset deltas, of which the timestamps are part.
func goldenBatch(set func(b *record.Builder), records ...func(b *record.Builder)) record.Batch {
	b := record.NewBuilder()
	if set != nil {
		set(b)
	}
	for _, r := range records {
		r(b)
	}
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return batch
}

const goldenTime = 1_700_000_000_000

func kv1(ts int64, key, value string) func(b *record.Builder) {
	return func(b *record.Builder) { b.Append(goldenTime+ts, []byte(key), []byte(value), nil) }
}

// sameSize are n records of this many bytes.
func sameSize(n, size int) (records []func(b *record.Builder)) {
	for i := range n {
		records = append(records, kv1(int64(10*i), fmt.Sprintf("key %d", i), strings.Repeat("value ", size)[:size]))
	}
	return records
}

// goldenLives are the transactions of the golden directory. Between two lives the store is closed, which seals the segment and takes a checkpoint.
func goldenLives() [3][][]Op {
	withHeaders := func(b *record.Builder) {
		b.Append(goldenTime, nil, []byte("no key"), []record.RecordHeader{{Key: []byte("h"), Value: []byte("x")}, {Key: []byte("null")}})
	}
	tombstone := func(b *record.Builder) { b.Append(goldenTime-5, []byte("key"), nil, nil) }
	producer := func(b *record.Builder) { b.SetProducer(4660, 3, 9); b.SetTransactional(true) }
	marker := func(b *record.Builder) { b.SetProducer(4660, 3, -1); b.SetTransactional(true); b.SetControl(true) }
	commit := func(b *record.Builder) { b.Append(goldenTime+50, []byte{0, 0, 0, 1}, make([]byte, 6), nil) }
	appendTime := func(b *record.Builder) { b.SetLogAppendTime(true) }
	gaps := func(b *record.Builder) {
		for _, d := range []int32{0, 2, 5} {
			b.AppendAt(d, goldenTime, nil, fmt.Appendf(nil, "delta %d", d), nil)
		}
	}
	return [3][][]Op{
		{
			{CreateShard("orders"), CreateShard("events"), Put("config", []byte("v1"))},
			{AppendBatch(1, goldenBatch(nil, kv1(0, "a", "1"), kv1(1, "b", "2"), kv1(2, "c", "3")))},
			{AppendBatch(1, goldenBatch(nil, sameSize(24, 300)...)), AppendBatch(2, goldenBatch(producer, withHeaders, tombstone))},
			{AppendBatch(2, goldenBatch(nil, sameSize(8, 40)...))},
			{AppendBatch(1, goldenBatch(nil, gaps)), AppendBatch(1, goldenBatch(appendTime, kv1(7, "", "")))},
			{Put("config", []byte("v2")), Remove("nothing")},
		},
		{
			{Delete(1, Range{1, 2}, Range{3, 27})},
			{Delete(2, Range{4, 5}), Put("cursor", []byte{0, 5})},
			{AppendBatch(2, goldenBatch(nil, sameSize(6, 40)...)), AppendBatch(2, goldenBatch(marker, commit))},
			{Delete(2, Range{14, 15}, Range{11, 12})},
			{CreateShard("gone")},
			{AppendBatch(3, batchOf(-1, "without a time")), AppendBatch(1, batchOf(goldenTime, "x", "y"))},
			{DropShard(3), Remove("gone"), CreateShard("gone")},
			{TrimBefore(2, 1)},
		},
		{
			{AppendBatch(1, batchOf(goldenTime, "relaxed"))},
			{AppendBatch(2, goldenBatch(nil, kv1(0, "k", "v"))), AppendBatch(1, batchOf(goldenTime, "1", "2", "3")), Put("cursor", []byte{0, 6})},
			{Put("", nil)},
			{Delete(1, Range{2, 3}), TrimBefore(4, 0)},
		},
	}
}

// makeGolden makes the directory anew and returns its files.
func makeGolden(t *testing.T) map[string][]byte {
	t.Helper()
	disk := vfs.NewMem()
	var s *Store
	for life, txns := range goldenLives() {
		s = openMem(t, disk, func(o *Options) {
			o.checkpointsByHand = true
			o.salt = func() uint32 { return 0xb0a710ad }
			if life == 2 {
				o.Sync = SyncOS // so it is certain how far each entry is ahead of what is synced
			}
		})
		if life == 2 && !await(t, func() bool { return s.Stats().RewrittenSegments == 1 }) {
			t.Fatal("the first segment is not rewritten")
		}
		for i, ops := range txns {
			if life == 2 && i == 3 {
				if err := s.Sync(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			mustCommit(t, s, ops...)
		}
		if life < 2 {
			mustClose(t, s)
		}
	}
	files := files(t, disk)
	mustClose(t, s)
	if b, is := files[lockName]; !is || len(b) > 0 {
		t.Fatalf("the lock file has %d bytes", len(b))
	}
	delete(files, lockName)
	delete(files, reserveName) // zeros
	b := files[unsealedName]
	if len(b) != minSegmentBytes || len(bytes.TrimRight(b, "\x00")) > unsealedSize {
		t.Fatalf("%s has %d bytes, %d before the zeros", unsealedName, len(b), len(bytes.TrimRight(b, "\x00")))
	}
	files[unsealedName] = b[:unsealedSize]
	return files
}

func readGolden(t *testing.T) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(formatDir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(formatDir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// Every byte of the directory follows from the transactions: nothing in it is drawn by lot or taken from a clock. A difference means that other programs, and
// older ones, may not read what this one writes; then the format needs a new version, and the golden files of this one stay.
func TestFormatIsWrittenAsEver(t *testing.T) {
	t.Parallel()
	made := makeGolden(t)
	if *update {
		if err := os.RemoveAll(formatDir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(formatDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, b := range made {
			if err := os.WriteFile(filepath.Join(formatDir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	golden := readGolden(t)
	if got, want := slices.Sorted(maps.Keys(made)), slices.Sorted(maps.Keys(golden)); !slices.Equal(got, want) {
		t.Fatalf("files %q, want %q", got, want)
	}
	for name, want := range golden {
		got := made[name]
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Errorf("%s differs from byte %d on (%d bytes, want %d)\ngot  %x\nwant %x", name, i, len(got), len(want), got[min(i, len(got)):min(i+32, len(got))], want[min(i, len(want)):min(i+32, len(want))])
				break
			}
		}
	}
}

// formatTold is what is in the golden files, as the second reader tells it.
const formatTold = `0000000000000001-1.seg
	segment 1 generation 1 covers to 1, after entry 0, up to entry 6, 17 live
	entry 6 (unsynced 0) keeps append to 1 offsets [0,3) to time 1700000000002: 0@1700000000000 "a"="1" 2@1700000000002 "c"="3"; append to 2 offsets [0,2) to time 1699999999995: producer 4660/3/9 transactional 1@1699999999995 "key"=null; append to 2 offsets [2,10) to time 1700000000070: 2@1700000000000 "key 0"="value "..(40) .. (8 records) .. 9@1700000000070 "key 7"="value "..(40); append to 1 offsets [27,33) to time 1700000000000: 27@1700000000000 null="delta 0" 29@1700000000000 null="delta 2" 32@1700000000000 null="delta 5"; append to 1 offsets [33,34) to time 1700000000007: log append time 33@1700000000007 ""=""
	index of entries 1 to 6: 5 batches of shards [1 2], 20 offsets
0000000000000002-0.seg
	segment 2 generation 0 covers to 2, after entry 6, up to entry 0, 0 live
	entry 7 (unsynced 1) does delete from 1 [1,2) [3,27)
	entry 8 (unsynced 1) does delete from 2 [4,5); put "cursor" = "\x00\x05"
	entry 9 (unsynced 1) does append to 2 offsets [10,16) to time 1700000000050: 10@1700000000000 "key 0"="value "..(40) .. (6 records) .. 15@1700000000050 "key 5"="value "..(40); append to 2 offsets [16,17) to time 1700000000050: producer 4660/3/-1 transactional control 16@1700000000050 "\x00\x00\x00\x01"="\x00\x00\x00\x00\x00\x00"
	entry 10 (unsynced 1) does delete from 2 [14,15) [11,12)
	entry 11 (unsynced 1) does create 3 as "gone"
	entry 12 (unsynced 1) does append to 3 offsets [0,1) to time -1: 0@-1 null="without a time"; append to 1 offsets [34,36) to time 1700000000000: 34@1700000000000 null="x" 35@1700000000000 null="y"
	entry 13 (unsynced 1) does drop 3; remove "gone"; create 4 as "gone"
	entry 14 (unsynced 1) does trim 2 before 1
	index of entries 7 to 14: 4 batches of shards [1 2 3], 10 offsets
0000000000000003-0.seg
	segment 3 generation 0 covers to 3, after entry 14, up to entry 0, 0 live
	entry 15 (unsynced 1) does append to 1 offsets [36,37) to time 1700000000000: 36@1700000000000 null="relaxed"
	entry 16 (unsynced 2) does append to 2 offsets [17,18) to time 1700000000000: 17@1700000000000 "k"="v"; append to 1 offsets [37,40) to time 1700000000000: 37@1700000000000 null="1" 38@1700000000000 null="2" 39@1700000000000 null="3"; put "cursor" = "\x00\x06"
	entry 17 (unsynced 3) does put "" = ""
	entry 18 (unsynced 1) does delete from 1 [2,3); trim 4 before 0
	not sealed, entries end at 436
0000000000000006-0.ckpt
	state after entry 6, next shard 3
	shard 1 from 0 to 34, digest 18e9ac8140d1aad2, live [0 34]
	shard 2 from 0 to 10, digest 8e1c76bfbe55f20e, live [0 10]
	key "config" = "v2"
	key "events" = "\x00\x00\x00\x00\x00\x00\x00\x02"
	key "orders" = "\x00\x00\x00\x00\x00\x00\x00\x01"
000000000000000e-0.ckpt
	state after entry 14, next shard 5
	shard 1 from 0 to 36, digest ecf07a37d6211b74, live [0 1 2 3 27 36]
	shard 2 from 1 to 17, digest a96566b3c79902cf, live [1 4 5 11 12 14 15 17]
	shard 4 from 0 to 0, digest 0000000000000000, live []
	key "config" = "v2"
	key "cursor" = "\x00\x05"
	key "events" = "\x00\x00\x00\x00\x00\x00\x00\x02"
	key "gone" = "\x00\x00\x00\x00\x00\x00\x00\x04"
	key "orders" = "\x00\x00\x00\x00\x00\x00\x00\x01"
`

func TestFormatIsAsTheDocumentSays(t *testing.T) {
	t.Parallel()
	files := readGolden(t)
	var told strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		tell := tellSegment
		if strings.HasSuffix(name, ".ckpt") {
			tell = tellCheckpoint
		}
		fmt.Fprintf(&told, "%s\n", name)
		for _, line := range tell(files[name]) {
			fmt.Fprintf(&told, "\t%s\n", line)
		}
	}
	got, want := strings.Split(told.String(), "\n"), strings.Split(formatTold, "\n")
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("line %d\ngot  %s\nwant %s", i+1, g, w)
		}
	}
	if t.Failed() {
		t.Logf("all of it:\n%s", told.String())
	}
}

// The digests in the transcript, from the transactions and the formula in the document.
func TestDigestChainsAllThatWasAppended(t *testing.T) {
	t.Parallel()
	digests := map[Shard]uint64{}
	next := map[Shard]uint64{}
	lives := goldenLives()
	for life, seq := range map[int]int{0: 6, 1: 14} {
		clear(digests)
		clear(next)
		for _, txns := range lives[:life+1] {
			for _, op := range slices.Concat(txns...) {
				if b := op.batch; op.kind == opAppend {
					d := (digests[op.shard] ^ next[op.shard]) * 0x9E3779B97F4A7C15
					d ^= d >> 29
					d = (d ^ uint64(b.CRC()) ^ uint64(b.Len())<<32) * 0x9E3779B97F4A7C15
					digests[op.shard] = d ^ d>>32
					next[op.shard] += uint64(b.LastOffsetDelta()) + 1
				}
			}
		}
		_, told, _ := strings.Cut(formatTold, fmt.Sprintf("state after entry %d,", seq))
		for _, sh := range []Shard{1, 2} {
			if want := fmt.Sprintf("to %d, digest %016x,", next[sh], digests[sh]); !strings.Contains(told, want) {
				t.Errorf("after entry %d, shard %d: want %q", seq, sh, want)
			}
		}
	}
}

// What the store writes in random lives, with indexes of several blocks, is read by the second reader too.
func TestSecondReaderReadsWhatRandomLivesLeave(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	disk := vfs.NewMem()
	gen, m := &txns{r: r, builder: record.NewBuilder()}, newModel()
	seen := map[string]int{}
	for range 3 {
		s := openMem(t, disk, func(o *Options) { o.SegmentBytes = 256 << 10 })
		for range 300 {
			txn := gen.txn(m)
			_, _, refused := m.commit(txn)
			if _, err := s.Commit(context.Background(), txn); (err != nil) != (refused != "") {
				t.Fatalf("the store says %v, the model %q", err, refused)
			}
		}
		first := newShard(t, s, fmt.Sprintf("many/%d", m.nextShard))
		m.commit(Txn{Do: []Op{CreateShard(fmt.Sprintf("many/%d", m.nextShard))}})
		for i := range 3000 { // small batches: many to a segment
			op := AppendBatch(first, batchOf(int64(i), "x"))
			mustCommit(t, s, op)
			m.commit(Txn{Do: []Op{op}})
		}
		mustClose(t, s)
		for name, b := range files(t, disk) {
			switch filepath.Ext(name) {
			case ".seg":
				tellSegment(b)
				if dir := len(b) - 72; (le.Uint32(b[dir+48:])-le.Uint32(b[dir+44:]))/36 > 1 {
					seen["large index"]++
				}
			case ".ckpt":
				tellCheckpoint(b)
			}
			seen[filepath.Ext(name)]++
		}
	}
	if seen["large index"] == 0 || seen[".ckpt"] == 0 {
		t.Fatalf("only %v were read", seen)
	}
}

func TestDirectoryOfThisVersionOpensAndReads(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	for name, b := range readGolden(t) {
		if err := disk.Put("d/"+name, b); err != nil {
			t.Fatal(err)
		}
	}
	s := openMem(t, disk)
	defer mustClose(t, s)
	if r := s.Recovery; r.CheckpointSeq != 14 || r.ReplayedEntries != 4 || r.TornFile != "" || len(r.BadCheckpoints)+len(r.RebuiltIndexes) != 0 {
		t.Errorf("recovery %+v", r)
	}
	d := func(i int) string { return fmt.Sprintf("%d=%s", 2+i, strings.Repeat("value ", 40)[:40]) }
	f := func(i int) string { return fmt.Sprintf("%d=%s", 10+i, strings.Repeat("value ", 40)[:40]) }
	for sh, want := range map[Shard][]string{
		1: {"0=1", "27=delta 0", "29=delta 2", "32=delta 5", "33=", "34=x", "35=y", "36=relaxed", "37=1", "38=2", "39=3"},
		2: {"1=", d(0), d(1), d(3), d(4), d(5), d(6), d(7), f(0), f(2), f(3), f(5), "16=\x00\x00\x00\x00\x00\x00", "17=v"},
		4: nil,
	} {
		first, _, err := s.Bounds(sh)
		if err != nil {
			t.Fatal(err)
		}
		for _, max := range []int{1, 1 << 20} {
			if got := values(t, s, sh, first, max); !slices.Equal(got, want) {
				t.Errorf("shard %d\ngot  %q\nwant %q", sh, got, want)
			}
		}
	}
	var keys []string
	s.Scan("", func(key string, value []byte) bool {
		keys = append(keys, fmt.Sprintf("%s=%x", key, value))
		return true
	})
	want := []string{"=", "config=7632", "cursor=0006", "events=0000000000000002", "gone=0000000000000004", "orders=0000000000000001"}
	if !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
	if seq, hash := s.Hash(); seq != 18 || hash != 0xea225c482587cc8a {
		t.Errorf("seq %d, hash %#x", seq, hash)
	}
}
