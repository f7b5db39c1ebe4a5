package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"addon-operator/addons"
	"addon-operator/values"
)

// UseDirectory sets the directories of modules and of global hooks to those of the argument of a
// command for authors; without one to those of the options, or the current directory: the default
// of the options, /modules, is meant where it exists, in the image of an operator. Loading needs a
// directory of global hooks (B8), but many repositories have only modules: if no option names one, and
// it does not exist, an empty one takes its place, which done removes. only is the directory of a module
// that is checked alone; empty for all.
func (c *Config) UseDirectory(args []string) (only string, done func(), err error) {
	done = func() {}
	if len(args) == 0 && !c.Given("modules-dir") && !c.Given("working-dir") && !IsDir(c.Dirs.Modules[0]) {
		args = []string{"."}
	}
	if len(args) > 0 {
		given := c.Dirs
		if c.Dirs, only, err = Directories(args[0], given); err != nil {
			return "", done, err
		}
		if c.Given("global-hooks-dir") {
			c.Dirs.Global = given.Global
		}
	}
	if !c.Given("global-hooks-dir") && !IsDir(c.Dirs.Global) {
		empty, err := os.MkdirTemp("", "addon-operator-global-hooks-")
		if err != nil {
			return "", done, err
		}
		c.Dirs.Global, done = empty, func() { _ = os.Remove(empty) } // a directory in the temporary one is no reason to fail
	}
	c.ModulesDir, c.GlobalHooksDir = strings.Join(c.Dirs.Modules, ":"), c.Dirs.Global
	return only, done, nil
}

// ReadValues reads the files of an option --values: trees with the sections as keys, in their order.
func ReadValues(files []string) (all []any, err error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--values: %w", err)
		}
		tree, err := values.ParseYAML(data)
		if err != nil {
			return nil, fmt.Errorf("--values: %s: %w", file, err)
		}
		all = append(all, tree)
	}
	return all, nil
}

// Directories finds out what a directory is: it has modules/, it has modules in it, or it is a
// module, which is then returned as only, with its parent as the directory of modules. Global hooks
// are expected next to the directory of modules. given has the other settings, such as the order of
// modules without a number.
func Directories(dir string, given addons.Dirs) (dirs addons.Dirs, only string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return given, "", err
	}
	if info, err := os.Stat(dir); err != nil {
		return given, "", err
	} else if !info.IsDir() {
		return given, "", Usagef("%s is not a directory", dir)
	}
	modules := dir
	switch {
	case IsDir(filepath.Join(dir, "modules")):
		modules = filepath.Join(dir, "modules")
	case isModule(dir):
		modules, only = filepath.Dir(dir), dir
	}
	given.Modules = []string{modules}
	given.Global = filepath.Join(filepath.Dir(modules), "global-hooks")
	return given, only, nil
}

// isModule reports whether a directory has something that only a module has. A directory with none
// of these is taken for one of modules.
func isModule(dir string) bool {
	for _, name := range []string{"Chart.yaml", "module.yaml", "enabled", "openapi", "hooks", "templates", "chart", "crds", "tests"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// IsDir reports whether there is a directory.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
