package logbench

import (
	"context"
	"slices"
)

// side is one of the two things that are compared: it runs for a round and returns its rate.
type side struct {
	name string
	run  func(ctx context.Context) (rate, error)
}

// inTurn runs the two sides one after the other, round after round, and returns the medians of their rates.
func (c *Config) inTurn(ctx context.Context, unit Unit, a, b side) (rateA, rateB float64, err error) {
	var rates, cpus [2][]float64
	for round := range c.Rounds {
		for i, s := range []side{a, b} {
			r, err := s.run(ctx)
			if err != nil {
				return 0, 0, err
			}
			rates[i], cpus[i] = append(rates[i], r.perSecond), append(cpus[i], r.cpu)
		}
		c.Logf("  round %d of %d: %s %v, %s %v", round+1, c.Rounds, a.name, Figure{rates[0][round], unit}, b.name, Figure{rates[1][round], unit})
	}
	rateA, rateB = Median(rates[0]), Median(rates[1])
	c.Logf("  medians: %s %s, %s %s", a.name, rate{rateA, Median(cpus[0])}.in(unit), b.name, rate{rateB, Median(cpus[1])}.in(unit))
	return rateA, rateB, nil
}

// Median returns the middle value, or the mean of the two in the middle.
func Median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}
