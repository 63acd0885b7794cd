package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are the units of sizes. Without a unit a number is bytes. The first that divides a size is the one it is printed with.
var sizeUnits = []struct {
	name  string
	bytes int64
	print bool
}{
	{"TiB", 1 << 40, true}, {"GiB", 1 << 30, true}, {"MiB", 1 << 20, true}, {"KiB", 1 << 10, true},
	{"TB", 1e12, false}, {"GB", 1e9, false}, {"MB", 1e6, false}, {"kB", 1e3, false}, {"KB", 1e3, false}, {"B", 1, true},
}

// ParseSize reads a size: a whole number of bytes, or of a unit written behind it.
func ParseSize(text string) (int64, error) {
	number, unit := strings.TrimSpace(text), int64(1)
	for _, u := range sizeUnits {
		if before, found := strings.CutSuffix(number, u.name); found {
			number, unit = strings.TrimSpace(before), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("a size is a whole number of B, KiB, MiB, GiB, TiB, kB, MB, GB or TB, like 16MiB")
	}
	if n > math.MaxInt64/unit {
		return 0, fmt.Errorf("the size is over the largest there is, %s", FormatSize(math.MaxInt64))
	}
	return n * unit, nil
}

// FormatSize writes a size so that ParseSize reads it back.
func FormatSize(n int64) string {
	if n == 0 {
		return "0"
	}
	for _, u := range sizeUnits {
		if u.print && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

const day = 24 * time.Hour

// ParseDuration reads a duration in Go's form (1h30m, 100ms) or in whole days (7d).
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if before, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseInt(before, 10, 64); err == nil && n >= 0 && n <= int64(math.MaxInt64/day) {
			return time.Duration(n) * day, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("a duration is a number with a unit of ms, s, m, h or d, like 30s or 1h30m")
	}
	return d, nil
}

// FormatDuration writes a duration so that ParseDuration reads it back, without units of which there are none: 30m, not 30m0s.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	if d%day == 0 && d > day {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
