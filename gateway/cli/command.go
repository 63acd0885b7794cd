package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// Exit statuses of the polylog command.
const (
	ExitOK     = 0 // it did what was asked
	ExitFailed = 1 // it understood and could not, or found what it was asked to look for (damage, say)
	ExitUsage  = 2 // it did not understand
)

// Command is one row of a command table. It is immutable.
type Command struct {
	Name    string // what one types
	Summary string // one line for the list of commands, without a full stop
	// Usage is the text of `polylog help Name` above the list of flags: first the command line, then what it does. The list of flags is added from the
	// flags themselves.
	Usage string
	// Run does the work with the arguments behind the name, and returns the exit status. It returns soon after ctx ends.
	Run func(ctx context.Context, env Env, args []string) int
}

// Env is what a command has of the world besides its arguments.
type Env struct {
	Stdout, Stderr io.Writer
	Version        string // of this build; empty if the build was not told

	path  string // the words typed so far: "polylog check"
	usage string // Usage of the command that runs
}

// Run executes the command that args (without the program's name) ask for, and returns the exit status of the process.
func Run(ctx context.Context, env Env, args []string) int {
	env.path, env.usage = "polylog", ""
	if len(args) > 0 && (args[0] == "-version" || args[0] == "--version") {
		args = append([]string{"version"}, args[1:]...)
	}
	return Dispatch(ctx, env, commands(), args)
}

// Dispatch runs the command of the table that args[0] names with the rest of args. Without a name, or with one that the table does not have, it
// says what there is.
func Dispatch(ctx context.Context, env Env, table []Command, args []string) int {
	if len(args) == 0 {
		env.printTable(env.Stderr, table)
		return ExitUsage
	}
	name := args[0]
	switch name {
	case "-h", "-help", "--help":
		env.printTable(env.Stdout, table)
		return ExitOK
	}
	for _, c := range table {
		if c.Name == name {
			env.path, env.usage = env.path+" "+name, c.Usage
			return c.Run(ctx, env, args[1:])
		}
	}
	fmt.Fprintf(env.Stderr, "%s: unknown command %q", env.path, name)
	if near := nearest(name, table); near != "" {
		fmt.Fprintf(env.Stderr, ", did you mean %q?", near)
	}
	fmt.Fprintf(env.Stderr, "\nRun '%s -h' for the list of commands.\n", env.path)
	return ExitUsage
}

// printTable writes the usage of a command that has commands of its own (polylog itself is one), and lists them.
func (env Env) printTable(w io.Writer, table []Command) {
	usage := strings.TrimSpace(env.usage)
	if usage == "" {
		usage = env.path + " COMMAND [ARGUMENTS]"
	}
	fmt.Fprintf(w, "usage: %s\n\n", usage)
	width := 0
	for _, c := range table {
		width = max(width, len(c.Name))
	}
	for _, c := range table {
		fmt.Fprintf(w, "  %-*s  %s\n", width, c.Name, c.Summary)
	}
	fmt.Fprintf(w, "\nRun '%s COMMAND -h' for the usage of one.\n", env.path)
}

// Flags returns the set to which the running command adds its flags before it calls Parse.
func (env Env) Flags() *flag.FlagSet {
	fs := flag.NewFlagSet(env.path, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // Parse says what is wrong, once and in our form
	return fs
}

// Parse reads the flags in args; what follows them is in fs.Args. If it returns false the command is over, with the returned exit status: args asked for
// the usage, or were wrong, and Parse has said so.
func (env Env) Parse(fs *flag.FlagSet, args []string) (code int, ok bool) {
	err := fs.Parse(args)
	switch {
	case err == nil:
		return ExitOK, true
	case errors.Is(err, flag.ErrHelp):
		env.printUsage(env.Stdout, fs)
		return ExitOK, false
	}
	return env.Misused("%v", err), false
}

// Misused says that the command was called in a way it does not understand, and returns the exit status for that.
func (env Env) Misused(format string, args ...any) int {
	fmt.Fprintf(env.Stderr, "%s: %s\nRun '%s -h' for its usage.\n", env.path, fmt.Sprintf(format, args...), env.path)
	return ExitUsage
}

// Failed says that the command could not do its work, and returns the exit status for that.
func (env Env) Failed(err error) int {
	fmt.Fprintf(env.Stderr, "%s: %v\n", env.path, err)
	return ExitFailed
}

// printUsage writes the usage of the running command and its flags.
func (env Env) printUsage(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprintf(w, "usage: %s\n", strings.TrimSpace(env.usage))
	hasFlags := false
	fs.VisitAll(func(*flag.Flag) { hasFlags = true })
	if hasFlags {
		fmt.Fprint(w, "\nflags:\n")
		fs.SetOutput(w)
		fs.PrintDefaults()
	}
}
