package logbench

import (
	"fmt"
	"math"
)

// Unit is what a Figure counts.
type Unit string

// The units of figures.
const (
	RecordsPerSecond  Unit = "records/s"
	MessagesPerSecond Unit = "messages/s"
	BytesPerSecond    Unit = "bytes/s"
	Bytes             Unit = "bytes"
	Seconds           Unit = "s"
	Allocations       Unit = "allocations"
)

// Figure is a number with its unit.
type Figure struct {
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit"`
}

func (f Figure) String() string {
	switch f.Unit {
	case RecordsPerSecond, MessagesPerSecond:
		return thousands(f.Value) + "/s"
	case BytesPerSecond:
		return scaled(f.Value, 1000, "B/s", "kB/s", "MB/s", "GB/s")
	case Bytes:
		return scaled(f.Value, 1024, "B", "KiB", "MiB", "GiB")
	case Seconds:
		return inSeconds(f.Value)
	}
	return fmt.Sprintf("%.2f", f.Value)
}

// inSeconds writes a time as seconds with two decimals, a short one in a smaller unit with three digits.
func inSeconds(v float64) string {
	switch a := math.Abs(v); {
	case a >= 0.1 || a == 0:
		return fmt.Sprintf("%.2f s", v)
	case a >= 1e-3:
		return fmt.Sprintf("%.3g ms", v*1e3)
	}
	return fmt.Sprintf("%.3g µs", v*1e6)
}

// thousands writes a number without fraction, with a comma every three digits.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func scaled(v, step float64, units ...string) string {
	i := 0
	for ; i < len(units)-1 && math.Abs(v) >= step; i++ {
		v /= step
	}
	if i == 0 {
		return fmt.Sprintf("%.0f %s", v, units[0])
	}
	return fmt.Sprintf("%.3g %s", v, units[i])
}

// Row is one result: a figure of the log, what it is held against, and how the two should be related.
type Row struct {
	Name     string `json:"name"`
	Measured Figure `json:"measured"`
	Against  Figure `json:"against"`
	// Is says what Against is: "bare log", "limit", ...
	Is string `json:"is"`
	// Target is the least that Measured divided by Against should be, or with AtMost the most. 0: it may be anything.
	Target float64 `json:"target"`
	AtMost bool    `json:"at_most"`
}

// Ratio is Measured divided by Against.
func (r Row) Ratio() float64 { return r.Measured.Value / r.Against.Value }

// OK reports whether the ratio is what it should be.
func (r Row) OK() bool {
	if r.AtMost && r.Target != 0 {
		return r.Ratio() <= r.Target
	}
	return r.Ratio() >= r.Target
}

// verdict is "ok", or on which side of the target the ratio lies; "" without a target.
func (r Row) verdict() string {
	switch {
	case r.Target == 0:
		return ""
	case r.OK():
		return "ok"
	case r.AtMost:
		return "high"
	}
	return "low"
}

func (r Row) target() string {
	if r.Target == 0 {
		return ""
	}
	if r.AtMost {
		return fmt.Sprintf("≤ %.2f", r.Target)
	}
	return fmt.Sprintf("≥ %.2f", r.Target)
}

// compare is a row of two rates.
func compare(name string, unit Unit, log, other float64, is string, target float64) Row {
	return Row{Name: name, Measured: Figure{log, unit}, Against: Figure{other, unit}, Is: is, Target: target}
}

// limit is a row of a figure that should not be over a limit.
func limit(name string, unit Unit, value, most float64, is string) Row {
	return Row{Name: name, Measured: Figure{value, unit}, Against: Figure{most, unit}, Is: is, Target: 1, AtMost: true}
}
