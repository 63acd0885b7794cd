package cli

import (
	"fmt"
	"strconv"
)

// thousands writes a number with a comma between each three digits.
func thousands[T ~int | ~int64 | ~uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	if n > 0 && int64(n) < 0 {
		s = strconv.FormatUint(uint64(n), 10)
	}
	digits := len(s)
	if s[0] == '-' {
		digits--
	}
	for at := len(s) - 3; digits > 3; at, digits = at-3, digits-3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// inBytes writes a number of bytes in the unit that suits it, with three digits or so.
func inBytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1023.5 {
		v, unit = v/1024, unit+1
	}
	digits := 1
	if v >= 99.5 {
		digits = 0
	}
	return fmt.Sprintf("%.*f %ciB", digits, v, units[unit])
}
