package kafka

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every error that a view exports has its row in the table, and no row is for an error that is gone.
func TestEveryViewErrorHasACode(t *testing.T) {
	t.Parallel()
	exported := exportedErrors(t, "../../viewlayer")
	if len(exported) < 10 {
		t.Fatalf("only %v was found", exported)
	}
	var rows []string
	for _, r := range errorCodes {
		if slices.Contains(rows, r.name) {
			t.Errorf("%s has two rows", r.name)
		}
		rows = append(rows, r.name)
	}
	for _, e := range exported {
		if !slices.Contains(rows, e) {
			t.Errorf("%s has no row in errorCodes", e)
		}
	}
	for _, r := range rows {
		pkg, _, _ := strings.Cut(r, ".")
		if views := []string{"topic", "exchange", "queue", "group", "message"}; slices.Contains(views, pkg) && !slices.Contains(exported, r) {
			t.Errorf("errorCodes has a row for %s, which does not exist", r)
		}
	}
}

// exportedErrors returns the exported error types, and the error variables, of the packages below dir.
func exportedErrors(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "Error" && d.Recv != nil {
					recv := d.Recv.List[0].Type
					if s, ok := recv.(*ast.StarExpr); ok {
						recv = s.X
					}
					if id, ok := recv.(*ast.Ident); ok && id.IsExported() {
						names = append(names, file.Name.Name+"."+id.Name)
					}
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
						for _, n := range v.Names {
							if strings.HasPrefix(n.Name, "Err") {
								names = append(names, file.Name.Name+"."+n.Name)
							}
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
