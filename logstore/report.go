package logstore

import "fmt"

// Report is what Check found in the directory of a log.
type Report struct {
	// Segment files that are part of the log, and what is in them. The process that wrote the unsealed ones did not end in order.
	Segments     int   `json:"segments"`
	Sealed       int   `json:"sealed"`
	Unsealed     int   `json:"unsealed"`
	SegmentBytes int64 `json:"segment_bytes"`
	Entries      int64 `json:"entries"`
	Batches      int64 `json:"batches"`
	Records      int64 `json:"records"`
	// Segment files that the next start removes: prepared and not used yet, or replaced by others.
	Unused   int `json:"unused"`
	Replaced int `json:"replaced"`

	Checkpoints []CheckpointReport `json:"checkpoints"` // ascending

	// The state that the log leads to.
	LastSeq  uint64 `json:"last_seq"`
	Hash     uint64 `json:"hash,string"` // as Store.Hash gives it
	Shards   int    `json:"shards"`
	Keys     int    `json:"keys"`
	KeyBytes int64  `json:"key_bytes"` // keys and values

	// LiveRecords are the offsets that are not deleted, DeadRecords those that are and still take room in a file. The bytes are those of the batches; of a batch
	// that is partly dead, in proportion.
	LiveRecords int64         `json:"live_records"`
	DeadRecords int64         `json:"dead_records"`
	LiveBytes   int64         `json:"live_bytes"`
	DeadBytes   int64         `json:"dead_bytes"`
	Largest     []ShardReport `json:"largest"` // the shards with the most live records, most first

	// Notes are what one may want to know and is in order.
	Notes []string `json:"notes"`
	// Problems are the damage, of which the first maxProblems are listed and ProblemCount are counted.
	Problems     []Problem `json:"problems"`
	ProblemCount int       `json:"problem_count"`
}

// maxProblems bounds what a report lists. More would not be read.
const maxProblems = 1000

// newReport returns an empty report; its lists are empty in JSON too, and not null.
func newReport() *Report {
	return &Report{Checkpoints: []CheckpointReport{}, Largest: []ShardReport{}, Notes: []string{}, Problems: []Problem{}}
}

// OK reports whether the log is undamaged.
func (r *Report) OK() bool { return r.ProblemCount == 0 }

// Problem is a place where the log is not what it should be.
type Problem struct {
	File string `json:"file"`
	Pos  int64  `json:"pos"` // in the file; 0 also when it is the file as a whole
	What string `json:"what"`
}

func (p Problem) String() string {
	if p.Pos == 0 {
		return p.File + ": " + p.What
	}
	return fmt.Sprintf("%s, position %d: %s", p.File, p.Pos, p.What)
}

// CheckpointReport is one checkpoint file.
type CheckpointReport struct {
	Name  string `json:"name"`
	Seq   uint64 `json:"seq"` // of the last transaction in it
	Bytes int64  `json:"bytes"`
	Good  bool   `json:"good"`
}

// ShardReport is one of the largest shards.
type ShardReport struct {
	Shard Shard  `json:"shard"`
	Key   string `json:"key"` // that names it; empty if there is none
	First int64  `json:"first"`
	Next  int64  `json:"next"`
	Live  int64  `json:"live"`
}

func (r *Report) note(format string, args ...any) {
	if len(r.Notes) < maxProblems {
		r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
	}
}

func (r *Report) problem(file string, pos int64, format string, args ...any) {
	r.ProblemCount++
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{file, pos, fmt.Sprintf(format, args...)})
	}
}
