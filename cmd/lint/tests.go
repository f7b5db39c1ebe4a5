package lint

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/values"
)

// testFiles returns the scenarios of a module, or of the global hooks. Files that end with
// .golden.yaml are expected renders of scenarios.
func testFiles(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "tests", "*.yaml"))
	var files []string
	for _, file := range found {
		if !strings.HasSuffix(file, ".golden.yaml") {
			files = append(files, file)
		}
	}
	return files
}

// valuesOfTests returns for each test of a module the values that it gives and those that it
// expects hooks to find out: together they are what a complete chart would be rendered with. The
// files are read as plain YAML, so that a test with a mistake still helps.
func valuesOfTests(m addons.Module) (all []any) {
	for _, file := range testFiles(m.Dir) {
		tree, err := values.ParseYAML(readSource(file))
		if err != nil {
			continue // the play reports it
		}
		at := func(tree any, path ...string) any {
			for _, key := range path {
				fields, _ := tree.(map[string]any)
				tree = fields[key]
			}
			return tree
		}
		merged := values.Merge(map[string]any{}, map[string]any{values.GlobalKey: at(tree, "given", "fromGlobalHooks")}, at(tree, "given", "values"))
		steps, _ := at(tree, "steps").([]any)
		// A test without steps has its expectations at the top.
		for _, step := range append(steps, tree) {
			if expected, isMap := at(step, "expect", "values").(map[string]any); isMap {
				merged = values.Merge(merged, expected)
			}
		}
		all = append(all, merged)
	}
	return all
}

// scenarios plays the tests of a module, or of the global hooks, for which module is "". Their
// failures are findings, at the hook that is to blame where the message names one. That hooks have
// no test is reported even when tests are not played.
func (c *checks) scenarios(ctx context.Context, dir, module string) {
	files := testFiles(dir)
	if len(files) == 0 {
		c.untested(dir, module)
		return
	}
	if !c.Tests {
		return
	}
	list, err := scenario.Find(files...)
	if err != nil {
		c.found.add(Error, dir, place{}, err.Error())
		return
	}
	options := scenario.Options{JQLibrary: c.JQLibrary, CRDSkip: c.CRDSkip, StepTimeout: c.StepTimeout, Coverage: true}
	results := scenario.Play(ctx, list, options, nil)
	if !slices.ContainsFunc(results, func(r scenario.Result) bool { return !r.Passed() }) { // else not all steps were played
		c.unexercised(dir, module, results)
	}
	root := filepath.Dir(dir) // names of hooks are paths below it (A16)
	if module == "" {
		root = c.tree.Global.HooksDir
	}
	for _, r := range results {
		for _, problem := range r.Problems {
			if text, own := strings.CutPrefix(problem, r.Scenario.Path()+":"); own { // the file itself is wrong, here
				// The message names a place as an editor reads it, behind the path.
				if m := regexp.MustCompile(`^(\d+):(\d+): `).FindStringSubmatch(text); m != nil {
					var at place
					at.line, _ = strconv.Atoi(m[1])
					at.column, _ = strconv.Atoi(m[2])
					c.found.add(Error, r.Scenario.Path(), at, text[len(m[0]):])
					continue
				}
			}
			// A step that never ends: the dump of the actors names the hook that still runs.
			if m := regexp.MustCompile(`^the operator is not idle after (\S+):\n\s*\S+/run/\d+: (\S+): (.+)`).FindStringSubmatch(problem); m != nil {
				if file := filepath.Join(root, filepath.FromSlash(m[2])); isFile(file) {
					c.found.add(Error, file, place{}, fmt.Sprintf("in the test %s: it still runs after %s (%s); make it end, or limit it with settings.timeout", filepath.Base(r.Scenario.Path()), m[1], m[3]))
					continue
				}
			}
			file, at := c.blamed(r.Scenario.Path(), root, problem)
			if file != r.Scenario.Path() {
				_, said, _ := strings.Cut(problem, "hook ")
				_, said, _ = strings.Cut(said, ": ")
				problem = "in the test " + filepath.Base(r.Scenario.Path()) + ": " + said
			}
			c.found.add(Error, file, at, problem)
		}
	}
}

// blamed returns the file and place that a failure of a test is about; root is where names of hooks
// begin. A message that names a hook is about the script: at the path of the value that does not fit,
// or else at the variable of the result file that was refused, or else anywhere. Other messages begin
// with a path in the test file, which has the place.
func (c *checks) blamed(test, root, problem string) (string, place) {
	named := regexp.MustCompile(`hook (\S+?)(?::\S+)?: `).FindStringSubmatch(problem)
	if named == nil {
		part, _, _ := strings.Cut(problem, ": ")
		steps, err := values.ParsePath(part)
		if err != nil {
			return test, place{}
		}
		at, _ := c.found.src.of(test).at(steps, true)
		return test, at
	}
	file := filepath.Join(root, filepath.FromSlash(named[1]))
	if !c.found.inside(file) {
		return test, place{}
	}
	src := c.found.src.of(file)
	if refused := regexp.MustCompile(`do not fit \S+: ([\w.]+): `).FindStringSubmatch(problem); refused != nil {
		path := "/" + strings.ReplaceAll(refused[1], ".", "/")
		for ; path != ""; path = path[:strings.LastIndex(path, "/")] { // what was written is that, or what it is in
			if at, ok := src.find(path); ok {
				return file, at
			}
		}
	}
	// The order matters: CONFIG_VALUES_JSON_PATCH_PATH contains VALUES_JSON_PATCH_PATH.
	for _, sign := range []struct{ text, variable string }{
		{"config patch", "CONFIG_VALUES_JSON_PATCH_PATH"}, {"CONFIG_VALUES_JSON_PATCH_PATH", "CONFIG_VALUES_JSON_PATCH_PATH"},
		{"values patch", "VALUES_JSON_PATCH_PATH"}, {"VALUES_JSON_PATCH_PATH", "VALUES_JSON_PATCH_PATH"}, {"METRICS_PATH", "METRICS_PATH"},
		{"do not fit", "VALUES_JSON_PATCH_PATH"},
	} {
		if !strings.Contains(problem, sign.text) {
			continue
		}
		for _, text := range []string{"$" + sign.variable, sign.variable} {
			if at, ok := src.find(text); ok {
				return file, at
			}
		}
	}
	return file, place{}
}

// unexercised warns of each hook that no test of its directory runs, and of lists that the tests show to grow. Coverage names hooks by their
// path in the directory; a hook of a batch has a name below that of its file, which is where the
// finding goes.
func (c *checks) unexercised(dir, module string, results []scenario.Result) {
	root := dir
	if module == "" {
		root = c.tree.Global.HooksDir
	}
	lists := scenario.GrowingLists(results)
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		c.found.add(Warning, ofHook(root, name), place{}, fmt.Sprintf("it appends to %s at each run, so the list grows; write the whole list", lists[name]))
	}
	for _, covered := range scenario.CoverageOf(results) {
		for _, parts := range covered.Parts {
			if parts.Kind != "hooks" {
				continue
			}
			for _, name := range parts.Missing {
				c.found.add(Warning, ofHook(root, name), place{}, fmt.Sprintf("no test runs the hook %s; add a step that triggers it to one of %s, as docs/testing-modules.md shows", name, c.found.relative(filepath.Join(dir, "tests"))))
			}
		}
	}
}

// ofHook is the file of a hook, which may be one of a batch.
func ofHook(root, name string) string {
	file := filepath.Join(root, filepath.FromSlash(name))
	for ; file != root && !isFile(file); file = filepath.Dir(file) {
	}
	return file
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// untested warns once about the hooks of a directory without any test.
func (c *checks) untested(dir, module string) {
	hooksDir, prefix, scope := filepath.Join(dir, "hooks"), filepath.Join(filepath.Base(dir), "hooks"), hooks.Module
	if module == "" {
		hooksDir, prefix, scope = c.tree.Global.HooksDir, "", hooks.Global
	}
	found, _, err := hooks.Find(hooksDir, prefix, scope)
	if err != nil || len(found) == 0 {
		return
	}
	c.found.add(Warning, found[0].Path, place{}, fmt.Sprintf("no test runs the hooks of this directory; write one to %s, as docs/testing-modules.md shows", filepath.Join(c.found.relative(dir), "tests", "NAME.yaml")))
}
