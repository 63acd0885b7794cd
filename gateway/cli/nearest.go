package cli

import "polylog/gateway/spelling"

// nearest returns the name in the table that was probably meant by the mistyped one, or "".
func nearest(typed string, table []Command) string {
	names := make([]string, len(table))
	for i, c := range table {
		names[i] = c.Name
	}
	return spelling.Nearest(typed, names)
}
