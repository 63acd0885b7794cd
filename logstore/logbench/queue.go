package logbench

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"polylog/logstore"
)

const (
	queueWriters = 256
	queueTarget  = 0.5
	// sampleEvery is how often the disk space is looked at.
	sampleEvery = 50 * time.Millisecond
)

// queue is the life of a queue in the log: writers append, a consumer deletes in order and stays half the backlog behind. Writers wait while the
// whole backlog waits.
type queue struct {
	s       *logstore.Store
	sh      logstore.Shard
	backlog int64
	append  func(w int) error

	appended atomic.Int64 // confirmed
	deleted  atomic.Int64 // the consumer's alone to change
	mu       sync.Mutex
	room     sync.Cond // deleted has grown, or failed is set
	failed   error     // why there is no consumer any more
}

// waiting is how many confirmed records are not deleted.
func (q *queue) waiting() int64 { return q.appended.Load() - q.deleted.Load() }

// produce appends one record when there is room for it.
func (q *queue) produce(w int) error {
	if q.waiting() >= q.backlog {
		q.mu.Lock()
		for q.waiting() >= q.backlog && q.failed == nil {
			q.room.Wait()
		}
		err := q.failed
		q.mu.Unlock()
		if err != nil {
			return err
		}
	}
	err := q.append(w)
	if err == nil {
		q.appended.Add(1)
	}
	return err
}

// consume deletes what has come, again and again, until stop is closed.
func (q *queue) consume(stop <-chan struct{}) {
	grown := make(chan struct{}, 1)
	defer q.s.NotifyGrowth(q.sh, grown)()
	for {
		err := q.deleteSome()
		q.mu.Lock()
		q.failed = err
		q.room.Broadcast()
		q.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case <-stop:
			return
		case <-grown:
		}
	}
}

func (q *queue) deleteSome() error {
	_, next, err := q.s.Bounds(q.sh)
	if err != nil {
		return err
	}
	from, to := q.deleted.Load(), next-q.backlog/2
	if to <= from {
		return nil
	}
	_, err = q.s.Commit(context.Background(), logstore.Txn{
		Do:   []logstore.Op{logstore.Delete(q.sh, logstore.Range{From: from, To: to})},
		Wait: logstore.Relaxed,
	})
	q.deleted.Store(to)
	return err
}

// run lets the queue live for a round.
func (q *queue) run(ctx context.Context, round time.Duration) (r rate, err error) {
	stop := make(chan struct{})
	var consumer sync.WaitGroup
	consumer.Go(func() { q.consume(stop) })
	r, err = load{queueWriters, round}.run(ctx, q.produce)
	close(stop)
	consumer.Wait()
	return r, errors.Join(err, q.failed)
}

// highest is the most disk that was in use, with what lived then.
type highest struct {
	bytes int64
	live  int64 // bytes of records that waited
}

// watch looks at the disk now and then until stop is closed, once the queue has seen warm records.
func (q *queue) watch(dir string, warm, recordBytes int64, stop <-chan struct{}) (h highest, err error) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-stop:
			over = true
		case <-tick.C:
		}
		if q.appended.Load() < warm {
			continue
		}
		used, err := allocated(dir)
		if err != nil {
			return h, err
		}
		if used > h.bytes {
			h = highest{used, q.waiting() * recordBytes}
		}
	}
	return h, nil
}

func measureQueue(ctx context.Context, c *Config) (rows []Row, err error) {
	batches, err := payloads(queueWriters, 1, 1<<10)
	if err != nil {
		return nil, err
	}
	plainStore, err := c.open(filepath.Join(c.Dir, "plain"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plainStore.Close()) }()
	plainShard, err := newShard(plainStore)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.Dir, "queue")
	s, err := c.open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	q := &queue{s: s, backlog: c.Scale.Backlog}
	q.room.L = &q.mu
	if q.sh, err = newShard(s); err != nil {
		return nil, err
	}
	q.append = appender(s, q.sh, batches)

	var (
		size    = int64(batches[0].Len())
		total   = c.Scale.QueueBytes / size // records that go through it, beside those of the warm-up
		warm    = total / 4
		stop    = make(chan struct{})
		sampler sync.WaitGroup
		most    highest
		diskErr error
	)
	sampler.Go(func() { most, diskErr = q.watch(dir, warm, size, stop) })
	appendOnly := appender(plainStore, plainShard, batches)
	live, plain, err := c.inTurn(ctx, RecordsPerSecond,
		side{"queue", func(ctx context.Context) (rate, error) { return q.run(ctx, c.Round) }},
		side{"appends only", func(ctx context.Context) (rate, error) { return load{queueWriters, c.Round}.run(ctx, appendOnly) }})
	for told := int64(0); err == nil && q.appended.Load() < warm+total; {
		if n := q.appended.Load(); n-told >= total/10 {
			c.Logf("  %s of %s records went through the queue", thousands(float64(n)), thousands(float64(warm+total)))
			told = n
		}
		_, err = q.run(ctx, c.Round)
	}
	close(stop)
	sampler.Wait()
	if err = errors.Join(err, diskErr); err != nil {
		return nil, err
	}
	st := s.Stats()
	c.Logf("  %s records, %d segments removed, %d copied (%v), %d checkpoints", thousands(float64(q.appended.Load())), st.RemovedSegments,
		st.RewrittenSegments, Figure{float64(st.CopiedBytes), Bytes}, st.Checkpoints)
	return []Row{
		compare("queue-rate", RecordsPerSecond, live, plain, "appends only", queueTarget),
		limit("queue-disk", Bytes, float64(most.bytes), float64(2*c.Scale.SegmentBytes+2*most.live), "2 segments + 2x live"),
	}, nil
}
