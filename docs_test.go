package addonoperator_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A reader who follows a link arrives: the file is there, and the heading in it.
func TestLinks(t *testing.T) {
	pages := map[string]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(entry.Name(), ".") || file == "bin"):
			return fs.SkipDir
		case path.Ext(file) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		pages[file] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range pages {
		for _, link := range linksIn(text) {
			target, anchor, _ := strings.Cut(link, "#")
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", page, link)
			}
			if anchor != "" && !slices.Contains(anchorsIn(pages[file]), anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", page, link, file)
			}
		}
	}
}

// A page explains a term where a reader meets it first: no use of the term in running text comes before the page's first
// link to it. Code, headings, tables and the texts of links are not running text. docs/cli.md is made of the help of
// commands, which has no links; the glossary and the rules define the terms.
func TestFirstUseOfTermIsLinked(t *testing.T) {
	terms := map[string]*regexp.Regexp{
		"module":          regexp.MustCompile(`\b[Mm]odules?\b`),
		"hook":            regexp.MustCompile(`\b[Hh]ooks?\b`),
		"binding":         regexp.MustCompile(`\b[Bb]indings?\b`),
		"synchronization": regexp.MustCompile(`\bSynchronizations?\b`),
		"converge":        regexp.MustCompile(`\b[Cc]onverge[sd]?\b`),
		"reload":          regexp.MustCompile(`\b[Rr]eload(s|ed|ing)?\b`),
		"release":         regexp.MustCompile(`\b[Rr]eleases?\b`),
		"owner":           regexp.MustCompile(`\b[Oo]wners?\b`),
	}
	var pages []string
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/migrate/*.md"} {
		found, err := fs.Glob(os.DirFS("."), pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		if slices.Contains([]string{"docs/cli.md", "docs/glossary.md", "docs/rules.md"}, page) {
			continue
		}
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text, prose := string(content), runningText(string(content))
		for term, word := range terms {
			before, _, _ := strings.Cut(text, "glossary.md#"+term+")")
			if at := word.FindStringIndex(prose[:len(before)]); len(at) > 0 {
				t.Errorf("%s:%d uses %q before it links to glossary.md#%s", page, 1+strings.Count(prose[:at[0]], "\n"), prose[at[0]:at[1]], term)
			}
		}
	}
}

// runningText overwrites all else with spaces, so that places in it are places of the page. Go modules are no modules of
// the operator.
func runningText(page string) string {
	visible := regexp.MustCompile(`[^\n]`)
	for _, other := range []string{
		"(?s)^---\n.*?\n---\n", "(?ms)^ *```.*?\n *```", "(?s)<!--.*?-->", "(?m)^(#|\\||    |<).*", "`[^`]*`", `!?\[[^\]]*\]\([^)]*\)`, `Go modules?`,
	} {
		page = regexp.MustCompile(other).ReplaceAllStringFunc(page, func(found string) string {
			return visible.ReplaceAllStringFunc(found, func(char string) string { return strings.Repeat(" ", len(char)) })
		})
	}
	return page
}

// linksIn are the links to files of this repository.
func linksIn(text string) []string {
	var links []string
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(withoutCode(text), -1) {
		if !strings.Contains(m[1], "://") {
			links = append(links, m[1])
		}
	}
	return links
}

// anchorsIn are the headings as links name them.
func anchorsIn(text string) []string {
	var anchors []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(withoutCode(text), -1) {
		plain := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(plain, " ", "-"))
	}
	return anchors
}

// withoutCode leaves out blocks of code: what looks like a heading there is a comment.
func withoutCode(text string) string {
	return regexp.MustCompile("(?ms)^```.*?\n```").ReplaceAllString(text, "")
}

// What docs/architecture.md calls by its name exists: functions, methods, types, files.
func TestArchitectureNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	known, citer := names(t), newCiter()
	isName := regexp.MustCompile(`^\w+(\.\w+)*$`)
	isFile := regexp.MustCompile(`^[\w*-]+/|^[\w*-]+\.\w+$`)
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(withoutCode(string(page)), -1) {
		command, _, _ := strings.Cut(m[1], " ")
		if command == "go" || command == "make" || len(citer.citedIn(m[1])) > 0 {
			continue
		}
		for _, word := range strings.FieldsFunc(m[1], func(r rune) bool { return strings.ContainsRune(" {}()", r) }) {
			found, _ := fs.Glob(os.DirFS("."), strings.TrimSuffix(word, "/"))
			switch {
			case len(found) > 0 || known[word]:
			case isName.MatchString(word):
				t.Errorf("nothing is called %s: neither in the code, nor as a file", word)
			case isFile.MatchString(word):
				t.Errorf("there is no file %s", word)
			}
		}
	}
}

// Pages for contributors name files and tests that exist.
func TestPagesForContributorsNameWhatExists(t *testing.T) {
	pages, err := fs.Glob(os.DirFS("."), "docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	known := names(t)
	quoted, isFile, isTest := regexp.MustCompile("`([^`\n]+)`"), regexp.MustCompile(`^[\w.-]+(/[\w*.-]+)+$`), regexp.MustCompile(`^Test\w+$`)
	for _, page := range append(pages, "CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllStringSubmatch(withoutCode(string(text)), -1) {
			name := m[1]
			root, _, _ := strings.Cut(name, "/")
			_, err := os.Stat(root)
			found, _ := fs.Glob(os.DirFS("."), name)
			if isFile.MatchString(name) && err == nil && !strings.Contains(name, "NAME") && len(found) == 0 || isTest.MatchString(name) && !known[name] {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}

// The table of docs/security.md promises nothing that no test proves.
func TestGuaranteesNameTheirTests(t *testing.T) {
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## What survives a crash\n")
	known, proofs := names(t), regexp.MustCompile("`(Test\\w+|\\w+\\.txtar)`")
	rows := regexp.MustCompile(`(?m)^\| [A-Z].*$`).FindAllString(table, -1)
	if len(rows) < 10 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		named := proofs.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(named) == 0 {
			t.Errorf("no test proves: %s", row)
		}
		for _, m := range named {
			if _, err := os.Stat("actors/testdata/" + m[1]); !known[m[1]] && err != nil {
				t.Errorf("there is no test %s", m[1])
			}
		}
	}
}

// names are what the code declares: name, package.name, type.member, package.type.member,
// and the names of its files.
func names(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{"testing/synctest": true}
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (file != "." && strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || file == "bin"):
			return fs.SkipDir
		case path.Ext(file) != ".go":
			return nil
		}
		known[path.Base(file)] = true
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		known[parsed.Name.Name] = true
		for _, name := range declared(parsed) {
			known[name], known[parsed.Name.Name+"."+name] = true, true
			if _, member, ok := strings.Cut(name, "."); ok {
				known[member] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// declared lists what a file declares; members as type.member.
func declared(file *ast.File) []string {
	var list []string
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			list = append(list, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				list = append(list, declaredBy(spec)...)
			}
		}
	}
	return list
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

func declaredBy(spec ast.Spec) []string {
	var list []string
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			list = append(list, name.Name)
		}
	case *ast.TypeSpec:
		list = append(list, spec.Name.Name)
		var members *ast.FieldList
		switch kind := spec.Type.(type) {
		case *ast.StructType:
			members = kind.Fields
		case *ast.InterfaceType:
			members = kind.Methods
		default:
			return list
		}
		for _, field := range members.List {
			for _, name := range field.Names {
				list = append(list, spec.Name.Name+"."+name.Name)
			}
		}
	}
	return list
}
