package logstore

import (
	"fmt"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/seed"
)

// after is the state that these transactions lead to, each with one operation or more.
func after(t *testing.T, txns ...[]Op) *state {
	t.Helper()
	st := newState()
	for i, ops := range txns {
		txn := Txn{Do: ops}
		if _, err := txn.validate(); err != nil {
			t.Fatal(err)
		}
		if err := st.check(&txn); err != nil {
			t.Fatalf("transaction %d: %v", i, err)
		}
		var out outcome
		st.apply(&txn, &out)
		st.seq++
	}
	return st
}

func ops(o ...Op) []Op { return o }

func TestEqualStatesHaveEqualHashesHoweverTheyCameToBe(t *testing.T) {
	t.Parallel()
	appended := [][]Op{ops(CreateShard("a")), ops(AppendBatch(1, record.Empty(0, 99_999, 1, nil)))}
	with := func(more ...[]Op) [][]Op { return append(append([][]Op{}, appended...), more...) }
	var odd, even []Op
	for o := int64(1000); o < 20_000; o += 2 {
		even = append(even, Delete(1, Range{o, o + 1}))
		odd = append(odd, Delete(1, Range{o + 1, o + 2}))
	}
	for name, ways := range map[string][2][][]Op{
		"no key, and a key that was removed": {
			{ops(CreateShard("a"))},
			{ops(CreateShard("a")), ops(Put("k", []byte("v"))), ops(Remove("k"))},
		},
		"keys put in another order": {
			{ops(Put("x", []byte("1"))), ops(Put("y", []byte("2")))},
			{ops(Put("y", []byte("0")), Put("x", []byte("1"))), ops(Put("y", []byte("2")))},
		},
		"a range deleted whole and in pieces": {
			with(ops(Delete(1, Range{1000, 20_000}))),
			with(odd, even),
		},
		"deleted from the beginning and trimmed": {
			with(ops(Delete(1, Range{0, 70_000}))),
			with(ops(Delete(1, Range{5, 9})), ops(TrimBefore(1, 70_000))),
		},
		"deleted up to what was deleted before": {
			with(ops(Delete(1, Range{500, 1000})), ops(Delete(1, Range{0, 500}))),
			with(ops(TrimBefore(1, 1000))),
		},
		"all deleted and all trimmed": {
			with(ops(Delete(1, Range{50_000, 100_000})), ops(Delete(1, Range{0, 50_000}))),
			with(ops(TrimBefore(1, 100_000))),
		},
		"operations in one transaction and in several": {
			with(ops(Put("k", nil)), ops(Delete(1, Range{3, 4}))),
			with(ops(Put("k", []byte{}), Delete(1, Range{3, 4}))),
		},
		"a shard that was dropped": {
			{ops(CreateShard("a")), ops(CreateShard("b")), ops(AppendBatch(1, batchOf(1, "x"))), ops(DropShard(2))},
			{ops(CreateShard("a")), ops(CreateShard("b")), ops(AppendBatch(2, batchOf(1, "y"))), ops(DropShard(2)), ops(AppendBatch(1, batchOf(1, "x")))},
		},
	} {
		a, b := after(t, ways[0]...), after(t, ways[1]...)
		if a.hash() != b.hash() {
			t.Errorf("%s: hashes %016x and %016x", name, a.hash(), b.hash())
		}
	}
}

func TestDifferentStatesHaveDifferentHashes(t *testing.T) {
	t.Parallel()
	base := [][]Op{ops(CreateShard("a")), ops(AppendBatch(1, batchOf(1, "x", "y", "z", "w"))), ops(Put("k", []byte("v")))}
	with := func(more ...[]Op) [][]Op { return append(append([][]Op{}, base...), more...) }
	seen := map[uint64]string{}
	for name, txns := range map[string][][]Op{
		"nothing":                     nil,
		"base":                        base,
		"another record":              {base[0], ops(AppendBatch(1, batchOf(1, "x", "y", "z", "W"))), base[2]},
		"other timestamps":            {base[0], ops(AppendBatch(1, batchOf(2, "x", "y", "z", "w"))), base[2]},
		"in two batches":              {base[0], ops(AppendBatch(1, batchOf(1, "x", "y")), AppendBatch(1, batchOf(1, "z", "w"))), base[2]},
		"in another order":            {base[0], ops(AppendBatch(1, batchOf(1, "z", "w")), AppendBatch(1, batchOf(1, "x", "y"))), base[2]},
		"one more":                    with(ops(AppendBatch(1, batchOf(1, "v")))),
		"first deleted":               with(ops(Delete(1, Range{0, 1}))),
		"second deleted":              with(ops(Delete(1, Range{1, 2}))),
		"third deleted":               with(ops(Delete(1, Range{2, 3}))),
		"last deleted":                with(ops(Delete(1, Range{3, 4}))),
		"all deleted":                 with(ops(TrimBefore(1, 4))),
		"another shard":               with(ops(CreateShard("b"))),
		"a shard came and went":       with(ops(CreateShard("b")), ops(DropShard(2))),
		"shard dropped, its key left": with(ops(DropShard(1))),
		"another value":               with(ops(Put("k", []byte("w")))),
		"another key":                 with(ops(Remove("k"), Put("K", []byte("v")))),
		"one key more":                with(ops(Put("", nil))),
		"border of key and value":     with(ops(Remove("k"), Put("kv", nil))),
		"no key":                      with(ops(Remove("k"))),
	} {
		h := after(t, txns...).hash()
		if other, is := seen[h]; is {
			t.Errorf("%q and %q have the same hash", name, other)
		}
		seen[h] = name
	}
}

// Random transactions, applied to a state that is copied now and then and to one that is not; and to one that goes through a checkpoint file.
func TestSnapshotsAndCheckpointsChangeNoState(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	plain, copied := newState(), newState()
	type view struct {
		st   *state
		hash uint64
	}
	var views []view
	var out outcome
	gen := &txns{r: r, builder: record.NewBuilder()}
	m := newModel()
	for step := range 3000 {
		txn := gen.txn(m)
		txn.If = nil
		if r.IntN(10) == 0 { // else all names of shards are taken at last
			txn.Do = append(txn.Do, Remove(fmt.Sprintf("shard/%d", r.IntN(40))))
		}
		if _, err := txn.validate(); err != nil {
			continue
		}
		errA, errB := plain.check(&txn), copied.check(&txn)
		if fmt.Sprint(errA) != fmt.Sprint(errB) {
			t.Fatalf("step %d: %v and %v", step, errA, errB)
		}
		if errA != nil {
			continue
		}
		m.commit(txn)
		plain.apply(&txn, &out)
		copied.apply(&txn, &out)
		out.reset()
		if r.IntN(30) == 0 {
			if plain.hash() != copied.hash() {
				t.Fatalf("step %d: the copies changed the state", step)
			}
			views = append(views, view{copied.snapshot(), plain.hash()})
		}
		if r.IntN(300) == 0 {
			copied = throughCheckpoint(t, copied)
		}
	}
	if len(views) < 10 || plain.nextShard < 20 {
		t.Fatalf("only %d snapshots, and %d shards were made", len(views), plain.nextShard-1)
	}
	for i, v := range views {
		if v.st.hash() != v.hash {
			t.Fatalf("snapshot %d of %d was changed", i, len(views))
		}
	}
}

// throughCheckpoint writes a state to a file and reads it back.
func throughCheckpoint(t *testing.T, st *state) *state {
	t.Helper()
	f := memFile(t)
	size, err := writeCheckpoint(f, st)
	if err != nil {
		t.Fatal(err)
	}
	back, err := readCheckpoint(f, size)
	if err != nil {
		t.Fatal(err)
	}
	if back.seq != st.seq || back.nextShard != st.nextShard || back.kv.bytes != st.kv.bytes || back.hash() != st.hash() {
		t.Fatalf("came back as seq %d, next shard %d, %d bytes of keys; was %d, %d, %d", back.seq, back.nextShard, back.kv.bytes, st.seq, st.nextShard, st.kv.bytes)
	}
	return back
}

func TestEveryFlippedByteOfACheckpointIsFound(t *testing.T) {
	t.Parallel()
	good := checkpointBytes(t, sampleState())
	if err := readCheckpointBytes(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for _, mask := range []byte{1 << (i % 8), 0xff} {
			good[i] ^= mask
			if err := readCheckpointBytes(good); err == nil {
				t.Fatalf("byte %d of %d xor %02x is not seen", i, len(good), mask)
			}
			good[i] ^= mask
		}
	}
	for n := range good {
		if err := readCheckpointBytes(good[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are taken", n, len(good))
		}
	}
}
