// Package cli is the polylog command line: a table of commands, and what they share.
//
// It promises: a command's result goes to Stdout and everything else to Stderr; the exit status is 0 when the command did
// what was asked, 1 when it could not, and 2 when it did not understand what was asked. `polylog help X` and `polylog X -h` say the
// same. It decides nothing about messages: a command reads its flags, calls the package that does the work, and prints.
//
// To add a command, write a file named after it with a function that returns its Command, and name that function in
// commands (table.go). Inside Run, Env.Flags and Env.Parse give flags, usage text and error messages of one form. A command
// with commands of its own (`polylog bench log`) calls Dispatch with a second table.
//
// Start with command.go. The caller is main.go.
package cli
