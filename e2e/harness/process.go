package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopLimit is how long a process may take to end in good order.
const stopLimit = 30 * time.Second

// process is a child in a process group of its own, which prints to a file. Its methods may be called from any goroutine.
type process struct {
	name string // for messages
	log  string // the file it prints to
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done

	mu    sync.Mutex
	asked bool // it was told to end
}

// startProcess starts argv with env added to this process's environment, of which what configures a polylog (POLYLOG_...) is left out: a test means what it
// says. Output is appended to the file log.
func startProcess(name, log string, env, argv []string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer out.Close() //nolint:errcheck // the child has its own
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "POLYLOG_") }), env...)
	cmd.Stdout, cmd.Stderr = out, out
	// A group, since RabbitMQ's start script has children. The signal is for the case that this process is killed and cannot clean up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// ended reports whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends s, which ends the process, to the whole group.
func (p *process) signal(s syscall.Signal) error {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	return p.send(s)
}

// send sends s to the whole group. A group that is gone is no error.
func (p *process) send(s syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %v to %s: %w", s, p.name, err)
	}
	return nil
}

// kill ends the process at once, as a crash does, and waits until it is gone.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// stop asks the process to end, waits, and tells how it ended: nil for exit status 0. One that does not end in time is killed.
func (p *process) stop() error {
	if p.ended() {
		return p.fate()
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.fate()
	case <-time.After(stopLimit):
		if err := p.kill(); err != nil {
			return err
		}
		return fmt.Errorf("%s did not end within %v of SIGTERM and was killed", p.name, stopLimit)
	}
}

// fate says how an ended process ended.
func (p *process) fate() error {
	<-p.done
	if p.err != nil {
		return fmt.Errorf("%s ended: %w", p.name, p.err)
	}
	return nil
}

// awaitReady waits until ready returns nil. It gives up when the process ends, and ends the process when it gives up.
func (p *process) awaitReady(limit time.Duration, ready func() error) error {
	var gone error
	err := Await(limit, p.name+" to be ready", func() error {
		if p.ended() {
			gone = fmt.Errorf("%s ended before it was ready: %v", p.name, p.cmd.ProcessState)
			return nil
		}
		return ready()
	})
	if err = errors.Join(gone, err); err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, p.tail()), p.kill())
	}
	return nil
}

// tail returns the last lines that the process printed.
func (p *process) tail() string {
	const lines = 80
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	cut := max(0, len(all)-lines)
	var b strings.Builder
	fmt.Fprintf(&b, "what %s printed last (%s):\n", p.name, p.log)
	for _, l := range all[cut:] {
		fmt.Fprintf(&b, "    %s\n", l)
	}
	return b.String()
}
