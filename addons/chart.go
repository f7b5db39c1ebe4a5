package addons

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/values"
)

// ModuleFile is what module.yaml in a module says (A21).
type ModuleFile struct {
	// Namespace is that of the release, and of its objects that name none; empty for that of the operator.
	Namespace string
	// WaitFor names the modules that must be ready, with current objects, before the module runs (H26).
	WaitFor []string
	// Chart is where the chart in chart/ is from; nothing is fetched when the operator runs.
	Chart ChartSource
}

// Equal reports whether two files say the same.
func (f ModuleFile) Equal(o ModuleFile) bool {
	return f.Namespace == o.Namespace && f.Chart == o.Chart && slices.Equal(f.WaitFor, o.WaitFor)
}

// ChartSource is where a chart was taken from. All fields may be empty.
type ChartSource struct {
	Repository string // https://… of a repository, or oci://… of a registry
	Name       string // of the chart there
	Version    string
	Digest     string // sha256:… of the archive
}

// moduleFile is the name of the file of a ModuleFile.
const moduleFile = "module.yaml"

// ReadModuleFile reads module.yaml in the directory of a module; one that is not there says nothing.
// Errors name the file, the field and the fix, and report all mistakes.
func ReadModuleFile(dir string) (f ModuleFile, err error) {
	path := filepath.Join(dir, moduleFile)
	data, err := readFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	var tree any
	if err == nil {
		tree, err = values.ParseYAML(data)
	}
	if err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	d := decoder{file: path}
	chart := map[string]*string{"repository": &f.Chart.Repository, "name": &f.Chart.Name, "version": &f.Chart.Version, "digest": &f.Chart.Digest}
	d.decode("", tree, map[string]func(field string, value any){
		"namespace": func(field string, value any) { d.namespace(field, value, &f.Namespace) },
		"waitFor":   func(field string, value any) { d.names(field, value, &f.WaitFor) },
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

// decoder reads a tree of which it knows every key.
type decoder struct {
	file string
	errs []error
}

func (d *decoder) fail(format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf(d.file+": "+format, args...))
}

// decode gives each value of a map to the function of its key. Nothing is an empty map.
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
		hint := "the known ones are " + words(known)
		if meant := values.Nearest(key, slices.Sorted(maps.Keys(known))); meant != "" {
			hint = "did you mean " + prefix + meant + "?"
		}
		d.fail("key %s%s is unknown; %s", prefix, key, hint)
	}
}

func (d *decoder) text(field string, value any, into *string) {
	text, ok := value.(string)
	if !ok {
		d.fail("%s must be a text; put it in quotes", field)
		return
	}
	*into = text
}

func (d *decoder) names(field string, value any, into *[]string) {
	list, ok := value.([]any)
	if !ok {
		d.fail("%s must be a list of modules, such as [cert-manager]", field)
		return
	}
	for i, item := range list {
		name := ""
		if d.text(fmt.Sprintf("%s[%d]", field, i), item, &name); name == "" || slices.Contains(*into, name) {
			continue
		}
		*into = append(*into, name)
	}
}

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

// innerChart is the directory of a chart that somebody else wrote, in the directory of its module; empty when there is
// none. It decides as package charts does, which finds the chart to load.
func innerChart(dir string) string {
	isDir := func(path string) bool { info, err := os.Stat(path); return err == nil && info.IsDir() }
	isFile := func(path string) bool { info, err := os.Stat(path); return err == nil && !info.IsDir() }
	inner := filepath.Join(dir, "chart")
	if !isDir(inner) || !isFile(filepath.Join(inner, "Chart.yaml")) && (isFile(filepath.Join(dir, "Chart.yaml")) || isDir(filepath.Join(dir, "templates"))) {
		return ""
	}
	return inner
}

// checkChart refuses a module that has two charts, or half of one. A chart in chart/ is that of the
// module, so nothing next to it may look like a part of one (A20).
func checkChart(m *Module) error {
	inner := innerChart(m.Dir)
	if inner == "" {
		if m.File.Chart != (ChartSource{}) {
			return fmt.Errorf("%s: chart says where the chart in %s is from, which is not there; bring the chart back, or remove the key", filepath.Join(m.Dir, moduleFile), filepath.Join(m.Dir, "chart"))
		}
		return nil
	}
	if _, err := os.Stat(filepath.Join(inner, "Chart.yaml")); err != nil {
		return fmt.Errorf("%s is where the chart of the module lies, unchanged, but it has no Chart.yaml; bring the whole chart, or rename the directory", inner)
	}
	var errs []error
	for _, name := range []string{"Chart.yaml", "templates", "crds", "charts"} {
		if _, err := os.Lstat(filepath.Join(m.Dir, name)); err == nil {
			errs = append(errs, fmt.Errorf("%s is not used, because the chart of the module lies in %s; remove it, or move it to a module of its own", filepath.Join(m.Dir, name), inner))
		}
	}
	return errors.Join(errs...)
}

// warnUnread names keys of the values.yaml of a module that nothing reads: without a chart in chart/ they are
// values of the chart.
func (t *Tree) warnUnread(m *Module, keys []string) {
	for _, key := range keys {
		if key == values.GlobalKey {
			continue
		}
		fix := "the values of the chart stand under " + m.Key + "; move it there"
		meant := values.Nearest(key, []string{m.Key, values.FlagKey(m.Key), values.MaintenanceKey(m.Key), values.GlobalKey})
		if key == m.Name {
			meant = m.Key
		}
		if meant != "" {
			fix = "did you mean " + meant + "?"
		}
		t.problem(&m.problems, "%s: key %s is not read, because the chart of the module lies in chart/; %s", filepath.Join(m.Dir, "values.yaml"), key, fix)
	}
}

// Defaults are what the chart in chart/ says itself about values that no layer sets, with the path of its
// values.yaml; read returns nil when there is none. The path is empty without such a chart.
func (m Module) Defaults() (path string, read func() (any, error)) {
	inner := innerChart(m.Dir)
	if inner == "" {
		return "", nil
	}
	path = filepath.Join(inner, "values.yaml")
	return path, func() (any, error) {
		data, err := readFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		var tree any
		if err == nil {
			tree, err = values.ParseYAML(data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return tree, nil
	}
}
