package logbench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is text in columns.
type Table struct {
	Columns []Column
	Rows    [][]string // each with a cell for each column
}

// Column is the head of a column.
type Column struct {
	Name  string
	Right bool // numbers are aligned at their right
}

// Write writes the table in aligned columns.
func (t Table) Write(w io.Writer) error { return t.write(w, "", "  ", "") }

// WriteMarkdown writes the table in Markdown, aligned as well.
func (t Table) WriteMarkdown(w io.Writer) error { return t.write(w, "| ", " | ", " |") }

// write puts the three texts at the begin of each line, between cells, and at its end. With a text at the begin there is a rule below the heads.
func (t Table) write(w io.Writer, before, between, after string) error {
	heads := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = c.Name
	}
	lines := append([][]string{heads}, t.Rows...)
	width := make([]int, len(heads))
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
			if t.Columns[i].Right {
				line += pad + c
			} else {
				line += c + pad
			}
		}
		b.WriteString(strings.TrimRight(line+after, " ") + "\n")
		if n == 0 && before != "" {
			b.WriteString(before)
			for i, c := range t.Columns {
				if i > 0 {
					b.WriteString(between)
				}
				rule := strings.Repeat("-", width[i])
				if c.Right {
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

func (r Row) cells() []string {
	return []string{r.Name, r.Measured.String(), r.Against.String(), r.Is, fmt.Sprintf("%.2f", r.Ratio()), r.target(), r.verdict()}
}

func tableOf(rows []Row) Table {
	t := Table{Columns: []Column{{"name", false}, {"measured", true}, {"against", true}, {"", false}, {"ratio", true}, {"target", true}, {"", false}}}
	for _, r := range rows {
		t.Rows = append(t.Rows, r.cells())
	}
	return t
}

// WriteTable writes the rows in aligned columns.
func WriteTable(w io.Writer, rows []Row) error { return tableOf(rows).Write(w) }

// WriteMarkdown writes the rows as a table in Markdown.
func WriteMarkdown(w io.Writer, rows []Row) error { return tableOf(rows).WriteMarkdown(w) }

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
