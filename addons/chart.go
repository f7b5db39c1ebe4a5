package addons

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"addon-operator/helm/charts"
	"addon-operator/values"
)

// ModuleFile is the content of module.yaml in a module (A21). The zero value is that of a module
// without one.
type ModuleFile struct {
	// Namespace is that of the release, and of its objects that name none; empty for that of the
	// operator.
	Namespace string
	// Waits: it has the field waitFor of earlier versions, which has no effect.
	Waits bool `json:"-"`
	// Chart is the source of the chart in chart/. It is for people and for the commands that fetch
	// charts; a running operator fetches nothing.
	Chart ChartSource
}

// ChartSource is where a chart was taken from. All fields may be empty.
type ChartSource struct {
	Repository string // https://… of a repository, or oci://… of a registry
	Name       string // of the chart there
	Version    string
	Digest     string // sha256:… of the archive
}

// moduleFile is the name of the file with a ModuleFile.
const moduleFile = "module.yaml"

// moduleFileFormat is what it may contain.
var moduleFileFormat = sync.OnceValues(func() (*values.Format, error) {
	return values.NewFormat("module.yaml", []byte(`{
		"type": "object", "additionalProperties": false, "properties": {
			"waitFor": {},
			"namespace": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
			"chart": {"type": "object", "additionalProperties": false, "properties": {
				"repository": {"type": "string"}, "name": {"type": "string"}, "version": {"type": "string"}, "digest": {"type": "string"}}}}}`))
})

// ReadModuleFile reads module.yaml in the directory of a module; one that does not exist is empty.
// Errors name the file and the field, and report all mistakes.
func ReadModuleFile(dir string) (f ModuleFile, err error) {
	return readModuleFile(dir, func(path string) string { return path })
}

// readModuleFile is ReadModuleFile for a directory whose paths messages name as shown.
func readModuleFile(dir string, shown func(path string) string) (f ModuleFile, err error) {
	path := filepath.Join(dir, moduleFile)
	tree, err := readYAML(path, shown(path))
	if err != nil || tree == nil {
		return f, err
	}
	format, err := moduleFileFormat()
	if err != nil {
		return f, err
	}
	var errs []error
	for _, v := range format.Violations(tree) {
		errs = append(errs, fmt.Errorf("%s: %s %s", shown(path), cmp.Or(v.Path, "the file"), v.Message))
	}
	if err := errors.Join(errs...); err != nil {
		return f, err
	}
	content, _ := tree.(map[string]any)
	_, f.Waits = content["waitFor"]
	text, err := values.JSON(tree)
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f)
}

// innerChart returns the directory of a chart that another author has published, in the directory
// of its module; "" when there is none (A20).
func innerChart(dir string) string {
	if root := charts.Root(dir); root != dir {
		return root
	}
	return ""
}

// checkChart refuses a module that has two charts, or half of one. A chart in chart/ is that of the
// module, so nothing next to it may look like a part of one (A20).
func checkChart(m *Module) error {
	inner := innerChart(m.Dir)
	if inner == "" {
		if m.File.Chart != (ChartSource{}) {
			return fmt.Errorf("%s: the key chart describes the origin of the chart in %s, which does not exist; restore the chart, or remove the key", m.Shown(filepath.Join(m.Dir, moduleFile)), m.Shown(filepath.Join(m.Dir, "chart")))
		}
		return nil
	}
	if _, err := os.Stat(filepath.Join(inner, "Chart.yaml")); err != nil {
		return fmt.Errorf("%s is the directory of an unchanged chart, but it has no Chart.yaml; copy the whole chart there, or rename the directory", m.Shown(inner))
	}
	var errs []error
	for _, name := range []string{"Chart.yaml", "templates", "crds", "charts"} {
		if _, err := os.Lstat(filepath.Join(m.Dir, name)); err == nil {
			errs = append(errs, fmt.Errorf("%s is not used, because the chart of the module is in %s; remove it, or move it to a module of its own", m.Shown(filepath.Join(m.Dir, name)), m.Shown(inner)))
		}
	}
	return errors.Join(errs...)
}

// chartProblems reports charts that are never installed (A17). charts/ has the dependencies of the
// chart next to it, and a library chart has no objects.
func (t *Tree) chartProblems(m *Module) {
	root := cmp.Or(innerChart(m.Dir), m.Dir)
	file := filepath.Join(root, "Chart.yaml")
	_, errFile := os.Stat(file)
	_, errTemplates := os.Stat(filepath.Join(root, "templates"))
	if errFile != nil && errTemplates != nil {
		if found, err := os.ReadDir(filepath.Join(m.Dir, "charts")); err == nil && len(found) > 0 {
			t.problem(&m.problems, "%s has charts/, but neither Chart.yaml nor templates/, so nothing in charts/ is installed; add a Chart.yaml that names the chart, or remove charts/", m.Shown(m.Dir))
		}
		return
	}
	metadata, _ := readYAML(file, "") // what is wrong with it is for the loader of the chart to say
	if fields, _ := metadata.(map[string]any); fields["type"] == "library" {
		t.problem(&m.problems, "%s has type library, so nothing is installed; write type: application, or remove the module and add the chart to the dependencies of others", m.Shown(file))
	}
}

// warnUnread reports keys in the values.yaml of a module that nothing reads. Without a chart in
// chart/ it must not be called: such keys are values of the chart.
func (t *Tree) warnUnread(m *Module, keys []string) {
	for _, key := range keys {
		if key == values.GlobalKey {
			continue
		}
		fix := values.DidYouMean(key, []string{m.Key, values.FlagKey(m.Key), values.MaintenanceKey(m.Key), values.GlobalKey},
			"the values of the chart belong under "+m.Key+"; move it there")
		t.problem(&m.problems, "%s: key %s is not read, because the chart of the module is in chart/; %s", m.Shown(m.valuesFile()), key, fix)
	}
}

// Defaults returns what the chart in chart/ itself says about values that no layer sets: how
// messages name its values.yaml, and a function that reads it, whose result is nil when there is no
// such file. Without such a chart both are empty. The file is read on each call, because only
// explanations need it.
func (m Module) Defaults() (shown string, read func() (any, error)) {
	inner := innerChart(m.Dir)
	if inner == "" {
		return "", nil
	}
	path := filepath.Join(inner, "values.yaml")
	shown = m.Shown(path)
	return shown, func() (any, error) { return readYAML(path, shown) }
}
