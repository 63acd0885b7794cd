package logstore

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"polylog/logstore/segment"
	"polylog/logstore/vfs"
)

// Recovery is what Open found and did.
type Recovery struct {
	CheckpointSeq   uint64   // the replay began behind it; 0: there was none
	BadCheckpoints  []string // damaged files that were passed over, with the reason
	ReplayedEntries int64
	ReplayedBytes   int64
	// The tail that was cut off because its group had never been confirmed: the file, and where its last whole entry ends. Empty: none.
	TornFile       string
	TornAt         int64
	RebuiltIndexes []string // segment files whose index was missing or damaged and was made anew from the entries
	// What a repair dropped.
	Damage []Damage
	Lost   []LostRange
}

// recovery is one run of Open over the files of a directory.
type recovery struct {
	Recovery
	s      *Store
	fs     vfs.FS
	dir    string
	repair bool

	st             *state
	checkpoints    []checkpointID // good ones, ascending
	checkpointSize int64
	// completeFrom is the last entry of the oldest good checkpoint: cleaning has taken nothing that was written after it.
	completeFrom uint64
	found        []*foundSegment
	sealed       []*sealedSegment
	nextID       uint64
	lastSeq      uint64 // of the segments read so far
	ops          []appliedOp
}

// foundSegment is a segment file as recovery meets it.
type foundSegment struct {
	name     string
	header   segment.Header
	headErr  error // the header is damaged, or was never written, or is not that of the name
	misnamed bool  // the last of these
	size     int64
	index    *segment.Sealed // nil: not sealed, or damaged
	indexErr error           // why index is nil
}

// entriesEnd is where the entries end, or as far as they may go in a file that is not sealed.
func (g *foundSegment) entriesEnd() int64 {
	if g.index != nil {
		return int64(g.index.DataEnd)
	}
	return g.size
}

// isWhole reports whether an entry's metadata can be read and its batches are those that it tells of.
func isWhole(e *segment.Entry) bool {
	_, err := decodeEntry(e, nil)
	return err == nil
}

func (r *recovery) run() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	if slices.Contains(names, restoringName) {
		return &UnfinishedRestoreError{r.dir}
	}
	for _, name := range names {
		if strings.HasSuffix(name, tmpSuffix) || strings.HasSuffix(name, spareSuffix) {
			if err := r.remove(name); err != nil {
				return err
			}
		}
	}
	if err := r.loadCheckpoint(names); err != nil {
		return err
	}
	if err := r.findSegments(names); err != nil {
		return err
	}
	for i, g := range r.found {
		if err := r.readSegment(i, g); err != nil {
			return err
		}
	}
	if r.endsEarly() || r.lastSeq == 0 && r.st.hasLive() {
		if err := r.drop(Damage{File: r.dir, What: r.endMissing()}); err != nil {
			return err
		}
	}
	if r.repair {
		r.st.seq = max(r.st.seq, r.lastSeq) // no number is given twice, also when the checkpoint that knew the last one is lost
		if err := r.dropUncovered(); err != nil {
			return err
		}
	}
	// Also for what the process before this one had renamed and not synced yet: from here on it is relied upon.
	return r.fs.SyncDir(r.dir)
}

// endsEarly reports whether the log ends before its checkpoint, although nothing after the checkpoint before that was cleaned.
func (r *recovery) endsEarly() bool {
	return r.lastSeq < r.CheckpointSeq && r.completeFrom < r.CheckpointSeq
}

func (r *recovery) endMissing() string {
	return fmt.Sprintf("the checkpoint knows entries up to %d, but the last one in the segment files is %d: a segment file, or the end of one, is missing",
		r.CheckpointSeq, r.lastSeq)
}

// drop is what becomes of damage: a repair takes note of it and goes on, all others end with it as their error.
func (r *recovery) drop(d Damage) error {
	if !r.repair {
		return &CorruptError{File: d.File, Pos: d.From, What: d.What}
	}
	r.Damage = append(r.Damage, d)
	return nil
}

func (r *recovery) damaged() bool { return len(r.Damage)+len(r.Lost) > 0 }

func (r *recovery) remove(name string) error {
	return r.fs.Remove(filepath.Join(r.dir, name))
}

// loadCheckpoint reads the newest checkpoint that is good.
func (r *recovery) loadCheckpoint(names []string) error {
	r.st = newState()
	ids := checkpointIDs(names)
	for _, id := range slices.Backward(ids) {
		name := checkpointName(id)
		st, size, err := openCheckpoint(r.fs, r.dir, id)
		if errors.Is(err, errBadCheckpoint) {
			r.BadCheckpoints = append(r.BadCheckpoints, fmt.Sprintf("%s: %v", name, err))
			r.s.opts.Logf("%s: %v; going back to the one before", name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if r.checkpoints == nil {
			r.st, r.CheckpointSeq, r.checkpointSize = st, id.seq, size
		}
		r.checkpoints = append(r.checkpoints, id)
		r.completeFrom = id.seq
		if len(r.checkpoints) == keptCheckpoints {
			break
		}
	}
	slices.Reverse(r.checkpoints)
	for _, id := range ids {
		if !slices.Contains(r.checkpoints, id) {
			if err := r.remove(checkpointName(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkpointIDs returns the checkpoints among the files, in ascending order.
func checkpointIDs(names []string) (ids []checkpointID) {
	for _, name := range names {
		if id, ok := parseCheckpointName(name); ok {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, checkpointID.compare)
	return ids
}

// openCheckpoint reads and verifies a checkpoint file.
func openCheckpoint(fsys vfs.FS, dir string, id checkpointID) (*state, int64, error) {
	f, err := fsys.Open(filepath.Join(dir, checkpointName(id)))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, 0, err
	}
	st, err := readCheckpoint(f, size)
	if err == nil && st.seq != id.seq {
		err = fmt.Errorf("%w: it is that of entry %d", errBadCheckpoint, st.seq)
	}
	return st, size, err
}

// findSegments reads the headers and indexes of all segment files, and removes those that cleaning had replaced when the process ended.
func (r *recovery) findSegments(names []string) error {
	var err error
	if r.found, err = findSegments(r.fs, r.dir, names); err != nil {
		return err
	}
	r.nextID = 1
	for _, g := range r.found {
		r.nextID = max(r.nextID, g.header.CoversTo+1)
	}
	if r.repair {
		if err := r.placeMisnamed(); err != nil {
			return err
		}
	}
	kept := r.found[:0]
	for _, g := range r.found {
		if by := supersededBy(r.found, g); by != nil {
			r.s.opts.Logf("removing %s, which %s replaces", g.name, by.name)
			if err := r.remove(g.name); err != nil {
				return err
			}
			continue
		}
		kept = append(kept, g)
	}
	r.found = kept
	return nil
}

// findSegments returns the segment files in the order of their ids.
func findSegments(fsys vfs.FS, dir string, names []string) ([]*foundSegment, error) {
	var found []*foundSegment
	for _, name := range names {
		id, generation, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		g, err := inspectSegment(fsys, dir, name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if g.headErr == nil && (g.header.ID != id || g.header.Generation != generation) {
			g.headErr, g.misnamed = fmt.Errorf("%w: it is that of segment %d, generation %d", segment.ErrBadHeader, g.header.ID, g.header.Generation), true
		}
		if g.headErr != nil && !g.misnamed {
			g.header = segment.Header{ID: id, CoversTo: id, Generation: generation, Salt: g.header.Salt}
		}
		found = append(found, g)
	}
	return found, nil // names are sorted, and so are ids
}

func inspectSegment(fsys vfs.FS, dir, name string) (*foundSegment, error) {
	f, err := fsys.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g := &foundSegment{name: name}
	if g.size, err = f.Size(); err != nil {
		return nil, err
	}
	head := make([]byte, min(g.size, segment.HeaderSize))
	if err := segment.ReadFull(f, head, 0); err != nil {
		return nil, err
	}
	if g.header, g.headErr = segment.ParseHeader(head); errors.Is(g.headErr, segment.ErrVersion) {
		return nil, g.headErr
	}
	g.index, g.indexErr = segment.OpenSealed(f, g.size)
	if g.indexErr != nil && !errors.Is(g.indexErr, segment.ErrNotSealed) && !errors.Is(g.indexErr, segment.ErrBadIndex) {
		return nil, g.indexErr
	}
	if g.headErr != nil {
		g.header.Salt, _, err = segment.FindSalt(f, g.entriesEnd(), isWhole)
	}
	return g, err
}

// supersededBy returns the segment of a later generation that covers g, if there is one.
func supersededBy(all []*foundSegment, g *foundSegment) *foundSegment {
	for _, o := range all {
		if o != g && o.headErr == nil && o.index != nil && o.header.Generation > g.header.Generation && o.header.ID <= g.header.ID && g.header.ID <= o.header.CoversTo {
			return o
		}
	}
	return nil
}

// readSegment replays what the checkpoint does not cover, and leaves the segment sealed.
func (r *recovery) readSegment(i int, g *foundSegment) error {
	if g.headErr != nil {
		unused, err := r.judgeHeader(i, g)
		if err != nil || unused {
			return err
		}
	}
	if known := max(r.completeFrom, r.lastSeq); g.header.Generation == 0 && g.header.PrevSeq > known {
		err := r.drop(Damage{File: g.name, What: fmt.Sprintf("it follows entry %d, but the last one before it is %d: a segment, or the end of one, is missing",
			g.header.PrevSeq, known)})
		if err != nil {
			return err
		}
	}
	if g.header.Generation > 0 && g.header.LastSeq > r.CheckpointSeq {
		err := r.drop(Damage{File: g.name, What: fmt.Sprintf("it was cleaned up to entry %d, but the newest good checkpoint ends at %d: a checkpoint is lost; restore the directory from a backup",
			g.header.LastSeq, r.CheckpointSeq)})
		if err != nil {
			return err
		}
	}
	sound, err := r.settleIndex(i, g)
	if err != nil {
		return err
	}
	if sound && g.index.LastSeq <= r.CheckpointSeq && !r.repair {
		r.lastSeq = max(r.lastSeq, g.index.LastSeq)
		r.keep(g)
		return nil
	}
	return r.scan(i, g)
}

// judgeHeader decides whether a file without a good header was never used. If it was, its header is damaged.
func (r *recovery) judgeHeader(i int, g *foundSegment) (unused bool, err error) {
	if unused, err = r.neverUsed(i, g); err != nil {
		return false, err
	}
	if unused {
		return true, r.remove(g.name)
	}
	if err := r.drop(Damage{g.name, 0, segment.HeaderSize, g.headErr.Error()}); err != nil {
		return false, err
	}
	g.guessHeader(r.lastSeq)
	return false, nil
}

// neverUsed reports whether a file without a good header is one that was prepared, and in which nothing was ever confirmed.
func (r *recovery) neverUsed(i int, g *foundSegment) (bool, error) {
	if g.misnamed || (g.index != nil || i < len(r.found)-1) && !r.restUnused(i) {
		return false, nil
	}
	// Entries that the oldest checkpoint knows are what an earlier segment left in the file.
	proof, err := r.laterEntry(g, segment.HeaderSize-1, max(r.lastSeq, r.completeFrom))
	return proof == nil, err
}

// restUnused reports whether the segment and all behind it are files that were prepared and never used.
func (r *recovery) restUnused(i int) bool {
	for _, g := range r.found[i:] {
		if g.headErr == nil || g.index != nil {
			return false
		}
	}
	return true
}

// laterEntry looks behind a bad place for an entry that proves the place was once durable: when it was written, entries beyond lastSeq were on
// the disk.
func (r *recovery) laterEntry(g *foundSegment, pos uint32, lastSeq uint64) (*segment.Entry, error) {
	f, err := r.fs.Open(filepath.Join(r.dir, g.name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var proof *segment.Entry
	sc := segment.NewScanner(f, g.header.Salt, pos, g.size)
	_, err = sc.Resync(lastSeq, func(e *segment.Entry) bool {
		if e.Kind != segment.KindTxn || e.Durable() <= lastSeq || !isWhole(e) {
			return false
		}
		proof = &segment.Entry{Seq: e.Seq, Pos: e.Pos}
		return true
	})
	return proof, err
}

// keep puts a sealed segment into the log.
func (r *recovery) keep(g *foundSegment) {
	r.sealed = append(r.sealed, &sealedSegment{header: g.header, name: g.name, size: g.size, index: g.index})
}

// scan reads the entries of a segment one after another and applies those behind the checkpoint. At the end, or at the first
// bad entry, it decides what that means.
func (r *recovery) scan(i int, g *foundSegment) error {
	f, err := r.fs.Open(filepath.Join(r.dir, g.name))
	if err != nil {
		return err
	}
	defer f.Close()
	end := g.entriesEnd()
	c := &collected{dropped: g.headErr != nil}
	sc := segment.NewScanner(f, g.header.Salt, segment.HeaderSize, end)
	for {
		bad, err := r.scanRun(sc, g, c)
		if err != nil {
			return err
		}
		if bad == nil && g.index != nil {
			break // all of a sealed segment
		}
		verdict, err := r.judge(i, g, sc.Pos(), c.lastSeq, bad)
		if err != nil {
			return err
		}
		if verdict == nil {
			break
		}
		if !r.repair {
			return verdict
		}
		again, err := r.skip(sc, g, c, end, verdict)
		if err != nil {
			return err
		}
		if !again {
			break
		}
	}
	return r.sealFound(g, f, sc, c)
}

// collected is what a scan has gathered of one segment.
type collected struct {
	locs              []segment.Loc
	firstSeq, lastSeq uint64
	dropped           bool    // some of it was, be it the header only
	good              []Range // positions of the good entries, when some of it was dropped
	runFrom           uint32
}

// scanRun reads entries until the end (nil) or the first bad one.
func (r *recovery) scanRun(sc *segment.Scanner, g *foundSegment, c *collected) (bad error, err error) {
	c.runFrom = sc.Pos()
	if c.lastSeq == 0 {
		c.lastSeq = r.lastSeq
	}
	for {
		pos := sc.Pos()
		e, err := sc.Next()
		switch {
		case err == io.EOF || errors.Is(err, segment.ErrNoEntry):
			if g.index != nil && err != io.EOF {
				return err, nil
			}
			return nil, nil
		case errors.Is(err, segment.ErrBadEntry):
			return err, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", g.name, err)
		}
		if r.ops, err = decodeEntry(&e, r.ops[:0]); err != nil {
			sc.Rewind(pos)
			return err, nil
		}
		if e.Kind == segment.KindTxn {
			if e.Seq <= c.lastSeq && c.lastSeq != 0 && g.header.Generation == 0 {
				sc.Rewind(pos)
				return fmt.Errorf("entry %d follows entry %d", e.Seq, c.lastSeq), nil
			}
			if e.Seq > r.CheckpointSeq {
				if err := r.replay(g, &e); err != nil {
					return nil, err
				}
			}
			if c.firstSeq == 0 {
				c.firstSeq = e.Seq
			}
			c.lastSeq = max(c.lastSeq, e.Seq)
		}
		c.locs = appendLocs(c.locs, r.ops)
	}
}

// appendLocs adds where an entry's batches lie.
func appendLocs(locs []segment.Loc, ops []appliedOp) []segment.Loc {
	for i := range ops {
		if o := &ops[i]; o.kind == opAppend {
			locs = append(locs, locOf(o.shard, o.base, o.batch, o.pos))
		}
	}
	return locs
}

// judge decides what the end of an unsealed segment's entries, or a bad entry, means: nil is the end of what was ever confirmed, or
// of a segment whose sealing was cut off; else it is damage.
func (r *recovery) judge(i int, g *foundSegment, pos uint32, lastSeq uint64, bad error) (*CorruptError, error) {
	what := "the entries end"
	if bad != nil {
		what = bad.Error()
	}
	damage := func(why string, args ...any) (*CorruptError, error) {
		return &CorruptError{File: g.name, Pos: int64(pos), What: what + ", but " + fmt.Sprintf(why, args...)}, nil
	}
	if g.index != nil {
		return damage("the sealed segment goes on to %d", g.index.DataEnd)
	}
	if i+1 < len(r.found) && !r.restUnused(i+1) {
		next := r.found[i+1]
		if next.headErr == nil && next.header.Generation == 0 && next.header.PrevSeq == lastSeq {
			return nil, nil // whole; only its index was not
		}
		if next.headErr == nil && errors.Is(g.indexErr, segment.ErrNotSealed) || next.headErr != nil {
			return damage("the next segment follows entry %d, and the last one here is %d", next.header.PrevSeq, lastSeq)
		}
		return damage("its index is damaged, so that its end is not known")
	}
	if g.header.Generation > 0 {
		return damage("it was cleaned, and is damaged")
	}
	if lastSeq < r.CheckpointSeq {
		return damage("the checkpoint knows entries up to %d, and the last one here is %d", r.CheckpointSeq, lastSeq)
	}
	proof, err := r.laterEntry(g, pos, lastSeq)
	if err != nil {
		return nil, err
	}
	if proof != nil {
		return damage("entry %d at position %d was written when that was on the disk already", proof.Seq, proof.Pos)
	}
	if bad != nil && !errors.Is(bad, io.EOF) {
		r.TornFile, r.TornAt = g.name, int64(pos)
	}
	return nil, nil
}
