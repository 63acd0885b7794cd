package logstore

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"polylog/logstore/vfs"
)

// SyncPolicy says when what was written is forced to the disk.
type SyncPolicy uint8

const (
	// SyncAlways answers a durable transaction, and lets its records be read, once an fdatasync has covered it. One sync serves all that
	// gathered meanwhile.
	SyncAlways SyncPolicy = iota
	// SyncInterval answers after the write and syncs every Options.SyncInterval: a power loss takes at most that much, a killed process nothing.
	SyncInterval
	// SyncOS answers after the write and leaves the time of writing back to the operating system.
	SyncOS
)

// ParseSyncPolicy reads "always", "interval" or "os".
func ParseSyncPolicy(s string) (SyncPolicy, error) {
	for p := SyncAlways; p <= SyncOS; p++ {
		if p.String() == s {
			return p, nil
		}
	}
	return 0, &InvalidError{fmt.Sprintf("sync policy %q; it is one of always, interval, os", s)}
}

func (p SyncPolicy) String() string {
	switch p {
	case SyncAlways:
		return "always"
	case SyncInterval:
		return "interval"
	case SyncOS:
		return "os"
	}
	return fmt.Sprintf("SyncPolicy(%d)", uint8(p))
}

// Options configure a store. The zero value of every field but Dir stands for its default.
type Options struct {
	Dir string // holds the segments and checkpoints; made if it does not exist
	FS  vfs.FS // default vfs.OS

	Sync         SyncPolicy
	SyncInterval time.Duration // of SyncInterval; default 100 ms

	SegmentBytes    int64 // size of a segment file; default 128 MiB, 64 KiB to 1 GiB
	CheckpointBytes int64 // log bytes between checkpoints while the state is small; default 32 MiB
	CleanRate       int64 // bytes a second that cleaning may copy; default 64 MiB; negative: no limit
	OpenFiles       int   // sealed segment files held open; default 256

	// Repair lets Open drop what is damaged, and say so in Store.Recovery, where it would refuse to start.
	Repair bool
	// Sequencer makes the order outside this store, and several stores equal. Default: the store's own log is the order.
	Sequencer Sequencer
	// Logf is told what an operator may want to know. Default: nobody is.
	Logf func(format string, args ...any)

	// salt draws the salt of a segment's entries. Nobody who sends messages can know it. Tests of the format set it.
	salt func() uint32
	// checkpointsByHand leaves out the checkpoints that nobody asked for, save the one of Close. Tests set it where it matters what the checkpoints cover.
	checkpointsByHand bool
	// spareMemory is how long the log is expected to grow again to the size that it had, and files are kept for that without being used. Default: a minute.
	spareMemory time.Duration
	// aheadBytes is the least size of a group that is written while the one before is still being forced to the disk. Default: 256 KiB.
	aheadBytes int
}

const (
	minSegmentBytes = 64 << 10
	maxSegmentBytes = 1 << 30
	maxSyncInterval = time.Minute
)

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, &InvalidError{"Options.Dir is empty; name the directory that holds the log"}
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Sync > SyncOS {
		return o, &InvalidError{fmt.Sprintf("Options.Sync is %d; it is one of SyncAlways, SyncInterval, SyncOS", o.Sync)}
	}
	if o.SyncInterval == 0 {
		o.SyncInterval = 100 * time.Millisecond
	}
	if o.SyncInterval < time.Millisecond || o.SyncInterval > maxSyncInterval {
		return o, &InvalidError{fmt.Sprintf("Options.SyncInterval is %v; allowed are 1ms to %v", o.SyncInterval, maxSyncInterval)}
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 128 << 20
	}
	if o.SegmentBytes < minSegmentBytes || o.SegmentBytes > maxSegmentBytes {
		return o, &InvalidError{fmt.Sprintf("Options.SegmentBytes is %d; allowed are %d to %d", o.SegmentBytes, minSegmentBytes, maxSegmentBytes)}
	}
	if o.CheckpointBytes <= 0 {
		o.CheckpointBytes = 32 << 20
	}
	if o.CleanRate == 0 {
		o.CleanRate = 64 << 20
	}
	if o.OpenFiles <= 0 {
		o.OpenFiles = 256
	}
	if o.salt == nil {
		o.salt = func() uint32 {
			var b [4]byte
			rand.Read(b[:]) //nolint:errcheck // crypto/rand does not fail
			return binary.LittleEndian.Uint32(b[:])
		}
	}
	if o.spareMemory == 0 {
		o.spareMemory = time.Minute
	}
	if o.aheadBytes == 0 {
		o.aheadBytes = aheadBytes
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o, nil
}
