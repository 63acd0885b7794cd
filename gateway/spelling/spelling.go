// Package spelling finds the name that somebody meant who mistyped it: a command, a configuration key, an environment variable. It knows no
// names itself. Its one function is pure.
package spelling

// Nearest returns the one of the names that was probably meant by the mistyped one, or "". A third of the longer name may be wrong; beyond
// that a guess is more often noise than a hint. Of names that are equally near, the first is taken.
func Nearest(typed string, names []string) string {
	best, bestDistance := "", 0
	for _, name := range names {
		longer := max(len(typed), len(name))
		if longer-min(len(typed), len(name)) > (longer+2)/3 {
			continue // too far already by its length, however long somebody's typing is
		}
		d := distance(typed, name)
		if d > (longer+2)/3 {
			continue
		}
		if best == "" || d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b: how many bytes must be inserted, removed or replaced to make one the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] is the distance of a[:i] and b[:j]
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := diagonal
			if a[i-1] != b[j-1] {
				replace++
			}
			diagonal = row[j]
			row[j] = min(replace, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
