package logbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"polylog/logstore"
)

// holding is what a process that holds a log tells the one that started it, a line of JSON for each.
type holding struct {
	Progress string  `json:",omitempty"`
	Ready    bool    `json:",omitempty"` // the figures are complete
	Empty    int64   // resident bytes with nothing in the log
	Resident int64   // with the log as it is
	Peak     int64   // the most there ever was
	Seconds  float64 // from opening to having read the first and the last record
}

// Hold is the process that "waiting" starts, measures and kills: `fill DIR MESSAGES` fills a log and waits to be killed, or for the end
// of in; `start DIR` opens it.
func Hold(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	tell := json.NewEncoder(out).Encode
	switch {
	case len(args) == 4 && args[0] == "fill":
		messages, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		segmentBytes, err := strconv.ParseInt(args[3], 10, 64)
		if err != nil {
			return err
		}
		if err := holdFull(ctx, args[1], messages, segmentBytes, tell); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, in)
		return err
	case len(args) == 2 && args[0] == "start":
		return holdStarted(args[1], tell)
	}
	return fmt.Errorf("what to hold is not understood: %q", args)
}

const (
	fillWriters = 16
	fillAtOnce  = 64  // batches of a transaction; each is a message of its own
	fillSize    = 100 // bytes of a message
)

// holdFull fills a log and leaves it open.
func holdFull(ctx context.Context, dir string, messages int, segmentBytes int64, tell func(any) error) error {
	s, err := logstore.Open(logstore.Options{Dir: dir, SegmentBytes: segmentBytes})
	if err != nil {
		return err
	}
	sh, err := newShard(s)
	if err != nil {
		return err
	}
	var h holding
	if h.Empty, _, err = resident(); err != nil {
		return err
	}
	batch, err := payload(1, fillSize)
	if err != nil {
		return err
	}
	var (
		writers sync.WaitGroup
		errs    [fillWriters]error
		taken   atomic.Int64
		told    sync.Mutex
	)
	ops := make([]logstore.Op, fillAtOnce)
	for i := range ops {
		ops[i] = logstore.AppendBatch(sh, batch)
	}
	tenth := int64(max(messages/10, 1))
	for w := range fillWriters {
		writers.Go(func() {
			for errs[w] == nil {
				after := taken.Add(fillAtOnce)
				n := min(fillAtOnce, int64(messages)-after+fillAtOnce)
				if n <= 0 {
					return
				}
				_, errs[w] = s.Commit(ctx, logstore.Txn{Do: ops[:n], Wait: logstore.Relaxed})
				if after/tenth > (after-fillAtOnce)/tenth {
					told.Lock()
					tell(holding{Progress: thousands(float64(after/tenth*tenth)) + " messages wait"})
					told.Unlock()
				}
			}
		})
	}
	writers.Wait()
	if err := errors.Join(append(errs[:], s.Sync(ctx))...); err != nil {
		return err
	}
	if h.Resident, h.Peak, err = resident(); err != nil {
		return err
	}
	h.Ready = true
	return tell(h)
}

// holdStarted measures a start, which ends when the first and the last record have been read.
func holdStarted(dir string, tell func(any) error) error {
	began := time.Now()
	s, err := logstore.Open(logstore.Options{Dir: dir})
	if err != nil {
		return err
	}
	value, _ := s.Get("shard")
	sh, err := logstore.ParseShardValue(value)
	if err != nil {
		return err
	}
	first, next, err := s.Bounds(sh)
	if err != nil {
		return err
	}
	for _, offset := range []int64{first, next - 1} {
		c, err := s.Read(sh, offset, 1, nil)
		if err != nil {
			return err
		}
		if len(c.Batches) == 0 || c.Batches[0].BaseOffset() != offset {
			return fmt.Errorf("offset %d, of %d to %d, is not there", offset, first, next)
		}
	}
	h := holding{Ready: true, Seconds: time.Since(began).Seconds()}
	if h.Resident, h.Peak, err = resident(); err != nil {
		return err
	}
	return tell(h) // the store is left open: it ends as the one before did
}
