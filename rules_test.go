package addonoperator_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rulesPage says what the rules are that code, tests and docs cite.
const rulesPage = "docs/rules.md"

// rulebook is that page, taken apart.
type rulebook struct {
	text     map[string]string // rule → what it says; a design section is a rule called "Design 4"
	order    []string
	untested map[string]bool // rules of which the page says that no test cites them
}

// rulesIn reads the tables of the page.
func rulesIn(page string) (rulebook, error) {
	book := rulebook{text: map[string]string{}, untested: map[string]bool{}}
	rules, untested, found := strings.Cut(page, "## Rules that no test cites")
	if !found {
		return book, fmt.Errorf("%s: the chapter about rules that no test cites is missing", rulesPage)
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]\d+|Design \d|seed \d{3}) \| (.+) \|$`).FindAllStringSubmatch(rules, -1) {
		if _, twice := book.text[row[1]]; twice {
			return book, fmt.Errorf("%s: the rule %s appears twice", rulesPage, row[1])
		}
		book.text[row[1]] = row[2]
		book.order = append(book.order, row[1])
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]\d.*?) \|`).FindAllStringSubmatch(untested, -1) {
		for _, rule := range newCiter().citedIn(row[1]) {
			book.untested[rule] = true
		}
	}
	return book, nil
}

// has knows H5.3, too, when rule H5 has a number (3).
func (b rulebook) has(cited string) bool {
	rule, number, numbered := strings.Cut(cited, ".")
	text, ok := b.text[rule]
	return ok && (!numbered || strings.Contains(text, "("+number+")"))
}

// citer finds what texts cite: F6, H5.3, K1–K9, seed 001, Design 2 and 4.
type citer struct{ rules, seeds, design *regexp.Regexp }

func newCiter() citer {
	return citer{
		rules:  regexp.MustCompile(`\b([A-PTX])(\d{1,2})(\.\d)?(?:[–-]([A-PTX])(\d{1,2}))?\b|\b(Q\d)\b`),
		seeds:  regexp.MustCompile(`\b[Ss]eeds? (00\d)\b`),
		design: regexp.MustCompile(`\b[Dd]esign (\d)(?:(?:,| and) (\d))*`),
	}
}

func (c citer) citedIn(text string) []string {
	var cited []string
	for _, m := range c.rules.FindAllStringSubmatch(text, -1) {
		if m[6] != "" {
			cited = append(cited, m[6])
			continue
		}
		cited = append(cited, m[1]+m[2]+m[3])
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[5])
		for n := first + 1; n <= last && m[4] == m[1]; n++ {
			cited = append(cited, m[1]+strconv.Itoa(n))
		}
	}
	for _, m := range c.seeds.FindAllStringSubmatch(text, -1) {
		cited = append(cited, "seed "+m[1])
	}
	for _, m := range c.design.FindAllStringSubmatch(text, -1) {
		for _, section := range m[1:] {
			if section != "" {
				cited = append(cited, "Design "+section)
			}
		}
	}
	return cited
}

// eachText calls see for each piece of text in which people cite rules: comments and
// strings of Go, lines of everything else.
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

// isProof reports whether a citation in a file says that a test proves the rule.
func isProof(file string) bool {
	return strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/")
}

// Whoever reads F6 in this repository must find what it says, and who proves it.
// With -v the test prints all rules with their tests.
func TestRules(t *testing.T) {
	page, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	book, err := rulesIn(string(page))
	if err != nil {
		t.Fatal(err)
	}
	proofs := map[string][]string{}
	citations := newCiter()
	err = eachText(os.DirFS("."), func(file string, line int, text string) {
		if file == "rules_test.go" { // it is about citations
			return
		}
		for _, cited := range citations.citedIn(text) {
			if !book.has(cited) {
				t.Errorf("%s:%d cites %s, which is not in %s", file, line, cited, rulesPage)
			}
			rule, _, _ := strings.Cut(cited, ".")
			if isProof(file) && !slices.Contains(proofs[rule], file) {
				proofs[rule] = append(proofs[rule], file)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range book.order {
		if testing.Verbose() {
			t.Log(rule, proofs[rule])
		}
		isRule := !strings.Contains(rule, " ")
		switch tested := len(proofs[rule]) > 0; {
		case isRule && !tested && !book.untested[rule]:
			t.Errorf("no test cites %s; cite it where it is proven, or list it at the end of %s", rule, rulesPage)
		case tested && book.untested[rule]:
			t.Errorf("%s is cited by %s; take it out of the list at the end of %s", rule, proofs[rule][0], rulesPage)
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(book.untested)) {
		if !book.has(rule) {
			t.Errorf("%s: the list at the end names %s, which is no rule", rulesPage, rule)
		}
	}
}
