package scenario

import (
	"cmp"
	_ "embed" // the schema is a file of its own so that editors can use it
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"addon-operator/helm/charts"
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
	checkMatchers([]string{"expect"}, w.tree["expect"], report)
	steps, _ := w.tree["steps"].([]any)
	for i, entry := range steps {
		step, _ := entry.(map[string]any)
		checkMatchers([]string{"steps", strconv.Itoa(i), "expect"}, step["expect"], report)
		for _, key := range []string{"review", "convert"} {
			asked, _ := step[key].(map[string]any)
			checkMatchers([]string{"steps", strconv.Itoa(i), key, "expect"}, asked["expect"], report)
		}
	}
	return errors.Join(problems...)
}

// Scenario is a test of a file. It does not change when it is played, and may be played again.
type Scenario struct {
	Document

	path   string // of the file
	name   string // MODULE/FILE/TEST
	unit   unit
	broken error // why the file is no scenario
}

// Name is MODULE/FILE, followed by /TEST in a file with several tests.
func (s *Scenario) Name() string { return s.name }

// Path is the absolute path of the file.
func (s *Scenario) Path() string { return s.path }

// Document is a test as it is written. The schema of files is module-test.v1.schema.json, which also explains the
// keys; the types below decode what it has accepted, and their comments say only what the zero value means.
type Document struct {
	Description string `json:"description"`
	Given       given  `json:"given"`
	Steps       []step `json:"steps"`
	Expect      expect `json:"expect"`
}

// given is what is there before the operator starts.
type given struct {
	KubernetesVersion string              `json:"kubernetesVersion"`
	Objects           []map[string]any    `json:"objects"`
	ConfigMap         map[string]any      `json:"configMap"`
	Values            map[string]any      `json:"values"`
	FromGlobalHooks   map[string]any      `json:"fromGlobalHooks"`
	Modules           []string            `json:"modules"`
	GlobalHooks       bool                `json:"globalHooks"`
	Env               map[string]string   `json:"env"`
	Commands          map[string][]answer `json:"commands"`
	Clock             time.Time           `json:"clock"`        // zero: startOfTime
	StrictFields      *bool               `json:"strictFields"` // nil: true
}

// step is one thing that happens; exactly one of its fields is set.
type step struct {
	Apply     []map[string]any `json:"apply"`
	Delete    *Reference       `json:"delete"`
	ConfigMap map[string]any   `json:"configMap"`
	Tick      string           `json:"tick"`
	Advance   string           `json:"advance"`
	FailHook  *failing         `json:"failHook"`
	FailHelm  *failing         `json:"failHelm"`
	Retry     bool             `json:"retry"`
	Restart   bool             `json:"restart"`
	Review    *review          `json:"review"`
	Convert   *conversion      `json:"convert"`
	Expect    *expect          `json:"expect"`
}

// review is a webhook request about a write.
type review struct {
	Binding   string         `json:"binding"`
	Operation string         `json:"operation"` // "": CREATE
	Object    map[string]any `json:"object"`
	OldObject map[string]any `json:"oldObject"`
	UserInfo  map[string]any `json:"userInfo"`
	DryRun    bool           `json:"dryRun"`
	Expect    map[string]any `json:"expect"`
}

// conversion is a webhook request for objects in another version.
type conversion struct {
	CRD     string           `json:"crd"`
	To      string           `json:"to"`
	Objects []map[string]any `json:"objects"`
	Expect  map[string]any   `json:"expect"`
}

// failing is of a hook, or of a module: "" is the one of the scenario.
type failing struct {
	Hook   string `json:"hook"`
	Module string `json:"module"`
	Times  int    `json:"times"` // 0: once
}

// expect is what must hold at one moment. What is zero is not compared, with three exceptions: a
// failure, a refusal, or an unknown field that is not expected is a problem.
type expect struct {
	Hooks     []map[string]any  `json:"hooks"`
	Commands  []map[string]any  `json:"commands"`
	Values    map[string]any    `json:"values"`
	ConfigMap map[string]any    `json:"configMap"`
	Objects   []map[string]any  `json:"objects"`
	Absent    []Reference       `json:"absent"`
	Rendered  string            `json:"rendered"`
	Metrics   []map[string]any  `json:"metrics"`
	Log       []any             `json:"log"`
	Modules   map[string]any    `json:"modules"`
	Failing   map[string]string `json:"failing"`
	Refused   string            `json:"refused"`
}

// unit is what a scenario is about: a module, or the global hooks. All directories are absolute.
type unit struct {
	dir     string // of the module, or of the global hooks
	modules string // directory of modules; "" when there is none
	global  string // directory of global hooks; "" when there is none
	module  string // base name of the directory of the module; "" for global hooks
}

// Find reads the scenarios at paths: files, modules, directories of modules, or what
// holds these. They are sorted by file, each file once, even if paths overlap. A file that is no
// scenario becomes one that fails when it is played. The error joins the paths that cannot be read
// and those without scenarios; the scenarios of the other paths are returned with it.
func Find(paths ...string) ([]*Scenario, error) {
	var files []string
	var errs []error
	for _, path := range paths {
		found, err := filesAt(path)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s: there are no scenarios; write one to MODULE/tests/NAME.yaml below it", path)
		}
		errs = append(errs, err)
		files = append(files, found...)
	}
	slices.Sort(files)
	var list []*Scenario
	for _, file := range slices.Compact(files) {
		u := unitOf(file)
		for _, s := range parse(file) {
			s.unit = u
			s.name = filepath.Base(u.dir) + "/" + strings.TrimSuffix(filepath.Base(file), ".yaml") + s.name
			list = append(list, s)
		}
	}
	return list, errors.Join(errs...)
}

// mostDepth is how far below a path the directory of a module may be.
const mostDepth = 6

// filesAt finds the scenario files at or below a path: *.yaml in directories tests, the nearest first. It follows
// links, as the operator does when it loads modules. The same file behind another link is not found twice.
func filesAt(path string) (found []string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find scenarios: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	seen, below := map[string]bool{}, mostDepth
	if filepath.Base(path) == testsDir {
		path, below = filepath.Dir(path), 1
	}
	for depth := range below {
		files, err := fs.Glob(os.DirFS(path), strings.Repeat("*/", depth)+testsDir+"/*.yaml")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			resolved, err := filepath.EvalSymlinks(filepath.Join(path, file))
			if err != nil || seen[resolved] || isOther(path, file) { // a link to nothing
				continue
			}
			seen[resolved] = true
			found = append(found, filepath.Join(path, file))
		}
	}
	return found, nil
}

// isOther reports whether a file below a directory is no scenario: a golden file, one in a hidden directory, or a test
// of a chart, which is a template: 'helm create' writes templates/tests/test-connection.yaml.
func isOther(root, file string) bool {
	dir := filepath.Dir(filepath.Dir(file))
	of := filepath.Join(root, dir)
	return strings.HasSuffix(file, ".golden.yaml") || charts.Root(filepath.Dir(of)) == of ||
		slices.ContainsFunc(strings.Split(dir, "/"), func(dir string) bool {
			return dir == "templates" || dir == "charts" || strings.HasPrefix(dir, ".") && dir != "."
		})
}

// unitOf derives what a scenario is about from where its file is: MODULES/MODULE/tests, or
// global-hooks/tests next to a directory called modules. The directory of modules may have any name
// for a module's test, because it is the parent of the module.
func unitOf(file string) unit {
	dir := filepath.Dir(filepath.Dir(file))
	base, parent := filepath.Base(dir), filepath.Dir(dir)
	if base == "global-hooks" {
		return unit{dir: dir, global: dir, modules: existing(filepath.Join(parent, "modules"))}
	}
	return unit{dir: dir, module: base, modules: parent, global: existing(filepath.Join(filepath.Dir(parent), "global-hooks"))}
}

// existing is dir if that is a directory, or a link to one, and "" otherwise.
func existing(dir string) string {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}
