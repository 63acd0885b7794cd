package bench

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets whose width is at most 1/128 of their value, from 1 ns to about 73 minutes; longer ones count as the longest. Its zero value is empty. It belongs
// to one goroutine.
type Histogram struct {
	count   uint64
	max     time.Duration
	buckets [histogramOctaves * histogramSteps]uint64
}

const (
	histogramBits    = 7
	histogramSteps   = 1 << histogramBits // buckets of an octave, and the values that have a bucket each
	histogramOctaves = 36
	histogramMost    = 1<<(histogramBits+histogramOctaves-1) - 1
)

// bucketOf returns the bucket of a value of at most histogramMost: below histogramSteps each has its own, above each octave has histogramSteps.
func bucketOf(v uint64) int {
	if v < histogramSteps {
		return int(v)
	}
	octave := bits.Len64(v) - histogramBits
	return octave*histogramSteps + int(v>>(octave-1)) - histogramSteps
}

// topOf returns the largest value of a bucket.
func topOf(bucket int) uint64 {
	octave, step := bucket/histogramSteps, uint64(bucket%histogramSteps)
	if octave == 0 {
		return step
	}
	return (step+histogramSteps+1)<<(octave-1) - 1
}

// Add counts a duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) { h.addMany(d, 1) }

func (h *Histogram) addMany(d time.Duration, n int) {
	d = max(d, 0)
	h.max = max(h.max, d)
	h.count += uint64(n)
	h.buckets[bucketOf(min(uint64(d), histogramMost))] += uint64(n)
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	h.max = max(h.max, other.max)
	h.count += other.count
	for i, n := range &other.buckets {
		h.buckets[i] += n
	}
}

// Quantile returns the duration that the share q (0 to 1) of those counted does not exceed, at most 1/128 too long. It is 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := min(max(uint64(q*float64(h.count)+0.5), 1), h.count)
	for i, n := range &h.buckets {
		if n >= rank {
			return min(time.Duration(topOf(i)), h.max)
		}
		rank -= n
	}
	return h.max
}

// Latency is a histogram in a few numbers, in seconds.
type Latency struct {
	P50  float64 `json:"p50_s"`
	P99  float64 `json:"p99_s"`
	P999 float64 `json:"p999_s"`
	Max  float64 `json:"max_s"`
}

// Latency sums the histogram up.
func (h *Histogram) Latency() Latency {
	return Latency{
		P50: h.Quantile(0.5).Seconds(), P99: h.Quantile(0.99).Seconds(), P999: h.Quantile(0.999).Seconds(), Max: h.max.Seconds(),
	}
}
