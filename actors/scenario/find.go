package scenario

import (
	"errors"
	"fmt"
	"io/fs"
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
