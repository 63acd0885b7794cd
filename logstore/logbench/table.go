package logbench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

var columns = []string{"name", "measured", "against", "", "ratio", "target", ""}

func (r Row) cells() []string {
	return []string{r.Name, r.Measured.String(), r.Against.String(), r.Is, fmt.Sprintf("%.2f", r.Ratio()), r.target(), r.verdict()}
}

// rightAligned are the columns of numbers.
var rightAligned = []bool{false, true, true, false, true, true, false}

// WriteTable writes the rows in aligned columns.
func WriteTable(w io.Writer, rows []Row) error { return writeAligned(w, rows, "", "  ", "") }

// WriteMarkdown writes the rows as a table in Markdown.
func WriteMarkdown(w io.Writer, rows []Row) error { return writeAligned(w, rows, "| ", " | ", " |") }

func writeAligned(w io.Writer, rows []Row, before, between, after string) error {
	lines := [][]string{columns}
	for _, r := range rows {
		lines = append(lines, r.cells())
	}
	width := make([]int, len(columns))
	for _, cells := range lines {
		for i, c := range cells {
			width[i] = max(width[i], utf8.RuneCountInString(c), len("--:"))
		}
	}
	var b strings.Builder
	for n, cells := range lines {
		line := before
		for i, c := range cells {
			if i > 0 {
				line += between
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if rightAligned[i] {
				line += pad + c
			} else {
				line += c + pad
			}
		}
		b.WriteString(strings.TrimRight(line+after, " ") + "\n")
		if n == 0 && before != "" {
			b.WriteString(before)
			for i := range columns {
				if i > 0 {
					b.WriteString(between)
				}
				rule := strings.Repeat("-", width[i])
				if rightAligned[i] {
					rule = rule[1:] + ":"
				}
				b.WriteString(rule)
			}
			b.WriteString(after + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the rows as an array, with their ratios.
func WriteJSON(w io.Writer, rows []Row) error {
	type result struct {
		Row
		Ratio float64 `json:"ratio"`
		OK    bool    `json:"ok"`
	}
	results := make([]result, 0, len(rows))
	for _, r := range rows {
		results = append(results, result{r, r.Ratio(), r.OK()})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}
