package lint

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/messages/view"
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
		data, err := os.ReadFile(file)
		tree, wrong := values.ParseYAML(data)
		if err != nil || wrong != nil {
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

// scenarios plays the tests of a module, or of the global hooks. Of a test that fails the first
// problem is a finding: those after it mostly follow from it.
func (c *checks) scenarios(ctx context.Context, dir string) {
	files := testFiles(dir)
	if !c.Tests || len(files) == 0 {
		return
	}
	list, err := scenario.Find(files...)
	if err != nil {
		c.found.add(Error, dir, place{}, err.Error())
		return
	}
	c.played += len(list)
	for _, r := range scenario.Play(ctx, list, scenario.Options{JQLibrary: c.JQLibrary, CRDSkip: c.CRDSkip, StepTimeout: c.StepTimeout}, nil) {
		if r.Passed() {
			continue
		}
		file := r.Scenario.Path()
		text := strings.TrimPrefix(r.Problems[0], file+":")
		part, _, _ := strings.Cut(text, ": ")
		at := c.found.yamlOf(file).at(part)
		// A file that is wrong itself: the message names a place as an editor reads it.
		if m := regexp.MustCompile(`^(\d+):(\d+): `).FindStringSubmatch(text); m != nil {
			at, text = numbered(m[1], m[2]), text[len(m[0]):]
		}
		if more := len(r.Problems) - 1; more > 0 {
			text += fmt.Sprintf(" (and %s, which 'addon-operator test' shows)", view.Count(more, "more problem"))
		}
		c.found.add(Error, file, at, text)
	}
}
