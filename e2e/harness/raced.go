package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
)

// RacedBinary returns the path of a polylog binary with the race detector in it, which is built once per process.
var RacedBinary = sync.OnceValues(func() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "e2e", "raced")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	removeDead(dir)
	out := filepath.Join(dir, builtPrefix+strconv.Itoa(os.Getpid()))
	cmd := exec.Command("go", "build", "-buildvcs=false", "-race", "-o", out, ".")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building polylog with the race detector in %s: %w\n%s", root, err, text)
	}
	return out, nil
})

// RestartWith stops the broker and starts another binary on the same data and addresses; later starts use it too. A binary with the race detector ends at the
// first race, so that no later kill can hide it.
func (b *Broker) RestartWith(binary string) error {
	if err := b.Stop(); err != nil {
		return err
	}
	b.args[0] = binary
	b.env = append(b.env, "GORACE=halt_on_error=1")
	return b.Start()
}
