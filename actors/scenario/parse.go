package scenario

import (
	"cmp"
	_ "embed" // the schema is a file of its own so that editors can use it
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"addon-operator/actors/scenario/match"
	"addon-operator/values"
)

//go:embed module-test.v1.schema.json
var schemaText []byte

// testFormat is what a test may contain.
var testFormat = sync.OnceValues(func() (*values.Format, error) { return values.NewFormat("scenarios", schemaText) })

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
		list = []*Scenario{{Document: Document{Description: "the file is not a scenario"}, broken: errors.New(text)}}
	}
	for _, s := range list {
		s.path = path
	}
	return list
}

// parseBytes reads all documents of a file. Errors begin with the line and the column, one in each
// line. Scenarios get the part of their name that follows MODULE/FILE: nothing when the file has
// one test, else /TEST.
func parseBytes(data []byte) (list []*Scenario, err error) {
	documents, err := values.ParseYAMLDocuments(data)
	if err != nil {
		return nil, err
	}
	if len(documents) == 0 {
		return nil, errors.New("1:1: the scenario is empty: write a description, and what is expected")
	}
	var found []written
	for _, d := range documents {
		tests, err := testsOf(d)
		if err != nil {
			return nil, err
		}
		found = append(found, tests...)
	}
	for i, w := range found {
		s, err := w.scenario()
		if err != nil {
			return nil, err
		}
		if len(found) > 1 {
			own, _ := w.tree["name"].(string)
			s.name = "/" + cmp.Or(own, strconv.Itoa(i+1))
		}
		if slices.ContainsFunc(list, func(other *Scenario) bool { return other.name == s.name }) {
			return nil, fmt.Errorf("%s: another test has the name %s; give it another name", w.at(), s.name[1:])
		}
		list = append(list, s)
	}
	return list, nil
}

// written is a test as its author has written it. Tests
// are checked as trees and not after they were decoded into a [Scenario], because only the tree
// still has positions in the file.
type written struct {
	values.YAMLDocument
	path []string       // of the test in the document; empty when it is the whole document
	tree map[string]any // with what the document gives to all its tests
}

// at is the line and the column of something in the test.
func (w written) at(path ...string) string {
	line, column, _ := w.Position(append(slices.Clone(w.path), path...))
	return fmt.Sprintf("%d:%d", line, column)
}

// testsOf are the tests of a document: itself, or those that it lists, each with what the document
// says is given.
func testsOf(d values.YAMLDocument) (tests []written, err error) {
	root, _ := d.Tree.(map[string]any)
	whole := written{d, nil, root}
	if err := whole.check(); err != nil {
		return nil, err
	}
	list, several := root["tests"].([]any)
	if !several {
		return []written{whole}, nil
	}
	for _, key := range []string{"name", "steps", "expect"} {
		if _, wrong := root[key]; wrong {
			return nil, fmt.Errorf("%s: %s is next to tests; move it into a test", whole.at(key), key)
		}
	}
	for i, entry := range list {
		tree, _ := overlaid(map[string]any{"given": root["given"]}, entry).(map[string]any)
		w := written{d, []string{"tests", strconv.Itoa(i)}, tree}
		if _, nested := tree["tests"]; nested {
			return nil, fmt.Errorf("%s: a test cannot have tests", w.at("tests"))
		}
		tests = append(tests, w)
	}
	return tests, nil
}

// check validates the document against the schema. The error has every violation
// in a line, with its position in the file, its place, and what to do.
func (w written) check() error {
	format, err := testFormat()
	if err != nil {
		return err
	}
	var problems []error
	for _, v := range format.Violations(w.Tree) {
		path := regexp.MustCompile(`[^.\[\]]+`).FindAllString(v.Path, -1)
		problems = append(problems, fmt.Errorf("%s: %s: %s", w.at(path...), cmp.Or(v.Path, "the scenario"), v.Message))
	}
	return errors.Join(problems...)
}

// overlaid adds what a test says to what its file says: maps are merged, lists are
// appended, and any other value of the test replaces that of the file. It changes neither.
func overlaid(common, own any) any {
	switch c := common.(type) {
	case []any:
		if o, ok := own.([]any); ok {
			return slices.Concat(c, o)
		}
	case map[string]any:
		if o, ok := own.(map[string]any); ok {
			merged := maps.Clone(c)
			for key, value := range o {
				merged[key] = overlaid(c[key], value)
			}
			return merged
		}
	}
	return own
}

// scenario decodes a test. What the schema allows to be one thing or a list of them becomes a list.
func (w written) scenario() (*Scenario, error) {
	if err := w.checkExpected(); err != nil {
		return nil, err
	}
	tree := runtime.DeepCopyJSON(w.tree)
	given, _ := tree["given"].(map[string]any)
	commands, _ := given["commands"].(map[string]any)
	for name, answers := range commands {
		commands[name] = listed(answers)
	}
	steps, _ := tree["steps"].([]any)
	for _, entry := range steps {
		if step, _ := entry.(map[string]any); step["apply"] != nil {
			step["apply"] = listed(step["apply"])
		}
	}
	s := &Scenario{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &s.Document); err != nil {
		return nil, fmt.Errorf("%s: %w", w.at(), err)
	}
	return s, nil
}

func listed(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// checkExpected refuses matchers that cannot match, in what is expected. The schema cannot do that:
// values, objects and patches have any shape, and a misspelt matcher is a key like others there.
// Such a test would fail, or with $not pass, for a reason that its author does not see.
func (w written) checkExpected() error {
	var problems []error
	report := func(path []string, text string) {
		place := values.Dotted(w.Tree, slices.Concat(w.path, path[:len(path)-1]))
		problems = append(problems, errors.New(w.at(path...)+": "+place+": "+text))
	}
	match.CheckMatchers([]string{"expect"}, w.tree["expect"], report)
	steps, _ := w.tree["steps"].([]any)
	for i, entry := range steps {
		step, _ := entry.(map[string]any)
		match.CheckMatchers([]string{"steps", strconv.Itoa(i), "expect"}, step["expect"], report)
	}
	return errors.Join(problems...)
}
