package cli

// nearest returns the name in the table that was probably meant by the mistyped one, or "". A third of the longer name may be wrong; beyond
// that a guess is more often noise than help.
func nearest(typed string, table []Command) string {
	best, bestDistance := "", 0
	for _, c := range table {
		d := distance(typed, c.Name)
		if d > (max(len(typed), len(c.Name))+2)/3 {
			continue
		}
		if best == "" || d < bestDistance {
			best, bestDistance = c.Name, d
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
