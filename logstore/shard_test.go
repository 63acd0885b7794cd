package logstore

import (
	"maps"
	"slices"
	"testing"

	"polylog/logstore/seed"
)

// tableContent is what a shard table holds, by number.
func tableContent(t *testing.T, table *shardTable) map[Shard]shard {
	t.Helper()
	got := map[Shard]shard{}
	last := Shard(0)
	table.all(func(id Shard, sh *shard) bool {
		if id <= last && len(got) > 0 {
			t.Fatalf("shard %d comes behind %d", id, last)
		}
		last = id
		got[id] = *sh
		if table.get(id) != sh {
			t.Fatalf("get(%d) gives another shard than all", id)
		}
		return true
	})
	if table.n != len(got) {
		t.Fatalf("the table counts %d shards and has %d", table.n, len(got))
	}
	return got
}

// Random changes to a table, with snapshots in between: each snapshot stays as it was, whatever happens to the table or to other snapshots later.
func TestShardTableSnapshotsAreNotChanged(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 10 {
		type view struct {
			table shardTable
			want  map[Shard]shard
		}
		var views []view
		var table shardTable
		model := map[Shard]shard{}
		limit := []int{100, 3000, 1 << 18}[r.IntN(3)] // a page, a folder, several
		for step := range 3000 {
			id := Shard(r.IntN(limit))
			_, exists := model[id]
			switch k := r.IntN(10); {
			case !exists:
				sh := shard{next: int64(step)}
				table.add(id, sh)
				sh.exists = true
				model[id] = sh
			case k < 3:
				table.remove(id)
				delete(model, id)
			default:
				sh := model[id]
				sh.next, sh.digest = sh.next+1, uint64(step)
				*table.own(id) = sh
				model[id] = sh
			}
			if r.IntN(200) == 0 {
				snap := table.snapshot(uint64(len(views) + 1))
				views = append(views, view{snap, maps.Clone(model)})
			}
			if probe := Shard(r.IntN(limit + 100)); (table.get(probe) != nil) != model[probe].exists {
				t.Fatalf("get(%d) finds %v", probe, table.get(probe))
			}
		}
		views = append(views, view{table, model})
		for i, v := range views {
			if got := tableContent(t, &v.table); !maps.Equal(got, v.want) {
				t.Fatalf("snapshot %d of %d has %d shards, want %d, or other content", i, len(views), len(got), len(v.want))
			}
		}
	}
}

func TestShardTableLetsGoOfWhatIsEmpty(t *testing.T) {
	t.Parallel()
	var table shardTable
	const n = 3 * pageSize * dirSize
	for id := range Shard(n) {
		table.add(id, shard{})
	}
	before := table.snapshot(1)
	for id := range Shard(n) {
		table.remove(id)
	}
	if table.n != 0 || !slices.Equal(table.root, make([]*shardDir, 3)) {
		t.Errorf("%d shards and a root of %v are left", table.n, table.root)
	}
	if before.n != n || before.get(n-1) == nil {
		t.Errorf("the snapshot lost what it had")
	}
	seen := 0
	before.all(func(Shard, *shard) bool { seen++; return seen < 5 })
	if seen != 5 {
		t.Errorf("all went on to %d after it was told to stop at 5", seen)
	}
}

func TestShardCountsWhatIsLive(t *testing.T) {
	t.Parallel()
	sh := shard{first: 10, next: 100, deleted: newOffsetSet(0)}
	sh.deleted.bm.AddRange(20, 30)
	sh.deleted.bm.Add(99)
	if sh.live() != 79 {
		t.Errorf("%d are live, want 79", sh.live())
	}
	for o, want := range map[int64]bool{9: false, 10: true, 19: true, 20: false, 29: false, 30: true, 98: true, 99: false, 100: false, -1: false} {
		if sh.isLive(o) != want {
			t.Errorf("isLive(%d) is %v", o, !want)
		}
	}
}

func TestLocalTailKeepsTheSegmentBefore(t *testing.T) {
	t.Parallel()
	var tail localTail
	tail.advance(3)
	tail.chain.First, tail.chain.Last = 1, 2
	tail.advance(3)
	if tail.seg != 3 || tail.chain.Last != 2 || tail.prevSeg != 0 {
		t.Fatalf("after the same segment: %+v", tail)
	}
	tail.advance(5)
	if tail.seg != 5 || tail.chain.First != 0 || tail.prevSeg != 3 || tail.prevChain.Last != 2 {
		t.Fatalf("after a new segment: %+v", tail)
	}
}
