package addons

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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
	Waits bool
	// Chart is the source of the chart in chart/. It is for people and for the commands that fetch
	// charts; a running operator fetches nothing.
	Chart ChartSource
}

// Equal reports whether two files have the same content.
func (f ModuleFile) Equal(o ModuleFile) bool {
	return f == o
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

// ReadModuleFile reads module.yaml in the directory of a module; one that does not exist is empty.
// Errors name the file, the field and the fix, and report all mistakes.
func ReadModuleFile(dir string) (f ModuleFile, err error) {
	return readModuleFile(dir, func(path string) string { return path })
}

// readModuleFile is ReadModuleFile for a directory whose paths messages name as shown.
func readModuleFile(dir string, shown func(path string) string) (f ModuleFile, err error) {
	path := filepath.Join(dir, moduleFile)
	tree, err := readYAML(path, shown(path))
	if err != nil {
		return f, err
	}
	if fields, ok := tree.(map[string]any); ok {
		_, f.Waits = fields["waitFor"]
		delete(fields, "waitFor")
	}
	d := decoder{file: shown(path)}
	chart := map[string]*string{"repository": &f.Chart.Repository, "name": &f.Chart.Name, "version": &f.Chart.Version, "digest": &f.Chart.Digest}
	d.decode("", tree, map[string]func(field string, value any){
		"namespace": func(field string, value any) { d.namespace(field, value, &f.Namespace) },
		"chart": func(field string, value any) {
			fields := map[string]func(string, any){}
			for name, into := range chart {
				fields[name] = func(field string, value any) { d.text(field, value, into) }
			}
			d.decode(field+".", value, fields)
		},
	})
	if d.errs != nil {
		return ModuleFile{}, errors.Join(d.errs...)
	}
	return f, nil
}

// decoder reads a tree all of whose keys are known. It collects mistakes instead of ending at the
// first one.
type decoder struct {
	file string
	errs []error
}

func (d *decoder) fail(format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf(d.file+": "+format, args...))
}

// decode passes each value of a map to the function of its key, in the order of the keys, so that
// mistakes have a fixed order. nil is an empty map. prefix is the path of the map with a dot; ""
// for the file.
func (d *decoder) decode(prefix string, tree any, known map[string]func(field string, value any)) {
	content, ok := tree.(map[string]any)
	if !ok && tree != nil {
		where := "the file"
		if prefix != "" {
			where = strings.TrimSuffix(prefix, ".")
		}
		d.fail("%s must be a map of %s", where, words(known))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(content)) {
		if read, ok := known[key]; ok {
			read(prefix+key, content[key])
			continue
		}
		hint := "known keys are " + words(known)
		if meant := values.Nearest(key, slices.Sorted(maps.Keys(known))); meant != "" {
			hint = "did you mean " + prefix + meant + "?"
		}
		d.fail("key %s%s is unknown; %s", prefix, key, hint)
	}
}

func (d *decoder) text(field string, value any, into *string) {
	text, ok := value.(string)
	if !ok {
		d.fail("%s must be a string; put it in quotes", field)
		return
	}
	*into = text
}

// namespace reads a name as the API server accepts it: a wrong one would fail only when the release
// is installed.
func (d *decoder) namespace(field string, value any, into *string) {
	d.text(field, value, into)
	const longest = 63 // characters of a namespace's name
	if _, isText := value.(string); isText && (len(*into) > longest || !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(*into)) {
		d.fail("%s %q cannot be the name of a namespace; use at most 63 of a-z, 0-9 and '-', a letter or digit first and last", field, *into)
	}
}

func words[V any](known map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
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

// longestRelease is the length of the name of a release that Helm accepts.
const longestRelease = 53

// chartProblems reports charts that are never installed. charts/ has the dependencies of the chart
// next to it, and without one the module has no release at all (A17, H21). Each run of a module with
// a long name would fail, and a library chart has no objects.
func chartProblems(m *Module) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	root := cmp.Or(innerChart(m.Dir), m.Dir)
	file := filepath.Join(root, "Chart.yaml")
	_, errFile := os.Stat(file)
	_, errTemplates := os.Stat(filepath.Join(root, "templates"))
	if errFile != nil && errTemplates != nil {
		if found, err := os.ReadDir(filepath.Join(m.Dir, "charts")); err == nil && len(found) > 0 {
			problem("%s has charts/, but neither Chart.yaml nor templates/, so nothing in charts/ is installed; add a Chart.yaml that names the chart, or remove charts/", m.Shown(m.Dir))
		}
		return problems
	}
	if len(m.Name) > longestRelease {
		problem("%s: the name of the module is that of its release, which has at most %d characters, not %d; rename the directory", m.Shown(m.Dir), longestRelease, len(m.Name))
	}
	metadata, _ := readYAML(file, "") // what is wrong with it is for the loader of the chart to say
	if fields, _ := metadata.(map[string]any); fields["type"] == "library" {
		problem("%s has type library, so nothing is installed; write type: application, or remove the module and add the chart to the dependencies of others", m.Shown(file))
	}
	return problems
}

// warnUnread reports keys in the values.yaml of a module that nothing reads. Without a chart in
// chart/ it must not be called: such keys are values of the chart.
func (t *Tree) warnUnread(m *Module, keys []string) {
	for _, key := range keys {
		if key == values.GlobalKey {
			continue
		}
		fix := "the values of the chart belong under " + m.Key + "; move it there"
		if key == m.Name {
			fix = "did you mean " + m.Key + "?"
		}
		fix = values.DidYouMean(key, []string{m.Key, values.FlagKey(m.Key), values.MaintenanceKey(m.Key), values.GlobalKey}, fix)
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
