package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/helm/charts"
)

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

// filesAt finds the scenario files at or below a path: *.yaml in directories tests.
func filesAt(path string) ([]string, error) {
	path, err := filepath.Abs(path)
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
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("find scenarios: %w", err)
	}
	var above []os.FileInfo
	for dir := filepath.Dir(resolved); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil {
			above = append(above, info)
		}
	}
	return filesBelow(path, above)
}

// filesBelow finds the scenario files below a directory, in order. It follows links, as the operator
// does when it loads modules, but not to one of the directories above, which would never end.
func filesBelow(dir string, above []os.FileInfo) (found []string, _ error) {
	self, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(above, func(a os.FileInfo) bool { return os.SameFile(a, self) }) {
		return nil, nil
	}
	above = append(slices.Clone(above), self)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, os.ErrNotExist): // a link to nothing, which the operator ignores
		case err != nil:
			return nil, err
		case info.IsDir() && (strings.HasPrefix(entry.Name(), ".") || isOfChart(path)):
		case info.IsDir():
			below, err := filesBelow(path, above)
			if err != nil {
				return nil, err
			}
			found = append(found, below...)
		case filepath.Ext(path) == ".yaml" && filepath.Base(dir) == testsDir && !isGolden(path):
			found = append(found, path)
		}
	}
	return found, nil
}

// isOfChart reports whether a directory belongs to a chart, whose own tests are templates:
// 'helm create' writes templates/tests/test-connection.yaml.
func isOfChart(dir string) bool {
	name := filepath.Base(dir)
	return name == "templates" || name == "charts" || charts.Root(filepath.Dir(dir)) == dir
}

// isGolden reports whether a file is one that scenarios compare with.
func isGolden(file string) bool { return strings.HasSuffix(file, ".golden.yaml") }

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
