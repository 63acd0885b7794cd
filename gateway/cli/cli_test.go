package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// output runs f with an environment that writes into memory.
func output(f func(env Env) int) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = f(Env{Stdout: &out, Stderr: &err, Version: "v1.2.3"})
	return code, out.String(), err.String()
}

func TestRunAnswersOnTheRightStreamWithTheRightStatus(t *testing.T) {
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string // a part of what is written there; "" means that nothing is
	}{
		{"version", ExitOK, "polylog v1.2.3 (go", ""},
		{"--version", ExitOK, "polylog v1.2.3 (go", ""},
		{"version -h", ExitOK, "usage: polylog version\n", ""},
		{"version now", ExitUsage, "", `polylog version: takes no arguments, got "now"`},
		{"version -x", ExitUsage, "", "polylog version: flag provided but not defined: -x\nRun 'polylog version -h' for its usage.\n"},
		{"help", ExitOK, "  version  print the version of this binary\n", ""},
		{"-h", ExitOK, "usage: polylog COMMAND [ARGUMENTS]\n", ""},
		{"--help", ExitOK, "usage: polylog COMMAND [ARGUMENTS]\n", ""},
		{"help version", ExitOK, "usage: polylog version\n", ""},
		{"help help", ExitOK, "usage: polylog help [COMMAND...]\n", ""},
		{"help -h", ExitOK, "usage: polylog help [COMMAND...]\n", ""},
		{"help vresion", ExitUsage, "", `polylog: unknown command "vresion", did you mean "version"?`},
		{"", ExitUsage, "", "usage: polylog COMMAND [ARGUMENTS]\n"},
		{"hlep", ExitUsage, "", "polylog: unknown command \"hlep\", did you mean \"help\"?\nRun 'polylog -h' for the list of commands.\n"},
		{"xylophone", ExitUsage, "", "polylog: unknown command \"xylophone\"\n"},
	} {
		t.Run("polylog "+c.args, func(t *testing.T) {
			code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, strings.Fields(c.args)) })
			if code != c.code {
				t.Errorf("exit status is %d, want %d", code, c.code)
			}
			for _, s := range []struct{ name, got, want string }{{"stdout", stdout, c.stdout}, {"stderr", stderr, c.stderr}} {
				if (s.want == "") != (s.got == "") || !strings.Contains(s.got, s.want) {
					t.Errorf("%s is %q, want %q in it", s.name, s.got, s.want)
				}
			}
		})
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		if seen[c.Name] {
			t.Errorf("two commands are named %q", c.Name)
		}
		seen[c.Name] = true
		if c.Summary == "" || strings.HasSuffix(c.Summary, ".") {
			t.Errorf("%s: the summary is %q; it must be there, without a full stop", c.Name, c.Summary)
		}
		if !strings.HasPrefix(c.Usage, "polylog "+c.Name) {
			t.Errorf("%s: the usage does not begin with the command line", c.Name)
		}
		for _, args := range [][]string{{c.Name, "-h"}, {"help", c.Name}} {
			code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, args) })
			if code != ExitOK || stderr != "" || !strings.Contains(stdout, strings.TrimSpace(c.Usage)) {
				t.Errorf("polylog %s: exit status %d, stdout %q, stderr %q; want the usage and nothing else", strings.Join(args, " "), code, stdout, stderr)
			}
		}
	}
}

// instruments is a table that uses everything that commands share.
func instruments() []Command {
	tune := Command{
		Name: "tune", Summary: "tune a string", Usage: "polylog play tune [flags] STRING",
		Run: func(_ context.Context, env Env, args []string) int {
			fs := env.Flags()
			pitch := fs.Int("pitch", 440, "tune to this many `Hz`")
			if code, ok := env.Parse(fs, args); !ok {
				return code
			}
			if fs.NArg() != 1 {
				return env.Misused("name one string")
			}
			if *pitch > 450 {
				return env.Failed(errors.New("the string broke"))
			}
			fmt.Fprintf(env.Stdout, "%s at %d Hz\n", fs.Arg(0), *pitch)
			return ExitOK
		},
	}
	play := func(ctx context.Context, env Env, args []string) int {
		return Dispatch(ctx, env, []Command{tune}, args)
	}
	return []Command{{Name: "play", Summary: "play music", Usage: "polylog play COMMAND\n\nPlays.", Run: play}}
}

func TestCommandsOfCommandsShareFlagsAndMessages(t *testing.T) {
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"play tune A", ExitOK, "A at 440 Hz\n", ""},
		{"play tune -pitch 442 A", ExitOK, "A at 442 Hz\n", ""},
		{"play tune -pitch 460 A", ExitFailed, "", "polylog play tune: the string broke\n"},
		{"play tune", ExitUsage, "", "polylog play tune: name one string\nRun 'polylog play tune -h' for its usage.\n"},
		{"play tune -pitch high A", ExitUsage, "", "polylog play tune: invalid value \"high\" for flag -pitch: parse error\nRun 'polylog play tune -h' for its usage.\n"},
		{"play tune -h", ExitOK, "usage: polylog play tune [flags] STRING\n\nflags:\n  -pitch Hz\n    \ttune to this many Hz (default 440)\n", ""},
		{"play tume A", ExitUsage, "", "polylog play: unknown command \"tume\", did you mean \"tune\"?\nRun 'polylog play -h' for the list of commands.\n"},
		{"play -h", ExitOK, "usage: polylog play COMMAND\n\nPlays.\n\n  tune  tune a string\n\nRun 'polylog play COMMAND -h' for the usage of one.\n", ""},
		{"play", ExitUsage, "", "usage: polylog play COMMAND\n\nPlays.\n\n  tune  tune a string\n\nRun 'polylog play COMMAND -h' for the usage of one.\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := output(func(env Env) int {
				env.path = "polylog"
				return Dispatch(t.Context(), env, instruments(), strings.Fields(c.args))
			})
			if code != c.code || stdout != c.stdout || stderr != c.stderr {
				t.Errorf("exit status %d, stdout %q, stderr %q;\nwant %d, %q, %q", code, stdout, stderr, c.code, c.stdout, c.stderr)
			}
		})
	}
}

func TestContextReachesTheCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	table := []Command{{Name: "wait", Run: func(ctx context.Context, env Env, _ []string) int {
		<-ctx.Done()
		return env.Failed(ctx.Err())
	}}}
	if code, _, _ := output(func(env Env) int { return Dispatch(ctx, env, table, []string{"wait"}) }); code != ExitFailed {
		t.Errorf("exit status is %d, want %d", code, ExitFailed)
	}
}

func TestVersionIsNeverEmpty(t *testing.T) {
	if got := buildVersion(""); got == "" {
		t.Error("a build without a version prints nothing")
	}
}
