package cli

import (
	"context"
	"errors"
	"fmt"

	"polylog/gateway/config"
)

var errNoValue = errors.New("write it as KEY=VALUE")

func configCommand() Command {
	return Command{
		Name:    "config",
		Summary: "print the configuration that serve would use",
		Usage: `polylog config [flags]

Prints the effective configuration as YAML: the defaults, over them the file, over it the environment variables POLYLOG_*, over them the
flags. What is printed can be used as a configuration file. Passwords are printed as hashes, with which the same users log in; so this is
also how one makes a hash.

With -example the defaults are printed, with what each key does and which values are allowed.

The exit status is 2 if the configuration is wrong; all that is wrong is printed.`,
		Run: runConfig,
	}
}

func runConfig(_ context.Context, env Env, args []string) int {
	fs := env.Flags()
	var s settings
	s.addTo(fs)
	example := fs.Bool("example", false, "print the defaults with comments")
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	if fs.NArg() > 0 {
		return env.Misused("takes no arguments, got %q", fs.Arg(0))
	}
	if *example {
		if fs.NFlag() > 1 {
			return env.Misused("-example prints the defaults and takes no other flags")
		}
		if err := config.WriteExample(env.Stdout); err != nil {
			return env.Failed(err)
		}
		return ExitOK
	}
	c, code := s.load(env)
	if c == nil {
		return code
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(env.Stderr, "warning: %s\n", w)
	}
	if err := c.Write(env.Stdout); err != nil {
		return env.Failed(err)
	}
	return ExitOK
}
