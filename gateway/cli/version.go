package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

func versionCommand() Command {
	return Command{
		Name:    "version",
		Summary: "print the version of this binary",
		Usage: `polylog version

Prints the version, the Go release it was built with, and the platform it was built for.`,
		Run: runVersion,
	}
}

func runVersion(_ context.Context, env Env, args []string) int {
	fs := env.Flags()
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	if fs.NArg() > 0 {
		return env.Misused("takes no arguments, got %q", fs.Arg(0))
	}
	fmt.Fprintf(env.Stdout, "polylog %s (%s, %s/%s)\n", buildVersion(env.Version), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return ExitOK
}

// buildVersion is the version that the build was told, else the one that the go command noted by itself (go install).
func buildVersion(told string) string {
	if told != "" {
		return told
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
