package harness

import (
	"fmt"
	"time"
)

// The pauses between two looks at a condition: short at first, since most conditions hold at once, then longer so that many waiting tests cost little.
const (
	lookFirst = time.Millisecond
	lookMost  = 50 * time.Millisecond
)

// LateError says that a condition did not come true in time.
type LateError struct {
	What  string        // what was waited for
	Limit time.Duration // how long
	Last  error         // what the last look said
}

func (e *LateError) Error() string {
	return fmt.Sprintf("waited %v for %s: %v", e.Limit, e.What, e.Last)
}
func (e *LateError) Unwrap() error { return e.Last }

// Await looks at a condition until it returns nil, and gives up after limit with a *LateError. The condition is looked at at least once; its error says
// what is still missing.
func Await(limit time.Duration, what string, condition func() error) error {
	deadline := time.Now().Add(limit)
	for pause := lookFirst; ; pause = min(2*pause, lookMost) {
		err := condition()
		if err == nil {
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return &LateError{What: what, Limit: limit, Last: err}
		}
		time.Sleep(min(pause, left))
	}
}
