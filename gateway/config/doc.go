// Package config is what an operator may set: one schema, its defaults, and where values come from.
//
// Every key is one row of one table (settings in table.go): its name in the YAML file, the field of Config that holds it, the values that are allowed, and
// what it does. Everything else is derived from the rows: strict reading of the file, the environment variable of each key, the checks, the output of
// `polylog config`, example.yaml, and the table in docs/operating.md (tests hold the last two to it). So a key cannot exist in one of these and not in another.
//
// It promises: Load gives a Config in which every value is allowed, or an error that names each wrong value, where it came from (line of the file, variable,
// flag) and what is allowed. An unknown key is an error that names the nearest known one. A file that is named and missing is an error. What Write prints, Load reads
// back as the same configuration.
//
// It does not look at the network, the data directory or the clock, and gives nothing its effect: package gateway hands each value to the code that needs it.
//
// Start with config.go (the schema), then load.go (where values come from).
package config
