package logbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// appendLoad is a measurement of appends against the bare log, with the same writers and the same bytes.
type appendLoad struct {
	name    string
	writers int
	size    int // of a record's value
}

var appends = []appendLoad{
	{"append-1", 1, 1 << 10},
	{"append-256", 256, 1 << 10},
	{"append-2000", 2000, 1 << 10},
	{"append-large", 64, 256 << 10},
}

// appendTarget is the share of the bare log's rate that the log should reach.
const appendTarget = 0.6

func (a appendLoad) what() string {
	return fmt.Sprintf("durable appends of %v by %d writers against the bare log", Figure{float64(a.size), Bytes}, a.writers)
}

func (a appendLoad) run(ctx context.Context, c *Config) (rows []Row, err error) {
	batches, err := payloads(a.writers, 1, a.size)
	if err != nil {
		return nil, err
	}
	s, err := c.open(filepath.Join(c.Dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	sh, err := newShard(s)
	if err != nil {
		return nil, err
	}
	bareDir := filepath.Join(c.Dir, "bare")
	if err := os.Mkdir(bareDir, 0o700); err != nil {
		return nil, err
	}
	bare := newBareLog(bareDir, c.Scale.SegmentBytes)
	defer func() { err = errors.Join(err, bare.close()) }()

	unit, perCall := RecordsPerSecond, 1.0
	if a.size >= 64<<10 {
		unit, perCall = BytesPerSecond, float64(batches[0].Len())
	}
	l := load{a.writers, c.Round}
	rateOf := func(f func(w int) error) func(context.Context) (rate, error) {
		return func(ctx context.Context) (rate, error) {
			r, err := l.run(ctx, f)
			return rate{r.perSecond * perCall, r.cpu / perCall}, err
		}
	}
	log, other, err := c.inTurn(ctx, unit,
		side{"log", rateOf(appender(s, sh, batches))},
		side{"bare log", rateOf(func(w int) error { return bare.append(batches[w].Bytes()) })})
	return []Row{compare(a.name, unit, log, other, "bare log", appendTarget)}, err
}
