// Package metrics gives the broker's figures to Prometheus.
//
// One table (table.go) names every figure once, with its unit and its meaning; what is served and what docs/operating.md says are both made of it. The figures are
// counted where they come about, below, as plain numbers; they are read when somebody asks. So counting costs nothing here, and nothing below knows of Prometheus.
//
// Names: polylog_<part>_<what>, with _total for what only grows (until the process ends), and units in full at the end: _bytes, _seconds.
package metrics
