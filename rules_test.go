package addonoperator_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rulesPage says what the rules are that code, tests and docs cite.
const rulesPage = "docs/rules.md"

// eachText calls see for each piece of text in which people cite rules: comments and strings of Go, lines of
// everything else.
func eachText(root fs.FS, see func(file string, line int, text string)) error {
	return fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file != "." && (strings.HasPrefix(entry.Name(), ".") || file == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".txtar", ".md", ".yaml", ".sh", ".tmpl"}, path.Ext(file)) {
			return nil
		}
		data, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		if path.Ext(file) == ".go" {
			goTexts(data, func(line int, text string) { see(file, line, text) })
			return nil
		}
		number := 0
		for line := range strings.Lines(string(data)) {
			number++
			see(file, number, line)
		}
		return nil
	})
}

// goTexts calls see for the comments and strings of a Go file.
func goTexts(source []byte, see func(line int, text string)) {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return
		case token.COMMENT, token.STRING:
			see(file.Line(pos), text)
		}
	}
}

// Whoever reads F6 or H5.3 in this repository must find what it says, and who proves it. With -v the test prints all
// rules with their tests.
func TestRules(t *testing.T) {
	page, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	table, untested, found := strings.Cut(string(page), "## Rules that no test cites")
	if !found {
		t.Errorf("%s: the chapter about rules that no test cites is missing", rulesPage)
	}
	rules, proofs, order := map[string]string{}, map[string][]string{}, []string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]\d+|Design \d|seed \d{3}) \| (.+) \|$`).FindAllStringSubmatch(table, -1) {
		if rules[row[1]] != "" {
			t.Errorf("%s: the rule %s appears twice", rulesPage, row[1])
		}
		rules[row[1]] = row[2]
		order = append(order, row[1])
	}
	cites := regexp.MustCompile(`\b(?:[A-PTX]\d{1,2}(?:\.\d)?|Q\d|[Ss]eed 00\d|[Dd]esign \d)\b`)
	err = eachText(os.DirFS("."), func(file string, line int, text string) {
		if file == "rules_test.go" { // it is about citations
			return
		}
		for _, cited := range cites.FindAllString(text, -1) {
			cited = strings.Replace(strings.Replace(cited, "Seed", "seed", 1), "design", "Design", 1)
			rule, number, numbered := strings.Cut(cited, ".")
			if rules[rule] == "" || numbered && !strings.Contains(rules[rule], "("+number+")") {
				t.Errorf("%s:%d cites %s, which is not in %s", file, line, cited, rulesPage)
			}
			if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
				proofs[rule] = append(proofs[rule], file)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range order {
		if testing.Verbose() {
			t.Log(rule, slices.Compact(proofs[rule]))
		}
		listed := regexp.MustCompile(`\b` + rule + `\b`).MatchString(untested)
		switch {
		case !strings.Contains(rule, " ") && len(proofs[rule]) == 0 && !listed:
			t.Errorf("no test cites %s; cite it where it is proven, or list it at the end of %s", rule, rulesPage)
		case len(proofs[rule]) > 0 && listed:
			t.Errorf("%s is cited by %s; take it out of the list at the end of %s", rule, proofs[rule][0], rulesPage)
		}
	}
}
