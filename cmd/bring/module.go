package bring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// Names of files in a module.
const (
	// chartDir holds the chart as it was published (A20).
	chartDir   = "chart"
	testFile   = "tests/objects.yaml"
	goldenFile = "objects.golden.yaml"
	testSchema = "module-test.v1.schema.json" // next to the tests, for editors
)

// stage is a hidden directory next to the modules in which one is made, with what concerns all
// modules, so that it renders as it will in its place. It is in the same file system, so that a
// rename moves the result. The caller closes it; nothing half written is left behind.
type stage struct {
	dir string // of the modules that stay
	// root is the hidden directory, and modules the directory of modules in it.
	root    string
	modules string
	keep    bool // it has the only copy of something
}

// stagePrefix is hidden: an operator reads directories of modules without hidden ones.
const stagePrefix = ".addon-operator-"

// newStage makes a stage below the directory of modules. After an error it may return a stage,
// which the caller closes.
func newStage(dir, global string) (*stage, error) {
	root, err := os.MkdirTemp(dir, stagePrefix)
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir, root: root, modules: filepath.Join(root, "modules")}
	return s, errors.Join(os.MkdirAll(s.modules, 0o755), s.share(dir, global))
}

// share brings the values of all modules and the global hooks to the stage: tests and renders of
// the module depend on both. Global hooks that do not exist are an empty directory, which loading
// needs (B8).
func (s *stage) share(dir, global string) error {
	common, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(s.modules, "values.yaml"), common, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	global, err = filepath.Abs(global)
	if err != nil {
		return err
	}
	if info, err := os.Stat(global); err != nil || !info.IsDir() {
		return os.Mkdir(s.global(), 0o755)
	}
	return os.Symlink(global, s.global())
}

func (s *stage) global() string { return filepath.Join(s.root, "global-hooks") }

// placed is a text about a module on the stage, with the paths that its files will have.
func (s *stage) placed(text string) string { return strings.ReplaceAll(text, s.modules, s.dir) }

// write writes a file of a module.
func (s *stage) write(base, name, text string) error {
	path := filepath.Join(s.modules, base, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// close removes the stage, unless it has the only copy of files.
func (s *stage) close() {
	if !s.keep {
		_ = os.RemoveAll(s.root) // it is hidden, should it stay
	}
}

// load reads a module on the stage, as the operator would: what it refuses is an error.
func (s *stage) load(base string) (addons.Module, addons.Global, error) {
	tree, err := addons.Load(addons.Dirs{Modules: []string{s.modules}, Global: s.global(), UnnumberedOrder: 1})
	if err != nil {
		return addons.Module{}, addons.Global{}, err
	}
	for _, m := range tree.Modules {
		if m.Base == base {
			return m, tree.Global, nil
		}
	}
	return addons.Module{}, addons.Global{}, fmt.Errorf("%s is not a module", base)
}

// newModule is a module that is being made of a chart on a stage. notes are information for the author;
// they are printed after everything is written.
type newModule struct {
	stage *stage
	base  string // of its directory
	name  string
	key   string
	chart *fetch.Chart
	// given is the text of the values that the user gave, or "".
	given string
	notes []string
}

// nextBase is the name of the directory for a module: its number is the next multiple of ten after
// the highest one, so that the module runs last, with room between.
func nextBase(dir, name string) string {
	const step = 10
	highest := 0
	entries, _ := os.ReadDir(dir) // a directory that is not there holds no modules
	// Numbers of other entries than modules count, too, which only leaves a gap.
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "-")
		if n, err := strconv.Atoi(number); err == nil && n > highest {
			highest = n
		}
	}
	return fmt.Sprintf("%03d-%s", (highest/step+1)*step, name)
}

func (n *newModule) dir() string { return filepath.Join(n.stage.modules, n.base) }

func (n *newModule) write(name, text string) error { return n.stage.write(n.base, name, text) }

// fill writes everything of the module but chart/, which is there.
func (n *newModule) fill(ctx context.Context) error {
	c := n.chart
	own, err := valuesFile(c.Name, n.key, c.Values, n.given)
	if err != nil {
		return fmt.Errorf("values: %w", err)
	}
	schema, err := configSchema(c, n.key)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"module.yaml": moduleFile(c.Origin), "values.yaml": own, schemaFile: schema, "README.md": readme(n.name, n.key, c),
		"tests/" + testSchema: string(scenario.Schema()),
	} {
		if err := n.write(name, text); err != nil {
			return err
		}
	}
	return n.writeTest(ctx)
}

// moduleFile is the text of a new module.yaml: where the chart is from. What is not known is left
// out.
func moduleFile(o fetch.Origin) string {
	var out strings.Builder
	out.WriteString("# Where chart/ is from. 'addon-operator module upgrade-chart' writes it, and keeps the rest of this file.\nchart:\n")
	for _, f := range []struct{ key, value string }{{"repository", o.Repository}, {"name", o.Name}, {"version", o.Version}, {"digest", o.Digest}} {
		if f.value != "" {
			fmt.Fprintf(&out, "  %s: %s\n", f.key, quoted(f.value))
		}
	}
	return out.String()
}

// quoted is a text as YAML, quoted where it needs to be: the version 1.10 is no number.
func quoted(text string) string {
	line, err := values.YAML(text)
	if err != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSpace(string(line))
}

func readme(name, key string, c *fetch.Chart) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n", name)
	if text := strings.TrimSpace(c.Metadata.Description); text != "" {
		fmt.Fprintf(&out, "%s\n\n", text)
	}
	from := ""
	if c.Repository != "" {
		from = " of " + c.Repository
	}
	fmt.Fprintf(&out, "`chart/` is the chart %s%s, unchanged; `module.yaml` has its version. Its values are below `%s` in `values.yaml`\n"+
		"here and in the ConfigMap; `chart/values.yaml` lists them.\n\n", c.Name, from, key)
	fmt.Fprintf(&out, "    addon-operator values set %s true\n    addon-operator test .\n    addon-operator module upgrade-chart %s --version VERSION\n", values.FlagKey(key), name)
	return out.String()
}

// writeTest writes a test that passes. The first choice is one that expects the objects of the
// chart; when it fails, because the chart needs values, one that expects the module to fail; when
// the module does not even run, none. Each of the last two leaves a note.
func (n *newModule) writeTest(ctx context.Context) error {
	t, err := n.plan(ctx)
	if err != nil {
		return err
	}
	var problems []string
	// plan may have returned failingTest already; then the second round plays the same once more.
	for _, text := range []string{t, failingTest(n.name)} {
		if err := n.write(testFile, text); err != nil {
			return err
		}
		if problems, err = n.play(ctx); err != nil {
			return err
		}
		if problems == nil {
			return nil
		}
		n.noteFailing(strings.Join(problems, "\n"))
	}
	// The notes so far claim that the test expects a failure, and there is no test.
	n.notes = nil
	n.note("no test is written, because the module does not run:\n  %s", strings.ReplaceAll(strings.Join(problems, "\n"), "\n", "\n  "))
	return os.Remove(filepath.Join(n.dir(), filepath.FromSlash(testFile)))
}

// noteFailing notes why the test expects a failure, and what its author should do.
func (n *newModule) noteFailing(reason string) {
	n.note("the chart does not install with these values, and its test expects that; set what is missing in values.yaml, or correct what is wrong, and expect the module to be ready:\n  %s",
		strings.ReplaceAll(reason, "\n", "\n  "))
}

// note adds a note, with the paths that files will have.
func (n *newModule) note(format string, args ...any) {
	n.notes = append(n.notes, n.stage.placed(fmt.Sprintf(format, args...)))
}

// play plays the test twice: the first time writes golden files, the second compares with them,
// which shows what differs at each render. It returns what is wrong, and removes golden files of a
// test that fails. The error is about playing at all.
func (n *newModule) play(ctx context.Context) (problems []string, err error) {
	for _, update := range []bool{true, false} {
		scenarios, err := scenario.Find(filepath.Join(n.dir(), filepath.FromSlash(testFile)))
		if err != nil {
			return nil, err
		}
		results := scenario.Play(ctx, scenarios, scenario.Options{Update: update}, func(scenario.Result) {})
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !results[0].Passed() {
			_ = os.Remove(filepath.Join(n.dir(), "tests", goldenFile))
			return results[0].Problems, nil
		}
	}
	return nil, nil
}

// testHead makes editors check a test and complete its keys.
const testHead = "# yaml-language-server: $schema=" + testSchema + "\n"

// plan returns the text of the test for the chart: with a golden file of all objects, or, when a
// part of them is random, with their names. Stubs stand for what the chart needs in a cluster.
func (n *newModule) plan(ctx context.Context) (string, error) {
	// The module is loaded as the operator loads it, with the values and the schema that were just
	// written.
	m, global, err := n.stage.load(n.base)
	if err != nil {
		return "", err
	}
	first, err := renderWith(ctx, m, global)
	if err != nil {
		n.noteFailing(err.Error())
		return failingTest(n.name), nil
	}
	// The second render shows what is random in the chart.
	second, err := renderWith(ctx, m, global)
	if err != nil {
		return "", err
	}
	stubs, err := missing(ctx, first)
	if err != nil {
		return "", err
	}
	names, same := stable(first, second)
	var out strings.Builder
	out.WriteString(testHead)
	if same {
		fmt.Fprintf(&out, "description: The chart renders the objects of %s\n", goldenFile)
	} else {
		out.WriteString("description: The chart renders these objects; part of their content is random\n")
	}
	if len(stubs) > 0 {
		text, err := values.YAML(map[string]any{"objects": anys(stubs)})
		if err != nil {
			return "", err
		}
		out.WriteString("given: # what others install\n" + indented(string(text)))
	}
	fmt.Fprintf(&out, "expect:\n  modules: {%s: ready}\n", n.name)
	if same {
		fmt.Fprintf(&out, "  rendered: %s\n", goldenFile)
		return out.String(), nil
	}
	var objects []any
	for _, id := range names {
		metadata := map[string]any{"name": id.Name}
		if id.Namespace != "" {
			metadata["namespace"] = id.Namespace
		}
		objects = append(objects, map[string]any{"kind": id.GVK.Kind, "metadata": metadata})
	}
	text, err := values.YAML(map[string]any{"objects": objects})
	out.WriteString(indented(string(text)))
	return out.String(), err
}

// failingTest is the test of a chart that does not install as it is.
func failingTest(name string) string {
	return testHead + "description: The chart does not install as it is; set what is missing in values.yaml, or correct what is wrong, and expect modules and rendered here\nexpect:\n  failing: {" + name + ": \"\"}\n"
}

func indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("  " + line)
	}
	return out.String()
}

// anys has the type that values.YAML takes for a list.
func anys(objects []map[string]any) (all []any) {
	for _, o := range objects {
		all = append(all, o)
	}
	return all
}

// list writes the paths of a new module, with chart/ as one line.
func list(w io.Writer, root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		if entry.IsDir() {
			if filepath.Dir(path) == root && entry.Name() == chartDir {
				fmt.Fprintln(w, path+string(filepath.Separator))
				return fs.SkipDir
			}
			return nil
		}
		_, err = fmt.Fprintln(w, path)
		return err
	})
}
