package main

import (
	"strings"
	"testing"
)

func TestResultsOfTestsAreRead(t *testing.T) {
	t.Parallel()
	events := `{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Test":"TestA","Output":"a_test.go:1: wrong\n"}
{"Action":"fail","Test":"TestA","Elapsed":1}
{"Action":"run","Test":"TestB"}
{"Action":"pass","Test":"TestB"}
{"Action":"run","Test":"TestB/sub"}
{"Action":"skip","Test":"TestB/sub"}
{"Action":"run","Test":"TestC"}
{"Action":"output","Output":"panic: it died\n"}
{"Action":"fail","Package":"p"}
`
	r := &result{byName: map[string]*test{}}
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	r.close()
	for name, want := range map[string]state{"TestA": failed, "TestB": passed, "TestB/sub": skipped, "TestC": failed} {
		if got := r.byName[name]; got == nil || got.state != want {
			t.Errorf("%s is %+v, want state %d", name, got, want)
		}
	}
	if o := r.byName["TestA"].output(); !strings.Contains(o, "wrong") || strings.Contains(o, "RUN") {
		t.Errorf("the output of TestA is %q", o)
	}
	if !strings.Contains(r.broken, "TestC did not end") || !strings.Contains(r.broken, "it died") {
		t.Errorf("what is said of the end: %q", r.broken)
	}
	if m := r.missing(map[string]string{"TestA": "", "TestX": "", "TestD": ""}); len(m) != 2 || m[0] != "TestD" || m[1] != "TestX" {
		t.Errorf("missing are %v", m)
	}
}

func TestSubtestsOfKnownFailuresAreKnown(t *testing.T) {
	t.Parallel()
	known := map[string]string{"TestA": "", "TestB/one": ""}
	for name, want := range map[string]bool{"TestA/sub": true, "TestAB": false, "TestB": true, "TestB/two": false} {
		if got := parentKnown(name, known); got != want {
			t.Errorf("%s is known: %v, want %v", name, got, want)
		}
	}
}
