package logstore

import (
	"slices"
	"strings"
	"testing"

	"polylog/logstore/vfs"
)

// A producer that gives no timestamps sends -1. Its records are as much in the log as others: through sealing, cleaning and a new start.
func TestRecordsWithoutTimestampsStay(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := openMem(t, disk)
	sh := newShard(t, s, "a")
	long := strings.Repeat("x", 1000)
	for range 60 {
		mustCommit(t, s, AppendBatch(sh, batchOf(-1, "kept", long, long)))
	}
	want := values(t, s, sh, 0, 1<<20)
	var dead []Range
	for i := range int64(60) {
		dead = append(dead, Range{3*i + 1, 3*i + 3})
	}
	want = slices.DeleteFunc(want, func(v string) bool { return strings.HasSuffix(v, long) })
	for range 4 { // two checkpoints, and time to clean
		mustClose(t, s)
		s = openMem(t, disk)
		mustCommit(t, s, Delete(sh, dead...))
		if err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if got := values(t, s, sh, 0, 1<<20); !slices.Equal(got, want) {
			t.Fatalf("%d records are left, want %d", len(got), len(want))
		}
	}
	if !await(t, func() bool {
		return s.Stats().RewrittenSegments+s.Stats().RemovedSegments > 0 || diskUse(t, disk, "d") < 60<<10
	}) {
		t.Error("nothing was cleaned")
	}
	if got := values(t, s, sh, 0, 1<<20); !slices.Equal(got, want) {
		t.Errorf("after cleaning %d records are left, want %d", len(got), len(want))
	}
	mustClose(t, s)
}
