package logstore

import (
	"errors"
	"math"
	"strings"
	"testing"

	"polylog/logstore/record"
	"polylog/logstore/segment"
)

func TestImpossibleTransactionsAreRefusedWithValueAndLimit(t *testing.T) {
	t.Parallel()
	longKey, longValue := strings.Repeat("k", MaxKey+1), make([]byte, MaxValue+1)
	many := func(n int, op Op) []Op {
		ops := make([]Op, n)
		for i := range ops {
			ops[i] = op
		}
		return ops
	}
	large := halfLimitBatch(t)
	for name, c := range map[string]struct {
		txn  Txn
		want string
	}{
		"too many operations":        {Txn{Do: many(MaxOps+1, Remove("k"))}, "operations of a transaction: 65537, allowed at most 65536"},
		"too many conditions":        {Txn{If: make([]Condition, MaxConditions+1)}, "conditions of a transaction: 4097, allowed at most 4096"},
		"empty condition":            {Txn{If: []Condition{KeyAbsent("k"), {}}}, "invalid: condition 1 is empty; make it with KeyIs, KeyAbsent, Live or NextIs"},
		"unknown condition":          {Txn{If: []Condition{{kind: condNext + 1}}}, "invalid: condition 0 is empty; make it with KeyIs, KeyAbsent, Live or NextIs"},
		"long key of KeyIs":          {Txn{If: []Condition{KeyIs(longKey, nil)}}, "bytes of a key: 32769, allowed at most 32768"},
		"long value of KeyIs":        {Txn{If: []Condition{KeyIs("k", longValue)}}, "bytes of a value: 1048577, allowed at most 1048576"},
		"long key of KeyAbsent":      {Txn{If: []Condition{KeyAbsent(longKey)}}, "bytes of a key: 32769, allowed at most 32768"},
		"empty operation":            {Txn{Do: []Op{Remove("k"), {}}}, "invalid: operation 1 is empty; make it with AppendBatch, Delete, TrimBefore, Put, Remove, CreateShard or DropShard"},
		"unknown operation":          {Txn{Do: []Op{{kind: opDropShard + 1}}}, "invalid: operation 0 is empty; make it with AppendBatch, Delete, TrimBefore, Put, Remove, CreateShard or DropShard"},
		"no batch":                   {Txn{Do: []Op{AppendBatch(1, record.Batch{})}}, "invalid: operation 0 appends no batch"},
		"long key of Put":            {Txn{Do: []Op{Put(longKey, nil)}}, "bytes of a key: 32769, allowed at most 32768"},
		"long value of Put":          {Txn{Do: []Op{Put("k", longValue)}}, "bytes of a value: 1048577, allowed at most 1048576"},
		"long key of Remove":         {Txn{Do: []Op{Remove(longKey)}}, "bytes of a key: 32769, allowed at most 32768"},
		"long key of CreateShard":    {Txn{Do: []Op{CreateShard(longKey)}}, "bytes of a key: 32769, allowed at most 32768"},
		"too many ranges":            {Txn{Do: []Op{Delete(1, make([]Range, MaxRanges+1)...)}}, "ranges of a deletion: 65537, allowed at most 65536"},
		"empty range":                {Txn{Do: []Op{Delete(1, Range{1, 2}, Range{5, 5})}}, "invalid: operation 0 deletes the range 5 to 5; it must not be empty or negative"},
		"range backwards":            {Txn{Do: []Op{Delete(1, Range{5, 4})}}, "invalid: operation 0 deletes the range 5 to 4; it must not be empty or negative"},
		"negative range":             {Txn{Do: []Op{Delete(1, Range{-1, 4})}}, "invalid: operation 0 deletes the range -1 to 4; it must not be empty or negative"},
		"negative trim":              {Txn{Do: []Op{TrimBefore(1, -1)}}, "invalid: operation 0 trims before offset -1; offsets are not negative"},
		"too many bytes of batches":  {Txn{Do: []Op{AppendBatch(1, large), AppendBatch(2, large), AppendBatch(3, batchOf(1, "x"))}}, "bytes of the batches of a transaction: 67108933, allowed at most 67108864"},
		"too many bytes beside them": {Txn{Do: many(17, Put("k", longValue[1:]))}, "bytes of a transaction beside its batches: 17826319, allowed at most 16777215"},
		"dropped twice":              {Txn{Do: []Op{DropShard(7), Put("k", nil), DropShard(7)}}, "invalid: operations 0 and 2 both drop shard 7"},
		"dropped and appended to":    {Txn{Do: []Op{AppendBatch(7, batchOf(1, "x")), DropShard(7)}}, "invalid: operation 0 uses shard 7, which operation 1 of the same transaction drops"},
		"dropped and deleted from":   {Txn{Do: []Op{DropShard(7), Delete(7, Range{0, 1})}}, "invalid: operation 1 uses shard 7, which operation 0 of the same transaction drops"},
		"dropped and trimmed":        {Txn{Do: []Op{DropShard(6), DropShard(7), TrimBefore(7, 0)}}, "invalid: operation 2 uses shard 7, which operation 1 of the same transaction drops"},
	} {
		_, err := c.txn.validate()
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
			continue
		}
		var limit *LimitError
		var invalid *InvalidError
		if isLimit := strings.Contains(c.want, "allowed at most"); errors.As(err, &limit) != isLimit || errors.As(err, &invalid) == isLimit {
			t.Errorf("%s: %T", name, err)
		}
	}
}

// halfLimitBatch has half the bytes that a transaction may have in batches.
func halfLimitBatch(t *testing.T) record.Batch {
	t.Helper()
	b := record.NewBuilder()
	b.Append(1, nil, make([]byte, MaxTxn/2-100), nil)
	size := MaxTxn/2 - 100 + MaxTxn/2 - b.Size()
	b.Reset()
	b.Append(1, nil, make([]byte, size), nil)
	batch, err := b.Build()
	if err != nil || batch.Len() != MaxTxn/2 {
		t.Fatalf("%d bytes, want %d (%v)", batch.Len(), MaxTxn/2, err)
	}
	return batch
}

// What is just within the limits is taken, and the entry is not larger than was promised.
func TestTransactionsAtTheLimitsAreTaken(t *testing.T) {
	t.Parallel()
	key, value := strings.Repeat("k", MaxKey), make([]byte, MaxValue)
	ranges := make([]Range, MaxRanges)
	for i := range ranges {
		ranges[i] = Range{math.MaxInt64 / 2 * int64(1-i%2), math.MaxInt64/2*int64(1-i%2) + math.MaxInt64/2} // far apart: the varints are long
	}
	conditions := make([]Condition, MaxConditions)
	for i := range conditions {
		conditions[i] = KeyIs(key, value)
	}
	removes := make([]Op, MaxOps)
	for i := range removes {
		removes[i] = Remove("")
	}
	large := halfLimitBatch(t)
	for name, txn := range map[string]Txn{
		"nothing":           {},
		"longest key":       {If: []Condition{KeyAbsent(key)}, Do: []Op{Put(key, value), Remove(key), CreateShard(key)}},
		"most conditions":   {If: conditions},
		"most operations":   {Do: removes},
		"most ranges":       {Do: []Op{Delete(math.MaxUint64, ranges...)}},
		"no range":          {Do: []Op{Delete(1)}},
		"largest offset":    {Do: []Op{TrimBefore(math.MaxUint64, math.MaxInt64)}},
		"most batches":      {Do: []Op{AppendBatch(math.MaxUint64, large), AppendBatch(1, large)}},
		"most metadata":     {Do: append(removes[:15:15], Put(key, value), Put(key, value), Put(key, value), Put(key, value), Put(key, value), Put(key, value), Put(key, value))},
		"drops and others":  {Do: []Op{DropShard(7), Remove("name"), CreateShard("name"), AppendBatch(6, batchOf(1, "x"))}},
		"negative position": {If: []Condition{Live(1, -5), NextIs(1, -5)}},
	} {
		size, err := txn.validate()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out := outcomeOf(&txn)
		for i := range out.bases {
			out.bases[i] = math.MaxInt64
		}
		for i := range out.shards {
			out.shards[i] = math.MaxUint64
		}
		entry := segment.EntryHeaderSize + len(encodeMeta(nil, &txn, out))
		for i := range txn.Do {
			entry += txn.Do[i].batch.Len()
		}
		if entry > size || size > segment.MaxEntry {
			t.Errorf("%s: the entry has %d bytes, %d were promised, %d are allowed", name, entry, size, segment.MaxEntry)
		}
	}
}

func TestResultGivesEachAppendAndShardItsOwn(t *testing.T) {
	t.Parallel()
	var r Result
	r.take(&outcome{})
	out := outcome{bases: []int64{5, 6, 7}, shards: []Shard{8, 9}}
	r.take(&out)
	out.bases[1], out.shards[1] = 0, 0 // it is used again for the next transaction
	if r.Base(0) != 5 || r.Base(1) != 6 || r.Base(2) != 7 || r.Shard(0) != 8 || r.Shard(1) != 9 {
		t.Fatalf("%+v", r)
	}
}

func TestShardValueReadsBack(t *testing.T) {
	t.Parallel()
	for _, sh := range []Shard{1, 300, math.MaxUint64} {
		if got, err := ParseShardValue(ShardValue(sh)); err != nil || got != sh {
			t.Errorf("shard %d came back as %d, %v", sh, got, err)
		}
	}
	if string(ShardValue(0x0102030405060708)) != "\x01\x02\x03\x04\x05\x06\x07\x08" {
		t.Errorf("it is %x", ShardValue(0x0102030405060708))
	}
	for _, v := range [][]byte{nil, make([]byte, 7), make([]byte, 9)} {
		if _, err := ParseShardValue(v); err == nil {
			t.Errorf("%d bytes are taken", len(v))
		}
	}
}
