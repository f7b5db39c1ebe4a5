package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"addon-operator/actors/scenario/match"
	"addon-operator/values"
)

// mostTests is how many tests a file may have, rows of tables counted.
const mostTests = 1000

// parse reads the tests of a file. An invalid file becomes one scenario that fails with everything
// that is wrong, so that the other files are played and a report has it as a failure. Each line of
// such an error begins with PATH:LINE:COLUMN, which editors and CI turn into links.
func parse(path string) []*Scenario {
	data, err := os.ReadFile(path)
	var list []*Scenario
	if err == nil {
		list, err = parseBytes(data)
	}
	if err != nil {
		text := path + ":" + strings.ReplaceAll(err.Error(), "\n", "\n"+path+":")
		list = []*Scenario{{Description: "the file is not a scenario", broken: errors.New(text)}}
	}
	for _, s := range list {
		s.path = path
	}
	return list
}

// parseBytes reads all documents of a file. Errors begin with the line and the column, one in each
// line. Scenarios get the part of their name that follows MODULE/FILE: nothing when the file has
// one test, else /TEST, and /ROW for a row of a table.
func parseBytes(data []byte) (list []*Scenario, err error) {
	documents, err := values.ParseYAMLDocuments(data)
	if err != nil {
		return nil, err
	}
	if len(documents) == 0 {
		return nil, errors.New("1:1: the scenario is empty: write a description, and what is expected")
	}
	var found []*written
	for _, d := range documents {
		tests, err := testsOf(d)
		if err != nil {
			return nil, err
		}
		found = append(found, tests...)
	}
	for i, w := range found {
		name := ""
		if len(found) > 1 {
			own, _ := w.tree["name"].(string)
			name = "/" + cmp.Or(own, strconv.Itoa(i+1))
		}
		rows, err := w.rows()
		if err != nil {
			return nil, err
		}
		for _, s := range rows {
			s.name = name + s.name
			if slices.ContainsFunc(list, func(other *Scenario) bool { return other.name == s.name }) {
				return nil, fmt.Errorf("%s: another test has the name %s; give it another name", w.at(), strings.TrimPrefix(s.name, "/"))
			}
			list = append(list, s)
		}
	}
	if len(list) > mostTests {
		return nil, fmt.Errorf("1:1: a file may have at most %d tests; write another file", mostTests)
	}
	return list, nil
}

// written is a test as its author has written it, before the rows of its table are filled in. Tests
// are checked as trees and not after they were decoded into a [Scenario], because only the tree
// still has positions in the file.
type written struct {
	document values.YAMLDocument
	path     []string       // of the test in the document; empty when it is the whole document
	tree     map[string]any // with what the document gives to all its tests
}

// at is the line and the column of something in the test.
func (w *written) at(path ...string) string {
	line, column, _ := w.document.Position(append(slices.Clone(w.path), path...))
	return fmt.Sprintf("%d:%d", line, column)
}

// testsOf are the tests of a document: itself, or those that it lists, each with what the document
// says is given.
func testsOf(d values.YAMLDocument) (tests []*written, err error) {
	whole := &written{document: d}
	root, ok := d.Tree.(map[string]any)
	if _, several := root["tests"]; !ok || !several {
		whole.tree = root
		return []*written{whole}, checkKind(whole, d.Tree)
	}
	for _, key := range []string{"name", "steps", "expect", "table"} {
		if _, wrong := root[key]; wrong {
			return nil, fmt.Errorf("%s: %s is next to tests; move it into a test", whole.at(key), key)
		}
	}
	// What stands next to tests is checked with a placeholder for them: each test is checked later,
	// with what is given to it, and must not be reported twice.
	head := maps.Clone(root)
	list, _ := head["tests"].([]any)
	if len(list) > 0 {
		head["tests"] = []any{map[string]any{"description": "the tests are checked below"}}
	}
	if err := checkShape(whole, head); err != nil {
		return nil, err
	}
	for i, entry := range list {
		w := &written{document: d, path: []string{"tests", strconv.Itoa(i)}}
		if err := checkKind(w, entry); err != nil {
			return nil, err
		}
		w.tree = maps.Clone(entry.(map[string]any)) //nolint:forcetypeassert // checkKind
		if _, nested := w.tree["tests"]; nested {
			return nil, fmt.Errorf("%s: a test cannot have tests", w.at("tests"))
		}
		if common := root["given"]; common != nil {
			w.tree["given"] = overlaid(common, w.tree["given"])
		}
		tests = append(tests, w)
	}
	return tests, nil
}

// checkKind refuses a document, or an element of tests, that is no map.
func checkKind(w *written, tree any) error {
	if _, ok := tree.(map[string]any); !ok {
		return fmt.Errorf("%s: the scenario must be a map with a description, and what is expected", w.at())
	}
	return nil
}

// overlaid adds what a test says is given to what its file says: maps are merged, lists are
// appended, and any other value of the test replaces that of the file. It changes neither.
func overlaid(common, own any) any {
	if own == nil {
		return common
	}
	switch c := common.(type) {
	case []any:
		if o, ok := own.([]any); ok {
			return slices.Concat(c, o)
		}
	case map[string]any:
		o, ok := own.(map[string]any)
		if !ok {
			return own
		}
		merged := maps.Clone(c)
		for key, value := range o {
			merged[key] = overlaid(c[key], value)
		}
		return merged
	}
	return own
}

// rows are the plays of a test: one for each row of its table, or one. All rows must have the same
// columns, and the test must use each of them: a misspelt one would leave its ${COLUMN} in the
// test as text, which may pass for the wrong reason.
func (w *written) rows() (rows []*Scenario, err error) {
	table, ok := w.tree["table"]
	if !ok {
		s, err := w.scenario(w.tree)
		return []*Scenario{s}, err
	}
	test := maps.Clone(w.tree)
	delete(test, "table")
	// The rest of the test may hold columns where the schema wants other types. It is checked when
	// they are filled in.
	if err := checkShape(w, map[string]any{"description": "d", "table": table}); err != nil {
		return nil, err
	}
	columns := map[string]any{} // of all rows; only the keys count
	list, _ := table.([]any)
	if len(list) > mostTests {
		return nil, fmt.Errorf("%s: a table may have at most %d rows; write another file", w.at("table"), mostTests)
	}
	for _, entry := range list {
		maps.Copy(columns, entry.(map[string]any)) //nolint:forcetypeassert // checkShape
	}
	for i, entry := range list {
		cells, _ := entry.(map[string]any)
		at := func(key string) string { return w.at("table", strconv.Itoa(i), key) }
		for _, column := range slices.Sorted(maps.Keys(columns)) {
			if _, has := cells[column]; !has && column != "name" {
				return nil, fmt.Errorf("%s: table[%d] has no %s, which another row has", at(""), i, column)
			}
		}
		used := map[string]bool{"name": true}
		tree, _ := filled(test, cells, used).(map[string]any)
		for _, column := range slices.Sorted(maps.Keys(cells)) {
			if !used[column] {
				return nil, fmt.Errorf("%s: no ${%s} in the test uses this column", at(column), column)
			}
		}
		s, err := w.scenario(tree)
		if err != nil {
			return nil, fmt.Errorf("%w (with table[%d])", err, i)
		}
		name, _ := cells["name"].(string)
		s.name = "/" + cmp.Or(name, strconv.Itoa(i+1))
		rows = append(rows, s)
	}
	return rows, nil
}

// filled is a copy of a tree with the cells of a row in the place of ${COLUMN}, in keys and in
// values. It adds the columns that occur to used.
func filled(node any, cells map[string]any, used map[string]bool) any {
	switch n := node.(type) {
	case map[string]any:
		out := make(map[string]any, len(n))
		for key, value := range n {
			out[fmt.Sprint(filledText(key, cells, used))] = filled(value, cells, used)
		}
		return out
	case []any:
		out := make([]any, len(n))
		for i := range n {
			out[i] = filled(n[i], cells, used)
		}
		return out
	case string:
		return filledText(n, cells, used)
	}
	return node
}

// filledText fills the columns of one text. A text that is a single ${COLUMN} and nothing else
// becomes the cell with its type, so that "${size}" may be a number. A ${…} that names no column
// stays, because it may belong to a script, or be ${TEST_HTTP_URL}.
func filledText(text string, cells map[string]any, used map[string]bool) any {
	if !strings.Contains(text, "${") {
		return text
	}
	if cell, ok := cells[strings.TrimSuffix(strings.TrimPrefix(text, "${"), "}")]; ok && strings.Count(text, "${") == 1 && text[0] == '$' && text[len(text)-1] == '}' {
		used[text[2:len(text)-1]] = true
		return cell
	}
	return regexp.MustCompile(`\$\{[^{}]*\}`).ReplaceAllStringFunc(text, func(place string) string {
		column := place[2 : len(place)-1]
		cell, ok := cells[column]
		if !ok {
			return place
		}
		used[column] = true
		if text, isText := cell.(string); isText {
			return text
		}
		return match.Short(cell)
	})
}

// scenario checks a test, whose columns are filled in, and decodes it. The way through JSON is that
// of the types in format.go, which keep integers what they are.
func (w *written) scenario(tree map[string]any) (*Scenario, error) {
	if err := checkShape(w, tree); err != nil {
		return nil, err
	}
	if err := checkExpected(w, tree); err != nil {
		return nil, err
	}
	text, err := values.JSON(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.at(), err)
	}
	s := &Scenario{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", w.at(), err)
	}
	return s, nil
}

// checkExpected refuses matchers that cannot match, in what is expected. The schema cannot do that:
// values, objects and patches have any shape, and a misspelt matcher is a key like others there.
// Such a test would fail, or with $not pass, for a reason that its author does not see.
func checkExpected(w *written, tree map[string]any) error {
	var problems []string
	report := func(path []string, text string) {
		problems = append(problems, w.at(path...)+": "+placeOf(append(slices.Clone(w.path), path[:len(path)-1]...))+": "+text)
	}
	match.CheckMatchers([]string{"expect"}, tree["expect"], report)
	steps, _ := tree["steps"].([]any)
	for i, entry := range steps {
		step, _ := entry.(map[string]any)
		match.CheckMatchers([]string{"steps", strconv.Itoa(i), "expect"}, step["expect"], report)
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	return nil
}
