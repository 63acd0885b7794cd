package logbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary the program that holds a log in a process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hold" {
		if err := Hold(context.Background(), os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// tiny is everything at a scale of milliseconds.
func tiny(t *testing.T) Config {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Dir: t.TempDir(), Round: 20 * time.Millisecond, Rounds: 2, Logf: t.Logf, Child: []string{self, "hold"},
		Scale: Scale{
			SegmentBytes: 1 << 20, Shards: 5000, ReadBytes: 4 << 20, TailBytes: 1 << 20, Messages: 10_000,
			Backlog: 500, QueueBytes: 2 << 20, Commits: 2000,
		},
	}
}

func TestEveryMeasurementGivesPlausibleFigures(t *testing.T) {
	t.Parallel()
	c := tiny(t)
	rows, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	between := map[Unit][2]float64{
		RecordsPerSecond: {10, 1e8}, BytesPerSecond: {1e4, 1e12}, Bytes: {1 << 10, 1 << 40}, Seconds: {1e-5, 60}, Allocations: {0.01, 1000},
	}
	var names []string
	for _, r := range rows {
		if slices.Contains(names, r.Name) {
			t.Errorf("two rows are named %s", r.Name)
		}
		names = append(names, r.Name)
		for _, f := range []Figure{r.Measured, r.Against} {
			b, known := between[f.Unit]
			if !known {
				t.Errorf("%s: the unit is %q", r.Name, f.Unit)
			}
			if r.Name == "allocs-payload" && f == r.Measured {
				b = [2]float64{0, 63 << 10} // a payload that is not copied allocates nothing
			}
			if !(f.Value >= b[0] && f.Value <= b[1]) {
				t.Errorf("%s: %g %s is not plausible", r.Name, f.Value, f.Unit)
			}
		}
		if math.IsNaN(r.Ratio()) || math.IsInf(r.Ratio(), 0) || r.Target <= 0 || r.Is == "" {
			t.Errorf("%s: ratio %g, target %g, against %q", r.Name, r.Ratio(), r.Target, r.Is)
		}
	}
	want := []string{
		"append-1", "append-256", "append-2000", "append-large", "shards", "read-tail", "read-memory", "read-disk",
		"readbatch-tail", "readbatch-memory", "readbatch-disk", "waiting-memory", "waiting-peak", "waiting-start", "queue-rate", "queue-disk",
		"allocs-1", "allocs-256", "allocs-payload",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the rows are %q,\nwant %q", names, want)
	}
	if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"append", "shards", "read", "waiting", "queue", "allocs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tiny(t)
			c.Only, c.Round = []string{name}, time.Hour
			c.Scale.Messages, c.Scale.Commits = 1<<40, 1<<40
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := Run(ctx, c); err == nil {
				t.Error("it ended as if it were complete")
			}
			if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestOnlyWhatWasNamedRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		only []string
		want string
	}{
		{nil, "append-1 append-256 append-2000 append-large shards read readbatch waiting queue allocs"},
		{[]string{"append"}, "append-1 append-256 append-2000 append-large"},
		{[]string{"queue", "append-2000"}, "append-2000 queue"},
		{[]string{"read"}, "read"},
	} {
		chosen, err := choose(c.only)
		var names []string
		for _, m := range chosen {
			names = append(names, m.name)
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("only %q: %s, %v; want %s", c.only, got, err, c.want)
		}
	}
	if err := Check([]string{"queue", "appends"}); err == nil || !strings.Contains(err.Error(), `"appends"`) {
		t.Errorf("a name that does not exist: %v", err)
	}
}

func TestBareLogKeepsAllThatWasAppended(t *testing.T) {
	t.Parallel()
	const writers, each, size = 20, 50, 100
	dir := t.TempDir()
	b := newBareLog(dir, 64<<10)
	done := make(chan error)
	for w := range writers {
		go func() {
			var err error
			for range each {
				err = errors.Join(err, b.append([]byte(strings.Repeat(string(rune('A'+w)), size))))
			}
			done <- err
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	names, err := filesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	count := map[byte]int{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range text {
			count[c]++
		}
	}
	for w := range writers {
		if n := count[byte('A'+w)]; n != each*size {
			t.Errorf("writer %d: %d bytes, want %d", w, n, each*size)
		}
	}
}

func TestBareLogReportsWhyItCannotWrite(t *testing.T) {
	t.Parallel()
	b := newBareLog(filepath.Join(t.TempDir(), "missing"), 1<<20)
	for range 2 {
		if err := b.append([]byte("x")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("appending where there is no directory: %v", err)
		}
	}
	if err := b.close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closing: %v", err)
	}
}

func TestLoadEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := load{4, time.Hour}.run(t.Context(), func(w int) error {
		if w == 2 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
