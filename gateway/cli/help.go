package cli

import "context"

func helpCommand() Command {
	return Command{
		Name:    "help",
		Summary: "list the commands, or show the usage of one",
		Usage: `polylog help [COMMAND...]

Without arguments, lists the commands. 'polylog help X' says the same as 'polylog X -h', also for a command
with commands of its own: 'polylog help X Y'.`,
		Run: runHelp,
	}
}

func runHelp(ctx context.Context, env Env, args []string) int {
	fs := env.Flags()
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	return Run(ctx, env, append(fs.Args()[:fs.NArg():fs.NArg()], "-h"))
}
