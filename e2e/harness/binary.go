package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// binaryVar, in the environment, names a polylog binary to use instead of building one.
const binaryVar = "E2E_BINARY"

// raceVar, in the environment, set to anything, builds the binary with the race detector.
const raceVar = "E2E_RACE"

// builtPrefix begins the name of a binary that this package built; the id of the process that uses it follows.
const builtPrefix = "polylog."

// Binary returns the path of the polylog binary, which is built from the source once per process. Environment: E2E_BINARY names one to use instead,
// E2E_RACE=1 builds with the race detector.
var Binary = sync.OnceValues(func() (string, error) {
	if b := os.Getenv(binaryVar); b != "" {
		return filepath.Abs(b)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "e2e")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	removeDead(dir)
	// Each process has a binary of its own: a change of the source that another one builds does not reach a broker that is restarted.
	out := filepath.Join(dir, builtPrefix+strconv.Itoa(os.Getpid()))
	args, cgo := []string{"build", "-buildvcs=false", "-o", out}, "CGO_ENABLED=0"
	if os.Getenv(raceVar) != "" {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), cgo)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building polylog in %s: %w\n%s", root, err, text)
	}
	return out, nil
})

// removeDead removes the binaries of processes that are gone.
func removeDead(dir string) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, n := range names {
		text, is := strings.CutPrefix(n.Name(), builtPrefix)
		if pid, err := strconv.Atoi(text); is && err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			os.Remove(filepath.Join(dir, n.Name())) //nolint:errcheck // another process may have been quicker
		}
	}
}

// Root returns the project's root folder: the nearest one at or above the working directory whose go.mod is that of module polylog.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module polylog\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not inside the source of polylog; set %s to a binary", dir, binaryVar)
		}
	}
}
