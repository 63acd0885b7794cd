package cli

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress tells on Stderr how far a long job is: on a terminal in one line that is written over and over, elsewhere in a line now and then, so that a short job
// leaves nothing in a log. It belongs to one goroutine.
type progress struct {
	w        io.Writer
	what     string
	terminal bool
	next     time.Time
}

const (
	terminalStep = 200 * time.Millisecond
	lineStep     = 15 * time.Second
)

func (env Env) progress(what string) *progress {
	p := &progress{w: env.Stderr, what: what}
	if f, is := env.Stderr.(*os.File); is {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	p.next = time.Now().Add(p.step())
	return p
}

func (p *progress) step() time.Duration {
	if p.terminal {
		return terminalStep
	}
	return lineStep
}

// show is told how many bytes are done.
func (p *progress) show(done, total int64) {
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(p.step())
	begin, end := "", "\n"
	if p.terminal {
		begin, end = "\r\x1b[K", ""
	}
	fmt.Fprintf(p.w, "%s%s: %s of %s (%d %%)%s", begin, p.what, inBytes(done), inBytes(total), percent(done, total), end)
}

// end takes the line away.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func percent(done, total int64) int64 {
	if total <= 0 {
		return 100
	}
	return int64(float64(done) / float64(total) * 100)
}
