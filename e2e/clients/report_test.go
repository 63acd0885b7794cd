package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"polylog/e2e/harness"
)

func TestLinesOfProgramsAreCounted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newReport(&out)
	l := r.lines("a client")
	for _, part := range []string{"ok it works\nsome noise\nFAIL it", " breaks: line 7: no: really\n", "okay is no check\nok the last"} {
		fmt.Fprint(l, part)
	}
	if seen, failed := l.end(); seen != 3 || failed != 1 {
		t.Errorf("saw %d checks, %d failed", seen, failed)
	}
	if r.close() {
		t.Error("a run with a failure passed")
	}
	for _, want := range []string{"pass  a client: it works", "FAIL  a client: it breaks: line 7: no: really", "pass  a client: the last", "\n2 passed, 1 failed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

func TestRunOfNothingFails(t *testing.T) {
	t.Parallel()
	if newReport(&strings.Builder{}).close() {
		t.Error("a run without checks passed")
	}
	r := newReport(&strings.Builder{})
	r.check("a", "b", nil, 0)
	if !r.close() {
		t.Error("a run with one check that passed failed")
	}
	r.check("a", "c", errors.New("no"), 0)
	if r.close() {
		t.Error("a run with a failure passed")
	}
}

func TestProgramsExist(t *testing.T) {
	t.Parallel()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, p := range append(programs[:len(programs):len(programs)], overRestart) {
		file := p.argv[len(p.argv)-1]
		named[file] = true
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		if p.needs&needOneLog != 0 && p.needs != needAMQP|needKafka|needOneLog {
			t.Errorf("%s needs one log and not both protocols", p.name)
		}
	}
	found, err := filepath.Glob(filepath.Join(root, "e2e/clients/*/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		name, err := filepath.Rel(root, f)
		if err != nil {
			t.Fatal(err)
		}
		program := strings.HasSuffix(name, ".py") || strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".sh")
		if program && !strings.HasPrefix(filepath.Base(name), "checks.") && !named[filepath.ToSlash(name)] {
			t.Errorf("%s is a program that nothing runs", name)
		}
	}
}
