package logbench

import (
	"context"
	"slices"
)

// side is one of the two things that are compared: it runs for a round and returns its rate.
type side struct {
	name string
	run  func(ctx context.Context) (perSecond float64, err error)
}

// inTurn runs the two sides one after the other, round after round, and returns the medians of their rates.
func (c *Config) inTurn(ctx context.Context, unit Unit, a, b side) (rateA, rateB float64, err error) {
	var rates [2][]float64
	for round := range c.Rounds {
		for i, s := range []side{a, b} {
			rate, err := s.run(ctx)
			if err != nil {
				return 0, 0, err
			}
			rates[i] = append(rates[i], rate)
		}
		c.Logf("  round %d of %d: %s %v, %s %v", round+1, c.Rounds, a.name, Figure{rates[0][round], unit}, b.name, Figure{rates[1][round], unit})
	}
	return median(rates[0]), median(rates[1]), nil
}

// median returns the middle value, or the mean of the two in the middle.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}
