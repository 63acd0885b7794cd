package logstore

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// A client may send messages that look like the log, entries with plausible numbers included. When a crash tears the group that one is in, it is not taken for an
// entry: the store starts, and a repair does not execute what the message says.
func TestAMessageIsNeverTakenForAnEntry(t *testing.T) {
	t.Parallel()
	for _, salt := range []uint32{0, 1, 0xb0a710ad} {
		m := vfs.NewMem()
		s := openMem(t, m)
		sh := newShard(t, s, "q")
		mustCommit(t, s, Put("k", []byte("v")))
		seq, _ := s.Hash()
		forged := make([]byte, segment.EntryHeaderSize)
		forged = append(forged, encodeMeta(nil, &Txn{Do: []Op{Put("forged", nil)}}, &outcome{})...)
		segment.FinishEntry(forged, salt, seq+5, 0, segment.KindTxn, len(forged)-segment.EntryHeaderSize)
		mustCommit(t, s, AppendBatch(sh, batchOf(1, strings.Repeat("x", 2000)+string(bytes.Repeat(forged, 3))+strings.Repeat("x", 2000))))
		after := m.Crash(vfs.CrashPlan{Kind: vfs.KeepAll})
		s.Close()
		// The last entry is torn: its header is gone, the message in it is there.
		b, err := after.Contents(filepath.Join("d", segmentName(1, 0)))
		if err != nil {
			t.Fatal(err)
		}
		last := uint32(0)
		for sc := entriesOf(b); ; {
			e, err := sc.Next()
			if err != nil {
				break
			}
			last = e.Pos
		}
		for i := range int64(segment.EntryHeaderSize) {
			if err := after.Corrupt(filepath.Join("d", segmentName(1, 0)), int64(last)+i, 0xff); err != nil {
				t.Fatal(err)
			}
		}
		for _, repair := range []bool{false, true} {
			s = openMem(t, after.Snapshot(), func(o *Options) { o.Repair = repair })
			if _, is := s.Get("forged"); is {
				t.Errorf("what a message said was executed")
			}
			if v, _ := s.Get("k"); string(v) != "v" || s.Recovery.TornFile == "" {
				t.Errorf("the key before the message is %q, torn %q", v, s.Recovery.TornFile)
			}
			mustClose(t, s)
		}
	}
}

// The salt is in the header only. When that is damaged, the entries themselves tell it.
func TestADamagedHeaderIsRepairedWithoutItsSalt(t *testing.T) {
	t.Parallel()
	for _, records := range []int{0, 1, 5, 300} {
		m := vfs.NewMem()
		s := openMem(t, m)
		sh := newShard(t, s, "q")
		fill(t, s, sh, records, 1)
		mustClose(t, s)
		for i := range int64(segment.HeaderSize) {
			if err := m.Corrupt(filepath.Join("d", segmentName(1, 0)), i, 0xff); err != nil {
				t.Fatal(err)
			}
		}
		s = openMem(t, m, func(o *Options) { o.Repair = true })
		if got := values(t, s, sh, 0, 1<<20); len(got) != records || len(s.Recovery.Lost) > 0 {
			t.Errorf("%d records are left of %d, lost are %v", len(got), records, s.Recovery.Lost)
		}
		mustClose(t, s)
	}
}
