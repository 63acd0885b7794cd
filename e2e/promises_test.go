package e2e

import (
	"go/ast"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var namedTest = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]+\b`)

// TestPromisedTestsExist sees that tests which documents and comments name as holding a promise are there, so that none is renamed or removed and leaves the promise
// without its test.
func TestPromisedTestsExist(t *testing.T) {
	s, err := readSource(os.DirFS(".."))
	must(t, err)
	there := map[string]bool{}
	for _, f := range s.files {
		for _, d := range f.syntax.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				there[f.Name.Name] = true
			}
		}
	}
	named := map[string]string{} // and where
	note := func(where, text string) {
		for _, name := range namedTest.FindAllString(text, -1) {
			named[name] = where
		}
	}
	for _, text := range s.texts {
		if path.Ext(text.name) == ".md" && !strings.HasPrefix(text.name, "docs/conformance") { // which names tests of others
			note(text.name, string(text.text))
		}
	}
	for _, f := range s.files {
		if f.dir != "e2e" || !f.isTest {
			continue
		}
		for _, c := range f.syntax.Comments {
			note(f.name, c.Text())
		}
	}
	if len(named) < 20 {
		t.Fatalf("only %d tests are named; are the documents still where they were?", len(named))
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !there[name] {
			t.Errorf("%s names %s, which does not exist", named[name], name)
		}
	}
}
