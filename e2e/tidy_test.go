package e2e

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "polylog"

// importRule says what a folder's packages may import of the module. The rule of the longest matching from decides; a package may always import what is
// in the same from.
type importRule struct {
	from string
	to   []string // folders, each with all below it; "." is everything
}

// importRules is the order of the house: an import points down this list, and never from one protocol or view to another.
var importRules = []importRule{
	{".", []string{"gateway/cli"}},
	{"e2e", []string{"."}},
	{"gateway", []string{"protocols", "viewlayer", "cluster", "logstore"}},
	{"protocols", []string{"viewlayer", "logstore"}},
	{"protocols/stream", []string{"logstore/seed"}},
	{"protocols/amqp", []string{"protocols/stream", "viewlayer", "logstore"}},
	{"protocols/kafka", []string{"protocols/stream", "viewlayer", "logstore"}},
	{"protocols/mqtt", []string{"protocols/stream", "viewlayer", "logstore"}},
	{"viewlayer", []string{"logstore"}},
	{"viewlayer/message", []string{"logstore"}},
	{"viewlayer/topic", []string{"viewlayer/message", "logstore"}},
	{"viewlayer/exchange", []string{"viewlayer/message", "viewlayer/topic", "logstore"}},
	{"viewlayer/queue", []string{"viewlayer/message", "viewlayer/topic", "viewlayer/exchange", "logstore"}},
	{"viewlayer/group", []string{"viewlayer/message", "viewlayer/topic", "viewlayer/exchange", "logstore"}},
	{"viewlayer/session", []string{"viewlayer/message", "viewlayer/topic", "viewlayer/exchange", "logstore"}},
	{"cluster", []string{"logstore"}},
	{"logstore", []string{"logstore/segment", "logstore/record", "logstore/vfs", "logstore/seed"}},
	{"logstore/logbench", []string{"logstore"}},
	{"logstore/segment", []string{"logstore/record", "logstore/vfs", "logstore/seed"}},
	{"logstore/record", []string{"logstore/seed"}},
	{"logstore/vfs", []string{"logstore/seed"}},
	{"logstore/seed", nil},
}

// outsideRules name packages of others that only some folders may import.
var outsideRules = []struct {
	pkg string
	in  []string
}{
	{"net/http", []string{"gateway", "e2e"}},
	{"github.com/nats-io", []string{"cluster", "e2e"}},
}

// forTests is the package that brings the test framework along, so that only tests may import it.
const forTests = module + "/logstore/seed"

// pureFiles are the state machine of the log: the same transactions make the same state on every node, so nothing in them may depend on
// where or when they run. They must exist, or the rule would hold by guarding nothing.
var pureFiles = []string{"logstore/apply.go", "logstore/state.go", "logstore/shard.go", "logstore/kv.go", "logstore/offsetset.go"}

// impure packages bring the world in; so do all packages below them. For the views, which are as pure but handle durations, time is no such package: clockFuncs
// are what they may not call.
var (
	impure = []string{
		"context", "crypto/rand", "io/fs", "log", "math/rand", "net", "os", "plugin", "runtime", "sync", "syscall", "testing", "time", "unsafe",
		module + "/logstore/vfs",
	}
	impureInViews = []string{"crypto/rand", "io/fs", "log", "math/rand", "net", "os", "plugin", "syscall", module + "/logstore/vfs"}
	clockFuncs    = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
)

// vague words say nothing as a name of a file or package, alone or as a part.
var vague = []string{"util", "utils", "common", "helper", "helpers", "impl", "manager", "misc", "shared"}

// linesMax bounds a file of code that people write and read. Long before it one should ask whether the file is two.
const linesMax = 800

// foreign is text that has no place in the project: paths of somebody's machine, promises instead of work, tests that do not run. (The
// patterns are written so that this file does not match them.)
var foreign = []*regexp.Regexp{
	regexp.MustCompile(`/[w]ork/`),
	regexp.MustCompile(`/[f]arm\b`),
	regexp.MustCompile(`\b[T]ODO\b`),
	regexp.MustCompile(`\b[F]IXME\b`),
	regexp.MustCompile(`\b[tbf]\.[S]kip(f|Now)?\(`),
}

// source is the project's tree as the checks see it.
type source struct {
	fset  *token.FileSet
	files []goFile
	texts []textFile
	paths map[string]bool // all files and folders
}

type goFile struct {
	name, dir string // path from the root
	isTest    bool
	syntax    *ast.File
}

type textFile struct {
	name string
	text []byte
}

// readSource reads all that belongs to the project: everything but the history, what the build makes, and files that are not text.
func readSource(tree fs.FS) (*source, error) {
	s := &source{fset: token.NewFileSet(), paths: map[string]bool{}}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == ".git" || name == "bin" || name == "data" {
				return fs.SkipDir
			}
			s.paths[name] = true
			return nil
		}
		s.paths[name] = true
		if !d.Type().IsRegular() || strings.HasSuffix(name, ".test") || strings.HasSuffix(name, ".prof") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			return nil
		}
		s.texts = append(s.texts, textFile{name, text})
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			return nil
		}
		syntax, err := parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.files = append(s.files, goFile{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), syntax})
		return nil
	})
	return s, err
}

// below reports whether name is folder or lies in it.
func below(name, folder string) bool {
	return folder == "." || name == folder || strings.HasPrefix(name, folder+"/")
}

func belowAny(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return below(name, f) })
}

// ruleFor returns the rule for packages in dir. The root's rule is for the root alone.
func ruleFor(dir string) (importRule, bool) {
	var found importRule
	for _, r := range importRules {
		if dir == r.from || r.from != "." && below(dir, r.from) && len(r.from) > len(found.from) {
			found = r
		}
	}
	return found, found.from != ""
}

// imported returns the import paths of a file.
func (f *goFile) imported() []string {
	var paths []string
	for _, i := range f.syntax.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			panic("the parser let the import path " + i.Path.Value + " through")
		}
		paths = append(paths, p)
	}
	return paths
}

// importsAgainstTheOrder checks the direction of imports, of tests too.
func importsAgainstTheOrder(s *source) []string {
	var found []string
	for _, f := range s.files {
		rule, known := ruleFor(f.dir)
		if !known {
			found = append(found, fmt.Sprintf("%s: the folder has no place in the house; give it a rule in importRules", f.name))
			continue
		}
		for _, p := range f.imported() {
			for _, o := range outsideRules {
				if below(p, o.pkg) && !belowAny(f.dir, o.in) {
					found = append(found, fmt.Sprintf("%s imports %s, which only %s may", f.name, p, strings.Join(o.in, ", ")))
				}
			}
			if p == forTests && !f.isTest {
				found = append(found, fmt.Sprintf("%s imports %s, which only tests may", f.name, p))
			}
			if !below(p, module) {
				continue
			}
			dir := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			if dir == "" {
				dir = "."
			}
			to, _ := ruleFor(dir)
			switch {
			case to.from == rule.from: // the same room
			case belowAny(dir, rule.to):
			default:
				found = append(found, fmt.Sprintf("%s imports %s; packages in %s may import %v", f.name, p, rule.from, rule.to))
			}
		}
	}
	return found
}

// impurities checks the files whose result may depend on their input alone.
func impurities(s *source) []string {
	var found []string
	missing := slices.Clone(pureFiles)
	for _, f := range s.files {
		inView := below(f.dir, "viewlayer") && !f.isTest
		isPure := slices.Contains(pureFiles, f.name)
		if !inView && !isPure {
			continue
		}
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == f.name })
		forbidden := impure
		if inView {
			forbidden = impureInViews
		}
		for _, p := range f.imported() {
			if belowAny(p, forbidden) {
				found = append(found, fmt.Sprintf("%s is pure and imports %s", f.name, p))
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = append(found, fmt.Sprintf("%s is pure and starts a goroutine", s.fset.Position(n.Pos())))
			case *ast.SelectorExpr:
				if x, is := n.X.(*ast.Ident); is && x.Name == f.nameOf("time") && slices.Contains(clockFuncs, n.Sel.Name) {
					found = append(found, fmt.Sprintf("%s is pure and uses time.%s", s.fset.Position(n.Pos()), n.Sel.Name))
				}
			}
			return true
		})
	}
	for _, m := range missing {
		found = append(found, m+" is named as pure and does not exist")
	}
	return found
}

// nameOf returns the name under which the file knows the package, or "".
func (f *goFile) nameOf(pkg string) string {
	for i, p := range f.imported() {
		if p != pkg {
			continue
		}
		if n := f.syntax.Imports[i].Name; n != nil {
			return n.Name
		}
		return path.Base(pkg)
	}
	return ""
}

// packagesWithoutComment checks that every package says what it is for.
func packagesWithoutComment(s *source) []string {
	var names []string
	told := map[string]bool{}
	for _, f := range s.files {
		pkg := f.syntax.Name.Name
		if f.isTest && strings.HasSuffix(pkg, "_test") {
			continue
		}
		key := f.dir + ": package " + pkg
		if _, seen := told[key]; !seen {
			names, told[key] = append(names, key), false
		}
		doc := f.syntax.Doc.Text()
		if strings.HasPrefix(doc, "Package "+pkg+" ") || pkg == "main" && doc != "" {
			told[key] = true
		}
	}
	var found []string
	for _, n := range names {
		if !told[n] {
			found = append(found, n+" has no package comment")
		}
	}
	return found
}

// vagueNames checks the names of Go files and of the folders they are in.
func vagueNames(s *source) []string {
	isVague := func(name string) bool {
		words := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(vague, w) })
	}
	var found []string
	for _, f := range s.files {
		for _, part := range strings.Split(f.name, "/") {
			if isVague(part) {
				found = append(found, fmt.Sprintf("%s: %q says nothing; name the idea that is in it", f.name, part))
			}
		}
		if isVague(f.syntax.Name.Name) {
			found = append(found, fmt.Sprintf("%s: package %q says nothing; name the idea that is in it", f.name, f.syntax.Name.Name))
		}
	}
	return found
}

// longFiles checks the size of files that people write.
func longFiles(s *source) []string {
	var found []string
	for _, f := range s.files {
		if f.isTest || ast.IsGenerated(f.syntax) {
			continue
		}
		if n := s.fset.File(f.syntax.Pos()).LineCount(); n > linesMax {
			found = append(found, fmt.Sprintf("%s has %d lines, at most %d are allowed", f.name, n, linesMax))
		}
	}
	return found
}

// foreignText checks every text of the project, code or not.
func foreignText(s *source) []string {
	var found []string
	for _, t := range s.texts {
		for i, line := range bytes.Split(t.text, []byte("\n")) {
			for _, re := range foreign {
				if m := re.Find(line); m != nil {
					found = append(found, fmt.Sprintf("%s:%d: %q has no place here", t.name, i+1, m))
				}
			}
		}
	}
	return found
}

var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// deadLinks checks that links of the documents into the project lead to something.
func deadLinks(s *source) []string {
	var found []string
	for _, t := range s.texts {
		if path.Ext(t.name) != ".md" {
			continue
		}
		for _, m := range markdownLink.FindAllSubmatch(t.text, -1) {
			link, _, _ := strings.Cut(string(m[1]), "#")
			if link == "" || strings.Contains(link, ":") {
				continue // within the page, or out into the world
			}
			if !s.paths[path.Join(path.Dir(t.name), link)] {
				found = append(found, fmt.Sprintf("%s links to %s, which does not exist", t.name, link))
			}
		}
	}
	return found
}

// checkTree runs a check over the project itself.
func checkTree(t *testing.T, check func(*source) []string) {
	t.Helper()
	s, err := readSource(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(s.files, func(f goFile) bool { return f.name == "main.go" }) {
		t.Fatal("there is no main.go: this is not the project's root")
	}
	for _, v := range check(s) {
		t.Error(v)
	}
}

func TestImportsPointDown(t *testing.T)          { checkTree(t, importsAgainstTheOrder) }
func TestStateMachineIsPure(t *testing.T)        { checkTree(t, impurities) }
func TestEveryPackageSaysWhatFor(t *testing.T)   { checkTree(t, packagesWithoutComment) }
func TestNamesSaySomething(t *testing.T)         { checkTree(t, vagueNames) }
func TestFilesAreShort(t *testing.T)             { checkTree(t, longFiles) }
func TestDocumentsLinkToWhatExists(t *testing.T) { checkTree(t, deadLinks) }
func TestProjectSpeaksOnlyOfItself(t *testing.T) { checkTree(t, foreignText) }
