package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBenchLogRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, c := range []struct{ args, stderr string }{
		{"now", `takes no arguments, got "now"`},
		{"-seconds 0", "-seconds must be more than 0"},
		{"-messages -5", "-messages must be more than 0"},
		{"-json -markdown", "-json and -markdown exclude each other"},
		{"-only appendix", `no measurement is named "appendix"; there are append-1,`},
	} {
		code, stdout, stderr := output(func(env Env) int {
			return Run(t.Context(), env, append([]string{"bench", "log"}, strings.Fields(c.args)...))
		})
		if code != ExitUsage || stdout != "" || !strings.Contains(stderr, c.stderr) {
			t.Errorf("polylog bench log %s: exit status %d, stdout %q, stderr %q; want %q", c.args, code, stdout, stderr, c.stderr)
		}
	}
}

func TestBenchLogListsItsMeasurements(t *testing.T) {
	code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, strings.Fields("help bench log")) })
	for _, want := range []string{"usage: polylog bench log [flags]\n", "\n  append-2000   durable appends", "\n  queue ", "  -cpuprofile FILE\n"} {
		if code != ExitOK || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("exit status %d, stdout %q, stderr %q; want %q", code, stdout, stderr, want)
		}
	}
}

func TestBenchLogPrintsResultsInEachForm(t *testing.T) {
	for _, c := range []struct {
		form  string
		check func(stdout string) bool
	}{
		{"", func(s string) bool { return strings.HasPrefix(s, "name ") && strings.Contains(s, "\nappend-1 ") }},
		{"-markdown", func(s string) bool { return strings.HasPrefix(s, "| name ") && strings.Contains(s, "\n| append-1 ") }},
		{"-json", func(s string) bool {
			var rows []struct{ Name string }
			return json.Unmarshal([]byte(s), &rows) == nil && len(rows) == 1 && rows[0].Name == "append-1"
		}},
	} {
		dir := t.TempDir()
		profile := filepath.Join(t.TempDir(), "cpu")
		args := strings.Fields("bench log -only append-1 -seconds 0.01 -cpuprofile " + profile + " -dir " + dir + " " + c.form)
		code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, args) })
		if code != ExitOK || !c.check(stdout) || !strings.Contains(stderr, "round 5 of 5") {
			t.Errorf("form %q: exit status %d, stdout %q, stderr %q", c.form, code, stdout, stderr)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("form %q: left behind: %v, %v", c.form, left, err)
		}
		if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
			t.Errorf("form %q: no CPU profile: %v", c.form, err)
		}
	}
}

func TestBenchLogFailsWhereItCannotWrite(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, []string{"bench", "log", "-dir", missing}) })
	if code != ExitFailed || stdout != "" || !strings.Contains(stderr, missing) {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestBenchLogHoldsALogForAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
	}{
		{[]string{"fill", dir, "500", "1048576"}, ExitOK, `"Ready":true`}, // and ends with its input, which tests do not have
		{[]string{"stand"}, ExitFailed, ""},
	} {
		code, stdout, stderr := output(func(env Env) int { return Run(t.Context(), env, append([]string{"bench", "log", holdWord}, c.args...)) })
		if code != c.code || !strings.Contains(stdout, c.stdout) {
			t.Errorf("%v: exit status %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
}
