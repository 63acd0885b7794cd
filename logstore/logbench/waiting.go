package logbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	waitingMemory  = 300 << 20 // bytes above those of an empty store
	waitingSeconds = 5         // of a start
)

// measureWaiting has another process hold a log full of messages, kills it, and has a third one start on what is left.
func measureWaiting(ctx context.Context, c *Config) ([]Row, error) {
	dir := filepath.Join(c.Dir, "log")
	full, err := c.child(ctx, "fill", dir, strconv.Itoa(c.Scale.Messages), strconv.FormatInt(c.Scale.SegmentBytes, 10))
	if err != nil {
		return nil, err
	}
	started, err := c.child(ctx, "start", dir)
	if err != nil {
		return nil, err
	}
	in := func(n int64) Figure { return Figure{float64(n), Bytes} }
	c.Logf("  an empty store: %v, a full one: %v, at most %v, after the start: %v, at most %v", in(full.Empty), in(full.Resident), in(full.Peak),
		in(started.Resident), in(started.Peak))
	return []Row{
		limit("waiting-memory", Bytes, float64(full.Resident-full.Empty), waitingMemory, "limit"),
		limit("waiting-peak", Bytes, float64(full.Peak-full.Empty), waitingMemory, "limit"),
		limit("waiting-start", Seconds, started.Seconds, waitingSeconds, "limit"),
	}, nil
}

// child runs Hold in a process of its own until it has its figures, and kills it.
func (c *Config) child(ctx context.Context, args ...string) (holding, error) {
	if len(c.Child) == 0 {
		return holding{}, errors.New("no command was given that holds a log in a process of its own")
	}
	cmd := exec.CommandContext(ctx, c.Child[0], append(c.Child[1:len(c.Child):len(c.Child)], args...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	stdin, err := cmd.StdinPipe() // open as long as this process lives
	if err != nil {
		return holding{}, err
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return holding{}, err
	}
	if err := cmd.Start(); err != nil {
		return holding{}, err
	}
	h, err := c.listen(json.NewDecoder(stdout))
	killed := cmd.Process.Kill()
	waited := cmd.Wait()
	if err != nil {
		return h, fmt.Errorf("%s: %w (%v, %v) %s", strings.Join(args, " "), err, killed, waited, complaint.String())
	}
	return h, nil
}

func (c *Config) listen(from *json.Decoder) (holding, error) {
	for {
		var h holding
		if err := from.Decode(&h); err != nil {
			return h, err
		}
		if h.Ready {
			return h, nil
		}
		c.Logf("  %s", h.Progress)
	}
}
