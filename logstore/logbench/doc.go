// Package logbench measures the log against what the machine can do. It is what `polylog bench log` runs.
//
// Its results are ratios: each row compares two figures that were taken in the same run on the same disk, mostly the log and a bare program that does the
// least a log must do (bare.go). Rates are measured in short rounds, the two sides in turn, and the medians are compared, since on most
// machines a rate by itself says more about the hour than about the program.
//
// It promises: the log is measured through its public calls with its default options, and nothing is left behind in the directory it was given. It judges
// nothing beyond comparing a ratio with its target.
//
// Start with run.go, the list of measurements; each has a file of its own. docs/benchmarks.md says what the rows mean.
package logbench
