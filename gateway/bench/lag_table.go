package bench

import (
	"encoding/json"
	"fmt"
	"io"

	"polylog/logstore/logbench"
)

// lagTable makes a table with a row for each result.
func lagTable(results []LagResult) logbench.Table {
	t := logbench.Table{Columns: []logbench.Column{
		{Name: "acknowledged at"}, {Name: "read at"}, {Name: "rate", Right: true}, {Name: "confirm p50", Right: true}, {Name: "confirm p99", Right: true},
		{Name: "lag p50", Right: true}, {Name: "lag p99", Right: true}, {Name: "lag p99.9", Right: true}, {Name: "lag max", Right: true}, {Name: "early", Right: true},
	}}
	for _, r := range results {
		reader := r.Reader
		if reader == r.Broker {
			reader = "the same"
		}
		t.Rows = append(t.Rows, []string{
			r.Broker, reader, perSecond(r.Rate), seconds(r.ConfirmLatency.P50), seconds(r.ConfirmLatency.P99),
			seconds(r.Lag.P50), seconds(r.Lag.P99), seconds(r.Lag.P999), seconds(r.Lag.Max), fmt.Sprintf("%.0f %%", 100*r.Early),
		})
	}
	return t
}

// WriteLagTable writes results for people, WriteLagMarkdown as a table in Markdown, WriteLagJSON as an array for programs.
func WriteLagTable(w io.Writer, results []LagResult) error { return lagTable(results).Write(w) }
func WriteLagMarkdown(w io.Writer, results []LagResult) error {
	return lagTable(results).WriteMarkdown(w)
}

func WriteLagJSON(w io.Writer, results []LagResult) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}
