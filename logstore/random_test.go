package logstore

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// random returns the source of a random test, which says how to repeat it if it fails.
func random(t testing.TB) *rand.Rand {
	seed, err := strconv.ParseUint(os.Getenv("POLYLOG_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with: POLYLOG_SEED=%d go test -run '^%s$' ./logstore", seed, t.Name())
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}
