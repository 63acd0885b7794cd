package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"polylog/e2e/harness"
)

// Faults come as a script: what happens to whom, when, and for how long. A script is a text, so that one that showed a fault is kept by copying it:
//
//	1s+4s kill leader; 6s+10s pause n2; 8s+2s isolate order
//
// The nodes are n1, n2, n3; leader is the node that leads the cluster when the fault begins, order the one whose server leads the order, other one that does neither. A node
// that something else has befallen already is passed over for the next. Faults may overlap.
//
// There is no slow disk among them, for want of a way to slow a disk without a device of one's own; busy comes near, which keeps the disk of all nodes at syncing. And no
// clock jumps: namespaces of time leave the time of day alone.
type fault struct {
	at, hold  time.Duration
	kind, who string
}

func (f fault) String() string { return fmt.Sprintf("%v+%v %s %s", f.at, f.hold, f.kind, f.who) }

// script is faults in the order of their beginnings.
type script []fault

func (s script) String() string {
	var all []string
	for _, f := range s {
		all = append(all, f.String())
	}
	return strings.Join(all, "; ")
}

func parseScript(text string) (s script, err error) {
	for part := range strings.SplitSeq(text, ";") {
		var f fault
		words := strings.Fields(part)
		if len(words) != 3 {
			return nil, fmt.Errorf("%q is no fault: it is like 1s+4s kill n1", part)
		}
		at, hold, _ := strings.Cut(words[0], "+")
		var errs [2]error
		f.at, errs[0] = time.ParseDuration(at)
		f.hold, errs[1] = time.ParseDuration(hold)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		f.kind, f.who = words[1], words[2]
		if faultKinds[f.kind].begin == nil {
			return nil, fmt.Errorf("%q: there is no fault of this kind", part)
		}
		s = append(s, f)
	}
	return s, nil
}

// faultKind is how a fault begins and ends, and how it is drawn.
type faultKind struct {
	least, most time.Duration // how long it is held when it is drawn
	weight      int           // how often it is drawn
	cuts        bool          // it needs a network of its own
	downs       bool          // the node does not count for a majority meanwhile
	begin       func(w *chaosWorld, i int) (end func() error, err error)
}

var faultKinds = map[string]faultKind{
	"kill": {500 * time.Millisecond, 7 * time.Second, 5, false, true, func(w *chaosWorld, i int) (func() error, error) {
		return w.c.Nodes[i].Begin, w.c.Nodes[i].Kill()
	}},
	"stop": {100 * time.Millisecond, 2 * time.Second, 2, false, true, func(w *chaosWorld, i int) (func() error, error) {
		b := w.c.Nodes[i]
		starting := b.Ready() != nil
		err := b.Stop()
		if err != nil && starting { // one that is told to end while it waits for the others says that it could not start
			w.t.Logf("while it was not ready: %v", err)
			err = nil
		}
		return b.Begin, err
	}},
	"pause": {time.Second, 15 * time.Second, 4, false, true, func(w *chaosWorld, i int) (func() error, error) {
		return w.c.Nodes[i].Resume, w.c.Nodes[i].Pause()
	}},
	// A machine that has no time for its node.
	"crawl": {2 * time.Second, 6 * time.Second, 2, false, false, func(w *chaosWorld, i int) (func() error, error) {
		return background(func(ctx context.Context) error {
			b := w.c.Nodes[i]
			for ctx.Err() == nil {
				if err := b.Pause(); err != nil {
					return err
				}
				w.pause(ctx, 80*time.Millisecond)
				if err := b.Resume(); err != nil {
					return err
				}
				w.pause(ctx, 20*time.Millisecond)
			}
			return nil
		}), nil
	}},
	"busy": {2 * time.Second, 5 * time.Second, 1, false, false, func(w *chaosWorld, _ int) (func() error, error) {
		dir := w.t.TempDir()
		return background(func(ctx context.Context) error {
			f, err := os.Create(filepath.Join(dir, "busy"))
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // nobody reads it
			for b := make([]byte, 4<<20); ctx.Err() == nil; {
				if _, err := f.WriteAt(b, 0); err != nil {
					return err
				}
				if err := f.Sync(); err != nil {
					return err
				}
			}
			return nil
		}), nil
	}},
	"isolate": {time.Second, 9 * time.Second, 4, true, true, func(w *chaosWorld, i int) (func() error, error) { return w.c.Net.Isolate(i) }},
	// The others do not hear the node, or it does not hear them.
	"mute":   {time.Second, 8 * time.Second, 2, true, true, func(w *chaosWorld, i int) (func() error, error) { return w.c.Net.Mute(i) }},
	"deafen": {time.Second, 8 * time.Second, 2, true, true, func(w *chaosWorld, i int) (func() error, error) { return w.c.Net.Deafen(i) }},
	// Between the node and the next one; both hear the third.
	"sever":  {time.Second, 9 * time.Second, 3, true, true, func(w *chaosWorld, i int) (func() error, error) { return w.c.Net.Sever(i, w.next(i)) }},
	"oneway": {time.Second, 8 * time.Second, 2, true, true, func(w *chaosWorld, i int) (func() error, error) { return w.c.Net.Cut(i, w.next(i)) }},
	// All nodes at once.
	"blackout": {200 * time.Millisecond, 2 * time.Second, 1, false, true, func(w *chaosWorld, _ int) (func() error, error) {
		var err error
		for _, b := range w.c.Nodes {
			err = errors.Join(err, b.Kill())
		}
		return func() error {
			var err error
			for _, b := range w.c.Nodes {
				err = errors.Join(err, b.Begin())
			}
			return err
		}, err
	}},
}

// background runs f until the function that it returns is called.
func background(f func(ctx context.Context) error) (end func() error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	return func() error { stop(); return <-done }
}

func (w *chaosWorld) next(i int) int { return (i + 1) % len(w.c.Nodes) }

// drawScript draws faults for about so long.
func drawScript(r *rand.Rand, length time.Duration, cuts bool) (s script) {
	var kinds []string
	for name, k := range faultKinds {
		if k.cuts && !cuts {
			continue
		}
		for range k.weight {
			kinds = append(kinds, name)
		}
	}
	slices.Sort(kinds)
	between := func(a, b time.Duration) time.Duration {
		return (a + time.Duration(r.Int64N(int64(b-a)))).Round(10 * time.Millisecond)
	}
	draw := func(at time.Duration) fault {
		kind := kinds[r.IntN(len(kinds))]
		k := faultKinds[kind]
		hold := between(k.least, k.most)
		if r.IntN(2) == 0 {
			hold = between(k.least, (k.least+k.most)/2)
		}
		return fault{at, hold, kind, []string{"n1", "n2", "n3", "leader", "leader", "order", "other"}[r.IntN(7)]}
	}
	for at := between(500*time.Millisecond, 2*time.Second); at < length-4*time.Second; {
		f := draw(at)
		f.hold = min(f.hold, length-at)
		s = append(s, f)
		end := f.at + f.hold
		if f.hold > 2*time.Second && f.kind != "blackout" && r.IntN(3) == 0 { // another one within it, or beyond its end
			g := draw(between(f.at, end))
			if g.kind != "blackout" {
				if f2 := faultKinds[f.kind]; f2.downs && faultKinds[g.kind].downs {
					g.hold = min(g.hold, 4*time.Second) // there is no majority meanwhile
				}
				s = append(s, g)
				end = max(end, g.at+g.hold)
			}
		}
		at = end
		if r.IntN(4) > 0 {
			at += between(500*time.Millisecond, 5*time.Second)
		}
	}
	return s
}

// faulty is which faults a node has now.
type faulty struct {
	mu  sync.Mutex
	has map[int]string
}

// victim returns the node that a fault befalls; -1: there is none left.
func (w *chaosWorld) victim(who string) int {
	leader, order := -1, -1
	w.faulty.mu.Lock()
	defer w.faulty.mu.Unlock()
	for i, b := range w.c.Nodes {
		if w.faulty.has[i] != "" || leader >= 0 {
			continue
		}
		if s, err := b.Status(); err == nil {
			for j, other := range w.c.Nodes {
				if other.Name == s.Leader {
					leader = j
				}
				if strings.HasPrefix(s.Order.Leader, other.Name+"-") {
					order = j
				}
			}
		}
	}
	first := 0
	switch who {
	case "leader":
		first = max(leader, 0)
	case "order":
		first = max(order, 0)
	case "other":
		for first == leader || first == order {
			first++
		}
	default:
		first = slices.IndexFunc(w.c.Nodes, func(b *harness.Broker) bool { return b.Name == who })
	}
	for k := range w.c.Nodes {
		if i := (first + k) % len(w.c.Nodes); w.faulty.has[i] == "" {
			return i
		}
	}
	return -1
}

// play lets the faults of a script happen, and heals them all.
func (w *chaosWorld) play(s script) {
	began := time.Now()
	var all sync.WaitGroup
	for _, f := range slices.SortedStableFunc(slices.Values(s), func(a, b fault) int { return cmp.Compare(a.at, b.at) }) {
		w.pause(w.t.Context(), f.at-time.Since(began))
		for i, b := range w.c.Nodes {
			w.faulty.mu.Lock()
			has := w.faulty.has[i]
			w.faulty.mu.Unlock()
			if has != "kill" && has != "stop" && has != "blackout" && b.Ended() {
				w.t.Errorf("%s has ended by itself", b.Name)
				return
			}
		}
		k := faultKinds[f.kind]
		if k.cuts && w.c.Net == nil {
			continue
		}
		i := w.victim(f.who)
		if i < 0 {
			continue
		}
		befallen := []int{i}
		w.faulty.mu.Lock()
		if f.kind == "blackout" {
			if len(w.faulty.has) > 0 {
				w.faulty.mu.Unlock()
				continue
			}
			befallen = []int{0, 1, 2}
		}
		for _, i := range befallen {
			w.faulty.has[i] = f.kind
		}
		w.faulty.mu.Unlock()
		w.t.Logf("%v: %s %s (%s) for %v", time.Since(w.ledger.began).Round(time.Millisecond), f.kind, w.c.Nodes[i].Name, f.who, f.hold)
		all.Go(func() {
			end, err := k.begin(w, i)
			if err != nil {
				w.t.Errorf("%v: %v", f, err)
			}
			if end == nil {
				return
			}
			w.pause(w.t.Context(), f.hold)
			if err := end(); err != nil {
				w.t.Errorf("ending %v: %v", f, err)
			}
			w.faulty.mu.Lock()
			for _, i := range befallen {
				delete(w.faulty.has, i)
			}
			w.faulty.mu.Unlock()
		})
	}
	all.Wait()
}

func TestFaultScriptsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		s := drawScript(rand.New(rand.NewPCG(seed, 0)), time.Minute, true)
		got, err := parseScript(s.String())
		if err != nil || got.String() != s.String() {
			t.Fatalf("%s became %s (%v)", s, got, err)
		}
	}
}
