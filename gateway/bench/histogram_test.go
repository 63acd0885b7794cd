package bench

import (
	"math"
	"slices"
	"testing"
	"time"

	"polylog/logstore/seed"
)

func TestEveryDurationHasItsBucket(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	values := []uint64{0, 1, 127, 128, 129, 255, 256, 257, histogramMost - 1, histogramMost}
	for range 100_000 {
		values = append(values, r.Uint64()>>(64-1-r.IntN(histogramBits+histogramOctaves-1)))
	}
	for _, v := range values {
		b := bucketOf(v)
		if b < 0 || b >= len(Histogram{}.buckets) {
			t.Fatalf("%d is in bucket %d of %d", v, b, len(Histogram{}.buckets))
		}
		if top := topOf(b); v > top || b > 0 && v <= topOf(b-1) || float64(top) > float64(v)*(1+1.0/histogramSteps) {
			t.Fatalf("%d is in bucket %d, which ends with %d and begins after %d", v, b, top, topOf(b-1))
		}
	}
}

func TestQuantilesAreThoseOfTheSortedValues(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	for range 50 {
		var whole, half Histogram
		var values []time.Duration
		for i := range 1 + r.IntN(5000) {
			d := time.Duration(math.Exp(r.Float64() * 28)) // up to 24 minutes, all magnitudes alike
			values = append(values, d)
			if i%2 == 0 {
				whole.Add(d)
			} else {
				half.Add(d)
			}
		}
		whole.Merge(&half)
		slices.Sort(values)
		for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
			want := values[min(max(int(q*float64(len(values))+0.5), 1), len(values))-1]
			if got := whole.Quantile(q); got < want || float64(got) > float64(want)*(1+1.0/histogramSteps) {
				t.Fatalf("quantile %v of %d values is %v, want %v", q, len(values), got, want)
			}
		}
		if got, want := whole.Latency().Max, values[len(values)-1].Seconds(); got != want {
			t.Fatalf("the longest is %v, want %v", got, want)
		}
	}
}

func TestHistogramKeepsWhatIsOutOfItsRange(t *testing.T) {
	t.Parallel()
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Latency() != (Latency{}) {
		t.Error("an empty histogram has quantiles")
	}
	h.Add(-time.Second)
	h.Add(100 * time.Hour)
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("the lower half of a negative and a long duration is %v", got)
	}
	if l := h.Latency(); l.Max != (100*time.Hour).Seconds() || l.P99 < time.Hour.Seconds() {
		t.Errorf("of 100 hours there is left: %+v", l)
	}
}
