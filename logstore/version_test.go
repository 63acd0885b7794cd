package logstore

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// A program that is older than the log must not touch it: what it does not know would look like damage to it.
func TestNewerVersionsAreRefusedAndStay(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"0000000000000001-1.seg":  "segment has version 2, this program knows 1; use a newer polylog",
		"0000000000000002-0.seg":  "segment has version 2, this program knows 1; use a newer polylog",
		unsealedName:              "segment has version 2, this program knows 1; use a newer polylog",
		"000000000000000e-0.ckpt": "checkpoint has version 2, this program knows 1; use a newer polylog",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := readGolden(t)
			b := bytes.Clone(files[name])
			b[8] = 2
			le.PutUint32(b[60:], segment.Checksum(b[:60]))
			files[name] = b
			disk := vfs.NewMem()
			for name, b := range files {
				if err := disk.Put("d/"+name, b); err != nil {
					t.Fatal(err)
				}
			}
			for _, repair := range []bool{false, true} {
				_, err := Open(Options{Dir: "d", FS: disk, Repair: repair})
				if !errors.Is(err, segment.ErrVersion) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), name) {
					t.Fatalf("repair %v: %v", repair, err)
				}
				for name, b := range files {
					if got, err := disk.Contents("d/" + name); err != nil || !bytes.Equal(got, b) {
						t.Errorf("repair %v: %s was changed (%v)", repair, name, err)
					}
				}
			}
		})
	}
}

// Segment 0 and those beyond 32 bits cannot be: a position in the log has no room for them. A file with such a name made the next segment's id wrap to
// 0, under which nothing is found.
func TestFilesThatAreNotOfTheLogAreLeftAlone(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	foreign := []string{"0000000000000000-0.seg", "ffffffffffffffff-0.seg", "0000000100000000-0.seg", "0000000000000001-00.seg", "1-0.seg", "notes.txt", "0000000000000001.ckpt", "seg"}
	for _, name := range foreign {
		if err := disk.Put("d/"+name, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	for life := range 3 {
		s := openMem(t, disk)
		if life == 0 {
			newShard(t, s, "a")
		}
		mustCommit(t, s, AppendBatch(1, batchOf(1, "x")))
		if got := values(t, s, 1, 0, 1<<20); len(got) != life+1 {
			t.Fatalf("%d records, want %d", len(got), life+1)
		}
		mustClose(t, s)
	}
	for _, name := range foreign {
		if b, err := disk.Contents("d/" + name); err != nil || len(b) != 100 {
			t.Errorf("%s has %d bytes, %v", name, len(b), err)
		}
	}
}
