package messages_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table in doc.go has every message that crosses an actor, and what this package declares is a
// message, a part of one or the work of a task: what people are shown belongs in package view.
func TestTableOfMessages(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^//\t(\w+) +[a-z-]`).FindAllSubmatch(text, -1) {
		if name := string(row[1]); name != "message" && name != "of" {
			if table[name] {
				t.Errorf("the table has %s twice", name)
			}
			table[name] = true
		}
	}
	ours, actors := parse(t, "."), slices.Concat(parse(t, "../actors"), parse(t, "../actors/*"))
	for _, name := range slices.Sorted(maps.Keys(exchanged(actors))) {
		if !table[name] {
			t.Errorf("an actor handles %s or answers with it; it is not in the table of doc.go", name)
		}
	}
	declared, explained := typesOf(ours), map[string]bool{}
	theirs := typesOf(actors)
	for name := range table {
		if declared[name] == nil && theirs[name] == nil {
			t.Errorf("the table has %s, which is no type", name)
		}
		explain(name, declared, explained)
	}
	for _, name := range works(ours) {
		explain(name, declared, explained)
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if ast.IsExported(name) && !explained[name] {
			t.Errorf("%s is neither a message nor a part of one: add it to the table of doc.go, or move it to package view", name)
		}
	}
}

func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// exchanged are the messages that actors handle in Receive, and the answers of which the type can be read.
func exchanged(files []*ast.File) map[string]bool {
	all := map[string]bool{}
	add := func(e ast.Expr) {
		if name := types.ExprString(e); !strings.HasPrefix(name, "*") { // of the library
			all[name[strings.LastIndex(name, ".")+1:]] = true
		}
	}
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			receives := ok && strings.EqualFold(f.Name.Name, "receive")
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSwitchStmt:
					for _, c := range n.Body.List {
						if c, ok := c.(*ast.CaseClause); ok && receives {
							for _, message := range c.List {
								add(message)
							}
						}
					}
				case *ast.CallExpr:
					if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Respond" {
						if answer, ok := n.Args[0].(*ast.CompositeLit); ok {
							add(answer.Type)
						}
					}
				}
				return true
			})
		}
	}
	return all
}

func typesOf(files []*ast.File) map[string]*ast.TypeSpec {
	all := map[string]*ast.TypeSpec{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				all[spec.Name.Name] = spec
			}
			return true
		})
	}
	return all
}

// works are the types with a method Describe, which do what a task is for.
func works(files []*ast.File) []string {
	var names []string
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Describe" {
				names = append(names, types.ExprString(f.Recv.List[0].Type))
			}
		}
	}
	return names
}

// explain notes a type, and those that it consists of.
func explain(name string, declared map[string]*ast.TypeSpec, explained map[string]bool) {
	spec := declared[name]
	if spec == nil || explained[name] {
		return
	}
	explained[name] = true
	var parts func(n ast.Node) bool
	parts = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // its name may be that of another type
			ast.Inspect(n.Type, parts)
			return false
		case *ast.Ident:
			explain(n.Name, declared, explained)
		}
		return true
	}
	ast.Inspect(spec.Type, parts)
}
