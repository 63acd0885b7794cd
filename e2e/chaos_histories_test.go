package e2e

import (
	"math/rand/v2"
	"os"
	"testing"

	"polylog/logstore/seed"
)

// chaosHistories are faults at which something was wrong once. They are played as they were drawn when the chaos test is asked to last long, and else only what mattered.
var chaosHistories = []struct{ name, drawn, short string }{
	{
		// What a node needed was trimmed between its look at the order's bounds and its reading on: it ended instead of taking a copy.
		"TrimmedWhileItStarts",
		"670ms+6.76s pause leader; 7.43s+2.75s kill other; 11.01s+3.8s isolate leader; 17.64s+4.46s mute n2; 22.89s+2.53s sever n1; 25.33s+4s kill n2; 30.3s+4.42s sever n3",
		"500ms+4s kill n2; 6s+4.2s kill n3",
	},
	{
		// Who waited for the outcome of a transaction, come what may, went on waiting when the node was declared gone, and held up its beginning anew.
		"GoneWhileGroupsWait",
		"1s+2.09s crawl other; 6.81s+3.72s pause leader; 8.46s+4s pause order; 16.34s+3.65s kill n3; 18.08s+4s isolate n3; 22.89s+12.97s pause other; 35.86s+4.14s pause n3",
		"500ms+6s isolate leader; 6.5s+4.14s pause other",
	},
	{
		// A node that came back was declared gone once more before it was heard for the first time, and ended. Another time its own copy of the order did not catch up for as long as the
		// order was written to and trimmed, and it read from no other.
		"GoneWhileItJoins",
		"1.48s+3.88s sever n1; 4.89s+2.19s isolate leader; 11.29s+6.4s mute order; 17.69s+2.55s isolate order; 23.96s+8.56s isolate n3",
		"500ms+8.56s isolate n3",
	},
}

// TestHistoriesThatFailedOnce plays them again.
func TestHistoriesThatFailedOnce(t *testing.T) {
	t.Parallel()
	for _, h := range chaosHistories {
		t.Run(h.name, func(t *testing.T) {
			text := h.short
			if os.Getenv(chaosVar) != "" {
				text = h.drawn
			}
			s, err := parseScript(text)
			must(t, err)
			chaosRun(t, seed.Rand(t), func(*rand.Rand, bool) script { return s })
		})
	}
}
