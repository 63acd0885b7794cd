// Package seed gives random tests their seeds, so that each is repeated in the same way: a test that failed says the command, which sets POLYLOG_SEED. Only
// tests import it. Start reading at Rand.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Rand returns the source of a random test, which says how to repeat it if it fails.
func Rand(t testing.TB) *rand.Rand { return rand.New(rand.NewPCG(Of(t), 0)) }

// Of returns the seed of a test, which says how to repeat it if it fails.
func Of(t testing.TB) uint64 {
	s := Draw(1)[0]
	Tell(t, s)
	return s
}

// Draw returns n new seeds for tests of their own, each of which calls Tell, or the one of POLYLOG_SEED (0 to 2^64-1).
func Draw(n int) []uint64 {
	if s, err := strconv.ParseUint(os.Getenv("POLYLOG_SEED"), 10, 64); err == nil {
		return []uint64{s}
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	return seeds
}

// Tell makes a test that uses a seed say how to repeat it if it fails.
func Tell(t testing.TB, seed uint64) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := os.Getwd() // of a test, its package's folder
		if err != nil {
			dir = "."
		}
		t.Logf("repeat with: POLYLOG_SEED=%d go test -C %s -run '^%s$' .", seed, dir, t.Name())
	})
}
