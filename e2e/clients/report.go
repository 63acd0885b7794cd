package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// report counts checks and prints a line for each. Its methods may be called from any goroutine.
type report struct {
	mu             sync.Mutex
	out            io.Writer
	passed, failed int
	failures       []string
	began          time.Time
}

func newReport(out io.Writer) *report { return &report{out: out, began: time.Now()} }

// check reports one.
func (r *report) check(who, what string, err error, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.passed++
		fmt.Fprintf(r.out, "pass  %s: %s (%.1f s)\n", who, what, took.Seconds())
		return
	}
	r.failed++
	line := fmt.Sprintf("FAIL  %s: %s: %s", who, what, strings.TrimSpace(err.Error()))
	r.failures = append(r.failures, line)
	fmt.Fprintf(r.out, "%s (%.1f s)\n", line, took.Seconds())
}

// close prints the failures once more and the sums, and reports whether all passed.
func (r *report) close() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passed+r.failed == 0 {
		r.failures = append(r.failures, "FAIL  nothing was checked")
	}
	if len(r.failures) > 0 {
		fmt.Fprintf(r.out, "\nwhat failed:\n%s\n", strings.Join(r.failures, "\n"))
	}
	fmt.Fprintf(r.out, "\nin %.0f s:\n%d passed, %d failed\n", time.Since(r.began).Seconds(), r.passed, r.failed)
	return len(r.failures) == 0
}

// lines takes what a program prints and reports each line that is a check. Other lines are ignored.
func (r *report) lines(who string) *checkLines { return &checkLines{r: r, who: who, last: time.Now()} }

// checkLines is an io.Writer for one program.
type checkLines struct {
	r            *report
	who          string
	rest         []byte
	last         time.Time // when the check before was reported: they run one after another
	seen, failed int
}

func (c *checkLines) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for {
		line, rest, found := bytes.Cut(c.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		c.line(string(line))
		c.rest = rest
	}
}

func (c *checkLines) line(line string) {
	kind, what, _ := strings.Cut(line, " ")
	var err error
	switch kind {
	case "ok":
	case "FAIL":
		var why string
		what, why, _ = strings.Cut(what, ": ")
		err = fmt.Errorf("%s", why)
		c.failed++
	default:
		return
	}
	now := time.Now()
	c.seen++
	c.r.check(c.who, what, err, now.Sub(c.last))
	c.last = now
}

// end returns how many checks there were, and how many of them failed.
func (c *checkLines) end() (seen, failed int) {
	if len(c.rest) > 0 {
		c.line(string(c.rest))
	}
	return c.seen, c.failed
}

// tailBytes bounds what is kept of what a program prints beside its checks.
const tailBytes = 4096

// tail keeps the end of what is written to it.
type tail struct {
	b []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = t.b[over:]
	}
	return len(p), nil
}

func (t *tail) text() string { return strings.TrimSpace(string(t.b)) }
